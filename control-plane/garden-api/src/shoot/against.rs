//! Shoots against the objects they refer to: project, cloud profile, seed, bindings
//! (gardener/gardener v1.150 plugin/pkg/shoot/{mutator,validator}). It completes what the profile and the seed decide,
//! then judges. What did not change on an update is not judged again.

use api_core::v1beta1::{CloudProfileSpec, NodeLocalDNS, Seed, Shoot};
use api_meta::annotations::CREATED_BY;
use api_rules::ShootDefaults;
use base_clock::Entropy;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects, Operation, Review};
use cluster_apiserver::schema::{FieldError, FieldErrorKind};
use serde_json::Value;

use super::{credentials, scheduling, strategy};
use crate::admission::{Plugin, Verdict, project_of, some_of, writes_object};
use crate::convert::{
    CORE, SECURITY, decode, decode_stored, encode_over, field_errors, forbid, is_leaving, refuse, text, uncoded,
};
use crate::prepare::annotate;
use crate::{AdmissionPlugin, AdmissionPlugins, GardenSettings};

/// The plug-in `ShootMutator`, and those that give a new Shoot one default each; and what needs no plug-in: the other
/// defaults, and what the part `binding` may change.
pub(super) struct Complete {
    entropy: Entropy,
    on: AdmissionPlugins,
}

impl Complete {
    pub(super) fn new(settings: &GardenSettings) -> Self {
        Self {
            entropy: settings.entropy.clone(),
            on: settings.plugins.clone(),
        }
    }
}

impl Plugin for Complete {
    fn name(&self) -> Option<AdmissionPlugin> {
        // It does the work of several.
        None
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            match call.subresource {
                None => self.complete(call, object, old, objects).await?,
                Some("binding") => {
                    if let Some(old) = old {
                        strategy::keep_all_but_the_seed(object, old);
                        let same = text(object, "/spec/seedName") == text(old, "/spec/seedName");
                        if same && self.on.has(AdmissionPlugin::ShootValidator) {
                            return Err(uncoded(
                                "update of binding rejected: the Shoot names this seed already; leave it",
                            ));
                        }
                    }
                    if self.on.has(AdmissionPlugin::ShootMutator) {
                        complete_networks(object, objects).await?;
                    }
                }
                Some(_) => {}
            }
            Ok(Vec::new())
        })
    }
}

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
            let errors = judge(&review, &shoot, old.as_ref()).await?;
            forbid(CORE, "shoots", review.call.name, &errors)?;
            Ok(Vec::new())
        })
    }
}

impl Complete {
    /// Defaults of the shoot, with its profile and seed where they are known.
    async fn complete(
        &self,
        call: Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
        objects: &dyn Objects,
    ) -> Result<(), Status> {
        if is_leaving(object) {
            return Ok(());
        }
        // What cannot be read is refused by validation, which names the field.
        let Ok(mut shoot) = decode::<Shoot>(object) else {
            return Ok(());
        };
        let mutates = self.on.has(AdmissionPlugin::ShootMutator);
        let (profile, seed) = match mutates {
            true => (profile(&shoot, objects).await?, seed(&shoot, objects).await?),
            false => (None, None),
        };
        let created = call.operation == Operation::Create && old.is_none();
        let with = ShootDefaults {
            seed: seed.as_ref(),
            cloud_profile: profile.as_ref(),
            now: call.now,
            entropy: self.entropy.next_u64(),
            rotates_key: created && mutates,
            scales_vertically: created && self.on.has(AdmissionPlugin::ShootVPAEnabledByDefault),
            reserves: self.on.has(AdmissionPlugin::ShootResourceReservation),
        };
        api_rules::default_shoot(&mut shoot, with);
        if created && self.on.has(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault) {
            enable_node_local_dns(&mut shoot);
        }
        encode_over(&shoot, object);
        if !mutates {
            return Ok(());
        }
        refuse_incomplete(&call, &shoot, profile.as_ref(), objects).await?;
        if created {
            annotate(object, CREATED_BY, &call.user.name);
        }
        Ok(())
    }
}

