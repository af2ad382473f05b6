//! Which extensions a shoot needs, and whether the seed has them. Pure; kinds and types are compared without regard to
//! case, as everywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_core::v1beta1::ControllerResourceLifecycleStrategy as Point;
use api_extensions::ExtensionKind;
use api_meta::{Fault, RawJson};
use api_rules::KindType;
use control_plane_readiness::not_served;
use control_plane_shoot_flow::ExtensionTimeouts;

/// How long an Extension may take unless its registration sets a time (contract of ControllerRegistration).
pub(crate) const RECONCILE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(180);

/// An object of kind Extension that a shoot has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShootExtension {
    /// Its type, also its name.
    pub type_: String,
    /// What the user configured.
    pub provider_config: Option<RawJson>,
    /// When it is brought up.
    pub reconcile: Point,
    /// When it is deleted.
    pub delete: Point,
    /// How long it may take.
    pub timeout: Duration,
}

/// The Extensions of a shoot: those it names, and those that are on by themselves.
#[must_use]
pub(crate) fn shoot_extensions(
    shoot: &core::Shoot,
    registrations: &[&core::ControllerRegistration],
) -> Vec<ShootExtension> {
    let workerless = shoot.spec.provider.workers.is_empty();
    let resources: Vec<&core::ControllerResource> = registrations
        .iter()
        .filter(|registration| registration.metadata.deletion_timestamp.is_none())
        .flat_map(|registration| &registration.spec.resources)
        .filter(|resource| resource.kind == ExtensionKind::Extension.kind() && resource.primary != Some(false))
        .collect();
    let named = |type_: &str| {
        shoot
            .spec
            .extensions
            .iter()
            .find(|extension| extension.type_.eq_ignore_ascii_case(type_))
    };
    let mut found: Vec<ShootExtension> = shoot
        .spec
        .extensions
        .iter()
        .filter(|extension| extension.disabled != Some(true))
        .map(|extension| {
            let resource = resources
                .iter()
                .find(|resource| resource.type_.eq_ignore_ascii_case(&extension.type_));
            extension_of(&extension.type_, extension.provider_config.clone(), resource.copied())
        })
        .collect();
    for resource in resources {
        let everywhere = resource.auto_enable.contains(&core::ClusterType::Shoot);
        let fits = !workerless || resource.workerless_supported == Some(true);
        if everywhere && fits && named(&resource.type_).is_none() {
            found.push(extension_of(&resource.type_, None, Some(resource)));
        }
    }
    found.sort_by(|one, other| one.type_.cmp(&other.type_));
    found
}

impl ShootExtension {
    /// Whether it is deleted after the API server. `AfterWorker` does not exist there: it counts as before.
    #[must_use]
    pub(crate) fn deleted_after_api_server(&self) -> bool {
        self.delete == Point::AfterKubeAPIServer
    }
}

/// How long these may take at each point; the default where there are none.
#[must_use]
pub(crate) fn extension_timeouts(extensions: &[ShootExtension]) -> ExtensionTimeouts {
    let longest = |of: &dyn Fn(&ShootExtension) -> bool| {
        let timeouts = extensions.iter().filter(|one| of(one)).map(|one| one.timeout);
        timeouts.max().unwrap_or(RECONCILE_TIMEOUT_DEFAULT)
    };
    // What is left of former extensions goes beside those of now, and has the default.
    let deleted = |after| longest(&|one| one.deleted_after_api_server() == after).max(RECONCILE_TIMEOUT_DEFAULT);
    ExtensionTimeouts {
        before_api_server: longest(&|one| one.reconcile == Point::BeforeKubeAPIServer),
        after_api_server: longest(&|one| one.reconcile == Point::AfterKubeAPIServer),
        after_workers: longest(&|one| one.reconcile == Point::AfterWorker),
        deleted_before_api_server: deleted(false),
        deleted_after_api_server: deleted(true),
    }
}

