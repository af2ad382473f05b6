//! Hosted components, each by the same few functions: what a component consists of, how many pods it has and what belongs to
//! an earlier version of it stands in `components-hosted`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use api_meta::Fault;
use base_client::{apply, delete, delete_and_wait, fault_of, get, is_missing, list};
use base_controller::Cache;
use components_hosted::{
    Component, ComponentId, HostedObject, Image, Issued, ObjectKind, Power, Reference, Removal, ScaleFacts, Workload,
    bears_labels_of, build, component, obsolete, removal, shoot_access_secret_name,
};
use control_plane_readiness::{Replicated, not_at_zero, not_rolled_out};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::super::managed;
use super::super::operation::{Operation, left};
use super::secrets::{ShootSecrets, deploy_kubeconfig};
use super::shoot_access;
use crate::context::{MANAGER, SeedCaches};

/// A workload of which all are cached.
trait Cached: Replicated {
    /// The cache of all of them.
    fn cache(caches: &SeedCaches) -> &Cache<Self>;
}

impl Cached for Deployment {
    fn cache(caches: &SeedCaches) -> &Cache<Self> {
        &caches.deployments
    }
}

impl Cached for StatefulSet {
    fn cache(caches: &SeedCaches) -> &Cache<Self> {
        &caches.stateful_sets
    }
}

/// Applies everything that a component consists of, and deletes what an earlier version of it had besides. Returns the
/// generation of its workload.
pub(crate) async fn deploy(op: &Operation, secrets: &ShootSecrets, id: ComponentId) -> Result<i64, Fault> {
    let component = component(id);
    let cluster = op.hosted_cluster();
    if id == ComponentId::ResourceManager && op.power != Power::Hibernated {
        // It needs its rights in the shoot to become ready.
        shoot_access::deploy(op, secrets).await?;
    }
    let rights = component.shoot_objects();
    if !rights.is_empty() {
        managed::deploy(op, &format!("shoot-core-{}", component.name()), &rights).await?;
    }
    let kubeconfig = match component.client() {
        Some(client) => Some(deploy_kubeconfig(op, secrets, component.name(), &client).await?),
        None => None,
    };
    let present = self::present(op, component).await?;
    let facts = ScaleFacts {
        power: op.power,
        present: match &present {
            Some(present) => Some(present.replicas),
            // It is new in a shoot that is there, and runs as what it works beside.
            None if id.leader() != id => self::present(op, id.leader().component())
                .await?
                .map(|one| one.replicas),
            None => None,
        },
        highly_available: false,
        migrating: false,
    };
    let image = image(op, component.name(), component.image());
    let issued = Issued::new(image, component.scale(&facts), secrets.all(), kubeconfig);
    let objects = build(component, &cluster, &issued).map_err(|missing| Fault::bug(missing).hint("report it"))?;
    let Some((workload, others)) = objects.split_last() else {
        return Err(Fault::bug(format!("component {} has no objects", component.name())));
    };
    for object in others {
        apply_object(op, object).await?;
    }
    // Before the workload is written: it lists what there was, and would no longer if we were killed in between.
    for reference in obsolete(present.as_ref().map(|present| &present.annotations), &objects) {
        delete_object(op, &reference, Some(component)).await?;
    }
    apply_object(op, workload).await
}

/// The full reference of an image of the component `name`.
pub(crate) fn image(op: &Operation, name: &str, image: Image) -> String {
    let (images, version) = (&op.context.config.images, &op.shoot.version);
    match image {
        Image::Kubernetes(name) => images.kubernetes(name, version),
        Image::Own(name) => images.own(name, version),
        Image::Program => images.program(name, Some(version)),
        Image::Upstream { name, tag } => images.tagged(name, tag, version),
    }
}

/// A component's workload, as it is now.
struct Present {
    replicas: i32,
    annotations: BTreeMap<String, String>,
}

async fn present(op: &Operation, component: &dyn Component) -> Result<Option<Present>, Fault> {
    match component.workload() {
        Workload::Deployment => present_as::<Deployment>(op, component.name()).await,
        Workload::StatefulSet => present_as::<StatefulSet>(op, component.name()).await,
    }
}

/// Not by the cache, which may be behind what was scaled or written a moment ago.
async fn present_as<K: Replicated>(op: &Operation, name: &str) -> Result<Option<Present>, Fault> {
    let found = get(&op.here::<K>(), name).await?;
    Ok(found.map(|found| Present {
        replicas: found.wanted(),
        annotations: found.meta().annotations.clone().unwrap_or_default(),
    }))
}

