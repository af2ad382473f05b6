//! What goes wrong with calls, drawn by a seed or decided by a test. It knows nothing of what the calls are about.

use std::fmt;
use std::sync::Arc;

use base_clock::Entropy;

use super::api::Call;
use super::error::{CloudError, Reason};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Nothing.
    None,
    /// It fails with this reason and has no effect.
    Refused(Reason),
    /// It has its effect, and fails all the same: the cloud has made something and then broke.
    Broken,
    /// It has its effect, and the connection ends before the answer.
    Lost,
}

impl Harm {
    /// The error before the call's effect.
    pub(super) fn before(self) -> Result<(), CloudError> {
        let message = match self {
            Self::None | Self::Broken | Self::Lost => return Ok(()),
            Self::Refused(Reason::RequestLimitExceeded) => "too many calls, try again later",
            Self::Refused(Reason::UnauthorizedOperation) => {
                "the credentials are not authorized to perform this operation"
            }
            Self::Refused(Reason::AuthFailure) => "the credentials could not be validated",
            Self::Refused(_) => "the service is not available",
        };
        match self {
            Self::Refused(reason) => Err(CloudError::new(reason, message)),
            _ => Ok(()),
        }
    }

    /// The error after the call's effect.
    pub(super) fn after(self) -> Result<(), CloudError> {
        match self {
            Self::None | Self::Refused(_) => Ok(()),
            Self::Broken => Err(CloudError::new(
                Reason::InternalError,
                "an unexpected error occurred during the operation",
            )),
            Self::Lost => Err(CloudError::new(
                Reason::Unanswered,
                "the connection ended before an answer",
            )),
        }
    }
}

/// How often each harm comes, in calls of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// [`Harm::Refused`] with [`Reason::InternalError`].
    pub refused: u64,
    /// [`Harm::Refused`] with [`Reason::RequestLimitExceeded`].
    pub throttled: u64,
    /// [`Harm::Refused`] with [`Reason::UnauthorizedOperation`]: permissions that take a while to arrive.
    pub unauthorized: u64,
    /// [`Harm::Broken`].
    pub broken: u64,
    /// [`Harm::Lost`].
    pub lost: u64,
}

impl Default for Rates {
    /// A cloud on a bad day: every fifth call fails.
    fn default() -> Self {
        Self {
            refused: 50,
            throttled: 40,
            unauthorized: 10,
            broken: 50,
            lost: 50,
        }
    }
}

type Decide = Arc<dyn Fn(u64, &Call) -> Harm + Send + Sync>;

/// Decides what happens to each call.
#[derive(Clone)]
pub struct Harms(Option<Decide>);

impl fmt::Debug for Harms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Harms" } else { "Harms::none" })
    }
}

impl Harms {
    /// All calls do what they are to do.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// What a test decides, by the number of the call since the cloud began, from 1, and what it requests. It must not use the
    /// cloud.
    pub fn decided(decide: impl Fn(u64, &Call) -> Harm + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(decide)))
    }

    /// Harms drawn by a seed: the same for the same seed and number of the call. Calls beyond `calls` are not harmed, so that
    /// whatever is tried again comes to an end.
    #[must_use]
    pub fn seeded(seed: u64, rates: Rates, calls: u64) -> Self {
        Self::decided(move |number, _| {
            if number > calls {
                return Harm::None;
            }
            // Each call draws from a source of its own, so calls that overlap do not change each other's draw.
            let drawn = Entropy::seeded(seed.wrapping_mul(1_000_003).wrapping_add(number)).below(1_000);
            rates.at(drawn)
        })
    }

    pub(super) fn of(&self, number: u64, call: &Call) -> Harm {
        self.0.as_ref().map_or(Harm::None, |decide| decide(number, call))
    }
}

impl Rates {
    fn at(self, drawn: u64) -> Harm {
        let Self {
            refused,
            throttled,
            unauthorized,
            broken,
            lost,
        } = self;
        let harms = [
            (refused, Harm::Refused(Reason::InternalError)),
            (throttled, Harm::Refused(Reason::RequestLimitExceeded)),
            (unauthorized, Harm::Refused(Reason::UnauthorizedOperation)),
            (broken, Harm::Broken),
            (lost, Harm::Lost),
        ];
        let mut end = 0;
        for (rate, harm) in harms {
            end += rate;
            if drawn < end {
                return harm;
            }
        }
        Harm::None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cloud::Kind;

    #[test]
    fn seeded_harms_are_repeatable_cover_all_and_end() {
        let call = Call::List {
            kind: Kind::Network,
            tags: BTreeMap::new(),
        };
        let draw = |seed| {
            let harms = Harms::seeded(seed, Rates::default(), 1_000);
            (1..=1_000).map(|number| harms.of(number, &call)).collect::<Vec<Harm>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let harmed = draw(1).iter().filter(|harm| **harm != Harm::None).count();
        assert!((150..250).contains(&harmed), "{harmed}");
        for harm in [
            Harm::Refused(Reason::InternalError),
            Harm::Refused(Reason::RequestLimitExceeded),
            Harm::Refused(Reason::UnauthorizedOperation),
            Harm::Broken,
            Harm::Lost,
        ] {
            assert!(draw(1).contains(&harm), "{harm:?}");
        }
        assert_eq!(Harms::seeded(1, Rates::default(), 10).of(11, &call), Harm::None);
    }
}
