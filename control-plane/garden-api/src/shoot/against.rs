//! Shoots against the objects they refer to: project, cloud profile, seed, bindings
//! (gardener/gardener v1.150 plugin/pkg/shoot/validator). What did not change on an update is not validated again.

use api_core::v1beta1::Shoot;
use api_meta::conditions::shoot::HIBERNATION_POSSIBLE;
use api_meta::{Condition, ConditionStatus};
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::Review;

use super::profile::{profile, profile_missing, seed};
use super::{credentials, scheduling};
use crate::AdmissionPlugin;
use crate::admission::{Plugin, Verdict, project_of, some_of, writes_object};
use crate::convert::{CORE, decode_stored, field_errors, forbid, is_leaving, refuse, text};

/// The plug-in `ShootValidator`.
pub(super) struct Validate;

impl Plugin for Validate {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootValidator)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object else {
                return Ok(Vec::new());
            };
            let shoot: Shoot = decode_stored("Shoot", object)?;
            let old: Option<Shoot> = review.old.map(|old| decode_stored("Shoot", old)).transpose()?;
            let leaving = shoot.metadata.deletion_timestamp.is_some();
            let unchanged = old.as_ref().is_some_and(|old| old.spec == shoot.spec);
            let concerned = writes_object(&review.call) || review.call.subresource == Some("binding");
            if leaving || unchanged || !concerned {
                return Ok(Vec::new());
            }
            let errors = validate(&review, &shoot, old.as_ref()).await?;
            forbid(CORE, "shoots", review.call.name, &errors)?;
            Ok(Vec::new())
        })
    }
}

async fn validate(review: &Review<'_>, shoot: &Shoot, old: Option<&Shoot>) -> Result<Vec<FieldError>, Status> {
    let objects = review.objects;
    let mut errors = Vec::new();
    match old {
        None => {
            check_project(review, shoot).await?;
            check_seed_right(review, shoot).await?;
        }
        Some(old) => scheduling::check_seed_change(review, shoot, old)?,
    }
    check_hibernation(review, shoot, old)?;
    match profile(shoot, objects).await? {
        Some(profile) => {
            errors.extend(field_errors(api_rules::validate_shoot_against(
                shoot,
                &profile,
                old,
                review.call.now,
            )));
        }
        None if api_rules::cloud_profile_name(shoot).is_some() => errors.push(profile_missing(shoot, objects).await?),
        None => {}
    }
    credentials::check_bindings(review, shoot, old, &mut errors).await?;
    if let Some(old) = old {
        credentials::check_change(review, shoot, old).await?;
    }
    let (seed_before, seed_now) = (
        old.and_then(|old| old.spec.seed_name.as_deref()),
        shoot.spec.seed_name.as_deref(),
    );
    if let Some(seed) = seed(shoot, objects).await? {
        let refused = scheduling::against_seed(shoot, &seed, seed_before != seed_now);
        if let Some(why) = refused {
            return Err(Status::forbidden(CORE, "shoots", review.call.name, &why));
        }
        if seed_before != seed_now {
            errors.extend(scheduling::networks_against_seed(shoot, &seed));
        }
    }
    let networking = |shoot: &Shoot| shoot.spec.networking.clone();
    if old.is_none_or(|old| networking(old) != networking(shoot)) {
        errors.extend(field_errors(api_rules::validate_shoot_networks(shoot)));
    }
    Ok(errors)
}

/// A Shoot that could not be woken up again is not hibernated. The constraint's message names what to do.
fn check_hibernation(review: &Review<'_>, shoot: &Shoot, old: Option<&Shoot>) -> Result<(), Status> {
    if !api_rules::is_hibernation_enabled(shoot) || old.is_some_and(api_rules::is_hibernation_enabled) {
        return Ok(());
    }
    let constraints = shoot.status.as_ref().map_or(&[][..], |status| &status.constraints);
    let constraint = Condition::find(constraints, HIBERNATION_POSSIBLE);
    match constraint.filter(|constraint| constraint.status != ConditionStatus::True) {
        None => Ok(()),
        Some(Condition { status, message, .. }) => {
            let why = format!(
                "spec.hibernation.enabled: constraint {HIBERNATION_POSSIBLE:?} is {:?}: {message}; fix this first, the Shoot might not wake up again",
                status.as_str()
            );
            Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
        }
    }
}

