//! Keeps the policy in the seed by which only primary extensions write the main part of an extension object's status, and its
//! parameters: where the primary extensions are installed. Never looks at extension objects themselves.

mod primaries;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use api_core::v1::ControllerDeployment;
use api_core::v1beta1 as core;
use api_meta::{Fault, RawJson, names};
use base_client::{apply, fault_of};
use base_controller::{Cache, Change, Controller, Next, ObjectKey};
use components_seed::{
    EXTENSION_STATUS_POLICY, EXTENSION_STATUS_WRITERS, StatusWriters, extension_status_binding,
    extension_status_policy, extension_status_writers,
};
use futures::FutureExt;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, MANAGER};

use primaries::primaries;
pub(crate) use primaries::{Means, namespaces, primary_of};

/// The caches of what is kept, and what was written last. Both the controller and the installation of an extension write.
pub(crate) struct ExtensionStatus {
    policies: Cache<ValidatingAdmissionPolicy>,
    bindings: Cache<ValidatingAdmissionPolicyBinding>,
    writers: Cache<ConfigMap>,
    /// Held while the parameters are computed and written: what is computed later is newer.
    written: Mutex<Written>,
}

/// What was written last. A cache may be behind it.
#[derive(Default)]
struct Written {
    /// Our own user in the seed.
    user: Option<String>,
    parameters: Option<BTreeMap<String, String>>,
    policy: Option<Version>,
    binding: Option<Version>,
}

/// Uid and generation.
type Version = (Option<String>, Option<i64>);

impl ExtensionStatus {
    /// Starts caching.
    pub(crate) fn start(seed: &Client, stop: &CancellationToken) -> Self {
        let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
        let in_garden = Api::namespaced(seed.clone(), names::GARDEN_NAMESPACE);
        let policy = named(EXTENSION_STATUS_POLICY);
        Self {
            policies: Cache::start(Api::all(seed.clone()), policy.clone(), stop.clone()),
            bindings: Cache::start(Api::all(seed.clone()), policy, stop.clone()),
            writers: Cache::start(in_garden, named(EXTENSION_STATUS_WRITERS), stop.clone()),
            written: Mutex::default(),
        }
    }
}

/// Keeps policy and parameters until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let state = &context.extension_status;
    let ready = async {
        state.policies.ready().await;
        state.bindings.ready().await;
        state.writers.ready().await;
    };
    if stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    let seed = context.config.seed_name();
    let ours = seed.to_owned();
    let garden = &context.garden_caches;
    let controller = Controller::new("extension-status", garden.seeds.clone())
        .only(move |seed: &core::Seed| seed.name_any() == ours)
        // Nothing in the Seed itself matters.
        .when(|old, _| old.is_none())
        .watches(&state.policies, calls(seed, |_, _| false))
        .watches(&state.bindings, calls(seed, |_, _| false))
        .watches(&state.writers, calls(seed, |_, _| false))
        .watches(
            &garden.registrations,
            calls(seed, |old: &core::ControllerRegistration, new| {
                old.spec.resources == new.spec.resources
            }),
        )
        .watches(
            &garden.installations,
            calls(seed, |old, new| reported(old) == reported(new)),
        )
        .watches(
            &garden.deployments,
            calls(seed, |old: &ControllerDeployment, new| {
                old.helm.is_some() == new.helm.is_some()
            }),
        );
    let reconciling = {
        let context = context.clone();
        controller.run(stop, move |_| reconcile(context.clone()).boxed())
    };
    reconciling.await;
}

/// Calls for the Seed when an object comes, goes, or is not the `same` as before.
fn calls<K>(
    seed: &str,
    same: impl Fn(&K, &K) -> bool + Send + Sync + 'static,
) -> impl Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync + 'static {
    let seed = ObjectKey::cluster(seed);
    move |change| {
        let unchanged = (change.old.as_deref().zip(change.new())).is_some_and(|(old, new)| same(old, new));
        if unchanged { Vec::new() } else { vec![seed.clone()] }
    }
}

/// What an operator reports of an installation.
fn reported(installation: &core::ControllerInstallation) -> Option<&RawJson> {
    installation.status.as_ref()?.provider_status.as_ref()
}

async fn reconcile(context: Arc<Context>) -> Result<Next, Fault> {
    // Before the policy: a primary that works already is not refused anything.
    write_parameters(&context).await?;
    let state = &context.extension_status;
    let mut written = state.written.lock().await;
    let policy = extension_status_policy();
    written.policy = apply_changed(&context.seed, &state.policies, &policy, written.policy.take()).await?;
    let binding = extension_status_binding();
    written.binding = apply_changed(&context.seed, &state.bindings, &binding, written.binding.take()).await?;
    Ok(Next::Change)
}

