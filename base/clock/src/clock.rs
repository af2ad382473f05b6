//! Wall-clock time. Never sleeps, never formats for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tells the time. Cheap to clone; clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Real,
    Simulated {
        epoch: Timestamp,
        started: Instant,
        /// Seconds by which it was put forward.
        ahead: Arc<AtomicI64>,
    },
}

/// Sets a simulated clock, as an administrator sets a machine's.
#[derive(Clone, Debug)]
pub struct Hand(Arc<AtomicI64>);

impl Hand {
    /// Puts the clock forward, or back when `by` is negative; whole seconds.
    pub fn jump(&self, by: SignedDuration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

impl Clock {
    /// The machine's clock.
    pub fn real() -> Self {
        Self(Kind::Real)
    }

    /// Starts at `epoch` and advances with tokio's clock from this moment on: under a paused runtime it moves
    /// only when the runtime does, so that a run can be repeated exactly.
    pub fn simulated(epoch: Timestamp) -> Self {
        Self::settable(epoch).0
    }

    /// The same, and what makes it jump.
    pub fn settable(epoch: Timestamp) -> (Self, Hand) {
        let hand = Hand(Arc::default());
        let clock = Self(Kind::Simulated {
            epoch,
            started: Instant::now(),
            ahead: hand.0.clone(),
        });
        (clock, hand)
    }

    /// The wall-clock time, to the nanosecond at best.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that may ask the machine for the time"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Real => Timestamp::now(),
            Kind::Simulated { epoch, started, ahead } => {
                let ahead = SignedDuration::from_secs(ahead.load(Ordering::SeqCst));
                let now = epoch
                    .checked_add(started.elapsed())
                    .and_then(|now| now.checked_add(ahead));
                now.unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// How long ago `then` was; zero when it lies in the future (clocks of two machines may disagree).
    pub fn since(&self, then: Timestamp) -> Duration {
        Duration::try_from(self.now().duration_since(then)).unwrap_or(Duration::ZERO)
    }

    /// How long until `then`; zero when it has passed.
    pub fn until(&self, then: Timestamp) -> Duration {
        Duration::try_from(then.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_time_moves_with_tokio_and_with_nothing_else() {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(epoch);
        assert_eq!(clock.now(), epoch);
        assert_eq!(clock.clone().now(), epoch);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), "2026-01-01T00:01:30Z".parse().unwrap());
        assert_eq!(clock.since(epoch), Duration::from_secs(90));
        assert_eq!(clock.until(epoch), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn all_clones_of_a_clock_jump_with_its_hand() {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (clock, hand) = Clock::settable(epoch);
        let clone = clock.clone();
        hand.jump(SignedDuration::from_hours(24));
        assert_eq!(clone.now(), "2026-01-02T00:00:00Z".parse().unwrap());
        hand.jump(SignedDuration::from_hours(-48));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), "2025-12-31T00:00:01Z".parse().unwrap());
        assert_eq!(clock.since(epoch), Duration::ZERO);
    }
}
