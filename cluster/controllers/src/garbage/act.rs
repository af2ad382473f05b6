//! Carries out what was decided, once the API server confirms that it still holds.

use api_meta::Fault;
use base_client::{fault_of, is_missing};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::{FOREGROUND, GarbageAction, ORPHAN};
use crate::Context;
use crate::inventory::{Item, Owner};
use crate::kinds::Kind;

/// Carries out what was decided about one object.
pub(super) async fn act(context: &Context, uid: &str, action: GarbageAction) -> Result<(), Fault> {
    let known = {
        let graph = context.inventory.graph();
        graph
            .item(uid)
            .and_then(|item| Some((item.clone(), graph.kind(&item.kind)?.clone())))
    };
    let Some((item, kind)) = known else { return Ok(()) };
    let object = Object {
        context,
        uid,
        item: &item,
        api: api(context, &kind, &item),
    };
    match action {
        GarbageAction::Keep | GarbageAction::Wait => Ok(()),
        GarbageAction::Suspect {
            absent,
            waiting,
            is_owned,
            has_dependents,
        } => object.settle_owners(absent, waiting, is_owned, has_dependents).await,
        GarbageAction::Foreground { delete, blocked } => {
            // One that fails does not hold up the others.
            let mut faults = Vec::new();
            for dependent in delete {
                faults.extend(delete_dependent(context, &dependent).await.err());
            }
            Fault::check_none(faults)?;
            if blocked {
                Ok(())
            } else {
                object.remove_finalizer(FOREGROUND).await
            }
        }
        GarbageAction::Orphan(dependents) => {
            let mut faults = Vec::new();
            for dependent in dependents {
                faults.extend(release_dependent(context, &dependent, uid).await.err());
            }
            Fault::check_none(faults)?;
            object.remove_finalizer(ORPHAN).await
        }
    }
}

fn api(context: &Context, kind: &Kind, item: &Item) -> Api<DynamicObject> {
    match &item.key.namespace {
        Some(namespace) => Api::namespaced_with(context.client.clone(), namespace, &kind.resource),
        None => Api::all_with(context.client.clone(), &kind.resource),
    }
}

struct Object<'a> {
    context: &'a Context,
    uid: &'a str,
    item: &'a Item,
    api: Api<DynamicObject>,
}

async fn delete_dependent(context: &Context, uid: &str) -> Result<(), Fault> {
    let known = {
        let graph = context.inventory.graph();
        graph.item(uid).and_then(|item| {
            let has_dependents = graph.dependents(uid).next().is_some();
            Some((item.clone(), graph.kind(&item.kind)?.clone(), has_dependents))
        })
    };
    let Some((item, kind, has_dependents)) = known else {
        return Ok(());
    };
    let object = Object {
        context,
        uid,
        item: &item,
        api: api(context, &kind, &item),
    };
    for owner in &item.owners {
        let is_deleted = context.inventory.graph().item(&owner.uid).map(|owner| owner.deleting);
        let is_leaving = match is_deleted {
            Some(is_deleted) => is_deleted,
            // Its kind is unknown, or the inventory is behind: only the API server knows.
            None => object.is_gone(owner).await?,
        };
        // A dependent with another owner that stays only forgets this one; that is decided on its own.
        if !is_leaving {
            return Ok(());
        }
    }
    object
        .delete(has_dependents.then_some(PropagationPolicy::Foreground))
        .await
}

async fn release_dependent(context: &Context, dependent: &str, owner: &str) -> Result<(), Fault> {
    let known = {
        let graph = context.inventory.graph();
        graph
            .item(dependent)
            .and_then(|item| Some((item.clone(), graph.kind(&item.kind)?.clone())))
    };
    let Some((item, kind)) = known else { return Ok(()) };
    let object = Object {
        context,
        uid: dependent,
        item: &item,
        api: api(context, &kind, &item),
    };
    object.forget_owners(&[owner.to_owned()]).await
}