/// As gardener/gardener v1.150 plugin/pkg/shoot/nodelocaldns.
fn enable_node_local_dns(shoot: &mut Shoot) {
    if shoot.spec.provider.workers.is_empty() {
        return;
    }
    let components = shoot.spec.system_components.get_or_insert_default();
    components.node_local_dns.get_or_insert_with(|| NodeLocalDNS {
        enabled: true,
        ..NodeLocalDNS::default()
    });
}

/// Refuses a Shoot whose versions are not complete with its cloud profile, or whose cloud profile is missing.
async fn refuse_incomplete(
    call: &Call<'_>,
    shoot: &Shoot,
    profile: Option<&CloudProfileSpec>,
    objects: &dyn Objects,
) -> Result<(), Status> {
    let unresolved = match profile {
        Some(profile) => api_rules::unresolved_version(shoot, profile, call.now),
        // Without it, the first thing missed would be the rest of the version.
        None if api_rules::cloud_profile_name(shoot).is_some_and(|(_, name)| !name.is_empty()) => {
            let missing = profile_missing(shoot, objects).await?;
            return Err(Status::internal(format!(
                "could not find referenced cloud profile: {missing}"
            )));
        }
        None => None,
    };
    let errors = field_errors(unresolved.into_iter().collect());
    forbid(CORE, "shoots", call.name, &errors)
}

/// A shoot that just got its seed gets the networks the seed offers to shoots.
async fn complete_networks(object: &mut Value, objects: &dyn Objects) -> Result<(), Status> {
    let Ok(mut shoot) = decode::<Shoot>(object) else {
        return Ok(());
    };
    if let Some(seed) = seed(&shoot, objects).await? {
        api_rules::default_shoot_networks(&mut shoot, Some(&seed));
        encode_over(&shoot, object);
    }
    Ok(())
}

