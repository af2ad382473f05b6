//! Rules of changes of Shoots (gardener/gardener v1.150 pkg/api/core/validation/shoot.go).

use api_core::v1beta1::{DNSProvider, Shoot, ShootSpec, Worker};

use crate::checks::{added, frozen};
use crate::force_deletion::validate_force_deletion;
use crate::hibernation::validate_hibernation_update;
use crate::node_ranges::{needs_more, validate_node_ranges};
use crate::shoot::{is_workerless, validate_always};
use crate::shoot_defaults::default_node_mask;
use crate::shoot_ranges::validate_ranges;
use crate::shoot_workers::{is_in_place, pools_by_name, refuse_new_in_place};
use crate::{FieldError, Path, versions};

/// Everything that is wrong with a change of a shoot's spec through the main resource.
pub fn validate_shoot_update(new: &Shoot, old: &Shoot) -> Vec<FieldError> {
    let forced = validate_force_deletion(new, old);
    if old.metadata.deletion_timestamp.is_some() {
        return frozen("shoot", new.spec != old.spec, &old.metadata)
            .into_iter()
            .chain(forced)
            .collect();
    }
    let path = Path::new("spec");
    if is_workerless(new) != is_workerless(old) {
        // What else such a change does wrong follows from it.
        return vec![path.child("provider.workers").forbidden(if is_workerless(new) {
            "a Shoot keeps at least one worker pool as long as it lives; keep one, or delete the Shoot"
        } else {
            "a Shoot that was created without worker pools stays without; create another one"
        })];
    }
    let mut errors = validate_always(new);
    // These came later than Shoots that break them, which must stay changeable.
    errors.extend(added(validate_ranges(new), &validate_ranges(old)));
    if needs_more(new, old) {
        errors.extend(validate_node_ranges(new));
    }
    validate_hibernation_update(&mut errors, new, old);
    errors.extend(forced);
    let (now, before) = (&new.spec, &old.spec);
    immutable_fields(&mut errors, &path, now, before);
    dns_change(&mut errors, &path.child("dns"), now, before);
    node_mask_change(&mut errors, &path.child("kubernetes.kubeControllerManager"), new, old);
    errors.extend(version_change(&path.child("kubernetes.version"), now, before));
    let pools_before = pools_by_name(&before.provider.workers);
    for (index, pool) in now.provider.workers.iter().enumerate() {
        let path = path.child("provider.workers").index(index);
        let Some(old) = pools_before.get(pool.name.as_str()) else {
            errors.extend(refuse_new_in_place(&path, pool));
            continue;
        };
        errors.extend(strategy_change(&path.child("updateStrategy"), pool, old));
        errors.extend(pool_downgrade(
            &path.child("kubernetes.version"),
            (pool, now),
            (old, before),
        ));
    }
    if before.scheduler_name.is_some() {
        errors.extend(
            path.child("schedulerName")
                .immutable(&now.scheduler_name, &before.scheduler_name),
        );
    }
    errors
}

fn immutable_fields(errors: &mut Vec<FieldError>, path: &Path, now: &ShootSpec, before: &ShootSpec) {
    errors.extend(path.child("region").immutable(&now.region, &before.region));
    errors.extend(
        path.child("provider.type")
            .immutable(&now.provider.type_, &before.provider.type_),
    );
    let networking = |spec: &ShootSpec| spec.networking.clone().unwrap_or_default();
    let (net_now, net_before) = (networking(now), networking(before));
    let texts = [
        ("networking.type", &net_now.type_, &net_before.type_),
        ("networking.pods", &net_now.pods, &net_before.pods),
        ("networking.services", &net_now.services, &net_before.services),
        ("networking.nodes", &net_now.nodes, &net_before.nodes),
    ];
    for (field, now, before) in texts {
        if before.is_some() {
            errors.extend(path.child(field).immutable(now, before));
        }
    }
    let tolerance = |spec: &ShootSpec| {
        let availability = spec.control_plane.as_ref()?.high_availability.as_ref()?;
        Some(availability.failure_tolerance.type_.clone())
    };
    if let Some(before) = tolerance(before) {
        let path = path.child("controlPlane.highAvailability.failureTolerance.type");
        let now = tolerance(now).map(|word| word.as_str().to_owned());
        errors.extend(path.immutable(&now, &Some(before.as_str().to_owned())));
    }
    let moved_to_credentials = now.secret_binding_name.is_none() && now.credentials_binding_name.is_some();
    if before.credentials_binding_name.is_some() && now.credentials_binding_name.as_ref().is_none_or(String::is_empty) {
        let words = "cannot be removed once it is set; name a CredentialsBinding";
        errors.push(path.child("credentialsBindingName").forbidden(words));
    }
    let moved_to_credentials = before.secret_binding_name.is_some() && moved_to_credentials;
    if !moved_to_credentials {
        errors.extend(
            path.child("secretBindingName")
                .immutable(&now.secret_binding_name, &before.secret_binding_name),
        );
    }
}

