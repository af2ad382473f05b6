//! Which installations a seed shall have. Pure. One thing that is missing holds nothing else back: it is a problem
//! of those who need it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_core::v1beta1::{
    BackupBucket, ControllerDeployment, ControllerDeploymentPolicy, ControllerInstallation, ControllerInstallationSpec,
    ControllerRegistration, Seed,
};
use api_extensions::ExtensionKind;
use api_meta::conditions::installation::REQUIRED;
use api_meta::{Condition, ConditionStatus, Kind, ObjectReference, annotations, labels};
use api_rules::{KindType, is_responsible, required_types_for_seed};
use base_controller::ObjectKey;
use kube::core::{Selector, SelectorExt};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::hash::{Hashed, hash};
use super::observe::Seen;

/// Characters after the registration's name in the name of an installation.
const SUFFIX_LENGTH: usize = 5;

/// Who needs something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needer {
    /// The seed itself.
    Seed,
    /// A backup bucket, or the backup entries in one.
    Backup(String),
    /// A shoot.
    Shoot(ObjectKey),
}

/// What cannot be done, and for which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No registration is responsible for a kind and type.
    NotRegistered {
        wanted: KindType,
        needed_by: BTreeSet<Needer>,
    },
    /// The registration names a ControllerDeployment that is not there.
    NoDeployment { registration: String, deployment: String },
    /// A registration went while extension objects still need its installation.
    NoRegistration { installation: String, registration: String },
    /// The seed selector of a registration cannot be read.
    BadSelector { registration: String, error: String },
}

/// What to do about the installations of one seed.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) create: Vec<ControllerInstallation>,
    /// Before and after.
    pub(crate) update: Vec<(Arc<ControllerInstallation>, ControllerInstallation)>,
    pub(crate) delete: Vec<String>,
    /// Why something has to wait, as sentences.
    pub(crate) waiting: Vec<String>,
    pub(crate) problems: Vec<Problem>,
    /// Whether the seed must not go yet.
    pub(crate) holds_seed: bool,
}

/// Plans the installations of one seed.
pub(crate) fn plan(seen: &Seen) -> Plan {
    let mut plan = Plan::default();
    let wanted = wanted_types(seen);
    let names = wanted_registrations(seen, &wanted, &mut plan);
    let mut retained = BTreeSet::new();
    for registration in seen
        .registrations
        .iter()
        .filter(|registration| names.contains(&registration.name_any()))
    {
        let existing = of_registration(seen, &registration.name_any());
        retained.extend(existing.map(|installation| installation.name_any()));
        if registration.meta().deletion_timestamp.is_none() {
            plan_installation(seen, registration, existing, &mut plan);
        }
    }
    for installation in seen
        .installations
        .iter()
        .filter(|installation| !retained.contains(&installation.name_any()))
    {
        let registration = registration_of(installation);
        let known = seen
            .registrations
            .iter()
            .any(|registration_| registration_.name_any() == registration);
        if is_required(installation) && !known {
            plan.problems.push(Problem::NoRegistration {
                installation: installation.name_any(),
                registration: registration.to_owned(),
            });
        } else if installation.meta().deletion_timestamp.is_none() {
            plan.delete.push(installation.name_any());
        }
    }
    plan.holds_seed = !seen.installations.is_empty() || !plan.create.is_empty();
    plan
}

/// Every kind and type that something in the seed needs, with who needs it beside Shoots: those are many.
fn wanted_types(seen: &Seen) -> BTreeMap<KindType, BTreeSet<Needer>> {
    let mut wanted: BTreeMap<KindType, BTreeSet<Needer>> = BTreeMap::new();
    let mut want = |types: KindType, needer: Needer| {
        wanted.entry(types).or_default().insert(needer);
    };
    for types in required_types_for_seed(&seen.seed, &seen.registrations) {
        want(types, Needer::Seed);
    }
    let seed = seen.seed.metadata.name.as_ref();
    for bucket in seen
        .buckets
        .iter()
        .filter(|bucket| bucket.spec.seed_name.as_ref() == seed)
    {
        let needer = Needer::Backup(format!("BackupBucket {}", bucket.name_any()));
        want(
            KindType::new(ExtensionKind::BackupBucket, &bucket.spec.provider.type_),
            needer,
        );
    }
    // Entries whose bucket is gone have nowhere to be; their own controller reports that.
    let with_entries = |bucket: &&Arc<BackupBucket>| seen.buckets_of_entries.contains(&bucket.name_any());
    for bucket in seen.buckets.iter().filter(with_entries) {
        let needer = Needer::Backup(format!("BackupEntries in BackupBucket {}", bucket.name_any()));
        want(
            KindType::new(ExtensionKind::BackupEntry, &bucket.spec.provider.type_),
            needer,
        );
    }
    for types in seen.shoots.types() {
        wanted.entry(types.clone()).or_default();
    }
    wanted
}

