//! Which failures of a watch are worth a line in the log: not that of a server which restarts or ends, nor a refusal by
//! one whose rights are just being granted, but what lasts. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// What has lasted this long does not pass by itself.
const LASTING: Duration = Duration::from_secs(10);
/// Failures further apart than this have nothing to do with each other: longer than the longest pause of a watch.
const APART: Duration = Duration::from_secs(30);

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

#[cfg(test)]
mod tests {
    use super::*;

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
