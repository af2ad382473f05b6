//! The shoot's namespace in the seed, and what is copied into it from the garden.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use api_core::v1beta1 as core;
use api_meta::{Fault, annotations, labels, names};
use base_client::{apply, delete as delete_object, delete_and_wait, get, list};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::super::validated::ValidatedShoot;
use crate::context::MANAGER;

/// With two, a majority may be lost with one of them.
const ZONES_TO_SURVIVE_ONE: usize = 3;

/// Label of copies, so that those no longer referred to are found.
const REFERENCED: (&str, &str) = ("gardener.cloud/role", "referenced-resource");

/// Applies the namespace with the labels by which extensions' webhooks select it (contract F.8).
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let shoot = &op.shoot;
    let api = Api::<Namespace>::all(op.context.seed.clone());
    let present = get(&api, &shoot.namespace).await?;
    if let Some(present) = &present {
        let owner = present.annotations().get(annotations::SHOOT_UID);
        if owner.is_some_and(|owner| *owner != shoot.uid) {
            return Err(
                Fault::dependency(format!("namespace {} belongs to another shoot", shoot.namespace))
                    .hint("wait until the shoot that had this name before is gone from the seed"),
            );
        }
    }
    let chosen = present
        .as_ref()
        .and_then(|present| present.annotations().get(annotations::HIGH_AVAILABILITY_ZONES));
    let zones = zones(
        &shoot.spec,
        &op.observed.seed.spec.provider.zones,
        chosen.map_or("", String::as_str),
        op.context.entropy.next_u64(),
    );
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(shoot.namespace.clone()),
            labels: Some(marks(shoot, &op.observed.seed)),
            annotations: Some(notes(shoot, &zones)),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    apply(&api, &namespace, MANAGER).await.map(drop)
}

/// The namespace's labels.
fn marks(shoot: &ValidatedShoot, seed: &core::Seed) -> BTreeMap<String, String> {
    let own = &seed.spec.provider.type_;
    let backup = seed.spec.backup.as_ref().map_or(own, |backup| &backup.provider);
    let mut marks = BTreeMap::from([
        (labels::ROLE.to_owned(), labels::role::SHOOT.to_owned()),
        (labels::SEED_PROVIDER.to_owned(), own.clone()),
        (labels::SHOOT_PROVIDER.to_owned(), shoot.provider.clone()),
        (labels::BACKUP_PROVIDER.to_owned(), backup.clone()),
        (labels::POD_SECURITY_ENFORCE.to_owned(), "privileged".to_owned()),
        (labels::HIGH_AVAILABILITY_CONSIDER.to_owned(), "true".to_owned()),
    ]);
    if let Some(network) = &shoot.network {
        marks.insert(labels::NETWORKING_PROVIDER.to_owned(), network.clone());
    }
    for extension in &shoot.extensions {
        marks.insert(
            format!("{}{}", labels::EXTENSION_PREFIX, extension.type_),
            "true".to_owned(),
        );
    }
    marks
}

/// The namespace's annotations.
fn notes(shoot: &ValidatedShoot, zones: &[String]) -> BTreeMap<String, String> {
    let tolerance = failure_tolerance(&shoot.spec);
    let mut notes = BTreeMap::from([
        (annotations::SHOOT_UID.to_owned(), shoot.uid.clone()),
        (
            annotations::HIGH_AVAILABILITY_FAILURE_TOLERANCE.to_owned(),
            tolerance.as_ref().map(ToString::to_string).unwrap_or_default(),
        ),
    ]);
    if !zones.is_empty() {
        notes.insert(annotations::HIGH_AVAILABILITY_ZONES.to_owned(), zones.join(","));
    }
    notes
}

fn failure_tolerance(spec: &core::ShootSpec) -> Option<core::FailureToleranceType> {
    let wanted = spec.control_plane.as_ref()?.high_availability.as_ref()?;
    Some(wanted.failure_tolerance.type_.clone())
}

