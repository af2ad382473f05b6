//! Which kinds and types of extensions a shoot or seed needs, and which of them are not registered
//! (gardener/gardener v1.150 pkg/utils/gardener/{shoot,seed,controllerregistration}.go,
//! plugin/pkg/global/extensionvalidation). Types are compared without regard to case everywhere.

use std::collections::BTreeSet;
use std::fmt;

use api_core::v1beta1::{ClusterType, ControllerRegistration, ControllerResource, Extension, Seed, Shoot};
use api_extensions::ExtensionKind;
use api_meta::names::DNS_UNMANAGED;

use crate::registration::is_primary;
use crate::shoot::is_workerless;
use crate::{FieldError, Path};

/// A kind of extensions.gardener.cloud and a type, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindType {
    /// The kind, such as `Worker`.
    pub kind: String,
    /// The type in lower case.
    pub type_: String,
}

impl KindType {
    /// Takes the type in any case, and kinds by name too: a registration may name one that is no longer known.
    pub fn new(kind: impl AsRef<str>, type_: &str) -> Self {
        Self {
            kind: kind.as_ref().to_owned(),
            type_: type_.to_lowercase(),
        }
    }

    /// Whether a registered resource is about this.
    pub fn matches(&self, resource: &ControllerResource) -> bool {
        resource.kind == self.kind && resource.type_.eq_ignore_ascii_case(&self.type_)
    }
}

impl fmt::Display for KindType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.type_)
    }
}

/// Whether the registration lists this kind and type, as primary or not.
pub fn is_responsible(registration: &ControllerRegistration, wanted: &KindType) -> bool {
    registration
        .spec
        .resources
        .iter()
        .any(|resource| wanted.matches(resource))
}

/// A need with the field it comes from.
struct Need {
    path: Path,
    wanted: KindType,
    /// The type as the user wrote it.
    written: String,
}

impl Need {
    fn new(path: &str, kind: ExtensionKind, type_: &str) -> Self {
        Self {
            path: Path::new(path),
            wanted: KindType::new(kind, type_),
            written: type_.to_owned(),
        }
    }
}

/// What the fields of a shoot itself need, in order of the fields.
fn needs_of_shoot(shoot: &Shoot) -> Vec<Need> {
    let spec = &shoot.spec;
    let mut needs = Vec::new();
    for (index, extension) in spec
        .extensions
        .iter()
        .enumerate()
        .filter(|(_, e)| e.disabled != Some(true))
    {
        needs.push(Need::new(
            &format!("spec.extensions[{index}].type"),
            ExtensionKind::Extension,
            &extension.type_,
        ));
    }
    for (index, provider) in spec.dns.iter().flat_map(|dns| dns.providers.iter()).enumerate() {
        let type_ = provider.type_.as_deref().filter(|type_| *type_ != DNS_UNMANAGED);
        if let Some(type_) = type_.filter(|_| provider.primary == Some(true)) {
            needs.push(Need::new(
                &format!("spec.dns.providers[{index}].type"),
                ExtensionKind::DNSRecord,
                type_,
            ));
        }
    }
    if is_workerless(shoot) {
        return needs;
    }
    for kind in [
        ExtensionKind::ControlPlane,
        ExtensionKind::Infrastructure,
        ExtensionKind::Worker,
    ] {
        needs.push(Need::new("spec.provider.type", kind, &spec.provider.type_));
    }
    if let Some(type_) = spec
        .networking
        .as_ref()
        .and_then(|networking| networking.type_.as_deref())
    {
        needs.push(Need::new("spec.networking.type", ExtensionKind::Network, type_));
    }
    for (index, worker) in spec.provider.workers.iter().enumerate() {
        let path = format!("spec.provider.workers[{index}]");
        if let Some(image) = &worker.machine.image {
            needs.push(Need::new(
                &format!("{path}.machine.image.name"),
                ExtensionKind::OperatingSystemConfig,
                &image.name,
            ));
        }
        for (runtime_index, runtime) in worker
            .cri
            .iter()
            .flat_map(|cri| cri.container_runtimes.iter())
            .enumerate()
        {
            let path = format!("{path}.cri.containerRuntimes[{runtime_index}].type");
            needs.push(Need::new(&path, ExtensionKind::ContainerRuntime, &runtime.type_));
        }
        needs.extend(needs_of_self_hosted_pool(&path, worker));
    }
    needs
}

