//! Which failures are worth a line in the log. Of a watch: not that of a server which restarts or ends, nor a refusal by
//! one whose rights are just being granted, but what lasts. Of a reconcile: not the same again at every retry. Pure: time
//! is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// What has lasted this long does not pass by itself.
const LASTING: Duration = Duration::from_secs(10);
/// Failures further apart than this have nothing to do with each other: longer than the longest pause of a watch.
const APART: Duration = Duration::from_secs(30);

/// The same failure is told again after this long: often enough for whoever looks at a day's log, and once per log kept.
const AGAIN: Duration = Duration::from_secs(3600);

/// Failures in a row.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    since: Instant,
    last: Instant,
    said: Option<String>,
}

impl Trouble {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            since: now,
            last: now,
            said: None,
        }
    }

    /// Takes one more failure in, and says whether it is to be told. What has been told is not told again until it
    /// changes.
    pub(crate) fn is_to_be_said(&mut self, text: &str, now: Instant) -> bool {
        if now - self.last > APART {
            *self = Self::new(now);
        }
        self.last = now;
        if now - self.since < LASTING || self.said.as_deref() == Some(text) {
            return false;
        }
        self.said = Some(text.to_owned());
        true
    }
}

/// What has been told of the failures of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    last: Option<(String, Instant)>,
    times: u32,
}

impl Told {
    /// Takes one more failure in, and says whether it is to be told.
    pub(crate) fn is_to_be_told(&mut self, text: &str, now: Instant) -> bool {
        self.times = match &self.last {
            Some((told, _)) if told == text => self.times.saturating_add(1),
            _ => 1,
        };
        let known = self
            .last
            .as_ref()
            .is_some_and(|(told, at)| told == text && now - *at < AGAIN);
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
    fn the_same_failure_is_told_once_and_again_when_it_changes_or_after_an_hour() {
        let start = Instant::now();
        let mut told = Told::default();
        let mut says = |second, text| {
            let says = told.is_to_be_told(text, start + Duration::from_secs(second));
            (says, told.times())
        };
        assert_eq!(says(0, "no"), (true, 1));
        assert_eq!(says(30, "no"), (false, 2));
        assert_eq!(says(60, "never"), (true, 1));
        assert_eq!(says(90, "no"), (true, 1), "it has changed back");
        assert_eq!(says(3689, "no"), (false, 2));
        assert_eq!(says(3690, "no"), (true, 3), "an hour");
        assert_eq!(says(3700, "no"), (false, 4));
    }

    #[test]
    fn what_lasts_is_said_once_and_what_passes_is_not() {
        let start = Instant::now();
        let mut trouble = Trouble::new(start);
        let mut said = |second, text| trouble.is_to_be_said(text, start + Duration::from_secs(second));
        assert!(!said(0, "cut") && !said(6, "refused"), "it may pass");
        assert!(said(12, "refused") && !said(25, "refused"));
        assert!(said(40, "another"), "news of a trouble that lasts");
        assert!(!said(100, "cut"), "a new one");
        assert!(said(111, "cut"));
    }
}
