//! Why a part of a run ends before its end.

use api_meta::Fault;

use crate::fragments::Field;

/// Why a chapter ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The extension did not do what the rest counts on; why, as part of a sentence.
    Unanswered(String),
    /// The kit itself could not go on.
    Kit(Fault),
}

impl Stop {
    /// The same, for a spec that holds this fragment of the author's.
    pub(crate) fn of(self, field: Field) -> Self {
        match self {
            Self::Kit(fault) => Self::Kit(field.refused(fault)),
            unanswered => unanswered,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Kit(fault)
    }
}