fn needs_of_self_hosted_pool(path: &str, worker: &api_core::v1beta1::Worker) -> Vec<Need> {
    let Some(control_plane) = &worker.control_plane else {
        return Vec::new();
    };
    let exposure = control_plane
        .exposure
        .as_ref()
        .and_then(|e| e.extension.as_ref())
        .and_then(|e| e.type_.as_deref());
    let mut needs: Vec<Need> = exposure
        .map(|type_| {
            Need::new(
                &format!("{path}.controlPlane.exposure.extension.type"),
                ExtensionKind::SelfHostedShootExposure,
                type_,
            )
        })
        .into_iter()
        .collect();
    if let Some(backup) = &control_plane.backup {
        for kind in [ExtensionKind::BackupBucket, ExtensionKind::BackupEntry] {
            needs.push(Need::new(
                &format!("{path}.controlPlane.backup.provider"),
                kind,
                &backup.provider,
            ));
        }
    }
    needs
}

/// Everything a shoot needs of extensions in its seed (contract of Gardener's ControllerRegistration controller).
///
/// Beside the needs of its fields: the seed's provider for exposure, backup, the domains its names fall under, and
/// extensions that registrations turn on by themselves.
pub fn required_types_for_shoot(
    shoot: &Shoot,
    seed: &Seed,
    registrations: &[ControllerRegistration],
) -> BTreeSet<KindType> {
    let mut types: BTreeSet<KindType> = needs_of_shoot(shoot).into_iter().map(|need| need.wanted).collect();
    types.insert(KindType::new(ExtensionKind::ControlPlane, &seed.spec.provider.type_));
    if let Some(backup) = &seed.spec.backup {
        types.insert(KindType::new(ExtensionKind::BackupBucket, &backup.provider));
        types.insert(KindType::new(ExtensionKind::BackupEntry, &backup.provider));
    }
    types.extend(
        seed.spec
            .dns
            .internal
            .iter()
            .map(|internal| KindType::new(ExtensionKind::DNSRecord, &internal.type_)),
    );
    types.extend(default_domain_type(shoot, seed));
    let workerless = is_workerless(shoot);
    types.extend(
        auto_enabled(registrations, &ClusterType::Shoot, &shoot.spec.extensions)
            .filter(|resource| !workerless || resource.workerless_supported == Some(true))
            .map(|resource| KindType::new(&resource.kind, &resource.type_)),
    );
    types
}

/// The provider of the seed's default domain that the shoot's domain lies under, unless the shoot brings its own.
fn default_domain_type(shoot: &Shoot, seed: &Seed) -> Option<KindType> {
    let dns = shoot.spec.dns.as_ref()?;
    let domain = dns.domain.as_deref()?;
    if dns.providers.iter().any(|provider| provider.primary == Some(true)) {
        return None;
    }
    seed.spec
        .dns
        .defaults
        .iter()
        .find(|default| {
            domain
                .strip_suffix(default.domain.as_str())
                .is_some_and(|rest| rest.ends_with('.'))
        })
        .map(|default| KindType::new(ExtensionKind::DNSRecord, &default.type_))
}

/// Resources of kind Extension that are on for this kind of cluster unless `extensions` disables them. A registration
/// on its way out turns nothing on: otherwise it would wait for itself.
fn auto_enabled<'a>(
    registrations: &'a [ControllerRegistration],
    cluster: &'a ClusterType,
    extensions: &'a [Extension],
) -> impl Iterator<Item = &'a ControllerResource> {
    registrations
        .iter()
        .filter(|registration| registration.metadata.deletion_timestamp.is_none())
        .flat_map(|registration| registration.spec.resources.iter())
        .filter(|resource| resource.kind == ExtensionKind::Extension.kind() && resource.auto_enable.contains(cluster))
        .filter(|resource| {
            !extensions.iter().any(|extension| {
                extension.disabled == Some(true) && extension.type_.eq_ignore_ascii_case(&resource.type_)
            })
        })
}

