//! Sends the events of runs to listeners. A run never waits for a listener: events that a slow one has not received in
//! time are overwritten, and it receives their number.

use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::Event;

/// How many events may wait for the slowest listener: a run of sixty tasks has some three hundred.
pub const FEED_MAX: usize = 1024;

/// Sends to the listeners, if there are any. Clones feed the same listeners.
#[derive(Clone, Debug)]
pub struct Feed(broadcast::Sender<Arc<FeedEvent>>);

/// An event with what its run was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// What the run works on, "namespace/name" of an object.
    pub subject: String,
    /// What happened.
    pub event: Event,
}

/// What a listener receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// An event.
    Event(Arc<FeedEvent>),
    /// So many events were overwritten before this listener received them.
    Missed(u64),
}

/// Receives the events of runs.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Arc<FeedEvent>>);

impl Default for Feed {
    fn default() -> Self {
        Self(broadcast::Sender::new(FEED_MAX))
    }
}

impl Feed {
    /// Sends an event. Never blocks; without listeners nothing is copied.
    pub fn send(&self, subject: &str, event: &Event) {
        if self.0.receiver_count() == 0 {
            return;
        }
        // The last listener may have gone this moment.
        let _ = self.0.send(Arc::new(FeedEvent {
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
    /// The next event; `None`: all feeds are gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Received> {
        match self.0.recv().await {
            Ok(event) => Some(Received::Event(event)),
            Err(RecvError::Lagged(count)) => Some(Received::Missed(count)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event if one is waiting already.
    pub fn next_now(&mut self) -> Option<Received> {
        match self.0.try_recv() {
            Ok(event) => Some(Received::Event(event)),
            Err(TryRecvError::Lagged(count)) => Some(Received::Missed(count)),
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
    fn slow_listener_does_not_block_and_gets_the_number_of_missed_events() {
        let feed = Feed::default();
        feed.send("a/b", &event(0));
        let (mut slow, mut gone) = (feed.listen(), feed.listen());
        assert_eq!(slow.next_now(), None, "it receives no earlier event");
        drop(gone.next_now());
        drop(gone);
        for number in 0..FEED_MAX + 10 {
            feed.send("a/b", &event(number));
        }
        assert_eq!(slow.next_now(), Some(Received::Missed(10)));
        let mut received = 0;
        while let Some(Received::Event(next)) = slow.next_now() {
            assert_eq!(next.event, event(received + 10));
            received += 1;
        }
        assert_eq!(received, FEED_MAX);
    }
}
