//! From a fault's class to the delay before the next attempt. No jitter: a run can be repeated.

use std::time::Duration;

use api_meta::FaultClass;

/// How long to wait after failures in a row: `min * 2^(failures-1)`, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Transient faults: conflicts, rate limits.
    pub transient: (Duration, Duration),
    /// Something else must become ready; its watch usually wakes us sooner.
    pub dependency: (Duration, Duration),
    /// A permission or a quota must be granted, and no event reports that it was.
    pub access: (Duration, Duration),
    /// The user must change the object, which ends the wait at once, or a bug must be fixed.
    pub user: (Duration, Duration),
}

impl Default for Backoff {
    fn default() -> Self {
        let (millis, secs) = (Duration::from_millis, Duration::from_secs);
        let mins = |minutes: u64| Duration::from_secs(minutes * 60);
        Self {
            transient: (millis(20), secs(30)),
            dependency: (secs(1), mins(2)),
            access: (secs(5), mins(5)),
            user: (secs(30), mins(30)),
        }
    }
}

impl Backoff {
    /// The delay after the `failures`-th failure in a row (counted from 1).
    pub fn delay(&self, class: FaultClass, failures: u32) -> Duration {
        let (min, max) = match class {
            FaultClass::Transient => self.transient,
            FaultClass::Dependency => self.dependency,
            FaultClass::Access | FaultClass::Quota => self.access,
            FaultClass::User | FaultClass::Bug => self.user,
        };
        // 2^20 times any minimum is beyond any maximum.
        min.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_their_class_limit_and_users_wait_longest() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(FaultClass::Transient, 1), Duration::from_millis(20));
        assert_eq!(backoff.delay(FaultClass::Transient, 3), Duration::from_millis(80));
        assert_eq!(backoff.delay(FaultClass::Transient, u32::MAX), Duration::from_secs(30));
        let first = |class| backoff.delay(class, 1);
        assert!(first(FaultClass::Transient) < first(FaultClass::Dependency));
        assert!(first(FaultClass::Dependency) < first(FaultClass::Access));
        assert!(first(FaultClass::Access) < first(FaultClass::User));
        assert_eq!(first(FaultClass::User), first(FaultClass::Bug));
    }
}
