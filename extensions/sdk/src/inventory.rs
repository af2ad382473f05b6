//! What an extension holds in a cloud, as `status.state`: so that a process that ends at any moment leaves nothing behind that
//! its successor does not know.
//!
//! A resource is *announced* in the state, with a tag of its own, before it is created; its id is saved after that. A process
//! that ends between the two has left a tag by which the next one finds the resource. Resources are deleted in the reverse
//! order of their announcements, and their entries go after them. So at every moment the state names all that the cloud
//! holds: by id, or by tag.
//!
//! What it does about the rest:
//! - **Lists that lag behind**: nothing found under a tag that an earlier process announced means nothing before
//!   [`Resource::visible_after`]; until then the operation is called again. A creation that is requested once more has the
//!   same tag, and from then on doubles are looked for and deleted.
//! - **An id that the cloud no longer knows** is reported, and made again only where [`Resource::when_gone`] is
//!   [`WhenGone::Recreate`].
//! - **Two processes**: [`Ledger::save`] fails for the one that has not seen the other's last write, before it makes anything.
//! - **A state of another format or version** is an error and is never overwritten. Slots that this version of the extension
//!   does not know stay, until they are removed by [`Inventory::remove_all`] or [`Inventory::remove_others`].
//! - **Migration**: the state goes with the shoot, and tags are made of nothing that the seed gives.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use api_meta::Fault;
//! # use api_extensions::Infrastructure;
//! # use extensions_sdk::{Context, inventory::{Inventory, Presence, Resource}};
//! struct Network;
//!
//! #[async_trait::async_trait]
//! impl Resource for Network {
//!     fn slot(&self) -> &str {
//!         "network"
//!     }
//!     async fn find(&self, tag: &str) -> Result<Vec<String>, Fault> {
//!         // List the cloud's networks with this tag.
//! #       Ok(vec![])
//!     }
//!     async fn create(&self, tag: &str) -> Result<String, Fault> {
//!         // Create it with this tag.
//! #       Ok(String::new())
//!     }
//!     async fn update(&self, id: &str) -> Result<Presence, Fault> {
//!         // Compare it with what is wanted, wait until it is ready.
//! #       Ok(Presence::There)
//!     }
//!     async fn delete(&self, id: &str) -> Result<(), Fault> {
//!         // Delete it; fine when it is gone.
//! #       Ok(())
//!     }
//! }
//!
//! # async fn reconcile(context: &Context, object: &Infrastructure) -> Result<(), Fault> {
//! let inventory = Inventory::open(context, object)?;
//! let network = inventory.ensure(&Network).await?;
//! # Ok(())
//! # }
//! ```

mod document;
mod ledger;
mod resource;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::{Fault, RawJson};
use base_clock::Entropy;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use document::{Document, Entry, check_slot};
use status::StatusLedger;

pub use ledger::Ledger;
pub use resource::{Presence, Resource, VISIBLE_AFTER, WhenGone};

/// The least pause before an operation is called again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The largest [`Resource::visible_after`] that counts: the longest pause between two calls of an operation.
const VISIBLE_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Makes the [`Resource`] of a slot; none for a slot that the extension does not know.
pub type Resolve<'r> = dyn Fn(&str) -> Option<Box<dyn Resource + 'r>> + Send + Sync + 'r;

/// What an extension holds in a cloud for one object. Several resources may be ensured at the same time, each slot once.
pub struct Inventory<'a> {
    ledger: Box<dyn Ledger + 'a>,
    /// As it was stored last.
    document: Mutex<Document>,
    /// Held while the state is stored: each write is made from the one before.
    saving: tokio::sync::Mutex<()>,
    title: String,
}

impl fmt::Debug for Inventory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inventory")
            .field("of", &self.title)
            .finish_non_exhaustive()
    }
}

impl<'a> Inventory<'a> {
    /// The inventory in the state of `object`; an empty one where there is no state.
    ///
    /// # Errors
    /// A dependency fault for a state that is no inventory of this format; the state stays as it is.
    pub fn open<K: ExtensionObject>(context: &'a Context, object: &'a K) -> Result<Self, Fault> {
        let ledger = StatusLedger::new(context, object);
        let (title, state) = (ledger.title(), ledger.state());
        Self::with_ledger(ledger, state.as_ref(), title)
    }

