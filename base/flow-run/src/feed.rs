//! Hands the events of runs to whoever looks on. A run never waits for a listener: what a slow one has not taken in
//! time is overwritten, and it gets to know how much that was.

use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::Event;

/// How many events may wait for the slowest listener: a run of sixty tasks tells some three hundred.
pub const FEED_MAX: usize = 1024;

/// The way to the listeners, if there are any. Clones feed the same listeners.
#[derive(Clone, Debug)]
pub struct Feed(broadcast::Sender<Arc<Told>>);

/// An event with what its run was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What the run works on, "namespace/name" of an object.
    pub subject: String,
    /// What happened.
    pub event: Event,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Told(Arc<Told>),
    /// So many events were overwritten before this listener took them.
    Missed(u64),
}

/// Someone who looks on.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Arc<Told>>);

impl Default for Feed {
    fn default() -> Self {
        Self(broadcast::Sender::new(FEED_MAX))
    }
}

impl Feed {
    /// Hands out an event. Never blocks; without listeners nothing is copied.
    pub fn tell(&self, subject: &str, event: &Event) {
        if self.0.receiver_count() == 0 {
            return;
        }
        // The last listener may have gone this moment.
        let _ = self.0.send(Arc::new(Told {
            subject: subject.to_owned(),
            event: event.clone(),
        }));
    }

    /// Listens from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    /// The next event; `None`: nobody can tell any more. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.0.recv().await {
            Ok(told) => Some(Heard::Told(told)),
            Err(RecvError::Lagged(count)) => Some(Heard::Missed(count)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event if it has been told already.
    pub fn next_now(&mut self) -> Option<Heard> {
        match self.0.try_recv() {
            Ok(told) => Some(Heard::Told(told)),
            Err(TryRecvError::Lagged(count)) => Some(Heard::Missed(count)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;

    fn event(number: usize) -> Event {
        Event {
            time: jiff::Timestamp::UNIX_EPOCH,
            flow: "f".into(),
            what: What::TaskStarted {
                task: number.to_string(),
            },
        }
    }

    #[test]
    fn a_slow_listener_holds_nobody_back_and_hears_how_much_it_missed() {
        let feed = Feed::default();
        feed.tell("a/b", &event(0));
        let (mut slow, mut gone) = (feed.listen(), feed.listen());
        assert_eq!(slow.next_now(), None, "what was told before is past");
        drop(gone.next_now());
        drop(gone);
        for number in 0..FEED_MAX + 10 {
            feed.tell("a/b", &event(number));
        }
        assert_eq!(slow.next_now(), Some(Heard::Missed(10)));
        let mut kept = 0;
        while let Some(Heard::Told(told)) = slow.next_now() {
            assert_eq!(told.event, event(kept + 10));
            kept += 1;
        }
        assert_eq!(kept, FEED_MAX);
    }
}