fn needs_of_seed(seed: &Seed) -> Vec<Need> {
    let spec = &seed.spec;
    let mut needs = Vec::new();
    for kind in [
        ExtensionKind::ControlPlane,
        ExtensionKind::Infrastructure,
        ExtensionKind::Worker,
    ] {
        needs.push(Need::new("spec.provider.type", kind, &spec.provider.type_));
    }
    if let Some(provider) = &spec.dns.provider {
        needs.push(Need::new(
            "spec.dns.provider.type",
            ExtensionKind::DNSRecord,
            &provider.type_,
        ));
    }
    for (index, extension) in spec
        .extensions
        .iter()
        .enumerate()
        .filter(|(_, e)| e.disabled != Some(true))
    {
        needs.push(Need::new(
            &format!("spec.extensions[{index}].type"),
            ExtensionKind::Extension,
            &extension.type_,
        ));
    }
    needs
}

/// Everything a seed needs of extensions for itself; nothing while it is being deleted.
pub fn required_types_for_seed(seed: &Seed, registrations: &[ControllerRegistration]) -> BTreeSet<KindType> {
    if seed.metadata.deletion_timestamp.is_some() {
        return BTreeSet::new();
    }
    let own = needs_of_seed(seed).into_iter().map(|need| need.wanted);
    let automatic = auto_enabled(registrations, &ClusterType::Seed, &seed.spec.extensions)
        .map(|resource| KindType::new(&resource.kind, &resource.type_));
    own.chain(automatic).collect()
}

/// The Extensions of a seed: those that it names, and those that registrations enable for seeds; none while it is being
/// deleted. Sorted by type.
pub fn extensions_of_seed(seed: &Seed, registrations: &[ControllerRegistration]) -> Vec<Extension> {
    if seed.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let own = &seed.spec.extensions;
    let named = |type_: &str| own.iter().any(|extension| extension.type_.eq_ignore_ascii_case(type_));
    let automatic = auto_enabled(registrations, &ClusterType::Seed, own)
        .filter(|resource| is_primary(resource) && !named(&resource.type_))
        .map(|resource| Extension {
            type_: resource.type_.clone(),
            ..Extension::default()
        });
    let enabled = own.iter().filter(|extension| extension.disabled != Some(true)).cloned();
    let mut all: Vec<Extension> = enabled.chain(automatic).collect();
    all.sort_by_key(|extension| extension.type_.to_lowercase());
    all
}

/// An error for every field of the shoot that needs a kind and type which no registration controls primarily, or
/// which does not work for such a cluster.
pub fn unregistered_types(shoot: &Shoot, registrations: &[ControllerRegistration]) -> Vec<FieldError> {
    let workerless = is_workerless(shoot);
    let evaluate = |need: Need| evaluate("Shoot", &ClusterType::Shoot, workerless, need, registrations);
    needs_of_shoot(shoot).into_iter().filter_map(evaluate).collect()
}

/// The same for a seed, its backup included.
pub fn unregistered_types_of_seed(seed: &Seed, registrations: &[ControllerRegistration]) -> Vec<FieldError> {
    let mut needs = needs_of_seed(seed);
    if let Some(backup) = &seed.spec.backup {
        for kind in [ExtensionKind::BackupBucket, ExtensionKind::BackupEntry] {
            needs.push(Need::new("spec.backup.provider", kind, &backup.provider));
        }
    }
    let evaluate = |need: Need| evaluate("Seed", &ClusterType::Seed, false, need, registrations);
    needs.into_iter().filter_map(evaluate).collect()
}

