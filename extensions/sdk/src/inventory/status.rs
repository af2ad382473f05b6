//! An inventory in `status.state` of its object.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use jiff::Timestamp;

use super::ledger::{Ledger, tag_for};
use crate::context::{Context, Obsolete, title};
use crate::outcome::Saved;
use crate::same_json::is_same;

/// Stores the state of `object` in the middle of an operation.
pub(super) struct StatusLedger<'a, K> {
    context: &'a Context,
    object: &'a K,
    /// As it was read or stored last by this inventory.
    last: Mutex<Option<RawJson>>,
}

impl<'a, K: ExtensionObject> StatusLedger<'a, K> {
    pub(super) fn new(context: &'a Context, object: &'a K) -> Self {
        Self {
            context,
            object,
            last: Mutex::new(context.raw_state(object)),
        }
    }

    /// Kind and name.
    pub(super) fn title(&self) -> String {
        title(self.object)
    }

    /// The state that the inventory begins with.
    pub(super) fn state(&self) -> Option<RawJson> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl<K: ExtensionObject> Ledger for StatusLedger<'_, K> {
    async fn save(&self, state: RawJson) -> Result<(), Fault> {
        if !is_same(self.context.raw_state(self.object).as_ref(), self.state().as_ref()) {
            return Err(Fault::bug(format!(
                "the state of {} was stored by something else than its inventory",
                self.title()
            ))
            .hint("open one inventory in an operation, and store what else is needed with Inventory::set_own"));
        }
        self.context.persist(self.object, Saved::state(state.clone())).await?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    fn tag(&self) -> String {
        let meta = self.object.meta();
        let owner = meta.namespace.as_deref().or(meta.name.as_deref());
        tag_for(owner.unwrap_or_default(), &self.context.entropy)
    }

    fn may_begin(&self) -> Result<(), Fault> {
        match self.context.obsolete.is_cancelled() {
            true => Err(Fault::transient(Obsolete)),
            false => Ok(()),
        }
    }

    fn again(&self, after: Duration, reason: String) -> Fault {
        self.context.again(after, reason)
    }
}