/// The domain stays, and on a seed the type of the primary provider, whose records exist already.
fn dns_change(errors: &mut Vec<FieldError>, path: &Path, now: &ShootSpec, before: &ShootSpec) {
    let Some(dns_before) = &before.dns else { return };
    let Some(dns) = &now.dns else {
        errors.extend(path.immutable(&now.dns, &before.dns));
        return;
    };
    if dns_before.domain.is_some() {
        errors.extend(path.child("domain").immutable(&dns.domain, &dns_before.domain));
    }
    let primary = |providers: &'_ [DNSProvider]| {
        let found = providers.iter().find(|provider| provider.primary == Some(true));
        found.map(|provider| provider.type_.clone())
    };
    let Some(before) = primary(&dns_before.providers).filter(|_| now.seed_name.is_some()) else {
        return;
    };
    let path = path.child("providers");
    match (before, primary(&dns.providers)) {
        (before, None) => {
            let type_ = before.map(|type_| format!(" of type {type_:?}")).unwrap_or_default();
            errors.push(path.forbidden(format!(
                "the primary provider{type_} cannot be removed once the Shoot has a seed; keep it"
            )));
        }
        (Some(before), Some(now)) if now.as_ref() != Some(&before) => errors.push(path.forbidden(format!(
            "the primary provider's type cannot change from {before:?} to {:?} once the Shoot has a seed; keep {before:?}",
            now.unwrap_or_default()
        ))),
        _ => {}
    }
}

/// Nodes keep the size of their pod networks; that of IPv6 may be set once, for a Shoot that becomes dual-stack.
fn node_mask_change(errors: &mut Vec<FieldError>, path: &Path, new: &Shoot, old: &Shoot) {
    let masks = |shoot: &Shoot| {
        let manager = shoot.spec.kubernetes.kube_controller_manager.as_ref();
        manager.map_or((None, None), |manager| {
            (manager.node_cidr_mask_size, manager.node_cidr_mask_size_ipv6)
        })
    };
    if masks(new) == masks(old) {
        return;
    }
    // A Shoot stored without the field has the default, which the update wrote into it.
    let mut old = old.clone();
    if !is_workerless(&old) {
        default_node_mask(&mut old);
    }
    let ((now, now_ipv6), (before, before_ipv6)) = (masks(new), masks(&old));
    errors.extend(path.child("nodeCIDRMaskSize").immutable(&now, &before));
    if before_ipv6.is_some() {
        errors.extend(path.child("nodeCIDRMaskSizeIPv6").immutable(&now_ipv6, &before_ipv6));
    }
}

/// Machines are replaced, or updated in place, as long as their pool lives.
fn strategy_change(path: &Path, now: &Worker, before: &Worker) -> Option<FieldError> {
    (is_in_place(now) != is_in_place(before)).then(|| {
        let word = |pool: &Worker| {
            pool.update_strategy
                .as_ref()
                .map(|strategy| strategy.as_str().to_owned())
        };
        let words = format!(
            "cannot change between AutoRollingUpdate and updates in place; keep {:?}, or add another pool",
            word(before).unwrap_or_else(|| "AutoRollingUpdate".to_owned())
        );
        path.invalid(word(now), words)
    })
}