    /// An inventory that is stored in `ledger` and was stored as `state` last. `title` names it in errors.
    ///
    /// # Errors
    /// As [`Inventory::open`].
    pub fn with_ledger(
        ledger: impl Ledger + 'a,
        state: Option<&RawJson>,
        title: impl Into<String>,
    ) -> Result<Self, Fault> {
        let title = title.into();
        Ok(Self {
            document: Mutex::new(Document::read(state, &title)?),
            ledger: Box::new(ledger),
            saving: tokio::sync::Mutex::default(),
            title,
        })
    }

    /// A tag as [`Ledger::tag`] has to make one, for what belongs to `owner`.
    #[must_use]
    pub fn tag_for(owner: &str, entropy: &Entropy) -> String {
        ledger::tag_for(owner, entropy)
    }

    /// The id of a slot; none while it is not known, or is being removed.
    #[must_use]
    pub fn id(&self, slot: &str) -> Option<String> {
        self.entry(slot).filter(|entry| !entry.deleting)?.id
    }

    /// All slots in the order of their announcements, also those that are only announced or are being removed.
    #[must_use]
    pub fn slots(&self) -> Vec<String> {
        let document = self.document();
        document.resources.iter().map(|entry| entry.slot.clone()).collect()
    }

    /// What [`Inventory::set_own`] stored last.
    ///
    /// # Errors
    /// A dependency fault: it is not of this type.
    pub fn own<T: DeserializeOwned>(&self) -> Result<Option<T>, Fault> {
        let own = self.document().own.clone();
        own.map(|raw| raw.decode()).transpose().map_err(|error| {
            Fault::dependency(format!("status.state.own of {} cannot be used: {error}", self.title))
                .hint("run the version of the extension that has written this state")
        })
    }

    /// Stores what the extension has to know again beside the resources: a range that was chosen, a name that was generated.
    ///
    /// # Errors
    /// [`Ledger::save`]'s; a bug when `own` is no JSON.
    pub async fn set_own<T: Serialize + Sync>(&self, own: &T) -> Result<(), Fault> {
        // A generic value has its keys sorted, as the API server gives them back.
        let own = RawJson::from(serde_json::to_value(own).map_err(Fault::bug)?);
        self.edit(|document| document.own = Some(own)).await
    }

    /// Makes sure that a resource exists as it is wanted, and returns its id.
    ///
    /// # Errors
    /// The resource's and the ledger's; one that has the operation called again where only time can show whether the resource
    /// exists; a dependency fault for one that the cloud no longer knows.
    pub async fn ensure(&self, resource: &dyn Resource) -> Result<String, Fault> {
        let slot = resource.slot();
        check_slot(slot)?;
        if self.entry(slot).is_some_and(|entry| entry.deleting) {
            self.remove(resource).await?;
        }
        let id = match self.entry(slot) {
            None => self.create(resource).await?,
            Some(Entry { id: Some(id), .. }) => id,
            Some(entry) => self.recover(resource, &entry).await?,
        };
        self.drop_doubles(resource, &id).await?;
        match self.update(resource, &id).await? {
            Presence::There => Ok(id),
            Presence::Gone => self.recreate(resource, &id).await,
        }
    }

    /// Makes sure that a resource is gone, and forgets it. Fine when there is none.
    ///
    /// # Errors
    /// The resource's and the ledger's; one that has the operation called again where only time can show whether the resource
    /// exists.
    pub async fn remove(&self, resource: &dyn Resource) -> Result<(), Fault> {
        let slot = resource.slot();
        let Some(entry) = self.entry(slot) else {
            return Ok(());
        };
        if !entry.deleting {
            // A process that ends below leaves something half deleted, which must not be used again.
            self.edit(|document| document.change(slot, |entry| entry.deleting = true))
                .await?;
        }
        self.delete(resource, &entry).await?;
        self.edit(|document| document.drop_entry(slot)).await
    }