/// Applies one object; its generation.
pub(crate) async fn apply_object(op: &Operation, object: &HostedObject) -> Result<i64, Fault> {
    let generation = match object {
        HostedObject::Deployment(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::StatefulSet(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::Service(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::ServiceAccount(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::Role(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::RoleBinding(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::ConfigMap(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
        HostedObject::PodDisruptionBudget(one) => apply(&op.here(), one.as_ref(), MANAGER).await?.metadata.generation,
    };
    Ok(generation.unwrap_or_default())
}

/// Requests the deletion of one object; of one that is `listed_by` a component, and not built for it, only if it bears that
/// component's labels.
pub(crate) async fn delete_object(
    op: &Operation,
    reference: &Reference,
    listed_by: Option<&dyn Component>,
) -> Result<(), Fault> {
    let name = &reference.name;
    match reference.kind {
        ObjectKind::Deployment => delete_one(&op.here::<Deployment>(), name, listed_by).await,
        ObjectKind::StatefulSet => delete_one(&op.here::<StatefulSet>(), name, listed_by).await,
        ObjectKind::Service => delete_one(&op.here::<Service>(), name, listed_by).await,
        ObjectKind::ServiceAccount => delete_one(&op.here::<ServiceAccount>(), name, listed_by).await,
        ObjectKind::Role => delete_one(&op.here::<Role>(), name, listed_by).await,
        ObjectKind::RoleBinding => delete_one(&op.here::<RoleBinding>(), name, listed_by).await,
        ObjectKind::ConfigMap => delete_one(&op.here::<ConfigMap>(), name, listed_by).await,
        ObjectKind::PodDisruptionBudget => delete_one(&op.here::<PodDisruptionBudget>(), name, listed_by).await,
    }
}

async fn delete_one<K>(api: &Api<K>, name: &str, listed_by: Option<&dyn Component>) -> Result<(), Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match listed_by {
        Some(component) => delete_own(api, name, component).await,
        None => delete(api, name).await,
    }
}

/// Deletes an object that only an annotation on a component's workload names, if it was made for that component.
async fn delete_own<K>(api: &Api<K>, name: &str, component: &dyn Component) -> Result<(), Fault>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let Some(present) = get(api, name).await? else {
        return Ok(());
    };
    if !bears_labels_of(component, present.meta().labels.as_ref()) {
        let (kind, component) = (K::kind(&()), component.name());
        tracing::warn!("{kind} {name} is listed as a part of {component}, but was not made for it: it stays");
        return Ok(());
    }
    let as_read = DeleteParams::default().preconditions(Preconditions {
        uid: present.meta().uid.clone(),
        resource_version: None,
    });
    match api.delete(name, &as_read).await {
        Err(error) if !is_missing(&error) => Err(fault_of(error, &format!("delete {} {name}", K::kind(&())))),
        _ => Ok(()),
    }
}

/// Waits until a component runs as it was written in this generation of its workload.
pub(crate) async fn wait(op: &Operation, id: ComponentId, written: i64, until: Option<Instant>) -> Result<(), Fault> {
    match component(id).workload() {
        Workload::Deployment => {
            wait_as::<Deployment>(op, component(id).name(), until, |found| not_rolled_out(found, written)).await
        }
        Workload::StatefulSet => {
            wait_as::<StatefulSet>(op, component(id).name(), until, |found| not_rolled_out(found, written)).await
        }
    }
}

async fn wait_as<K: Cached>(
    op: &Operation,
    name: &str,
    until: Option<Instant>,
    why_not: impl Fn(&K) -> Option<String>,
) -> Result<(), Fault> {
    op.wait_for(K::cache(&op.context.seed_caches), name, until, why_not)
        .await
}

/// Requests the deletion of everything that a component consists of, and of what an earlier version of it had besides.
pub(crate) async fn destroy(op: &Operation, id: ComponentId) -> Result<(), Fault> {
    let (component, name) = (component(id), component(id).name());
    let present = match component.workload() {
        Workload::Deployment => annotations::<Deployment>(op, name).await?,
        Workload::StatefulSet => annotations::<StatefulSet>(op, name).await?,
    };
    let removal = removal(component, &op.hosted_cluster(), present.as_ref());
    let Removal { listed, built } = removal.map_err(|missing| Fault::bug(missing).hint("report it"))?;
    for reference in listed {
        delete_object(op, &reference, Some(component)).await?;
    }
    for reference in built {
        delete_object(op, &reference, None).await?;
    }
    if component.client().is_some() {
        delete(&op.here::<Secret>(), &shoot_access_secret_name(name)).await?;
    }
    Ok(())
}

async fn annotations<K: Replicated>(op: &Operation, name: &str) -> Result<Option<BTreeMap<String, String>>, Fault> {
    let found = get(&op.here::<K>(), name).await?;
    Ok(found.and_then(|found| found.meta().annotations.clone()))
}

/// Waits until a component's workload is gone, then deletes its volumes' claims.
pub(crate) async fn wait_destroyed(op: &Operation, id: ComponentId, until: Option<Instant>) -> Result<(), Fault> {
    let name = component(id).name();
    match component(id).workload() {
        Workload::Deployment => delete_and_wait(&op.here::<Deployment>(), name, left(until)).await?,
        Workload::StatefulSet => {
            delete_and_wait(&op.here::<StatefulSet>(), name, left(until)).await?;
            delete_claims(op, name).await?;
        }
    }
    Ok(())
}

/// The claims of a StatefulSet whose template has its name: Kubernetes joins both with a number.
async fn delete_claims(op: &Operation, name: &str) -> Result<(), Fault> {
    let (claims, prefix) = (op.here::<PersistentVolumeClaim>(), format!("{name}-{name}-"));
    for claim in list(&claims, "").await? {
        if claim.name_any().starts_with(&prefix) {
            delete(&claims, &claim.name_any()).await?;
        }
    }
    Ok(())
}

/// Scales a component to zero and waits until none of its pods is left; fine where there is no such component.
pub(crate) async fn scale_to_zero(op: &Operation, id: ComponentId, until: Option<Instant>) -> Result<(), Fault> {
    match component(id).workload() {
        Workload::Deployment => scale_to_zero_as::<Deployment>(op, component(id).name(), until).await,
        Workload::StatefulSet => scale_to_zero_as::<StatefulSet>(op, component(id).name(), until).await,
    }
}

async fn scale_to_zero_as<K: Cached>(op: &Operation, name: &str, until: Option<Instant>) -> Result<(), Fault> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    let written = match op.here::<K>().patch(name, &params, &patch).await {
        Ok(written) => written.meta().generation.unwrap_or_default(),
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(fault_of(error, &format!("scale {} {name} to zero", K::kind(&())))),
    };
    wait_as::<K>(op, name, until, |found| not_at_zero(found, written)).await
}