impl Object<'_> {
    fn doing(&self, what: &str) -> String {
        format!("{what} {} {}", self.item.kind, self.item.key)
    }

    /// The object as the API server has it; none when it is gone or another one of that name.
    async fn read(&self) -> Result<Option<PartialObjectMeta<DynamicObject>>, Fault> {
        match self.api.get_metadata_opt(&self.item.key.name).await {
            Ok(found) => Ok(found.filter(|found| found.uid().as_deref() == Some(self.uid))),
            Err(error) => Err(fault_of(error, &self.doing("read"))),
        }
    }

    async fn settle_owners(
        &self,
        absent: Vec<Owner>,
        waiting: Vec<Owner>,
        is_owned: bool,
        has_dependents: bool,
    ) -> Result<(), Fault> {
        let mut gone = Vec::new();
        let mut is_owned = is_owned;
        for owner in absent {
            if self.is_gone(&owner).await? {
                gone.push(owner.uid);
            } else {
                is_owned = true;
            }
        }
        if gone.is_empty() && waiting.is_empty() {
            // The inventory was behind; the change that brings the owner calls again.
            return Ok(());
        }
        if is_owned {
            gone.extend(waiting.into_iter().map(|owner| owner.uid));
            return self.forget_owners(&gone).await;
        }
        let policy = (!waiting.is_empty() && has_dependents).then_some(PropagationPolicy::Foreground);
        self.delete(policy).await
    }

    /// Whether the API server confirms that there is no such owner.
    async fn is_gone(&self, owner: &Owner) -> Result<bool, Fault> {
        let Some(kind) = self.context.inventory.graph().kind_of_owner(owner).cloned() else {
            return Ok(false);
        };
        let api: Api<DynamicObject> = match (&self.item.key.namespace, kind.namespaced) {
            (Some(namespace), true) => Api::namespaced_with(self.context.client.clone(), namespace, &kind.resource),
            (_, false) => Api::all_with(self.context.client.clone(), &kind.resource),
            // An object of the whole cluster cannot be owned by one of a namespace; it is left to people.
            (None, true) => return Ok(false),
        };
        let found = api.get_metadata_opt(&owner.name).await.map_err(|error| {
            fault_of(
                error,
                &format!(
                    "read {} {}, the owner of {} {}",
                    kind.key(),
                    owner.name,
                    self.item.kind,
                    self.item.key
                ),
            )
        })?;
        Ok(found.is_none_or(|found| found.uid().as_deref() != Some(&owner.uid)))
    }

    /// Deletes the object: as its finalizers say, else by `policy`, else in the background.
    async fn delete(&self, policy: Option<PropagationPolicy>) -> Result<(), Fault> {
        let by_finalizer = if self.item.has_finalizer(ORPHAN) {
            Some(PropagationPolicy::Orphan)
        } else if self.item.has_finalizer(FOREGROUND) {
            Some(PropagationPolicy::Foreground)
        } else {
            None
        };
        let params = DeleteParams {
            propagation_policy: by_finalizer.or(policy).or(Some(PropagationPolicy::Background)),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api.delete(&self.item.key.name, &params).await {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(fault_of(error, &self.doing("delete"))),
        }
    }

    async fn forget_owners(&self, uids: &[String]) -> Result<(), Fault> {
        let Some(live) = self.read().await? else { return Ok(()) };
        let owners = live.metadata.owner_references.clone().unwrap_or_default();
        let left: Vec<_> = owners.iter().filter(|owner| !uids.contains(&owner.uid)).collect();
        if left.len() == owners.len() {
            return Ok(());
        }
        self.patch(&live, json!({"ownerReferences": left})).await
    }

    async fn remove_finalizer(&self, finalizer: &str) -> Result<(), Fault> {
        let Some(live) = self.read().await? else { return Ok(()) };
        let left: Vec<_> = live.finalizers().iter().filter(|it| *it != finalizer).collect();
        if left.len() == live.finalizers().len() {
            return Ok(());
        }
        self.patch(&live, json!({"finalizers": left})).await
    }

    /// Changes metadata of the object as it was read.
    async fn patch(&self, live: &PartialObjectMeta<DynamicObject>, change: serde_json::Value) -> Result<(), Fault> {
        let mut metadata = change;
        metadata["resourceVersion"] = json!(live.metadata.resource_version);
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match self
            .api
            .patch_metadata(&self.item.key.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(fault_of(error, &self.doing("patch"))),
        }
    }
}