/// The namespace belongs to a project that is not going away, and the names are short enough together.
async fn check_project(review: &Review<'_>, shoot: &Shoot) -> Result<(), Status> {
    let namespace = review.call.namespace.unwrap_or_default();
    let Some(project) = project_of(review.objects, namespace).await? else {
        let why = no_project(review, namespace).await?;
        return Err(Status::forbidden(CORE, "shoots", review.call.name, &why));
    };
    let name = text(&project, "/metadata/name");
    if is_leaving(&project) {
        let why = format!("project {name} is being deleted; create the Shoot in another");
        return Err(Status::forbidden(CORE, "shoots", review.call.name, &why));
    }
    let too_long = api_rules::validate_technical_id(name, shoot).into_iter().collect();
    refuse("Shoot", review.call.name, &field_errors(too_long))
}

/// A namespace that exists becomes no project's any more, so there is only another to go to.
async fn no_project(review: &Review<'_>, namespace: &str) -> Result<String, Status> {
    let projects = review.objects.list(CORE, "projects", None).await?;
    let mut open = Vec::new();
    for project in projects.iter().filter(|project| !is_leaving(project)) {
        let (name, theirs) = (text(project, "/metadata/name"), text(project, "/spec/namespace"));
        // The message does not reveal projects that the caller may not see.
        let user = review.call.user;
        if !theirs.is_empty()
            && review
                .objects
                .allowed(user, "get", CORE, "projects", None, name)
                .await?
        {
            open.push(theirs);
        }
    }
    let todo = if open.is_empty() {
        "create a Project, and the Shoot in the namespace that it gets".to_owned()
    } else {
        format!("create the Shoot in the namespace of a Project: {}", some_of(&open))
    };
    Ok(format!("namespace {namespace} belongs to no Project; {todo}"))
}

