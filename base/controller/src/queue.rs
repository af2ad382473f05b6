//! Which object is reconciled next. Pure: time is an argument, order is first come first served.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use crate::key::ObjectKey;

/// Keys that wait, keys that wait for a time, and keys at work. A key is worked on by one task at a time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<ObjectKey>,
    waiting: BTreeSet<ObjectKey>,
    timers: BTreeSet<(Instant, ObjectKey)>,
    due: BTreeMap<ObjectKey, Instant>,
    running: BTreeMap<ObjectKey, Requested>,
}

/// What has been requested while a key was at work.
#[derive(Debug, Default)]
struct Requested {
    any: bool,
    after_failure: Option<Instant>,
}

impl Queue {
    /// Requests work on `key` if it is at work: again when that has succeeded, and at `after_failure` or sooner when it
    /// has failed; none leaves that to whatever the failure plans. Returns whether it is at work.
    pub(crate) fn request_again(&mut self, key: &ObjectKey, after_failure: Option<Instant>) -> bool {
        let Some(requested) = self.running.get_mut(key) else {
            return false;
        };
        requested.any = true;
        requested.after_failure = [requested.after_failure, after_failure].into_iter().flatten().min();
        true
    }

    /// Requests work on `key` at `at` or sooner. One at work is worked on again afterwards.
    pub(crate) fn add(&mut self, key: ObjectKey, at: Instant, now: Instant) {
        if self.request_again(&key, Some(at)) || self.waiting.contains(&key) {
            return;
        }
        if at <= now {
            self.forget_timer(&key);
            self.waiting.insert(key.clone());
            self.ready.push_back(key);
        } else if self.due.get(&key).is_none_or(|due| at < *due) {
            self.forget_timer(&key);
            self.due.insert(key.clone(), at);
            self.timers.insert((at, key));
        }
    }

    /// Takes the next key whose time has come, and marks it as at work.
    pub(crate) fn take(&mut self, now: Instant) -> Option<ObjectKey> {
        while let Some((at, _)) = self.timers.first() {
            if *at > now {
                break;
            }
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.waiting.insert(key.clone());
                self.ready.push_back(key);
            }
        }
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone(), Requested::default());
        Some(key)
    }

    /// Work on `key` has ended; `again` is when it is to be worked on next. After a success what was
    /// requested meanwhile is done at once: it was put off because of failures that are over.
    pub(crate) fn done(&mut self, key: &ObjectKey, again: Option<Instant>, succeeded: bool, now: Instant) {
        let requested = self.running.remove(key).unwrap_or_default();
        let requested = match succeeded {
            true => requested.any.then_some(now),
            false => requested.after_failure,
        };
        if let Some(at) = [requested, again].into_iter().flatten().min() {
            self.add(key.clone(), at, now);
        }
    }

    /// When [`Queue::take`] will have something, if a timer decides that.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Keys that could be worked on now.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len()
    }

    fn forget_timer(&mut self, key: &ObjectKey) {
        if let Some(at) = self.due.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[test]
    fn running_key_is_worked_on_again_when_requested_meanwhile() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.add(key("a"), now, now);
        queue.add(key("a"), now, now);
        assert_eq!(queue.take(now), Some(key("a")));
        assert_eq!(queue.take(now), None);
        queue.add(key("a"), now, now);
        assert_eq!(queue.take(now), None, "it is at work");
        queue.done(&key("a"), None, true, now);
        assert_eq!(queue.take(now), Some(key("a")));
        queue.done(&key("a"), None, true, now);
        assert_eq!((queue.take(now), queue.next_timer()), (None, None));
    }

    #[test]
    fn request_put_off_during_a_retry_is_served_once_that_succeeds() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        for (succeeded, next) in [(true, None), (false, Some(later))] {
            queue.add(key("a"), now, now);
            queue.take(now);
            queue.add(key("a"), later, now);
            queue.done(&key("a"), None, succeeded, now);
            assert_eq!(queue.next_timer(), next);
            assert_eq!(queue.take(later), Some(key("a")));
            queue.done(&key("a"), None, true, now);
        }
    }

    #[test]
    fn the_earliest_time_wins_and_an_immediate_key_ends_a_delay() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        queue.add(key("a"), later(30), now);
        queue.add(key("a"), later(10), now);
        queue.add(key("a"), later(20), now);
        queue.add(key("b"), later(5), now);
        assert_eq!(queue.next_timer(), Some(later(5)));
        assert_eq!(queue.take(later(4)), None);
        queue.add(key("b"), now, now);
        assert_eq!(queue.take(now), Some(key("b")));
        assert_eq!(queue.next_timer(), Some(later(10)));
        assert_eq!(queue.take(later(10)), Some(key("a")));
        assert_eq!(queue.take(later(60)), None, "one delay is one reconcile");
    }

    #[test]
    fn keys_due_now_are_taken_in_order_of_arrival() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for name in ["c", "a", "b"] {
            queue.add(key(name), now, now);
        }
        assert_eq!(queue.depth(), 3);
        let order: Vec<String> = std::iter::from_fn(|| queue.take(now)).map(|key| key.name).collect();
        assert_eq!(order, ["c", "a", "b"]);
    }
}
