//! What a client of the cloud can request, whichever implementation the cloud has.

use std::sync::Arc;

use async_trait::async_trait;

use super::error::CloudError;
use super::item::{Item, ItemChange, Spec, Tags};
use super::kind::Kind;
use super::memory::Keys;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are those of the methods of `CloudApi`")]
pub enum Call {
    /// [`CloudApi::create`].
    Create { spec: Spec, tags: Tags },
    /// [`CloudApi::get`].
    Get { kind: Kind, id: String },
    /// [`CloudApi::list`].
    List { kind: Kind, tags: Tags },
    /// [`CloudApi::change`].
    Change { kind: Kind, id: String, change: ItemChange },
    /// [`CloudApi::delete`].
    Delete { kind: Kind, id: String },
}

impl Call {
    /// The kind that it is about.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Create { spec, .. } => spec.kind(),
            Self::Get { kind, .. }
            | Self::List { kind, .. }
            | Self::Change { kind, .. }
            | Self::Delete { kind, .. } => *kind,
        }
    }

    /// What it does.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Get { .. } => "get",
            Self::List { .. } => "list",
            Self::Change { .. } => "change",
            Self::Delete { .. } => "delete",
        }
    }

    /// Whether it can have an effect.
    #[must_use]
    pub const fn writes(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::List { .. })
    }
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One thing, as it is after the call.
    Item(Box<Item>),
    /// Those that a list shows.
    Items(Vec<Item>),
    /// It is done.
    Done,
}

/// The cloud, for one pair of keys and one region. An implementation provides [`CloudApi::call`] alone.
#[async_trait]
pub trait CloudApi: Send + Sync {
    /// Makes a call.
    ///
    /// # Errors
    /// What the cloud answers, or [`super::Reason::Unanswered`].
    async fn call(&self, call: Call) -> Result<Answer, CloudError>;

    /// Makes a thing. A second call makes a second one.
    ///
    /// # Errors
    /// A specification that makes no sense, a quota, what the specification names does not exist; as [`CloudApi::call`].
    async fn create(&self, spec: Spec, tags: Tags) -> Result<Item, CloudError> {
        self.call(Call::Create { spec, tags }).await.and_then(item)
    }

    /// A thing by its id; none where there is none of this kind and id.
    ///
    /// # Errors
    /// As [`CloudApi::call`].
    async fn get(&self, kind: Kind, id: &str) -> Result<Option<Item>, CloudError> {
        let id = id.to_owned();
        match self.call(Call::Get { kind, id }).await.and_then(item) {
            Ok(item) => Ok(Some(item)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The things of a kind that have all these tags, in the order of their creation.
    ///
    /// # Errors
    /// As [`CloudApi::call`].
    async fn list(&self, kind: Kind, tags: &Tags) -> Result<Vec<Item>, CloudError> {
        let tags = tags.clone();
        match self.call(Call::List { kind, tags }).await? {
            Answer::Items(items) => Ok(items),
            _ => Err(unexpected()),
        }
    }

    /// Changes a thing.
    ///
    /// # Errors
    /// It does not exist, or has nothing of the kind to change; as [`CloudApi::call`].
    async fn change(&self, kind: Kind, id: &str, change: ItemChange) -> Result<Item, CloudError> {
        let id = id.to_owned();
        self.call(Call::Change { kind, id, change }).await.and_then(item)
    }

    /// Deletes a thing. Instances and load balancers go some calls later.
    ///
    /// # Errors
    /// It does not exist, or something hangs on it; as [`CloudApi::call`].
    async fn delete(&self, kind: Kind, id: &str) -> Result<(), CloudError> {
        let id = id.to_owned();
        self.call(Call::Delete { kind, id }).await.map(drop)
    }
}

fn item(answer: Answer) -> Result<Item, CloudError> {
    match answer {
        Answer::Item(item) => Ok(*item),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> CloudError {
    CloudError::new(super::Reason::InternalError, "the answer is of another call")
}

/// Where clients get a [`CloudApi`] from. It makes no call, so wrong keys are noticed at the first one.
pub trait CloudConnector: Send + Sync {
    /// The cloud for these keys in this region.
    fn connect(&self, keys: &Keys, region: &str) -> Arc<dyn CloudApi>;
}