/// No step back, and one minor version at a time.
fn version_change(path: &Path, now: &ShootSpec, before: &ShootSpec) -> Option<FieldError> {
    let text = now.kubernetes.version.as_deref()?;
    let (now, before) = (
        versions::parse(text)?,
        versions::parse(before.kubernetes.version.as_deref()?)?,
    );
    if now < before {
        return Some(path.forbidden(format!(
            "kubernetes version downgrade from {before} to {now} is not supported; keep {before} or newer"
        )));
    }
    (now.major != before.major || now.minor > before.minor + 1).then(|| {
        path.forbidden(format!(
            "kubernetes version upgrade from {before} to {now} cannot skip a minor version; go to {}.{} first",
            before.major,
            before.minor + 1
        ))
    })
}

/// A pool without a version has the control plane's.
fn pool_downgrade(path: &Path, now: (&Worker, &ShootSpec), before: (&Worker, &ShootSpec)) -> Option<FieldError> {
    let version = |(pool, spec): (&Worker, &ShootSpec)| {
        let own = pool
            .kubernetes
            .as_ref()
            .and_then(|kubernetes| kubernetes.version.clone());
        versions::parse(&own.or_else(|| spec.kubernetes.version.clone())?)
    };
    let (now, before) = (version(now)?, version(before)?);
    (now < before).then(|| {
        path.forbidden(format!(
            "pool would go from {before} back to {now}; keep {before} or newer"
        ))
    })
}

/// Everything that is wrong with a change through the subresource `binding`: only the seed may be set, and for good:
/// control planes are not migrated yet, so another seed would make a second one and leave the first and its machines
/// behind.
pub fn validate_shoot_binding(new: &Shoot, old: &Shoot) -> Vec<FieldError> {
    let path = Path::new("spec.seedName");
    let mut errors = Vec::new();
    let bound = old.spec.seed_name.as_deref().filter(|name| !name.is_empty());
    // That a seed is named at all is demanded on admission, with another code.
    let bound = bound.filter(|name| new.spec.seed_name.as_deref().is_some_and(|new| new != *name));
    if old.metadata.deletion_timestamp.is_some() && new.spec.seed_name != old.spec.seed_name {
        errors.push(path.forbidden("cannot move a Shoot in deletion; wait until it is gone"));
    } else if let Some(bound) = bound.filter(|_| errors.is_empty()) {
        errors.push(path.forbidden(format!(
            "a Shoot cannot be moved to another seed yet; keep {bound}, or create another Shoot"
        )));
    }
    if needs_more(new, old) {
        errors.extend(validate_node_ranges(new));
    }
    let unbound = |shoot: &Shoot| ShootSpec {
        seed_name: None,
        networking: None,
        dns: None,
        ..shoot.spec.clone()
    };
    if unbound(new) != unbound(old) {
        errors.push(Path::new("spec").forbidden(
            "only seedName may change through the subresource binding; send other changes to the Shoot itself",
        ));
    }
    errors
}