/// The zones of the control plane: three where it is to survive the failure of one, else one. Volumes are bound to their
/// zones, so that one once chosen stays; then come zones that the shoot's own nodes are in, then others from a random
/// one on.
fn zones(spec: &core::ShootSpec, offered: &[String], chosen: &str, random: u64) -> Vec<String> {
    let wanted = match failure_tolerance(spec) {
        Some(core::FailureToleranceType::Zone) => ZONES_TO_SURVIVE_ONE,
        _ => 1,
    };
    let explicit = spec.control_plane.as_ref().map(|plane| plane.zones.as_slice());
    let mut candidates = explicit.filter(|zones| !zones.is_empty()).unwrap_or(offered).to_vec();
    if let Some(start) = usize::try_from(random)
        .unwrap_or_default()
        .checked_rem(candidates.len())
    {
        candidates.rotate_left(start);
    }
    let nodes: BTreeSet<&String> = spec.provider.workers.iter().flat_map(|pool| &pool.zones).collect();
    candidates.sort_by_key(|zone| !nodes.contains(zone));
    let before = chosen.split(',').filter(|zone| !zone.is_empty());
    let mut all: Vec<String> = before.map(str::to_owned).collect();
    for zone in candidates {
        if all.len() < wanted && !all.contains(&zone) {
            all.push(zone);
        }
    }
    all.sort();
    all
}

/// Returns the cluster its identity, once.
pub(crate) async fn ensure_cluster_identity(op: &Operation) -> Result<(), Fault> {
    let identity = op.shoot.cluster_identity(&op.context.config.garden_identity);
    let set = |status: &mut core::ShootStatus| {
        status.cluster_identity.get_or_insert_with(|| identity.clone());
    };
    op.status.update(set).await.map(drop)
}

/// Copies the cloud's credentials.
pub(crate) async fn deploy_cloud_provider_secret(op: &Operation) -> Result<(), Fault> {
    let Some(credentials) = &op.observed.credentials else {
        return Ok(());
    };
    let purpose = BTreeMap::from([(labels::PURPOSE.to_owned(), names::CLOUD_PROVIDER_SECRET.to_owned())]);
    copy_secret(op, credentials, names::CLOUD_PROVIDER_SECRET, purpose).await
}

/// Copies a Secret of the garden into the shoot's namespace.
pub(crate) async fn copy_secret(
    op: &Operation,
    from: &Secret,
    name: &str,
    labels: BTreeMap<String, String>,
) -> Result<(), Fault> {
    let copy = Secret {
        metadata: of_copy(op, name, labels),
        data: from.data.clone(),
        type_: from.type_.clone(),
        ..Secret::default()
    };
    apply(&op.here::<Secret>(), &copy, MANAGER).await.map(drop)
}

fn of_copy(op: &Operation, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(op.namespace().to_owned()),
        labels: (!labels.is_empty()).then_some(labels),
        ..ObjectMeta::default()
    }
}

/// Copies what `spec.resources` refers to, as `ref-<name>`, and deletes copies of what it no longer refers to.
pub(crate) async fn deploy_referenced_resources(op: &Operation) -> Result<(), Fault> {
    // What was copied before serves a cluster that is being deleted: its references cannot be changed any more.
    let going = op.status.known().metadata.deletion_timestamp.is_some();
    let mark = || BTreeMap::from([(REFERENCED.0.to_owned(), REFERENCED.1.to_owned())]);
    let mut wanted = BTreeSet::new();
    for resource in &op.shoot.spec.resources {
        let reference = &resource.resource_ref;
        let name = format!("{}{}", names::REFERENCED_RESOURCES_PREFIX, reference.name);
        wanted.insert((reference.kind.clone(), name.clone()));
        let missing = || {
            // Not the user's to change in the Shoot: it is tried again, and goes on once the object is back.
            Fault::dependency(format!(
                "spec.resources: {} {}/{} does not exist",
                reference.kind, op.shoot.garden_namespace, reference.name
            ))
            .hint("create the object, or take it out of spec.resources")
        };
        match reference.kind.as_str() {
            "Secret" => {
                if let Some(from) = referenced::<Secret>(op, &reference.name, going, missing).await? {
                    copy_secret(op, &from, &name, mark()).await?;
                }
            }
            "ConfigMap" => {
                if let Some(from) = referenced::<ConfigMap>(op, &reference.name, going, missing).await? {
                    copy_config_map(op, from, &name, mark()).await?;
                }
            }
            kind => {
                return Err(Fault::user(format!("spec.resources: kind {kind} is not supported"))
                    .hint("refer to a Secret or a ConfigMap"));
            }
        }
    }
    delete_copies(op, &wanted).await
}

