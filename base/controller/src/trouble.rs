//! Which failures are worth a line in the log. Of a watch: not that of a server which restarts or ends, nor a refusal by
//! one whose rights are just being granted, but what lasts. Of a reconcile: not the same again at every retry. Pure: time
//! is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// What has lasted this long does not pass by itself.
const LASTING: Duration = Duration::from_secs(10);
/// Failures further apart than this have nothing to do with each other: longer than the longest pause of a watch.
const APART: Duration = Duration::from_secs(30);

/// The same failure is logged again after this long: often enough for a reader of one day's log, and once per log file.
const AGAIN: Duration = Duration::from_secs(3600);

/// Failures in a row.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    since: Instant,
    last: Instant,
    logged: Option<String>,
}

impl Trouble {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: now,
            last: now,
            logged: None,
        }
    }

    /// Records one more failure, and returns whether to log it. The same text is not logged again until it changes.
    pub(crate) fn should_log(&mut self, text: &str, now: Instant) -> bool {
        if now - self.last > APART {
            *self = Self::new(now);
        }
        self.last = now;
        if now - self.since < LASTING || self.logged.as_deref() == Some(text) {
            return false;
        }
        self.logged = Some(text.to_owned());
        true
    }
}

/// What has been logged about the failures of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailureLog {
    last: Option<(String, Instant)>,
    times: u32,
}

impl FailureLog {
    /// Records one more failure, and returns whether to log it.
    pub(crate) fn should_log(&mut self, text: &str, now: Instant) -> bool {
        self.times = match &self.last {
            Some((logged, _)) if logged == text => self.times.saturating_add(1),
            _ => 1,
        };
        let known = self
            .last
            .as_ref()
            .is_some_and(|(logged, at)| logged == text && now - *at < AGAIN);
        if !known {
            self.last = Some((text.to_owned(), now));
        }
        !known
    }

    /// How often in a row it has been the same.
    pub(crate) fn times(&self) -> u32 {
        self.times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failure_is_logged_once_until_it_changes_or_an_hour_passes() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        let mut fails = |second, text| {
            let is_logged = log.should_log(text, start + Duration::from_secs(second));
            (is_logged, log.times())
        };
        assert_eq!(fails(0, "no"), (true, 1));
        assert_eq!(fails(30, "no"), (false, 2));
        assert_eq!(fails(60, "never"), (true, 1));
        assert_eq!(fails(90, "no"), (true, 1), "it has changed back");
        assert_eq!(fails(3689, "no"), (false, 2));
        assert_eq!(fails(3690, "no"), (true, 3), "an hour");
        assert_eq!(fails(3700, "no"), (false, 4));
    }

    #[test]
    fn lasting_failure_is_logged_once_and_passing_one_is_not() {
        let start = Instant::now();
        let mut trouble = Trouble::new(start);
        let mut logs = |second, text| trouble.should_log(text, start + Duration::from_secs(second));
        assert!(!logs(0, "cut") && !logs(6, "refused"), "it may pass");
        assert!(logs(12, "refused") && !logs(25, "refused"));
        assert!(logs(40, "another"), "news of a trouble that lasts");
        assert!(!logs(100, "cut"), "a new one");
        assert!(logs(111, "cut"));
    }
}