/// Everything that is wrong with a change of a shoot's status: what was assigned once stays.
pub fn validate_shoot_status_update(new: &Shoot, old: &Shoot) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (now, before) = (
        new.status.clone().unwrap_or_default(),
        old.status.clone().unwrap_or_default(),
    );
    let path = Path::new("status");
    if !before.uid.is_empty() {
        errors.extend(path.child("uid").immutable(&now.uid, &before.uid));
    }
    if !before.technical_id.is_empty() {
        errors.extend(
            path.child("technicalID")
                .immutable(&now.technical_id, &before.technical_id),
        );
    }
    if before.cluster_identity.is_some() {
        errors.extend(
            path.child("clusterIdentity")
                .immutable(&now.cluster_identity, &before.cluster_identity),
        );
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shoot::tests::shoot;

    fn paths(errors: Vec<FieldError>) -> Vec<String> {
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn what_is_set_for_good_stays() {
        type Change = fn(&mut Shoot);
        let cases: [(&str, Change); 5] = [
            ("spec.region", |s| s.spec.region = "r2".into()),
            ("spec.provider.type", |s| s.spec.provider.type_ = "other".into()),
            ("spec.networking.pods", |s| {
                s.spec.networking.as_mut().unwrap().pods = Some("10.9.0.0/16".into())
            }),
            ("spec.kubernetes.version", |s| {
                s.spec.kubernetes.version = Some("1.37.0".into())
            }),
            ("spec.secretBindingName spec.credentialsBindingName", |s| {
                s.spec.credentials_binding_name = None;
            }),
        ];
        for (path, change) in cases {
            let mut new = shoot();
            change(&mut new);
            assert_eq!(paths(validate_shoot_update(&new, &shoot())).join(" "), path);
        }
        let mut new = shoot();
        new.spec.kubernetes.version = Some("1.36.0".into());
        new.spec.provider.workers[0].maximum = 5;
        assert_eq!(validate_shoot_update(&new, &shoot()), []);
    }

    #[test]
    fn versions_are_not_downgraded_and_the_scheduler_is_immutable() {
        let mut new = shoot();
        new.spec.kubernetes.version = Some("1.34.9".into());
        assert_eq!(
            paths(validate_shoot_update(&new, &shoot())),
            ["spec.kubernetes.version", "spec.provider.workers[0].kubernetes.version"]
        );
        let mut old = shoot();
        old.spec.scheduler_name = Some("one".into());
        let mut new = old.clone();
        new.spec.scheduler_name = Some("other".into());
        assert_eq!(paths(validate_shoot_update(&new, &old)), ["spec.schedulerName"]);
    }

    #[test]
    fn a_shoot_stays_with_or_without_workers() {
        let mut bare = shoot();
        bare.spec.provider.workers.clear();
        let texts = |new: &Shoot, old: &Shoot| -> Vec<String> {
            validate_shoot_update(new, old)
                .iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(
            texts(&bare, &shoot()),
            [
                "spec.provider.workers: Forbidden: a Shoot keeps at least one worker pool as long as it lives; keep one, or delete the Shoot"
            ]
        );
        assert_eq!(texts(&shoot(), &bare).len(), 1);
    }

    #[test]
    fn a_shoot_in_deletion_is_frozen_but_its_metadata() {
        let mut old = shoot();
        old.spec.region = String::new();
        old.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let mut new = old.clone();
        new.metadata.finalizers = None;
        assert_eq!(
            validate_shoot_update(&new, &old),
            [],
            "old mistakes do not block deletion"
        );
        new.spec.purpose = Some("testing".into());
        assert_eq!(paths(validate_shoot_update(&new, &old)), ["spec"]);
    }

    #[test]
    fn binding_moves_the_seed_alone() {
        let mut bound = shoot();
        bound.spec.seed_name = Some("north".into());
        assert_eq!(validate_shoot_binding(&bound, &shoot()), []);
        bound.spec.region = "r2".into();
        assert_eq!(paths(validate_shoot_binding(&bound, &shoot())), ["spec"]);
    }

    #[test]
    fn a_bound_shoot_stays_on_its_seed() {
        let on = |seed: &str| {
            let mut shoot = shoot();
            shoot.spec.seed_name = Some(seed.to_owned());
            shoot
        };
        let reported: Vec<String> = validate_shoot_binding(&on("south"), &on("north"))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            reported,
            [
                "spec.seedName: Forbidden: a Shoot cannot be moved to another seed yet; keep north, or create another Shoot"
            ]
        );
        assert_eq!(validate_shoot_binding(&on("north"), &on("north")), []);
        assert_eq!(validate_shoot_binding(&on("north"), &on("")), []);
    }

    #[test]
    fn identities_stay() {
        let mut old = shoot();
        old.status = serde_json::from_value(json!({"uid": "1", "technicalID": "t"})).unwrap();
        let mut new = old.clone();
        new.status.as_mut().unwrap().technical_id = "u".into();
        assert_eq!(paths(validate_shoot_status_update(&new, &old)), ["status.technicalID"]);
        assert_eq!(validate_shoot_status_update(&old, &shoot()), []);
    }
}
