//! What an observation found. It never turns a failed read into "not there".

use std::fmt::Display;

/// The result of looking for something: there, not there, or the look failed.
///
/// Planning from `Unknown` waits; it neither creates nor deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// Looked, and it is not there.
    Absent,
    /// Looked, and here it is.
    Present(T),
    /// The read failed; the text contains the reason.
    Unknown(String),
}

impl<T> Seen<T> {
    /// From a read that distinguishes "not found" (`Ok(None)`) from "failed" (`Err`).
    pub fn from_read<E: Display>(read: Result<Option<T>, E>) -> Self {
        match read {
            Ok(Some(value)) => Self::Present(value),
            Ok(None) => Self::Absent,
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// What was found, if anything was.
    pub fn present(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Absent | Self::Unknown(_) => None,
        }
    }

    /// What was found, by value.
    pub fn into_present(self) -> Option<T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Absent | Self::Unknown(_) => None,
        }
    }

    /// True only if the look succeeded and found nothing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Why the look failed, if it did.
    pub fn unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::Absent | Self::Present(_) => None,
        }
    }

    /// Borrows what was found.
    pub fn as_ref(&self) -> Seen<&T> {
        match self {
            Self::Absent => Seen::Absent,
            Self::Present(value) => Seen::Present(value),
            Self::Unknown(why) => Seen::Unknown(why.clone()),
        }
    }

    /// Applies `f` to what was found.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Absent => Seen::Absent,
            Self::Present(value) => Seen::Present(f(value)),
            Self::Unknown(why) => Seen::Unknown(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_is_not_absence() {
        assert_eq!(
            Seen::<u8>::from_read(Err("timed out")),
            Seen::Unknown("timed out".into())
        );
        assert_eq!(Seen::<u8>::from_read(Ok::<_, String>(None)), Seen::Absent);
        assert!(!Seen::<u8>::Unknown("x".into()).is_absent());
        assert_eq!(Seen::Present(2).map(|n| n + 1).into_present(), Some(3));
    }
}