/// Names of the registrations to install in the seed.
fn wanted_registrations(
    seen: &Seen,
    wanted: &BTreeMap<KindType, BTreeSet<Needer>>,
    plan: &mut Plan,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (types, needed_by) in wanted {
        let responsible: Vec<String> = seen
            .registrations
            .iter()
            .filter(|registration| is_responsible(registration, types))
            .map(ResourceExt::name_any)
            .collect();
        if responsible.is_empty() {
            let shoots = seen.shoots.needing(types).cloned().map(Needer::Shoot);
            plan.problems.push(Problem::NotRegistered {
                wanted: types.clone(),
                needed_by: needed_by.iter().cloned().chain(shoots).collect(),
            });
        }
        names.extend(responsible);
    }
    let required = seen
        .installations
        .iter()
        .filter(|installation| is_required(installation));
    names.extend(required.map(|installation| registration_of(installation).to_owned()));
    for registration in &seen.registrations {
        let deployment = registration.spec.deployment.as_ref();
        let going = registration.meta().deletion_timestamp.is_some() || seen.seed.meta().deletion_timestamp.is_some();
        let always = match deployment.and_then(|deployment| deployment.policy.as_ref()) {
            Some(ControllerDeploymentPolicy::Always) => !going,
            Some(ControllerDeploymentPolicy::AlwaysExceptNoShoots) => !going && !seen.shoots.is_empty(),
            Some(ControllerDeploymentPolicy::OnDemand | ControllerDeploymentPolicy::Other(_)) | None => false,
        };
        if always {
            names.insert(registration.name_any());
        }
        match selects(registration, &seen.seed) {
            Ok(true) => {}
            Ok(false) => drop(names.remove(&registration.name_any())),
            // What cannot be read installs nothing, and removes nothing.
            Err(error) => {
                if of_registration(seen, &registration.name_any()).is_none() {
                    names.remove(&registration.name_any());
                }
                plan.problems.push(Problem::BadSelector {
                    registration: registration.name_any(),
                    error,
                });
            }
        }
    }
    names
}

/// Whether the registration's seed selector, if it has one, selects the seed.
fn selects(registration: &ControllerRegistration, seed: &Seed) -> Result<bool, String> {
    let selector = registration
        .spec
        .deployment
        .as_ref()
        .and_then(|deployment| deployment.seed_selector.clone());
    let Some(selector) = selector else { return Ok(true) };
    let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
    Ok(selector.matches(seed.labels()))
}

pub(super) fn registration_of(installation: &ControllerInstallation) -> &str {
    installation.spec.registration_ref.name.as_deref().unwrap_or_default()
}

pub(super) fn seed_of(installation: &ControllerInstallation) -> Option<&str> {
    installation.spec.seed_ref.as_ref()?.name.as_deref()
}

/// The installation of one registration in this seed; one that is staying before one that is going.
fn of_registration<'a>(seen: &'a Seen, registration: &str) -> Option<&'a Arc<ControllerInstallation>> {
    seen.installations
        .iter()
        .filter(|installation| registration_of(installation) == registration)
        .min_by_key(|installation| installation.meta().deletion_timestamp.is_some())
}