    /// Removes everything, the newest first. `resolve` makes the resource of a slot.
    ///
    /// # Errors
    /// As [`Inventory::remove`]; a dependency fault for a slot that `resolve` does not know. What was removed until then stays
    /// removed.
    pub async fn remove_all(&self, resolve: &Resolve<'_>) -> Result<(), Fault> {
        self.remove_others(&[], resolve).await
    }

    /// Removes all but these slots, the newest first: what an earlier reconcile made and this one does not want.
    ///
    /// # Errors
    /// As [`Inventory::remove_all`].
    pub async fn remove_others(&self, wanted: &[&str], resolve: &Resolve<'_>) -> Result<(), Fault> {
        let wanted: BTreeSet<&str> = wanted.iter().copied().collect();
        let others: Vec<String> = self.slots().into_iter().rev().collect();
        for slot in others.iter().filter(|slot| !wanted.contains(slot.as_str())) {
            let resource = resolve(slot).ok_or_else(|| self.unknown(slot))?;
            if resource.slot() != slot {
                let why = format!("the resource of slot {slot:?} has the slot {:?}", resource.slot());
                return Err(Fault::bug(why).hint("correct the function that makes resources of slots"));
            }
            self.remove(&*resource).await?;
        }
        Ok(())
    }

    /// Announces a resource and creates it.
    async fn create(&self, resource: &dyn Resource) -> Result<String, Fault> {
        let (slot, tag) = (resource.slot(), self.ledger.tag());
        self.ledger.may_begin()?;
        let now = self.ledger.now();
        let announced = Entry::announced(slot, tag.clone(), now);
        self.edit(|document| document.resources.push(announced)).await?;
        self.create_announced(resource, &tag).await
    }

    async fn create_announced(&self, resource: &dyn Resource, tag: &str) -> Result<String, Fault> {
        let slot = resource.slot();
        let doing = |fault: Fault| fault.doing(&format!("create {slot}"));
        let id = resource.create(tag).await.map_err(doing)?;
        self.learn(slot, id).await
    }

    /// Saves the id of what was created or found.
    async fn learn(&self, slot: &str, id: String) -> Result<String, Fault> {
        if id.is_empty() {
            let why = format!("the id of {slot} is empty");
            return Err(Fault::bug(why).hint("correct Resource::create and Resource::find in the extension"));
        }
        let now = self.ledger.now();
        let saved = id.clone();
        let change = |entry: &mut Entry| (entry.id, entry.since) = (Some(saved), now);
        self.edit(|document| document.change(slot, change)).await?;
        Ok(id)
    }

    /// Finds what an earlier process has announced and perhaps made, or makes it.
    async fn recover(&self, resource: &dyn Resource, entry: &Entry) -> Result<String, Fault> {
        let slot = resource.slot();
        if let Some(id) = self.find(resource, &entry.tag).await?.into_iter().next() {
            return self.learn(slot, id).await;
        }
        self.wait_until_visible(resource, entry, "an earlier process may have made it")?;
        self.ledger.may_begin()?;
        let now = self.ledger.now();
        let again = |entry: &mut Entry| {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.since = now;
        };
        self.edit(|document| document.change(slot, again)).await?;
        self.create_announced(resource, &entry.tag).await
    }

    /// Deletes what several requests under one tag may have made beside `id`.
    async fn drop_doubles(&self, resource: &dyn Resource, id: &str) -> Result<(), Fault> {
        let Some(entry) = self.entry(resource.slot()).filter(|entry| entry.attempts > 1) else {
            return Ok(());
        };
        for double in self.find(resource, &entry.tag).await? {
            if double != id {
                tracing::warn!(
                    slot = entry.slot,
                    id = double,
                    "deleting a resource that was made twice"
                );
                self.delete_id(resource, &double).await?;
            }
        }
        Ok(())
    }

