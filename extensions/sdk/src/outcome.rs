//! What an operation does with the status of its object. What it does not mention stays as it is.

use api_extensions::ExtensionObject;
use api_meta::{Condition, Fault, NamedResourceReference, RawJson};
use serde::Serialize;

/// What an operation does with one field of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It becomes this.
    Set(T),
    /// It goes.
    Clear,
}

impl<T> Change<T> {
    /// What the field is to hold from now on: nothing clears it.
    #[must_use]
    pub fn of(wanted: Option<T>) -> Self {
        wanted.map_or(Self::Clear, Self::Set)
    }

    pub(crate) fn put_into(self, field: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Set(value) => *field = Some(value),
            Self::Clear => *field = None,
        }
    }

    /// What is to be written into a field that is its default when it is cleared; nothing if it stays.
    pub(crate) fn or_default(self) -> Option<T>
    where
        T: Default,
    {
        match self {
            Self::Keep => None,
            Self::Set(value) => Some(value),
            Self::Clear => Some(T::default()),
        }
    }
}

/// What goes into the status of an object whose operation has succeeded. What is left out stays.
#[derive(Clone, Debug)]
pub struct Outcome<K: ExtensionObject> {
    /// What others shall read; written byte for byte.
    pub provider_status: Change<RawJson>,
    /// What another seed needs to take over; written byte for byte.
    pub state: Change<RawJson>,
    /// Objects that go with the state.
    pub resources: Change<Vec<NamedResourceReference>>,
    /// Conditions of ours, merged by type; those of other writers stay.
    pub conditions: Vec<Condition>,
    /// What only this kind has, as a whole.
    pub own: Change<K::Own>,
}

impl<K: ExtensionObject> Default for Outcome<K> {
    fn default() -> Self {
        Self {
            provider_status: Change::Keep,
            state: Change::Keep,
            resources: Change::Keep,
            conditions: Vec::new(),
            own: Change::Keep,
        }
    }
}

impl<K: ExtensionObject> Outcome<K> {
    /// An outcome with nothing but the kind's own status.
    pub fn own(own: K::Own) -> Self {
        Self {
            own: Change::Set(own),
            ..Self::default()
        }
    }

    /// An outcome with nothing but what others shall read.
    #[must_use]
    pub fn provider_status(status: RawJson) -> Self {
        Self {
            provider_status: Change::Set(status),
            ..Self::default()
        }
    }
}

/// What is stored for a successor, in the middle of an operation or by a migration. What is left out stays.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    /// What another process, or another seed, needs to go on; written byte for byte.
    pub state: Change<RawJson>,
    /// What others shall read; written byte for byte.
    pub provider_status: Change<RawJson>,
    /// Objects that go with the state.
    pub resources: Change<Vec<NamedResourceReference>>,
}

impl Saved {
    /// Nothing but a state.
    #[must_use]
    pub fn state(state: RawJson) -> Self {
        Self {
            state: Change::Set(state),
            ..Self::default()
        }
    }

    /// Nothing but a state, of any type.
    ///
    /// # Errors
    /// A bug of the extension: the value cannot be JSON.
    pub fn state_of<T: Serialize + ?Sized>(state: &T) -> Result<Self, Fault> {
        RawJson::of(state).map(Self::state).map_err(Fault::bug)
    }
}