/// Kinds that are copied.
trait Copied: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug {}

impl<K> Copied for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

/// What a Shoot refers to; none, rather than a fault, when it is missing for one that is going.
async fn referenced<K: Copied>(
    op: &Operation,
    name: &str,
    going: bool,
    missing: impl FnOnce() -> Fault,
) -> Result<Option<K>, Fault> {
    let api: Api<K> = op.context.in_garden(&op.shoot.garden_namespace);
    match get(&api, name).await? {
        None if !going => Err(missing()),
        found => Ok(found),
    }
}

async fn copy_config_map(
    op: &Operation,
    from: ConfigMap,
    name: &str,
    labels: BTreeMap<String, String>,
) -> Result<(), Fault> {
    let copy = ConfigMap {
        metadata: of_copy(op, name, labels),
        data: from.data,
        binary_data: from.binary_data,
        immutable: None,
    };
    apply(&op.here::<ConfigMap>(), &copy, MANAGER).await.map(drop)
}

/// Takes all copies away.
pub(crate) async fn delete_referenced_resources(op: &Operation) -> Result<(), Fault> {
    delete_copies(op, &BTreeSet::new()).await
}

/// Takes away all copies but those `wanted`, by kind and name.
async fn delete_copies(op: &Operation, wanted: &BTreeSet<(String, String)>) -> Result<(), Fault> {
    delete_copies_of::<Secret>(op, wanted).await?;
    delete_copies_of::<ConfigMap>(op, wanted).await
}

async fn delete_copies_of<K: Copied>(op: &Operation, wanted: &BTreeSet<(String, String)>) -> Result<(), Fault> {
    let (api, kind) = (op.here::<K>(), K::kind(&()).into_owned());
    for copy in list(&api, &format!("{}={}", REFERENCED.0, REFERENCED.1)).await? {
        let name = copy.name_any();
        if !wanted.contains(&(kind.clone(), name.clone())) {
            delete_object(&api, &name).await?;
        }
    }
    Ok(())
}

/// Requests the deletion of the namespace.
pub(crate) async fn delete(op: &Operation) -> Result<(), Fault> {
    delete_object(&Api::<Namespace>::all(op.context.seed.clone()), op.namespace()).await
}

/// Waits until it is gone.
pub(crate) async fn wait_deleted(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let api = Api::<Namespace>::all(op.context.seed.clone());
    delete_and_wait(&api, op.namespace(), left(until))
        .await
        .map_err(Fault::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn chosen(spec: Value, before: &str, random: u64) -> String {
        let offered = ["a", "b", "c", "d"].map(str::to_owned);
        let spec = serde_json::from_value(spec).unwrap();
        zones(&spec, &offered, before, random).join(",")
    }

    #[test]
    fn a_control_plane_has_one_zone_or_three_and_keeps_those_it_has() {
        let zonal = json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "zone"}}}});
        assert_eq!(chosen(json!({}), "", 1), "b");
        assert_eq!(chosen(json!({}), "", u64::MAX - 1), "c");
        assert_eq!(chosen(json!({}), "d", 1), "d");
        assert_eq!(chosen(zonal.clone(), "d", 1), "b,c,d");
        assert_eq!(chosen(zonal, "a,b,c", 3), "a,b,c");
        assert_eq!(chosen(json!({}), "a,b,c", 3), "a,b,c", "volumes are there");
        assert_eq!(chosen(json!({"controlPlane": {"zones": ["z"]}}), "", 3), "z");
        let near = json!({"provider": {"workers": [{"name": "p", "zones": ["d"]}]}});
        assert_eq!(chosen(near, "", 0), "d");
        assert!(zones(&core::ShootSpec::default(), &[], "", 7).is_empty());
    }
}