/// Applies an object unless it is as it was after it was applied last.
async fn apply_changed<K>(
    seed: &Client,
    cache: &Cache<K>,
    wanted: &K,
    last: Option<Version>,
) -> Result<Option<Version>, Fault>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    let version = |object: &K| (object.uid(), object.meta().generation);
    let present = cache.get(&ObjectKey::of(wanted)).map(|present| version(&present));
    if last.is_some() && present == last {
        return Ok(last);
    }
    let applied = apply(&Api::all(seed.clone()), wanted, MANAGER).await?;
    Ok(Some(version(&applied)))
}

/// Writes where the primary extensions are installed, unless that is what is there. To be called before an extension starts: its
/// first write would be refused.
///
/// # Errors
/// What the seed's API server returns.
pub(crate) async fn write_parameters(context: &Context) -> Result<(), Fault> {
    let state = &context.extension_status;
    let mut written = state.written.lock().await;
    let gardenlet = match &written.user {
        Some(user) => user.clone(),
        None => written.user.insert(own_user(&context.seed).await?).clone(),
    };
    let wanted = extension_status_writers(&StatusWriters {
        gardenlet,
        namespaces: desired(context),
    });
    let data = wanted.data.clone().unwrap_or_default();
    let present = state.writers.get(&ObjectKey::of(&wanted));
    let is_there = present.is_some_and(|present| present.data.as_ref() == Some(&data));
    if is_there && written.parameters.as_ref().is_none_or(|last| *last == data) {
        written.parameters = Some(data);
        return Ok(());
    }
    let maps = context.in_seed::<ConfigMap>(names::GARDEN_NAMESPACE);
    let applied = apply(&maps, &wanted, MANAGER).await?;
    remove_foreign(&maps, &applied, &data).await?;
    written.parameters = Some(data);
    Ok(())
}

/// Removes keys that another writer has put beside ours: they would let others write.
async fn remove_foreign(
    maps: &Api<ConfigMap>,
    applied: &ConfigMap,
    ours: &BTreeMap<String, String>,
) -> Result<(), Fault> {
    let keys = applied.data.iter().flat_map(BTreeMap::keys);
    let foreign: serde_json::Map<String, Value> = keys
        .filter(|key| !ours.contains_key(*key))
        .map(|key| (key.clone(), Value::Null))
        .collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let patch = Patch::Merge(json!({"data": foreign}));
    maps.patch(&applied.name_any(), &PatchParams::default(), &patch)
        .await
        .map(drop)
        .map_err(|error| fault_of(error, &format!("patch ConfigMap {EXTENSION_STATUS_WRITERS}")))
}

fn desired(context: &Context) -> BTreeMap<(api_extensions::ExtensionKind, String), std::collections::BTreeSet<String>> {
    let caches = &context.garden_caches;
    let mut installations = caches.installations.list();
    installations.retain(|one| is_of_seed(one, context.config.seed_name()));
    primaries(&caches.registrations.list(), &installations, |one| means(context, one))
}

/// Whether an installation is one of this seed.
pub(crate) fn is_of_seed(installation: &core::ControllerInstallation, seed: &str) -> bool {
    let reference = installation.spec.seed_ref.as_ref();
    reference.and_then(|reference| reference.name.as_deref()) == Some(seed)
}

/// How an installation gets into the seed.
pub(crate) fn means(context: &Context, installation: &core::ControllerInstallation) -> Means {
    let name = installation
        .spec
        .deployment_ref
        .as_ref()
        .and_then(|one| one.name.as_deref());
    let deployments = &context.garden_caches.deployments;
    match name.and_then(|name| deployments.get(&ObjectKey::cluster(name))) {
        None => Means::Unknown,
        Some(deployment) if deployment.helm.is_some() => Means::Chart,
        Some(_) => Means::Operator,
    }
}

/// The user by which the seed's API server knows us.
async fn own_user(seed: &Client) -> Result<String, Fault> {
    let reviews: Api<SelfSubjectReview> = Api::all(seed.clone());
    let answer = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let answer = answer.map_err(|error| fault_of(error, "ask the seed for our own user"))?;
    let user = answer.status.and_then(|status| status.user_info?.username);
    Ok(user.unwrap_or_default())
}