fn evaluate(
    who: &str,
    cluster: &ClusterType,
    workerless: bool,
    need: Need,
    registrations: &[ControllerRegistration],
) -> Option<FieldError> {
    let Need { path, wanted, written } = need;
    let primary = registrations
        .iter()
        .flat_map(|registration| &registration.spec.resources)
        .find(|resource| is_primary(resource) && wanted.matches(resource));
    let Some(resource) = primary else {
        return Some(path.invalid(&written, format!(
            "given {who} uses non-registered extension type: {path} (\"{written}\"); create a ControllerRegistration for {}/{written}",
            wanted.kind
        )));
    };
    if wanted.kind != ExtensionKind::Extension.kind() {
        return None;
    }
    let compatible = resource.cluster_compatibility.contains(cluster)
        || (resource.cluster_compatibility.is_empty() && *cluster == ClusterType::Shoot);
    if !compatible {
        return Some(path.forbidden(format!(
            "extension type \"{written}\" does not work for a {who}; remove it"
        )));
    }
    (workerless && resource.workerless_supported != Some(true)).then(|| {
        path.forbidden(format!(
            "given Shoot is workerless and uses non-supported extension type: {path} (\"{written}\"); remove it"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::seed::tests::seed;

    fn registrations() -> Vec<ControllerRegistration> {
        serde_json::from_value(json!([
            {"metadata": {"name": "local"}, "spec": {"resources": [
                {"kind": "ControlPlane", "type": "LOCAL"}, {"kind": "Infrastructure", "type": "local"}, {"kind": "Worker", "type": "local"},
                {"kind": "Network", "type": "flat"}, {"kind": "OperatingSystemConfig", "type": "linux"}]}},
            {"metadata": {"name": "more"}, "spec": {"resources": [
                {"kind": "Extension", "type": "always", "autoEnable": ["shoot"], "clusterCompatibility": ["shoot"]},
                {"kind": "Extension", "type": "anywhere", "autoEnable": ["shoot", "seed"], "clusterCompatibility": ["shoot", "seed"], "workerlessSupported": true},
                {"kind": "Extension", "type": "off", "autoEnable": ["shoot"]},
                {"kind": "Network", "type": "second", "primary": false}]}},
        ]))
        .unwrap()
    }

    fn shoot(spec: serde_json::Value) -> Shoot {
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn full() -> Shoot {
        shoot(
            json!({"provider": {"type": "Local", "workers": [{"name": "a", "machine": {"image": {"name": "Linux"}},
                "cri": {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}}]},
            "networking": {"type": "flat"}, "dns": {"domain": "a.b.shoots.example.com"},
            "extensions": [{"type": "OFF", "disabled": true}, {"type": "mine"}]}),
        )
    }

    fn texts(types: &BTreeSet<KindType>) -> Vec<String> {
        types.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_shoot_needs_the_types_of_its_fields_seed_and_registrations() {
        let types = required_types_for_shoot(&full(), &seed(), &registrations());
        assert_eq!(
            texts(&types),
            [
                "BackupBucket/bucket",
                "BackupEntry/bucket",
                "ContainerRuntime/gvisor",
                "ControlPlane/local",
                "DNSRecord/local-dns",
                "DNSRecord/public-dns",
                "Extension/always",
                "Extension/anywhere",
                "Extension/mine",
                "Infrastructure/local",
                "Network/flat",
                "OperatingSystemConfig/linux",
                "Worker/local"
            ]
        );
    }

    #[test]
    fn a_workerless_shoot_needs_no_machines() {
        let workerless = shoot(json!({"provider": {"type": "other"}, "dns": {"domain": "x.own.com",
            "providers": [{"type": "own-dns", "primary": true}, {"type": "second"}]}}));
        let types = required_types_for_shoot(&workerless, &seed(), &registrations());
        assert_eq!(
            texts(&types),
            [
                "BackupBucket/bucket",
                "BackupEntry/bucket",
                "ControlPlane/local",
                "DNSRecord/local-dns",
                "DNSRecord/own-dns",
                "Extension/anywhere"
            ]
        );
    }

    #[test]
    fn a_seed_needs_its_provider_until_it_goes() {
        let mut seed = seed();
        assert_eq!(
            texts(&required_types_for_seed(&seed, &registrations())),
            [
                "ControlPlane/local",
                "Extension/anywhere",
                "Infrastructure/local",
                "Worker/local"
            ]
        );
        seed.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(required_types_for_seed(&seed, &registrations()).is_empty());
    }

    #[test]
    fn each_unregistered_type_names_field_kind_and_type() {
        let mut requested = full();
        requested.spec.networking.as_mut().unwrap().type_ = Some("second".into());
        let found: Vec<String> = unregistered_types(&requested, &registrations())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].contains("spec.extensions[1].type (\"mine\")") && found[0].contains("Extension/mine"),
            "{}",
            found[0]
        );
        assert_eq!(
            found[1],
            "spec.networking.type: Invalid value: \"second\": given Shoot uses non-registered extension type: \
             spec.networking.type (\"second\"); create a ControllerRegistration for Network/second"
        );
        assert!(
            found[2].starts_with("spec.provider.workers[0].cri.containerRuntimes[0].type: "),
            "{}",
            found[2]
        );
        let workerless =
            shoot(json!({"provider": {"type": "x"}, "extensions": [{"type": "always"}, {"type": "anywhere"}]}));
        let found = unregistered_types(&workerless, &registrations());
        assert_eq!(found.len(), 1);
        assert!(
            found[0]
                .detail
                .starts_with("given Shoot is workerless and uses non-supported extension type")
        );
    }
}
