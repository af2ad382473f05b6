//! Emptying a shoot before it goes: what users left behind would keep machines, volumes and load balancers alive.
//! Rules of gardener/gardener v1.150 `pkg/gardenlet/operation/botanist/cleanup.go`.

use std::collections::BTreeSet;

use api_meta::annotations::SHOOT_SKIP_CLEANUP;
use api_meta::{ErrorCode, Fault};
use base_client::{fault_of, is_missing, some_of};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::super::operation::{Operation, left};

/// Label of what is Gardener's own and goes with the control plane.
const NO_CLEANUP: &str = "shoot.gardener.cloud/no-cleanup";
/// Namespaces that every cluster has; they are emptied, not deleted.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Of webhooks: nobody but the API server works with them.
const WEBHOOKS_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds",
    default_seconds: 300,
};
/// Of custom resources and their definitions: users' operators may take down a whole system behind one.
const EXTENDED_APIS_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds",
    default_seconds: 3600,
};
/// Of everything else.
const KUBERNETES_RESOURCES_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds",
    default_seconds: 300,
};
/// Pause between looks at what is left: kinds are many and unknown, so nothing is watched here.
const LOOK_PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// What is deleted in every namespace, owners before what they own.
const KINDS: [(&str, &str, &str, &str); 11] = [
    ("batch", "v1", "CronJob", "cronjobs"),
    ("batch", "v1", "Job", "jobs"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses"),
    ("", "v1", "Service", "services"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
];

const WEBHOOKS: [(&str, &str, &str, &str); 2] = [
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
];

/// How long after the request to go finalizers of users are left to those who set them; then they are removed. Names
/// and defaults are upstream's.
#[derive(Clone, Copy)]
struct Grace {
    /// By which the shoot's owner says otherwise.
    annotation: &'static str,
    default_seconds: u32,
}

impl Grace {
    /// # Errors
    /// A dependency fault where the annotation says no number: nothing is removed by a guess, and it goes on once mended.
    fn seconds(self, shoot: &ObjectMeta) -> Result<u32, Fault> {
        let Some(value) = annotation(shoot, self.annotation) else {
            return Ok(self.default_seconds);
        };
        value.parse().map_err(|_| {
            Fault::dependency(format!(
                "annotation {}: invalid value {value:?}: allowed is a number of seconds from 0 to {}",
                self.annotation,
                u32::MAX
            ))
            .hint("correct the annotation of the shoot, or remove it")
        })
    }
}

fn annotation<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m String> {
    metadata.annotations.as_ref()?.get(key)
}

fn resource((group, version, kind, plural): (&str, &str, &str, &str)) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Webhooks of users would refuse what comes next.
pub(crate) async fn webhooks(op: &Operation, shoot: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let kinds: Vec<ApiResource> = WEBHOOKS.map(resource).into();
    empty(op, shoot, &kinds, WEBHOOKS_GRACE, until, |_| true).await
}

/// Custom resources, then their definitions.
pub(crate) async fn extended_apis(op: &Operation, client: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let shoot = op.status.known().await.metadata;
    if annotation(&shoot, SHOOT_SKIP_CLEANUP).is_some_and(|value| value == "true") {
        return Ok(());
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = base_client::list(&api, &format!("{NO_CLEANUP}!=true")).await?;
    let kinds: Vec<ApiResource> = definitions
        .iter()
        .filter_map(|definition| {
            let version = definition.spec.versions.iter().find(|version| version.served)?;
            let names = &definition.spec.names;
            Some(resource((
                &definition.spec.group,
                &version.name,
                &names.kind,
                &names.plural,
            )))
        })
        .collect();
    empty(op, client, &kinds, EXTENDED_APIS_GRACE, until, |_| true).await?;
    let own = resource((
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    empty(op, client, &[own], EXTENDED_APIS_GRACE, until, |_| true).await
}

/// Workload, services, volumes and namespaces of users.
pub(crate) async fn kubernetes_resources(op: &Operation, client: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let namespace = resource(("", "v1", "Namespace", "namespaces"));
    let users = |object: &DynamicObject| !SYSTEM_NAMESPACES.contains(&object.name_any().as_str());
    let kinds: Vec<ApiResource> = KINDS.map(resource).into();
    // Namespaces first: what is in them goes by itself; the rest is in the system's namespaces.
    request_deletion(client, &namespace, &users).await?;
    empty(op, client, &kinds, KUBERNETES_RESOURCES_GRACE, until, |object| {
        // The API server keeps this one alive itself.
        !(object.namespace().as_deref() == Some("default") && object.name_any() == "kubernetes")
    })
    .await?;
    empty(op, client, &[namespace], KUBERNETES_RESOURCES_GRACE, until, users).await?;
    let volumes = resource(("", "v1", "PersistentVolume", "persistentvolumes"));
    let kept = kept_claims(client).await?;
    empty(op, client, &[volumes], KUBERNETES_RESOURCES_GRACE, until, |volume| {
        !claim_of(volume).is_some_and(|claim| kept.contains(&claim))
    })
    .await
}

/// Namespace and name of each claim that is Gardener's own. Its volume stays with it: one that is deleted is made again.
async fn kept_claims(client: &Client) -> Result<BTreeSet<(String, String)>, Fault> {
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let own = ListParams::default().labels(&format!("{NO_CLEANUP}=true"));
    let listed = claims.list_metadata(&own).await;
    let listed = listed.map_err(|error| fault_of(error, "list persistentvolumeclaims in the shoot"))?;
    let place = |claim: PartialObjectMeta<_>| (claim.namespace().unwrap_or_default(), claim.name_any());
    Ok(listed.items.into_iter().map(place).collect())
}

/// Namespace and name of the claim that a volume is for.
fn claim_of(volume: &DynamicObject) -> Option<(String, String)> {
    let claim = volume.data.pointer("/spec/claimRef")?;
    let text = |field: &str| claim[field].as_str().map(str::to_owned);
    Some((text("namespace")?, text("name")?))
}

/// Deletes all objects of these kinds and waits until none is left.
async fn empty(
    op: &Operation,
    client: &Client,
    kinds: &[ApiResource],
    grace: Grace,
    until: Option<Instant>,
    which: impl Fn(&DynamicObject) -> bool + Send + Sync,
) -> Result<(), Fault> {
    let grace_seconds = grace.seconds(&op.status.known().await.metadata)?;
    loop {
        let now = op.context.clock.now();
        let mut remaining = Vec::new();
        for kind in kinds {
            for object in request_deletion(client, kind, &which).await? {
                // By the object's own time: every try of this task, and every gardenlet, counts from the same.
                let asked = object.metadata.deletion_timestamp.as_ref();
                let waited = asked.map(|asked| now.duration_since(asked.0).as_secs());
                if waited.is_some_and(|seconds| seconds >= i64::from(grace_seconds)) {
                    finalize(client, kind, &object).await?;
                }
                let place = object
                    .namespace()
                    .map(|namespace| format!("{namespace}/"))
                    .unwrap_or_default();
                remaining.push(format!("{} {place}{}", kind.kind, object.name_any()));
            }
        }
        if remaining.is_empty() {
            return Ok(());
        }
        if left(until) < LOOK_PAUSE {
            return Err(Fault::dependency(format!(
                "objects in the shoot are still there: {}",
                some_of(remaining.iter())
            ))
            .code(ErrorCode::CleanupClusterResources)
            .hint(format!(
                "look at the finalizers of the named objects in the shoot; they are removed {grace_seconds}s \
                         after the request to delete (annotation {} of the shoot)",
                grace.annotation
            )));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

fn api_of(client: &Client, kind: &ApiResource, object: &DynamicObject) -> Api<DynamicObject> {
    match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, kind),
        None => Api::all_with(client.clone(), kind),
    }
}

/// Asks for the deletion of all objects that are not ours, and gives what is there.
async fn request_deletion(
    client: &Client,
    kind: &ApiResource,
    which: &(impl Fn(&DynamicObject) -> bool + Send + Sync),
) -> Result<Vec<DynamicObject>, Fault> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let listed = all
        .list(&ListParams::default().labels(&format!("{NO_CLEANUP}!=true")))
        .await;
    let objects = match listed {
        Ok(list) => list.items,
        // The kind does not exist (any more): nothing of it is left.
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(fault_of(error, &format!("list {} in the shoot", kind.plural))),
    };
    let mut present = Vec::new();
    for object in objects.into_iter().filter(|object| which(object)) {
        if object.metadata.deletion_timestamp.is_none() {
            let params = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteParams::default()
            };
            match api_of(client, kind, &object).delete(&object.name_any(), &params).await {
                Ok(_) => {}
                Err(error) if is_missing(&error) => continue,
                Err(error) => return Err(fault_of(error, &format!("delete {} {}", kind.kind, object.name_any()))),
            }
        }
        present.push(object);
    }
    Ok(present)
}

/// Removes the finalizers of an object whose time is up.
async fn finalize(client: &Client, kind: &ApiResource, object: &DynamicObject) -> Result<(), Fault> {
    if object.finalizers().is_empty() {
        return Ok(());
    }
    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    match api_of(client, kind, object)
        .patch(&object.name_any(), &PatchParams::default(), &none)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(fault_of(
            error,
            &format!("remove finalizers of {} {}", kind.kind, object.name_any()),
        )),
    }
}
