//! What an author writes for each kind of resource of a cloud.

use std::time::Duration;

use api_meta::Fault;
use async_trait::async_trait;

/// [`Resource::visible_after`] of clouds whose lists lag behind: what the large ones need in an ordinary hour, several times
/// over.
pub const VISIBLE_AFTER: Duration = Duration::from_secs(60);

/// Whether the cloud knows an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does.
    There,
    /// It has never heard of it, or has deleted it.
    Gone,
}

/// What is done about a resource that was made and that the cloud no longer knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenGone {
    /// It is reported, and nothing is made: credentials of another account look the same, and whatever hangs on the resource
    /// is lost with it.
    #[default]
    Report,
    /// It is made again, in its old place of the order. Right where nothing hangs on it, as on a rule or a record.
    Recreate,
}

/// One resource of a cloud, as it is to be. Every method may be cut off at any await, and is called again after that.
#[async_trait]
pub trait Resource: Send + Sync {
    /// Its name within the object: 1 to 128 characters of letters, digits, `-`, `_`, `.` and `/`, such as `vpc` or
    /// `subnet/zone-a`. It never changes, or the resource is another one.
    fn slot(&self) -> &str;

    /// The ids of all resources in the cloud that have `tag`, in any order; also of those that are not ready yet.
    ///
    /// # Errors
    /// What the cloud answers. A failed call is never an empty list.
    async fn find(&self, tag: &str) -> Result<Vec<String>, Fault>;

    /// Makes it with `tag`, and returns its id. The tag is set by the call that makes the resource; where a cloud can not do
    /// that, the tag is (part of) its name. `tag` has at most 43 characters of a-z, 0-9 and `-`, begins with a letter and
    /// serves as an idempotency token too. It returns as soon as the id is known: waiting until the resource is ready belongs
    /// into [`Resource::update`].
    ///
    /// # Errors
    /// What the cloud answers. Whether something was made all the same need not be known.
    async fn create(&self, tag: &str) -> Result<String, Fault>;

    /// Brings what exists to what is wanted, and waits until it is ready. Called for what is there already, and right after
    /// its creation.
    ///
    /// # Errors
    /// What the cloud answers.
    async fn update(&self, id: &str) -> Result<Presence, Fault>;

    /// Deletes it, and returns once it is gone or will go without fail. Fine when there is none of this id.
    ///
    /// # Errors
    /// What the cloud answers.
    async fn delete(&self, id: &str) -> Result<(), Fault>;

    /// How long after its creation [`Resource::find`] may still not show it: zero where lists are always up to date, at most
    /// an hour. A process that finds nothing of what an earlier one may have made waits so long before it makes another, or
    /// regards it as deleted.
    fn visible_after(&self) -> Duration {
        VISIBLE_AFTER
    }

    /// What to do once the cloud no longer knows it.
    fn when_gone(&self) -> WhenGone {
        WhenGone::default()
    }
}