fn is_required(installation: &ControllerInstallation) -> bool {
    let conditions = installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    Condition::find(conditions, REQUIRED).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Name of the ControllerDeployment that a registration is installed by. Validation admits at most one.
fn deployment_name(registration: &ControllerRegistration) -> Option<&String> {
    let deployment = registration.spec.deployment.as_ref()?;
    deployment.deployment_refs.first().map(|reference| &reference.name)
}

/// The reference to it, or to what is missing.
fn deployment_reference(name: Option<&String>, deployment: Option<&ControllerDeployment>) -> Option<ObjectReference> {
    match (deployment, name) {
        (Some(deployment), _) => Some(reference_to(deployment)),
        (None, Some(missing)) => Some(ObjectReference {
            name: Some(missing.clone()),
            ..ObjectReference::default()
        }),
        (None, None) => None,
    }
}

fn plan_installation(
    seen: &Seen,
    registration: &ControllerRegistration,
    existing: Option<&Arc<ControllerInstallation>>,
    plan: &mut Plan,
) {
    if let Some(going) = existing.filter(|installation| installation.meta().deletion_timestamp.is_some()) {
        plan.waiting.push(format!(
            "waiting for the old ControllerInstallation {} to be deleted",
            going.name_any()
        ));
        return;
    }
    let reference = deployment_name(registration);
    let deployment = reference.and_then(|name| seen.deployments.get(name));
    if let (Some(name), None) = (reference, deployment) {
        plan.problems.push(Problem::NoDeployment {
            registration: registration.name_any(),
            deployment: name.clone(),
        });
        // It gets its installation all the same: that is where it is reported what is missing. What is installed stays.
    }
    let hashes = hashes(seen, registration, deployment);
    let mut desired = existing.map_or_else(ControllerInstallation::default, |existing| (**existing).clone());
    let pod_security = registration.annotations().get(annotations::POD_SECURITY_ENFORCE);
    let deployment_ref = deployment_reference(reference, deployment.map(|deployment| &*deployment.object));
    let up_to_date = existing.is_some_and(|existing| {
        let same = |(key, value): (&&str, &String)| existing.labels().get(*key) == Some(value);
        let named = |reference: &Option<ObjectReference>| reference.as_ref().and_then(|one| one.name.clone());
        hashes.iter().all(same)
            && named(&existing.spec.deployment_ref) == named(&deployment_ref)
            && existing.annotations().get(annotations::POD_SECURITY_ENFORCE) == pod_security
    });
    if up_to_date {
        return;
    }
    desired
        .labels_mut()
        .extend(hashes.into_iter().map(|(key, value)| (key.to_owned(), value)));
    match pod_security {
        Some(level) => drop(
            desired
                .annotations_mut()
                .insert(annotations::POD_SECURITY_ENFORCE.to_owned(), level.clone()),
        ),
        None => drop(desired.annotations_mut().remove(annotations::POD_SECURITY_ENFORCE)),
    }
    desired.spec = ControllerInstallationSpec {
        registration_ref: reference_to(registration),
        seed_ref: Some(reference_to(&*seen.seed)),
        deployment_ref,
        ..desired.spec
    };
    match existing {
        Some(existing) => plan.update.push((existing.clone(), desired)),
        None => {
            desired.metadata.name = Some(installation_name(registration, &seen.seed));
            plan.create.push(desired);
        }
    }
}

/// Labels that show what an installation was made from.
fn hashes(
    seen: &Seen,
    registration: &ControllerRegistration,
    deployment: Option<&Hashed>,
) -> BTreeMap<&'static str, String> {
    let hashes = [
        (labels::SEED_SPEC_HASH, Some(seed_hash(&seen.seed))),
        (labels::REGISTRATION_SPEC_HASH, Some(hash(&registration.spec))),
        (
            labels::DEPLOYMENT_HASH,
            deployment.map(|deployment| deployment.hash.clone()),
        ),
    ];
    hashes
        .into_iter()
        .filter_map(|(key, hash)| Some((key, hash?)))
        .collect()
}

/// What of a seed is rendered into charts: a change of it installs again, a change of its status does not.
fn seed_hash(seed: &Seed) -> String {
    hash(&json!({"spec": seed.spec, "labels": seed.metadata.labels, "annotations": seed.metadata.annotations}))
}

/// `<registration>-<5 characters>`, the same for the same two objects: made twice, it is one installation.
fn installation_name(registration: &ControllerRegistration, seed: &Seed) -> String {
    let identity = (
        &registration.metadata.name,
        &registration.metadata.uid,
        &seed.metadata.name,
        &seed.metadata.uid,
    );
    name_of(&registration.name_any(), &identity)
}

/// The name to try when `attempt` ones before are those of other installations: among hundreds of seeds, two get the same five
/// characters.
pub(super) fn other_name(planned: &ControllerInstallation, attempt: u8) -> String {
    name_of(
        registration_of(planned),
        &(planned.name_any(), seed_of(planned), attempt),
    )
}

fn name_of(registration: &str, identity: &impl serde::Serialize) -> String {
    let mut suffix = hash(identity);
    suffix.truncate(SUFFIX_LENGTH);
    format!("{registration}-{suffix}")
}

