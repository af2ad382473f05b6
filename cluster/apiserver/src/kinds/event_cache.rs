//! Events of watches that many read: the line of a change is made once while many watch a version of a kind, whoever comes to
//! it later copies it. It keeps a line for a moment only; a reader who lags makes his own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster_store::{Object, Revision};

use crate::wire::status::Status;

/// From so many watches on sharing pays for what is kept. The servers of a landscape's clusters, of which one process has
/// hundreds, have fewer of any kind.
const CROWD_MIN: usize = 8;
/// EventCaches kept: what a thousand writes a second make while the slowest of a thousand readers has its turn.
const LINES: usize = 256;
/// Longer lines are made by each reader, so that a crowd costs at most four megabytes.
const LINE_BYTES_MAX: usize = 16 << 10;
/// What each who watches in a crowd adds to the pause between two chunks: twice what it takes to wake one and to write to it,
/// so that a crowd leaves time for other work.
const PAUSE_EACH: Duration = Duration::from_micros(20);
/// Shorter ones are beneath the timer's grain; fifty watchers and fewer get their events at once.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// No one learns of a change later than this because others watch.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// What is shared by those who watch a kind as it is served at one time.
#[derive(Default)]
pub(crate) struct EventCaches {
    /// By version.
    crowds: Mutex<BTreeMap<String, Weak<EventCache>>>,
}

impl EventCaches {
    /// Takes part in a version's lines, until what it gives is dropped.
    pub(crate) fn join(&self, version: &str) -> Arc<EventCache> {
        let mut crowds = self.crowds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(crowd) = crowds.get(version).and_then(Weak::upgrade) {
            return crowd;
        }
        let crowd = Arc::default();
        crowds.insert(version.to_owned(), Arc::downgrade(&crowd));
        crowd
    }
}

/// Those who watch one version of a kind; each of them holds it.
#[derive(Default)]
pub(crate) struct EventCache {
    /// Empty until there are enough who read.
    slots: OnceLock<Box<[Mutex<Option<Line>>]>>,
}

struct Line {
    event: &'static str,
    object: Arc<Object>,
    revision: Revision,
    bytes: Bytes,
}

impl EventCache {
    /// How long changes are let gather after some were sent; none where few watch.
    pub(crate) fn pause(self: &Arc<Self>) -> Option<Duration> {
        let watchers = u32::try_from(Arc::strong_count(self)).unwrap_or(u32::MAX);
        let pause = PAUSE_EACH.saturating_mul(watchers).min(PAUSE_MAX);
        (pause > PAUSE_MIN).then_some(pause)
    }

    /// The line of what happened, made by `make` if no other reader has made it a moment ago.
    pub(crate) fn line(
        self: &Arc<Self>,
        event: &'static str,
        object: &Arc<Object>,
        revision: Revision,
        make: impl FnOnce() -> Result<Bytes, Status>,
    ) -> Result<Bytes, Status> {
        if Arc::strong_count(self) < CROWD_MIN {
            return make();
        }
        let slots = self
            .slots
            .get_or_init(|| (0..LINES).map(|_| Mutex::default()).collect());
        let place = usize::try_from(revision.0 % LINES as u64).unwrap_or_default();
        // Held while the line is made: others want the same one.
        let mut slot = slots[place].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = slot.as_ref()
            && line.revision == revision
            && line.event == event
            && Arc::ptr_eq(&line.object, object)
        {
            return Ok(line.bytes.clone());
        }
        let bytes = make()?;
        if bytes.len() <= LINE_BYTES_MAX {
            *slot = Some(Line {
                event,
                object: object.clone(),
                revision,
                bytes: bytes.clone(),
            });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn object(name: &str) -> Arc<Object> {
        let object = Object::from_value(serde_json::json!({"metadata": {"name": name}}));
        Arc::new(object.unwrap())
    }

    /// How many of the calls, one for each member, made a line of their own.
    fn made(crowd: &[Arc<EventCache>], event: &'static str, object: &Arc<Object>, length: usize) -> usize {
        let made = Cell::new(0);
        for member in crowd {
            let line = member.line(event, object, Revision(7), || {
                made.set(made.get() + 1);
                Ok(Bytes::from(vec![b'x'; length]))
            });
            assert_eq!(line.unwrap().len(), length);
        }
        made.get()
    }

    #[test]
    fn a_crowd_makes_each_line_once_and_few_make_their_own() {
        let lines = EventCaches::default();
        let mut crowd: Vec<_> = (1..CROWD_MIN).map(|_| lines.join("v1")).collect();
        let one = object("one");
        assert_eq!(made(&crowd, "ADDED", &one, 10), CROWD_MIN - 1);
        assert!(crowd[0].slots.get().is_none(), "nothing is kept for few");

        crowd.push(lines.join("v1"));
        assert_eq!(made(&crowd, "ADDED", &one, 10), 1);
        assert_eq!(made(&crowd, "ADDED", &one, 10), 0);
        assert_eq!(made(&crowd, "MODIFIED", &one, 10), 1);
        assert_eq!(
            made(&crowd, "MODIFIED", &object("one"), 10),
            1,
            "another object of the revision"
        );
        assert_eq!(
            made(&crowd, "ADDED", &one, LINE_BYTES_MAX + 1),
            CROWD_MIN,
            "too long to be kept"
        );

        let other = lines.join("v1beta1");
        assert!(!Arc::ptr_eq(&other, &crowd[0]));
    }

    #[test]
    fn the_more_watch_the_longer_changes_gather() {
        let lines = EventCaches::default();
        let mut crowd: Vec<_> = (0..50).map(|_| lines.join("v1")).collect();
        assert_eq!(crowd[0].pause(), None);
        crowd.extend((50..1_000).map(|_| lines.join("v1")));
        assert_eq!(crowd[0].pause(), Some(Duration::from_millis(20)));
        crowd.extend((1_000..20_000).map(|_| lines.join("v1")));
        assert_eq!(crowd[0].pause(), Some(PAUSE_MAX));
    }

    #[test]
    fn who_comes_after_the_last_has_gone_begins_again() {
        let lines = EventCaches::default();
        let first = lines.join("v1");
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert_eq!(Arc::strong_count(&lines.join("v1")), 1);
    }
}