async fn judge(review: &Review<'_>, shoot: &Shoot, old: Option<&Shoot>) -> Result<Vec<FieldError>, Status> {
    let objects = review.objects;
    let mut errors = Vec::new();
    match old {
        None => {
            check_project(review, shoot).await?;
            check_seed_right(review, shoot).await?;
        }
        Some(old) => scheduling::check_seed_change(review, shoot, old)?,
    }
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
    check_credentials(review, shoot, old, &mut errors).await?;
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

/// The merged profile that the shoot names; none where it is missing.
pub(super) async fn profile(shoot: &Shoot, objects: &dyn Objects) -> Result<Option<CloudProfileSpec>, Status> {
    let Some((kind, name)) = api_rules::cloud_profile_name(shoot) else {
        return Ok(None);
    };
    if !matches!(kind, "" | "CloudProfile" | "NamespacedCloudProfile") {
        return Ok(None);
    }
    let (found, pointer) = if kind == "NamespacedCloudProfile" {
        let namespace = shoot.metadata.namespace.as_deref();
        (
            objects.get(CORE, "namespacedcloudprofiles", namespace, name).await?,
            "/status/cloudProfileSpec",
        )
    } else {
        (objects.get(CORE, "cloudprofiles", None, name).await?, "/spec")
    };
    let Some(found) = found else { return Ok(None) };
    // The profile of a project is empty until it is merged with its parent.
    let merged = found.pointer(pointer).filter(|spec| !text(spec, "/type").is_empty());
    merged.map(|spec| decode_stored(kind, spec)).transpose()
}

async fn profile_missing(shoot: &Shoot, objects: &dyn Objects) -> Result<FieldError, Status> {
    let (kind, name) = api_rules::cloud_profile_name(shoot).unwrap_or_default();
    let profiles = objects.list(CORE, "cloudprofiles", None).await?;
    let names: Vec<&str> = profiles.iter().map(|profile| text(profile, "/metadata/name")).collect();
    let words = if names.is_empty() {
        "there is no CloudProfile yet; create one".to_owned()
    } else {
        format!("name one of: {}", some_of(&names))
    };
    if kind == "NamespacedCloudProfile" {
        let namespace = shoot.metadata.namespace.as_deref();
        let there = objects.get(CORE, "namespacedcloudprofiles", namespace, name).await?;
        let what = if there.is_some() {
            format!("NamespacedCloudProfile {name:?} exists, but is not merged with its parent yet")
        } else {
            format!("there is no NamespacedCloudProfile {name:?}, and these are not merged with their parents yet")
        };
        let words = format!("{what}; name a CloudProfile instead, {words}");
        return Ok(FieldError::invalid("spec.cloudProfile", kind, words));
    }
    if !matches!(kind, "" | "CloudProfile") {
        let words = "take CloudProfile or NamespacedCloudProfile";
        return Ok(FieldError::invalid("spec.cloudProfile.kind", kind, words));
    }
    Ok(FieldError::new(
        "spec.cloudProfile.name",
        FieldErrorKind::NotFound,
        Some(name.into()),
        words,
    ))
}

async fn seed(shoot: &Shoot, objects: &dyn Objects) -> Result<Option<Seed>, Status> {
    let Some(name) = shoot.spec.seed_name.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let found = objects.get(CORE, "seeds", None, name).await?;
    found.map(|found| decode_stored("Seed", &found)).transpose()
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
        // Nobody learns here of projects they may not see.
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

/// Whoever names the seed on creation must be allowed to bind.
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

async fn check_credentials(
    review: &Review<'_>,
    shoot: &Shoot,
    old: Option<&Shoot>,
    errors: &mut Vec<FieldError>,
) -> Result<(), Status> {
    let spec = &shoot.spec;
    let before = old.map(|old| &old.spec);
    let bindings = [
        (
            CORE,
            "secretbindings",
            "spec.secretBindingName",
            &spec.secret_binding_name,
            before.map(|b| &b.secret_binding_name),
        ),
        (
            SECURITY,
            "credentialsbindings",
            "spec.credentialsBindingName",
            &spec.credentials_binding_name,
            before.map(|b| &b.credentials_binding_name),
        ),
    ];
    for (group, resource, path, name, before) in bindings {
        let Some(text_name) = name
            .as_deref()
            .filter(|name| !name.is_empty() && before != Some(&Some((*name).to_owned())))
        else {
            continue;
        };
        let Some(binding) = review
            .objects
            .get(group, resource, review.call.namespace, text_name)
            .await?
        else {
            let words = format!(
                "create it in namespace {}, or name another",
                review.call.namespace.unwrap_or_default()
            );
            errors.push(FieldError::new(
                path,
                FieldErrorKind::NotFound,
                Some(text_name.into()),
                words,
            ));
            continue;
        };
        let types = text(&binding, "/provider/type");
        let fits = types.is_empty()
            || types
                .split(',')
                .any(|type_| type_.trim().eq_ignore_ascii_case(&spec.provider.type_));
        if !fits {
            let words = format!(
                "is for provider type {types:?}, not {:?}; name a binding of the shoot's provider",
                spec.provider.type_
            );
            errors.push(FieldError::invalid(path, text_name, words));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, admitted, review};

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
            "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}]}});
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
    fn a_shoot_of_an_unmerged_namespaced_profile_is_refused_with_the_reason() {
        let named =
            || shoot(|shoot| shoot["spec"]["cloudProfile"] = json!({"kind": "NamespacedCloudProfile", "name": "mine"}));
        let mine = |status: Value| {
            let mine = json!({"metadata": {"name": "mine", "namespace": "garden-p"}, "status": status});
            landscape().with("namespacedcloudprofiles", mine)
        };
        for (fixture, said) in [
            (
                landscape(),
                "there is no NamespacedCloudProfile \"mine\", and these are not merged",
            ),
            (
                mine(json!({})),
                "NamespacedCloudProfile \"mine\" exists, but is not merged with its parent yet",
            ),
        ] {
            let refusal = create(named(), &fixture).expect_err(said);
            for part in [
                "spec.cloudProfile: Invalid value: \"NamespacedCloudProfile\"",
                said,
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
    fn only_those_who_may_bind_name_the_seed() {
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