fn reference_to<K: Kind + Resource>(object: &K) -> ObjectReference {
    ObjectReference {
        name: object.meta().name.clone(),
        resource_version: object.meta().resource_version.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use api_core::v1beta1::Shoot;
    use serde::de::DeserializeOwned;

    use super::super::needs::Needs;
    use super::*;

    fn object<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// A seed of provider `local` without backup, one registration for it, one that is not needed.
    fn seen() -> Seen {
        let deployment: ControllerDeployment = object(
            json!({"metadata": {"name": "local", "resourceVersion": "3"}, "type": "builtin", "providerConfig": {"image": "i"}}),
        );
        Seen {
            seed: Arc::new(object(
                json!({"metadata": {"name": "north", "uid": "u", "resourceVersion": "2", "labels": {"a": "b"}},
                "spec": {"provider": {"type": "local", "region": "r"}}}),
            )),
            registrations: vec![
                object(
                    json!({"metadata": {"name": "local", "resourceVersion": "1"}, "spec": {"deployment": {"deploymentRefs": [{"name": "local"}]},
                    "resources": [{"kind": "ControlPlane", "type": "LOCAL"}, {"kind": "Infrastructure", "type": "local"}, {"kind": "Worker", "type": "local"}]}}),
                ),
                object(
                    json!({"metadata": {"name": "idle"}, "spec": {"resources": [{"kind": "Network", "type": "flat"}]}}),
                ),
            ],
            deployments: BTreeMap::from([("local".to_owned(), Hashed::new(Arc::new(deployment)))]),
            installations: Vec::new(),
            buckets: Vec::new(),
            buckets_of_entries: BTreeSet::new(),
            shoots: Arc::default(),
        }
    }

    fn shoot(network: &str) -> Arc<Shoot> {
        Arc::new(object(
            json!({"metadata": {"name": format!("with-{network}"), "namespace": "garden-dev"}, "spec": {"networking": {"type": network},
            "provider": {"type": "local", "workers": [{"name": "a", "machine": {"type": "m"}}]}}}),
        ))
    }

    impl Seen {
        fn with(&mut self, shoots: &[Arc<Shoot>]) {
            self.shoots = Arc::new(Needs::new(shoots, &self.seed, &self.registrations));
        }
    }

    /// Executes the plan, as an API server would.
    fn settle(seen: &mut Seen, plan: Plan) {
        for (_, after) in plan.update {
            seen.installations
                .retain(|installation| installation.name_any() != after.name_any());
            seen.installations.push(Arc::new(after));
        }
        seen.installations
            .retain(|installation| !plan.delete.contains(&installation.name_any()));
        seen.installations.extend(plan.create.into_iter().map(Arc::new));
    }

    fn assert_settled(seen: &Seen) {
        let again = plan(seen);
        assert!(
            again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(),
            "{again:?}"
        );
    }

    fn registrations(installations: &[ControllerInstallation]) -> Vec<&str> {
        installations.iter().map(registration_of).collect()
    }

    #[test]
    fn a_seed_gets_what_it_needs_and_nothing_else() {
        let mut seen = seen();
        let first = plan(&seen);
        assert_eq!(registrations(&first.create), ["local"]);
        assert!(first.problems.is_empty() && first.holds_seed);
        let installation = &first.create[0];
        assert!(installation.name_any().starts_with("local-") && installation.name_any().len() == "local-".len() + 5);
        assert_eq!(
            installation
                .spec
                .deployment_ref
                .as_ref()
                .unwrap()
                .resource_version
                .as_deref(),
            Some("3")
        );
        settle(&mut seen, first);
        assert_settled(&seen);
    }

    #[test]
    fn a_missing_registration_is_reported_and_blocks_nothing_else() {
        let mut seen = seen();
        seen.with(&[shoot("unregistered"), shoot("flat")]);
        let found = plan(&seen);
        assert_eq!(registrations(&found.create), ["local", "idle"]);
        let needed_by = BTreeSet::from([Needer::Shoot(ObjectKey::namespaced("garden-dev", "with-unregistered"))]);
        assert_eq!(
            found.problems,
            [Problem::NotRegistered {
                wanted: KindType::new("Network", "unregistered"),
                needed_by
            }]
        );
    }

    #[test]
    fn what_is_no_longer_needed_goes_unless_objects_still_need_it() {
        let mut seen = seen();
        seen.with(&[shoot("flat")]);
        let first = plan(&seen);
        settle(&mut seen, first);
        seen.with(&[]);
        let mut held = (*seen.installations[1]).clone();
        held.status = object(json!({"conditions": [{"type": "Required", "status": "True"}]}));
        let free = std::mem::replace(&mut seen.installations[1], Arc::new(held));
        assert_settled(&seen);
        seen.installations[1] = free;
        let second = plan(&seen);
        assert_eq!(second.delete, [seen.installations[1].name_any()]);
        settle(&mut seen, second);
        assert_settled(&seen);
    }

    #[test]
    fn a_registration_on_its_way_out_does_not_turn_itself_on() {
        for (cluster, shoots) in [("shoot", vec![shoot("flat")]), ("seed", Vec::new())] {
            let mut seen = seen();
            seen.registrations.push(object(
                json!({"metadata": {"name": "auto"}, "spec": {"resources": [
                {"kind": "Extension", "type": "audit", "autoEnable": [cluster], "clusterCompatibility": [cluster]}]}}),
            ));
            seen.with(&shoots);
            let first = plan(&seen);
            settle(&mut seen, first);
            let made = of_registration(&seen, "auto").expect("it is on by itself").name_any();
            let going = seen.registrations.last_mut().expect("just pushed");
            going.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
            seen.with(&shoots);
            let second = plan(&seen);
            assert_eq!(second.delete, [made], "on for every {cluster}");
            settle(&mut seen, second);
            assert_settled(&seen);
        }
    }

    #[test]
    fn only_changes_that_matter_to_an_installation_rewrite_it() {
        let mut seen = seen();
        let first = plan(&seen);
        settle(&mut seen, first);
        let mut seed = (*seen.seed).clone();
        seed.metadata.resource_version = Some("9".into());
        seed.status = object(json!({"conditions": [{"type": "GardenletReady", "status": "True"}]}));
        seen.seed = Arc::new(seed.clone());
        assert_settled(&seen);
        seed.metadata.labels = object(json!({"a": "c"}));
        seen.seed = Arc::new(seed);
        let second = plan(&seen);
        assert_eq!(second.update.len(), 1);
        assert_eq!(
            second.update[0]
                .1
                .spec
                .seed_ref
                .as_ref()
                .unwrap()
                .resource_version
                .as_deref(),
            Some("9")
        );
        settle(&mut seen, second);
        assert_settled(&seen);
    }

    #[test]
    fn policies_and_selectors_decide_too() {
        let mut seen = seen();
        seen.registrations = vec![
            object(json!({"metadata": {"name": "always"}, "spec": {"deployment": {"policy": "Always"}}})),
            object(
                json!({"metadata": {"name": "with-shoots"}, "spec": {"deployment": {"policy": "AlwaysExceptNoShoots"}}}),
            ),
            object(
                json!({"metadata": {"name": "elsewhere"}, "spec": {"deployment": {"policy": "Always", "seedSelector": {"matchLabels": {"a": "z"}}}}}),
            ),
        ];
        assert_eq!(registrations(&plan(&seen).create), ["always"]);
        seen.with(&[shoot("flat")]);
        assert_eq!(registrations(&plan(&seen).create), ["always", "with-shoots"]);
    }

    #[test]
    fn a_missing_deployment_keeps_what_is_installed() {
        let mut seen = seen();
        let first = plan(&seen);
        settle(&mut seen, first);
        seen.deployments.clear();
        let second = plan(&seen);
        assert!(matches!(second.problems[..], [Problem::NoDeployment { .. }]));
        assert!(second.delete.is_empty() && second.update.is_empty());
    }

    #[test]
    fn an_installation_is_made_before_its_deployment_and_follows_it() {
        let mut seen = seen();
        let deployments = std::mem::take(&mut seen.deployments);
        let first = plan(&seen);
        assert!(matches!(first.problems[..], [Problem::NoDeployment { .. }]));
        let named = |installation: &ControllerInstallation| {
            let reference = installation.spec.deployment_ref.clone().unwrap();
            (reference.name.unwrap(), reference.resource_version)
        };
        assert_eq!(named(&first.create[0]), ("local".to_owned(), None));
        settle(&mut seen, first);
        assert_settled(&seen);
        seen.deployments = deployments;
        let second = plan(&seen);
        assert_eq!(named(&second.update[0].1), ("local".to_owned(), Some("3".to_owned())));
        settle(&mut seen, second);
        assert_settled(&seen);
    }

    #[test]
    fn a_going_installation_is_waited_for_and_a_going_registration_not_renewed() {
        let mut seen = seen();
        let first = plan(&seen);
        settle(&mut seen, first);
        let mut going = (*seen.installations[0]).clone();
        going.metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
        seen.installations[0] = Arc::new(going);
        let second = plan(&seen);
        assert_eq!(
            (second.create.len(), second.delete.len(), second.waiting.len()),
            (0, 0, 1)
        );
        seen.installations.clear();
        seen.registrations[0].metadata.deletion_timestamp = object(json!("2026-01-01T00:00:00Z"));
        assert!(plan(&seen).create.is_empty());
        assert!(!plan(&seen).holds_seed);
    }
}