fn extension_of(type_: &str, config: Option<RawJson>, resource: Option<&core::ControllerResource>) -> ShootExtension {
    let lifecycle = resource.and_then(|resource| resource.lifecycle.clone());
    let timeout = resource.and_then(|resource| resource.reconcile_timeout);
    ShootExtension {
        type_: type_.to_owned(),
        provider_config: config,
        reconcile: lifecycle
            .as_ref()
            .and_then(|cycle| cycle.reconcile.clone())
            .unwrap_or(Point::AfterKubeAPIServer),
        delete: lifecycle
            .as_ref()
            .and_then(|cycle| cycle.delete.clone())
            .unwrap_or(Point::BeforeKubeAPIServer),
        timeout: timeout.map_or(RECONCILE_TIMEOUT_DEFAULT, |timeout| timeout.to_std()),
    }
}

/// Looks for a ready installation of a primary controller for each kind and type.
///
/// # Errors
/// A dependency fault naming each kind and type that is not registered, not installed or not ready.
pub(crate) fn check_installed(
    needed: &BTreeSet<KindType>,
    registrations: &[core::ControllerRegistration],
    installations: &[&core::ControllerInstallation],
    seed: &str,
) -> Result<(), Fault> {
    let missing: Vec<String> = needed
        .iter()
        .filter_map(|wanted| {
            let state = not_served(wanted, registrations, installations, seed)?;
            Some(format!("{wanted} ({state})"))
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Fault::dependency(format!(
        "extension controllers missing or unready: {}",
        missing.join(", ")
    ))
    .hint("register the named kind and type in a ControllerRegistration, or look at its ControllerInstallation"))
}

#[cfg(test)]
mod tests {
    use api_meta::{Condition, ConditionStatus, ObjectReference};
    use api_rules::KindType;
    use jiff::Timestamp;

    use super::*;

    fn registration(name: &str, resources: Vec<core::ControllerResource>) -> core::ControllerRegistration {
        let mut registration = core::ControllerRegistration::default();
        registration.metadata.name = Some(name.into());
        registration.spec.resources = resources;
        registration
    }

    fn resource(kind: &str, type_: &str) -> core::ControllerResource {
        core::ControllerResource {
            kind: kind.into(),
            type_: type_.into(),
            ..core::ControllerResource::default()
        }
    }

    fn installation(registration: &str, seed: &str, conditions: &[&str]) -> core::ControllerInstallation {
        let reference = |name: &str| ObjectReference {
            name: Some(name.into()),
            ..ObjectReference::default()
        };
        let mut installation = core::ControllerInstallation::default();
        installation.spec.registration_ref = reference(registration);
        installation.spec.seed_ref = Some(reference(seed));
        let yes = |type_: &&str| Condition::new(type_, ConditionStatus::True, "R", "m", Timestamp::UNIX_EPOCH);
        installation.status = Some(core::ControllerInstallationStatus {
            conditions: conditions.iter().map(yes).collect(),
            provider_status: None,
        });
        installation
    }

    fn check(registrations: &[core::ControllerRegistration], installations: &[core::ControllerInstallation]) -> String {
        let needed = BTreeSet::from([KindType::new("Network", "moonnet")]);
        let installations: Vec<_> = installations.iter().collect();
        check_installed(&needed, registrations, &installations, "s")
            .map_or_else(|fault| fault.to_string(), |()| "ok".into())
    }

    #[test]
    fn the_missing_kind_and_type_is_named_with_what_it_lacks() {
        let net = || registration("net", vec![resource("Network", "MoonNet")]);
        let missing = |what: &str| format!("extension controllers missing or unready: Network/moonnet ({what})");
        assert_eq!(check(&[], &[]), missing("not registered"));
        assert_eq!(
            check(&[registration("net", vec![resource("Worker", "moonnet")])], &[]),
            missing("not registered")
        );
        assert_eq!(
            check(&[net()], &[installation("net", "other", &["Valid", "Installed"])]),
            missing("not installed on the seed")
        );
        assert_eq!(
            check(&[net()], &[installation("net", "s", &["Valid"])]),
            missing("installation not finished")
        );
        assert_eq!(
            check(&[net()], &[installation("net", "s", &["Valid", "Installed"])]),
            "ok"
        );
    }

    #[test]
    fn the_message_of_an_installations_condition_is_passed_on() {
        let net = || registration("net", vec![resource("Network", "MoonNet")]);
        for (type_, what) in [
            ("Valid", "not valid yet"),
            ("Installed", "not finished"),
            ("Healthy", "not healthy"),
        ] {
            let mut one = installation("net", "s", &["Valid", "Installed", "Healthy"]);
            let bad = Condition::new(type_, ConditionStatus::False, "R", "no image", Timestamp::UNIX_EPOCH);
            bad.put_into(&mut one.status.as_mut().unwrap().conditions);
            let message = check(&[net()], &[one]);
            assert!(
                message.contains(&format!("(installation {what}: no image)")),
                "{message}"
            );
        }
    }

    #[test]
    fn a_secondary_controller_does_not_count() {
        let secondary = core::ControllerResource {
            primary: Some(false),
            ..resource("Network", "moonnet")
        };
        let registrations = [registration("net", vec![secondary])];
        assert!(check(&registrations, &[installation("net", "s", &["Valid", "Installed"])]).contains("not registered"));
    }

    #[test]
    fn extensions_are_those_named_and_those_on_by_themselves_unless_turned_off() {
        let auto = |type_: &str| core::ControllerResource {
            auto_enable: vec![core::ClusterType::Shoot],
            ..resource("Extension", type_)
        };
        let before = core::ControllerResource {
            lifecycle: Some(core::ControllerResourceLifecycle {
                reconcile: Some(Point::BeforeKubeAPIServer),
                delete: None,
                migrate: None,
            }),
            ..resource("Extension", "audit")
        };
        let registrations = [registration("all", vec![auto("dns"), auto("off"), before])];
        let mut shoot = core::Shoot::default();
        let named = |type_: &str, disabled| core::Extension {
            type_: type_.into(),
            disabled,
            ..core::Extension::default()
        };
        shoot.spec.extensions = vec![named("Audit", None), named("off", Some(true))];
        shoot.spec.provider.workers = vec![core::Worker::default()];
        let found = |shoot: &core::Shoot| -> Vec<(String, Point)> {
            let registrations: Vec<_> = registrations.iter().collect();
            shoot_extensions(shoot, &registrations)
                .into_iter()
                .map(|one| (one.type_, one.reconcile))
                .collect()
        };
        assert_eq!(
            found(&shoot),
            [
                ("Audit".to_owned(), Point::BeforeKubeAPIServer),
                ("dns".to_owned(), Point::AfterKubeAPIServer)
            ]
        );
        shoot.spec.provider.workers.clear();
        assert_eq!(
            found(&shoot).len(),
            1,
            "without workers only what supports it is on by itself"
        );
    }

    #[test]
    fn the_longest_reconcile_timeout_of_a_point_counts() {
        let extension = |reconcile: Point, delete: Point, seconds: u64| ShootExtension {
            type_: "t".into(),
            provider_config: None,
            reconcile,
            delete,
            timeout: Duration::from_secs(seconds),
        };
        let timeouts = extension_timeouts(&[
            extension(Point::AfterKubeAPIServer, Point::AfterKubeAPIServer, 30),
            extension(Point::BeforeKubeAPIServer, Point::BeforeKubeAPIServer, 20),
            extension(Point::BeforeKubeAPIServer, Point::BeforeKubeAPIServer, 300),
        ]);
        let seconds = Duration::from_secs;
        assert_eq!(timeouts.before_api_server, seconds(300));
        assert_eq!(timeouts.after_api_server, seconds(30));
        assert_eq!(timeouts.after_workers, RECONCILE_TIMEOUT_DEFAULT);
        assert_eq!(timeouts.deleted_before_api_server, seconds(300));
        assert_eq!(timeouts.deleted_after_api_server, RECONCILE_TIMEOUT_DEFAULT);
    }
}
