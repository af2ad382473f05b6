//! How one task is to be tried: pure values, read by the engine that runs the flow.

use std::time::Duration;

/// Waits between the tries of one task: doubling from `first` up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait before the second try.
    pub first: Duration,
    /// No wait is longer than this.
    pub max: Duration,
}

impl Backoff {
    /// The wait after `failures` failed tries (the first failure counts as 1).
    #[must_use]
    pub fn wait_after(&self, failures: u32) -> Duration {
        // 2^16 times any sensible first wait exceeds any sensible maximum: more doublings only risk overflow.
        let doublings = failures.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.max)
    }
}

/// Settings of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSettings {
    /// Bound on all tries together; `None`: the task bounds itself.
    pub timeout: Option<Duration>,
    /// Whether and how faults that may pass are tried again within the time-out; `None`: one try. Of a pure wait only
    /// what broke the waiting itself is tried again.
    pub retry: Option<Backoff>,
    /// A pure wait: an interrupt of the flow stops it at once, where other running tasks finish first.
    pub waits: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_the_maximum_and_never_overflow() {
        let backoff = Backoff {
            first: Duration::from_millis(200),
            max: Duration::from_secs(5),
        };
        let waits: Vec<u128> = (0..8)
            .map(|failures| backoff.wait_after(failures).as_millis())
            .collect();
        assert_eq!(waits, [200, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff.wait_after(u32::MAX), Duration::from_secs(5));
    }
}
