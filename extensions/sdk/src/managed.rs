//! Objects that gardener-resource-manager applies and keeps: ManagedResources of the seed and of a shoot, as Gardener's
//! extensions write them (gardener/gardener v1.150 `pkg/utils/managedresources`). The objects lie in an immutable Secret that
//! is named after what it holds; once a newer one is applied, older ones are deleted. It never applies an object itself.
//!
//! ```no_run
//! # use api_meta::Fault;
//! # use extensions_sdk::{Context, managed::{self, ManagedObjects}};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use std::time::Duration;
//! # async fn deploy(context: &Context, namespace: &str, map: &ConfigMap) -> Result<(), Fault> {
//! let objects = ManagedObjects::in_shoot("extension-fake-config", "provider-fake").object(map)?;
//! objects.apply(&context.client, namespace).await?;
//! let healthy = managed::wait_healthy(&context.client, namespace, "extension-fake-config", Duration::from_secs(120));
//! context.unless_obsolete(healthy).await
//! # }
//! ```

mod data;

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::conditions::managed_resource as condition;
use api_meta::{Condition, ConditionStatus, Fault, LocalObjectReference, labels, names};
pub use api_resources::not_applied;
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_client::{
    WaitState, apply, create_or_get, delete as delete_object, fault_of, is_conflict, is_missing, wait_until,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::{Value, json};

/// Label of a ManagedResource: who has written it.
const ORIGIN: &str = "origin";
/// Label of a Secret: the ManagedResource that it belongs to. gardenlet uses it too.
const SECRET_OF: &str = "resources.gardener.cloud/managed-resource";
/// Label of objects in a shoot that its deletion leaves alone until their ManagedResource is deleted.
const NO_CLEANUP: &str = "shoot.gardener.cloud/no-cleanup";
/// Value of [`labels::ROLE`] on what belongs to the seed and to no shoot.
const SEED_SYSTEM_COMPONENT: &str = "seed-system-component";
/// What the names of shoots' namespaces begin with.
const SHOOT_NAMESPACE: &str = "shoot-";
const TRUE: &str = "true";

/// Objects to be applied and kept by one ManagedResource.
#[derive(Clone, Debug)]
pub struct ManagedObjects {
    name: String,
    extension: String,
    in_seed: bool,
    keep: bool,
    labels: BTreeMap<String, String>,
    injected: BTreeMap<String, String>,
    objects: Vec<Value>,
}

impl ManagedObjects {
    /// Objects in the shoot of the namespace that they are applied in. `name`: of the ManagedResource, beginning with
    /// `extension-` by custom. `extension`: who writes it.
    #[must_use]
    pub fn in_shoot(name: impl Into<String>, extension: impl Into<String>) -> Self {
        let injected = BTreeMap::from([(NO_CLEANUP.to_owned(), TRUE.to_owned())]);
        Self {
            injected,
            ..Self::new(name.into(), extension.into(), false)
        }
    }

    /// Objects in the seed; those with a namespace name it themselves.
    #[must_use]
    pub fn in_seed(name: impl Into<String>, extension: impl Into<String>) -> Self {
        Self::new(name.into(), extension.into(), true)
    }

    fn new(name: String, extension: String, in_seed: bool) -> Self {
        Self {
            labels: BTreeMap::from([(ORIGIN.to_owned(), extension.clone())]),
            name,
            extension,
            in_seed,
            keep: false,
            injected: BTreeMap::new(),
            objects: Vec::new(),
        }
    }

    /// Adds an object.
    ///
    /// # Errors
    /// A bug of the extension: it has no `apiVersion`, `kind` or `metadata.name`.
    pub fn object<T: Serialize + ?Sized>(mut self, object: &T) -> Result<Self, Fault> {
        self.objects
            .push(data::check(serde_json::to_value(object).map_err(Fault::bug)?)?);
        Ok(self)
    }

    /// Adds objects, such as those that a chart renders.
    ///
    /// # Errors
    /// As [`ManagedObjects::object`].
    pub fn objects(mut self, objects: impl IntoIterator<Item = Value>) -> Result<Self, Fault> {
        for object in objects {
            self.objects.push(data::check(object)?);
        }
        Ok(self)
    }

    /// Whether the objects stay when the ManagedResource is deleted.
    #[must_use]
    pub fn keep_objects(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    /// A label of the ManagedResource, such as [`labels::CARE_CONDITION_TYPE`].
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A label that every object gets.
    #[must_use]
    pub fn inject_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.injected.insert(key.into(), value.into());
        self
    }

    /// Writes Secret and ManagedResource into a namespace of the seed: the shoot's, or for objects of the seed also the
    /// extension's own. Returns the ManagedResource as it is now.
    ///
    /// # Errors
    /// A bug when an object is there twice; a user fault when the objects are larger than a Secret may be; what the API server
    /// returns.
    pub async fn apply(&self, client: &Client, namespace: &str) -> Result<ManagedResource, Fault> {
        let (secret, resource) = self.make(namespace)?;
        create_or_get(&secrets(client, namespace), &secret).await?;
        let written = apply(&resources(client, namespace), &resource, &self.extension).await?;
        if not_applied(&written).is_none() {
            delete_superseded(client, namespace, &written).await?;
        }
        Ok(written)
    }

    fn make(&self, namespace: &str) -> Result<(Secret, ManagedResource), Fault> {
        let packed = data::pack(&self.name, &self.objects)?;
        let metadata = |name: &str, labels| ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let of_secret = BTreeMap::from([
            (labels::GARBAGE_COLLECTABLE_REFERENCE.to_owned(), TRUE.to_owned()),
            (SECRET_OF.to_owned(), self.name.clone()),
        ]);
        let secret = Secret {
            metadata: metadata(&packed.secret, of_secret),
            data: Some(BTreeMap::from([(
                api_resources::data::KEY.to_owned(),
                ByteString(packed.bytes),
            )])),
            immutable: Some(true),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        };
        let mut of_resource = self.labels.clone();
        if self.in_seed && !namespace.starts_with(SHOOT_NAMESPACE) {
            of_resource
                .entry(labels::ROLE.to_owned())
                .or_insert_with(|| SEED_SYSTEM_COMPONENT.to_owned());
        }
        let resource = ManagedResource {
            metadata: ObjectMeta {
                annotations: Some(BTreeMap::from([(packed.reference, packed.secret.clone())])),
                ..metadata(&self.name, of_resource)
            },
            spec: ManagedResourceSpec {
                class: self.in_seed.then(|| names::MANAGED_RESOURCE_CLASS_SEED.to_owned()),
                secret_refs: vec![LocalObjectReference { name: packed.secret }],
                inject_labels: self.injected.clone(),
                keep_objects: Some(self.keep),
                ..ManagedResourceSpec::default()
            },
            status: None,
        };
        Ok((secret, resource))
    }
}

/// Waits until a ManagedResource is applied in its newest form and what it applies runs well, then deletes the Secrets that
/// held its objects before. `timeout`: two to five minutes where workload starts.
///
/// # Errors
/// A dependency fault with what gardener-resource-manager reports; what the API server returns.
pub async fn wait_healthy(client: &Client, namespace: &str, name: &str, timeout: Duration) -> Result<(), Fault> {
    let check = |resource: Option<&ManagedResource>| match resource {
        None => WaitState::NotYet("it does not exist".to_owned()),
        Some(resource) => match not_healthy(resource) {
            None => WaitState::Done(resource.clone()),
            Some(why) => WaitState::NotYet(why),
        },
    };
    let healthy = wait_until(&resources(client, namespace), name, timeout, check).await?;
    delete_superseded(client, namespace, &healthy).await
}

/// Requests the deletion of a ManagedResource and with it of its objects, unless these are kept. Fine when there is none.
///
/// # Errors
/// What the API server returns.
pub async fn delete(client: &Client, namespace: &str, name: &str) -> Result<(), Fault> {
    delete_object(&resources(client, namespace), name).await
}

/// Waits until a ManagedResource is gone and deletes the Secrets that held its objects.
///
/// # Errors
/// A dependency fault with what gardener-resource-manager reports; what the API server returns.
pub async fn wait_deleted(client: &Client, namespace: &str, name: &str, timeout: Duration) -> Result<(), Fault> {
    let check = |resource: Option<&ManagedResource>| match resource {
        None => WaitState::Done(()),
        Some(resource) => WaitState::NotYet(not_deleted(resource)),
    };
    wait_until(&resources(client, namespace), name, timeout, check).await?;
    let api = secrets(client, namespace);
    for secret in secrets_of(client, namespace, name).await? {
        delete_object(&api, &secret.name_any()).await?;
    }
    Ok(())
}

/// Sets whether a ManagedResource's objects stay when it is deleted: for a migration, which deletes the ManagedResource and
/// leaves the shoot as it is. Fine when there is none.
///
/// # Errors
/// What the API server returns.
pub async fn set_keep_objects(client: &Client, namespace: &str, name: &str, keep: bool) -> Result<(), Fault> {
    let patch = Patch::Merge(json!({"spec": {"keepObjects": keep}}));
    let patched = resources(client, namespace)
        .patch_metadata(name, &PatchParams::default(), &patch)
        .await;
    match patched {
        Err(error) if !is_missing(&error) => Err(fault_of(error, &format!("patch ManagedResource {namespace}/{name}"))),
        _ => Ok(()),
    }
}

/// Why a ManagedResource has not been applied in its newest form, or why what it applies does not run well; none once both
/// hold (gardener/gardener v1.150 `pkg/utils/kubernetes/health`, `CheckManagedResource`).
#[must_use]
pub fn not_healthy(resource: &ManagedResource) -> Option<String> {
    not_applied(resource).or_else(|| {
        let status = resource.status.as_ref()?;
        match Condition::find(&status.conditions, condition::RESOURCES_HEALTHY) {
            Some(healthy) if healthy.status == ConditionStatus::True => None,
            Some(healthy) => Some(format!("{}: {}", healthy.reason, healthy.message)),
            None => Some(format!("{} is not reported yet", condition::RESOURCES_HEALTHY)),
        }
    })
}

fn not_deleted(resource: &ManagedResource) -> String {
    let status = resource.status.as_ref();
    let applied = status.and_then(|status| Condition::find(&status.conditions, condition::RESOURCES_APPLIED));
    match applied.filter(|applied| condition::is_deletion(&applied.reason)) {
        Some(why) => format!("{}: {}", why.reason, why.message),
        None => "gardener-resource-manager has not deleted its objects yet".to_owned(),
    }
}

/// Deletes Secrets that are older than the one in use. A newer one may be on its way into the ManagedResource, and is
/// collected by the seed's gardener-resource-manager if it is not.
async fn delete_superseded(client: &Client, namespace: &str, resource: &ManagedResource) -> Result<(), Fault> {
    // One that was never changed has none before it.
    if resource.metadata.generation.unwrap_or_default() <= 1 {
        return Ok(());
    }
    let all = secrets_of(client, namespace, &resource.name_any()).await?;
    let api = secrets(client, namespace);
    for old in superseded(&all, resource) {
        let as_seen = Preconditions {
            uid: old.uid(),
            resource_version: old.resource_version(),
        };
        let name = old.name_any();
        match api.delete(&name, &DeleteParams::default().preconditions(as_seen)).await {
            Err(error) if !is_missing(&error) && !is_conflict(&error) => {
                return Err(fault_of(error, &format!("delete Secret {namespace}/{name}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Their data never changes, so versions order them.
fn superseded<'a>(
    all: &'a [PartialObjectMeta<Secret>],
    resource: &ManagedResource,
) -> Vec<&'a PartialObjectMeta<Secret>> {
    let version = |secret: &PartialObjectMeta<Secret>| secret.resource_version()?.parse::<u64>().ok();
    let is_used = |secret: &&PartialObjectMeta<Secret>| {
        let mut references = resource.spec.secret_refs.iter();
        references.any(|reference| reference.name == secret.name_any())
    };
    let Some(present) = all.iter().filter(is_used).filter_map(version).min() else {
        return Vec::new();
    };
    let older = |secret: &&PartialObjectMeta<Secret>| version(secret).is_some_and(|version| version < present);
    all.iter().filter(older).collect()
}

async fn secrets_of(client: &Client, namespace: &str, name: &str) -> Result<Vec<PartialObjectMeta<Secret>>, Fault> {
    let params = ListParams::default().labels(&format!("{SECRET_OF}={name}"));
    let found = secrets(client, namespace).list_metadata(&params).await;
    let doing = || format!("list the Secrets of ManagedResource {namespace}/{name}");
    Ok(found.map_err(|error| fault_of(error, &doing()))?.items)
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

fn resources(client: &Client, namespace: &str) -> Api<ManagedResource> {
    Api::namespaced(client.clone(), namespace)
}

#[cfg(test)]
mod tests {
    use api_resources::ManagedResourceStatus;
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        ConfigMap {
            metadata,
            ..ConfigMap::default()
        }
    }

    #[test]
    fn objects_of_a_shoot_are_written_as_gardeners_extensions_do() {
        let objects = ManagedObjects::in_shoot("extension-x", "provider-x")
            .object(&map("a"))
            .unwrap();
        let (secret, resource) = objects.make("shoot--a--b").unwrap();
        let name = secret.name_any();
        assert!(name.starts_with("managedresource-extension-x-"), "{name}");
        assert_eq!(secret.immutable, Some(true));
        assert_eq!(resource.spec.class, None);
        assert_eq!(resource.spec.secret_refs[0].name, name);
        assert_eq!(resource.spec.inject_labels[NO_CLEANUP], "true");
        assert_eq!(resource.spec.keep_objects, Some(false));
        assert_eq!(resource.labels()[ORIGIN], "provider-x");
        assert!(resource.annotations().values().any(|value| *value == name));
    }

    #[test]
    fn objects_of_the_seed_have_its_class_and_other_objects_another_secret() {
        let objects = |name| {
            ManagedObjects::in_seed("x", "p")
                .keep_objects(true)
                .object(&map(name))
                .unwrap()
        };
        let (first, resource) = objects("a").make("extension-p").unwrap();
        assert_eq!(resource.spec.class.as_deref(), Some("seed"));
        assert_eq!(resource.spec.keep_objects, Some(true));
        assert_eq!(resource.labels()[labels::ROLE], SEED_SYSTEM_COMPONENT);
        assert!(resource.spec.inject_labels.is_empty());
        assert_ne!(objects("b").make("extension-p").unwrap().0.name_any(), first.name_any());
        let (_, of_shoot) = objects("a").make("shoot--a--b").unwrap();
        assert!(
            !of_shoot.labels().contains_key(labels::ROLE),
            "care counts it for the shoot"
        );
    }

    #[test]
    fn only_what_is_applied_and_healthy_in_its_newest_form_is_healthy() {
        let mut resource = ManagedResource::default();
        resource.metadata.generation = Some(2);
        assert!(not_healthy(&resource).is_some(), "nothing is reported");
        let report = |generation, applied, healthy| {
            let condition = |type_, status| Condition::new(type_, status, "R", "m", Timestamp::UNIX_EPOCH);
            Some(ManagedResourceStatus {
                observed_generation: Some(generation),
                conditions: vec![
                    condition(condition::RESOURCES_APPLIED, applied),
                    condition(condition::RESOURCES_HEALTHY, healthy),
                ],
                ..ManagedResourceStatus::default()
            })
        };
        use ConditionStatus::{False, Progressing, True};
        for status in [
            report(1, True, True),
            report(2, Progressing, True),
            report(2, True, Progressing),
        ] {
            resource.status = status;
            assert!(not_healthy(&resource).is_some(), "{:?}", resource.status);
        }
        resource.status = report(2, True, False);
        assert_eq!(not_healthy(&resource).as_deref(), Some("R: m"));
        resource.status = report(2, True, True);
        assert_eq!(not_healthy(&resource), None);
    }

    #[test]
    fn only_secrets_older_than_the_one_in_use_are_superseded() {
        let secret = |name: &str, version: &str| -> PartialObjectMeta<Secret> {
            serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": version}})).unwrap()
        };
        let all = [secret("old", "9"), secret("used", "10"), secret("next", "11")];
        let superseded_by = |name: &str| {
            let mut resource = ManagedResource::default();
            resource.spec.secret_refs = vec![LocalObjectReference { name: name.to_owned() }];
            let older = superseded(&all, &resource);
            older.into_iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        assert_eq!(superseded_by("used"), ["old"]);
        assert!(superseded_by("lost").is_empty());
    }
}
