//! Emptying a shoot before it goes: what users left behind would keep machines, volumes and load balancers alive.
//! Rules of gardener/gardener v1.150 `pkg/gardenlet/operation/botanist/cleanup.go`.

mod draining;

use std::collections::BTreeSet;
use std::time::Duration;

use api_meta::Fault;
use api_meta::annotations::SHOOT_SKIP_CLEANUP;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use super::super::operation::Operation;
use draining::{Draining, Metadata};

/// Label of what is Gardener's own and goes with the control plane.
const NO_CLEANUP: &str = "shoot.gardener.cloud/no-cleanup";
/// Namespaces that every cluster has; they are emptied, not deleted.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The grace of webhooks: only the API server uses them.
const WEBHOOKS_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-webhooks-finalize-grace-period-seconds",
    default_seconds: 300,
};
/// The grace of custom resources and their definitions: users' operators may take down a whole system behind one.
const EXTENDED_APIS_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-extended-apis-finalize-grace-period-seconds",
    default_seconds: 3600,
};
/// The grace of everything else.
const KUBERNETES_RESOURCES_GRACE: Grace = Grace {
    annotation: "shoot.gardener.cloud/cleanup-kubernetes-resources-finalize-grace-period-seconds",
    default_seconds: 300,
};

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
    /// By which the shoot's owner sets another time.
    annotation: &'static str,
    default_seconds: u32,
}

impl Grace {
    /// # Errors
    /// A dependency fault where the annotation is not a number: nothing is removed on a guess, and it goes on once
    /// corrected.
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
    let draining = draining(op, shoot, WEBHOOKS_GRACE, until).await?;
    draining.drain(&kinds, &|_| true).await
}

/// Custom resources, then their definitions.
pub(crate) async fn extended_apis(op: &Operation, client: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let shoot = op.status.known().metadata;
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
    let draining = draining(op, client, EXTENDED_APIS_GRACE, until).await?;
    draining.drain(&kinds, &|_| true).await?;
    let own = resource((
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ));
    draining.drain(&[own], &|_| true).await
}

/// Workload, services, volumes and namespaces of users.
pub(crate) async fn kubernetes_resources(op: &Operation, client: &Client, until: Option<Instant>) -> Result<(), Fault> {
    let draining = draining(op, client, KUBERNETES_RESOURCES_GRACE, until).await?;
    let namespace = resource(("", "v1", "Namespace", "namespaces"));
    let users = |object: &Metadata| !SYSTEM_NAMESPACES.contains(&object.name_any().as_str());
    // Namespaces first: what is in them goes by itself; the rest is in the system's namespaces.
    draining.request(&namespace, &users).await?;
    let kinds: Vec<ApiResource> = KINDS.map(resource).into();
    draining
        .drain(&kinds, &|object| {
            // The API server keeps this one alive itself.
            !(object.namespace().as_deref() == Some("default") && object.name_any() == "kubernetes")
        })
        .await?;
    draining.drain(&[namespace], &users).await?;
    let volumes = resource(("", "v1", "PersistentVolume", "persistentvolumes"));
    let retained = retained_volumes(client).await?;
    draining
        .drain(&[volumes], &|volume| !retained.contains(&volume.name_any()))
        .await
}

/// The names of the volumes of claims that are Gardener's own. A volume stays with its claim: one that is deleted is
/// provisioned again.
async fn retained_volumes(client: &Client) -> Result<BTreeSet<String>, Fault> {
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    let mut retained = BTreeSet::new();
    let mut unbound = BTreeSet::new();
    for claim in base_client::list(&claims, &format!("{NO_CLEANUP}=true")).await? {
        match claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()) {
            Some(volume) => {
                retained.insert(volume);
            }
            None => {
                unbound.insert((claim.namespace(), claim.name_any()));
            }
        }
    }
    if unbound.is_empty() {
        return Ok(retained);
    }
    // A volume names its claim before the claim names the volume.
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    for volume in base_client::list(&volumes, "").await? {
        let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
        let place = claim.map(|claim| (claim.namespace.clone(), claim.name.clone().unwrap_or_default()));
        if place.is_some_and(|place| unbound.contains(&place)) {
            retained.insert(volume.name_any());
        }
    }
    Ok(retained)
}

async fn draining<'o>(
    op: &'o Operation,
    shoot: &'o Client,
    grace: Grace,
    until: Option<Instant>,
) -> Result<Draining<'o>, Fault> {
    let seconds = grace.seconds(&op.status.known().metadata)?;
    Ok(Draining {
        op,
        shoot,
        grace: Duration::from_secs(seconds.into()),
        annotation: grace.annotation,
        until,
    })
}