/// A user who names the seed on creation must be allowed to bind.
async fn check_seed_right(review: &Review<'_>, shoot: &Shoot) -> Result<(), Status> {
    if shoot.spec.seed_name.as_deref().is_none_or(str::is_empty) {
        return Ok(());
    }
    let Review { call, objects, .. } = review;
    let allowed = objects
        .allowed(call.user, "update", CORE, "shoots/binding", call.namespace, call.name)
        .await?;
    if allowed {
        return Ok(());
    }
    let why = format!(
        "user {:?} is not allowed to set .spec.seedName; leave it empty and the scheduler chooses",
        call.user.name
    );
    Err(Status::forbidden(CORE, "shoots", call.name, &why))
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use cluster_apiserver::kind::{Objects, Operation};
    use serde_json::{Value, json};

    use super::*;
    use crate::AdmissionPlugins;
    use crate::admission::tests::{Fixture, admitted, review};
    use crate::shoot::complete::Complete;

    fn plugin() -> Complete {
        Complete {
            entropy: Entropy::seeded(7),
            on: AdmissionPlugins::default(),
        }
    }

    fn landscape() -> Fixture {
        let profile = json!({"metadata": {"name": "cloud"}, "spec": {"type": "prov", "regions": [{"name": "r"}],
            "kubernetes": {"versions": [{"version": "1.34.9", "classification": "supported"},
                {"version": "1.35.1", "classification": "supported"}, {"version": "1.35.2", "classification": "preview"}]},
            "machineTypes": [{"name": "small", "cpu": "1", "memory": "1Gi", "gpu": "0"}],
            "machineImages": [{"name": "linux", "versions": [
                {"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}]}});
        let seed = json!({"metadata": {"name": "seed"}, "spec": {"networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
            "provider": {"type": "prov", "region": "r"}, "dns": {}}});
        Fixture::default()
            .with(
                "projects",
                json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}}),
            )
            .with("cloudprofiles", profile)
            .with("seeds", seed)
    }

    fn shoot(change: impl FnOnce(&mut Value)) -> Value {
        let mut shoot = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": "o", "namespace": "garden-p"},
            "spec": {"cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "region": "r",
                "kubernetes": {"version": "1.35"}, "networking": {"type": "net", "nodes": "10.250.0.0/16"},
                "provider": {"type": "prov", "workers": [{"name": "w", "minimum": 1, "maximum": 1,
                    "machine": {"type": "small"}}]}}});
        change(&mut shoot);
        shoot
    }

    fn create(shoot: Value, fixture: &Fixture) -> Result<Value, String> {
        let shoot = admitted(&plugin(), None, shoot, None, fixture)?;
        review(&Validate, Operation::Create, Some(&shoot), None, fixture).map(|_| shoot)
    }

    #[test]
    fn prefixes_are_completed_with_what_the_profile_supports() {
        let made = create(shoot(|_| {}), &landscape()).expect("a good shoot");
        assert_eq!(made["spec"]["kubernetes"]["version"], "1.35.1");
        assert_eq!(
            made["spec"]["provider"]["workers"][0]["machine"]["image"],
            json!({"name": "linux", "version": "1.0.0"})
        );
        assert_eq!(made["metadata"]["annotations"]["gardener.cloud/created-by"], "alice");
    }

    #[test]
    fn what_the_landscape_does_not_have_is_refused_with_the_choice() {
        let table: [(&str, Value, &[&str]); 6] = [
            (
                "/spec/cloudProfile/name",
                json!("nowhere"),
                &["spec.cloudProfile.name: Not found: \"nowhere\"", "name one of: cloud"],
            ),
            ("/spec/region", json!("mars"), &["spec.region", "\"mars\"", "\"r\""]),
            (
                "/spec/kubernetes/version",
                json!("1.20.0"),
                &["spec.kubernetes.version", "1.35.1"],
            ),
            (
                "/spec/provider/workers/0/machine/type",
                json!("huge"),
                &["machine.type", "\"small\""],
            ),
            ("/spec/provider/type", json!("other"), &["spec.provider.type", "prov"]),
            (
                "/spec/credentialsBindingName",
                json!("nosuch"),
                &["spec.credentialsBindingName: Not found", "garden-p"],
            ),
        ];
        for (pointer, value, parts) in table {
            let bad = shoot(|shoot| {
                let (parent, field) = pointer.rsplit_once('/').expect("pointer");
                shoot.pointer_mut(parent).expect("parent")[field] = value;
            });
            let refusal = create(bad, &landscape()).expect_err(pointer);
            for part in parts {
                assert!(refusal.contains(part), "{refusal}\nlacks {part}");
            }
        }
    }

    #[test]
    fn a_shoot_that_could_not_be_woken_up_is_not_hibernated() {
        let with = |enabled: bool, status: Option<&str>| {
            let mut made = create(shoot(|_| {}), &landscape()).expect("a good shoot");
            made["spec"]["hibernation"] = json!({ "enabled": enabled });
            let constraint =
                |status| json!({"type": "HibernationPossible", "status": status, "message": "webhook x fails"});
            made["status"] = json!({"constraints": status.map(constraint).as_slice()});
            made
        };
        let change = |new: &Value, old: &Value| {
            review(&Validate, Operation::Update, Some(new), Some(old), &landscape()).map(drop)
        };
        for status in ["False", "Unknown", "Progressing"] {
            let refusal = change(&with(true, Some(status)), &with(false, Some(status))).expect_err(status);
            let part = format!("constraint \"HibernationPossible\" is {status:?}: webhook x fails");
            assert!(refusal.contains(&part), "{refusal}");
            change(&with(false, Some(status)), &with(true, Some(status))).expect("it may wake up");
            let mut other = with(true, Some(status));
            other["spec"]["purpose"] = json!("testing");
            change(&other, &with(true, Some(status))).expect("it was hibernated before");
        }
        for status in [Some("True"), None] {
            change(&with(true, status), &with(false, status)).expect("nothing is in the way");
        }
        let made = with(true, None);
        review(&Validate, Operation::Create, Some(&made), None, &landscape()).expect("it may begin hibernated");
    }

    #[test]
    fn a_shoot_of_an_unmerged_namespaced_profile_is_refused_with_the_reason() {
        let named =
            || shoot(|shoot| shoot["spec"]["cloudProfile"] = json!({"kind": "NamespacedCloudProfile", "name": "mine"}));
        let mine = |status: Value| {
            let mine = json!({"metadata": {"name": "mine", "namespace": "garden-p"}, "status": status});
            landscape().with("namespacedcloudprofiles", mine)
        };
        for (fixture, expected) in [
            (
                landscape(),
                "there is no NamespacedCloudProfile \"mine\", and these are not merged",
            ),
            (
                mine(json!({})),
                "NamespacedCloudProfile \"mine\" exists, but is not merged with its parent yet",
            ),
        ] {
            let refusal = create(named(), &fixture).expect_err(expected);
            for part in [
                "spec.cloudProfile: Invalid value: \"NamespacedCloudProfile\"",
                expected,
                "name one of: cloud",
            ] {
                assert!(refusal.contains(part), "{refusal}\nlacks {part}");
            }
        }
        let profile = landscape();
        let parent = futures::executor::block_on(profile.get(CORE, "cloudprofiles", None, "cloud"))
            .unwrap()
            .unwrap();
        let merged = mine(json!({"cloudProfileSpec": parent["spec"]}));
        create(named(), &merged).expect("another program has merged it");
    }

    #[test]
    fn a_namespace_without_a_project_takes_no_shoots() {
        let elsewhere = || {
            landscape().with(
                "projects",
                json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-q"}}),
            )
        };
        let refused = |fixture: Fixture| create(shoot(|_| {}), &fixture).expect_err("no project");
        let refusal = refused(elsewhere());
        assert!(
            refusal.contains(
                "namespace garden-p belongs to no Project; create the Shoot in the namespace of a Project: garden-q"
            ),
            "{refusal}"
        );
        let mut stranger = elsewhere();
        stranger.denied.push("projects");
        let refusal = refused(stranger);
        assert!(
            refusal.contains("belongs to no Project; create a Project, and"),
            "{refusal}"
        );
    }

    #[test]
    fn naming_the_seed_requires_the_right_to_bind() {
        let mut fixture = landscape();
        let named = || shoot(|shoot| shoot["spec"]["seedName"] = json!("seed"));
        assert!(create(named(), &fixture).is_ok());
        fixture.denied.push("shoots/binding");
        assert!(
            create(named(), &fixture)
                .expect_err("denied")
                .contains(".spec.seedName")
        );
    }

    #[test]
    fn binding_keeps_all_but_the_seed_and_completes_networks() {
        let old = create(shoot(|_| {}), &landscape()).expect("a good shoot");
        assert!(old["spec"]["networking"].get("pods").is_none());
        let mut bound = old.clone();
        bound["spec"]["seedName"] = json!("seed");
        bound["spec"]["region"] = json!("elsewhere");
        let bound = admitted(&plugin(), Some("binding"), bound, Some(&old), &landscape()).expect("bound");
        assert_eq!(bound["spec"]["seedName"], "seed");
        assert_eq!(bound["spec"]["region"], "r");
        assert!(bound["spec"]["networking"]["pods"].is_string());
    }
}