    /// Deals with a resource that the cloud no longer knows.
    async fn recreate(&self, resource: &dyn Resource, id: &str) -> Result<String, Fault> {
        let slot = resource.slot();
        let Some(entry) = self.entry(slot) else {
            return Err(Fault::bug(format!("the entry of {slot} has vanished")));
        };
        // What was made a moment ago may not be shown yet either.
        self.wait_until_visible(resource, &entry, "the cloud does not show it yet")?;
        if resource.when_gone() == WhenGone::Report {
            return Err(Fault::dependency(format!(
                "{slot} of {}: the cloud no longer knows {id}",
                self.title
            ))
            .hint("verify that the credentials are of the same account as before, and find out who deleted the resource"));
        }
        tracing::warn!(slot, id, "the cloud no longer knows a resource; making it again");
        // Whatever is left of it goes first: from then on only the new tag is known.
        self.delete(resource, &entry).await?;
        self.ledger.may_begin()?;
        let (tag, now) = (self.ledger.tag(), self.ledger.now());
        let announced = Entry::announced(slot, tag.clone(), now);
        self.edit(|document| document.change(slot, |entry| *entry = announced))
            .await?;
        let id = self.create_announced(resource, &tag).await?;
        match self.update(resource, &id).await? {
            Presence::There => Ok(id),
            Presence::Gone => {
                let reason = format!("{slot}: the cloud does not show {id} yet");
                Err(self.ledger.again(pause(resource.visible_after()), reason))
            }
        }
    }

    /// Deletes whatever exists of an entry.
    async fn delete(&self, resource: &dyn Resource, entry: &Entry) -> Result<(), Fault> {
        let mut ids: BTreeSet<String> = entry.id.iter().cloned().collect();
        if entry.attempts > 1 || ids.is_empty() {
            ids.extend(self.find(resource, &entry.tag).await?);
        }
        // One request under the tag, and what it made is known: nothing else can come to light.
        let complete = entry.attempts <= 1 && !ids.is_empty();
        for id in &ids {
            self.delete_id(resource, id).await?;
        }
        match complete {
            true => Ok(()),
            false => self.wait_until_visible(resource, entry, "an earlier process may have made it"),
        }
    }

    async fn delete_id(&self, resource: &dyn Resource, id: &str) -> Result<(), Fault> {
        let doing = |fault: Fault| fault.doing(&format!("delete {} {id}", resource.slot()));
        resource.delete(id).await.map_err(doing)
    }

    async fn update(&self, resource: &dyn Resource, id: &str) -> Result<Presence, Fault> {
        let doing = |fault: Fault| fault.doing(&format!("update {} {id}", resource.slot()));
        resource.update(id).await.map_err(doing)
    }

    /// The ids under a tag, in order: a later process takes the same one for the first.
    async fn find(&self, resource: &dyn Resource, tag: &str) -> Result<BTreeSet<String>, Fault> {
        let doing = |fault: Fault| fault.doing(&format!("find {} by its tag {tag}", resource.slot()));
        Ok(resource.find(tag).await.map_err(doing)?.into_iter().collect())
    }

    /// Has the operation called again until lists show what was made when the entry was written.
    fn wait_until_visible(&self, resource: &dyn Resource, entry: &Entry, why: &str) -> Result<(), Fault> {
        let lag = resource.visible_after().min(VISIBLE_AFTER_MAX);
        let age = self.ledger.now().duration_since(entry.since);
        // Another machine's clock may be ahead of this one.
        let age = Duration::try_from(age).unwrap_or(Duration::ZERO);
        match lag.checked_sub(age) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(left) => {
                let reason = format!("{} cannot be found yet: {why}", entry.slot);
                Err(self.ledger.again(pause(left), reason))
            }
        }
    }

    /// Changes the document and stores it; in memory it changes once it is stored.
    async fn edit(&self, edit: impl FnOnce(&mut Document) + Send) -> Result<(), Fault> {
        let _saving = self.saving.lock().await;
        let mut next = self.document().clone();
        edit(&mut next);
        self.ledger.save(next.write()?).await?;
        *self.document() = next;
        Ok(())
    }

    fn unknown(&self, slot: &str) -> Fault {
        Fault::dependency(format!(
            "{slot} of {} cannot be removed: this version of the extension knows no such resource",
            self.title
        ))
        .hint("run the version of the extension that has made it")
    }

    fn entry(&self, slot: &str) -> Option<Entry> {
        self.document().entry(slot).cloned()
    }

    fn document(&self) -> MutexGuard<'_, Document> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounds a pause.
fn pause(wanted: Duration) -> Duration {
    wanted.clamp(PAUSE_MIN, VISIBLE_AFTER_MAX)
}
