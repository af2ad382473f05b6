//! A write and its validation, which all backends share. Plain values: no locks, no files, no waiting.

use std::sync::Arc;

use crate::{Entry, Key, Object, Revision, StoreError};

/// One write, as a caller requests it.
pub(crate) enum Write {
    Create {
        key: Key,
        object: Object,
    },
    Update {
        key: Key,
        expected: Revision,
        object: Object,
    },
    Delete {
        key: Key,
        expected: Revision,
    },
}

/// A write that was validated and has got its revision.
pub(crate) struct Decided {
    pub(crate) kind: DecidedKind,
    /// As the caller of the write gets it: of a deletion, the last state at the deletion's revision.
    pub(crate) entry: Entry,
    /// The revision of what stood there before; `None` when nothing did.
    pub(crate) previous: Option<Revision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecidedKind {
    Put,
    Delete,
}

impl Write {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key,
        }
    }

    /// The size of what it brings, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Write::Create { object, .. } | Write::Update { object, .. } => object.bytes().len(),
            Write::Delete { .. } => 0,
        }
    }

    /// Whether it may happen where `current` stands at its key.
    pub(crate) fn validate(&self, current: Option<&Entry>) -> Result<(), StoreError> {
        match (self, current) {
            (Write::Create { .. }, None) => Ok(()),
            (Write::Create { .. }, Some(current)) => Err(StoreError::Exists {
                current: current.clone(),
            }),
            (Write::Update { key, .. } | Write::Delete { key, .. }, None) => {
                Err(StoreError::Missing { key: key.clone() })
            }
            (Write::Update { expected, .. } | Write::Delete { expected, .. }, Some(current)) => {
                if current.revision == *expected {
                    return Ok(());
                }
                Err(StoreError::Conflict {
                    expected: *expected,
                    current: current.clone(),
                })
            }
        }
    }

    /// Validates it and, when it may happen, gives it the revision `next`.
    pub(crate) fn decide(self, current: Option<&Entry>, next: Revision) -> Result<Decided, StoreError> {
        self.validate(current)?;
        let (kind, key, object) = match self {
            Write::Create { key, object } | Write::Update { key, object, .. } => {
                (DecidedKind::Put, key, Arc::new(object))
            }
            Write::Delete { key, .. } => match current {
                Some(current) => (DecidedKind::Delete, key, current.object.clone()),
                None => return Err(StoreError::Missing { key }),
            },
        };
        let entry = Entry {
            key,
            revision: next,
            object,
        };
        Ok(Decided {
            kind,
            entry,
            previous: current.map(|current| current.revision),
        })
    }
}

impl Decided {
    /// What stands at the key afterwards.
    pub(crate) fn after(&self) -> Option<&Entry> {
        match self.kind {
            DecidedKind::Put => Some(&self.entry),
            DecidedKind::Delete => None,
        }
    }
}
