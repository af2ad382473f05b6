//! Defaults and rules of Seeds (gardener/gardener v1.150 pkg/apis/core/v1beta1/defaults_seed.go,
//! pkg/api/core/validation/seed.go).

use std::collections::BTreeMap;

use api_core::v1beta1::{
    IPFamily, Seed, SeedSettingDependencyWatchdogProber, SeedSettingDependencyWatchdogWeeder,
    SeedSettingExcessCapacityReservationConfig, SeedSettingLoadBalancerServicesZonalIngress, SeedSettingScheduling,
    SeedSettingTopologyAwareRouting, SeedSettingVerticalPodAutoscaler, SeedSpec,
};
use api_meta::annotations::OPERATION;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::checks::{credentials_ref, distinct, dns_label, dns_name, frozen, known, name, named_resources, not_empty};
use crate::old_spellings::both_on_and_off;
use crate::{FieldError, Path, cidr, quantity};

/// Room reserved when a seed sets none.
const RESERVED_CPU: &str = "2";
const RESERVED_MEMORY: &str = "6Gi";

/// Writes today's defaults into a seed.
pub fn default_seed(seed: &mut Seed) {
    let spec = &mut seed.spec;
    if spec.networks.ip_families.is_empty() {
        spec.networks.ip_families = vec![IPFamily::IPv4];
    }
    let settings = spec.settings.get_or_insert_default();
    settings
        .scheduling
        .get_or_insert(SeedSettingScheduling { visible: true });
    settings
        .vertical_pod_autoscaler
        .get_or_insert_with(|| SeedSettingVerticalPodAutoscaler {
            enabled: true,
            ..Default::default()
        });
    settings
        .topology_aware_routing
        .get_or_insert(SeedSettingTopologyAwareRouting { enabled: false });
    let watchdog = settings.dependency_watchdog.get_or_insert_default();
    watchdog
        .weeder
        .get_or_insert(SeedSettingDependencyWatchdogWeeder { enabled: true });
    watchdog
        .prober
        .get_or_insert(SeedSettingDependencyWatchdogProber { enabled: true });
    settings
        .load_balancer_services
        .get_or_insert_default()
        .zonal_ingress
        .get_or_insert(SeedSettingLoadBalancerServicesZonalIngress { enabled: Some(true) });
    settings.persistent_volume_claim_autoscaler.get_or_insert_default();
    let reservation = settings.excess_capacity_reservation.get_or_insert_default();
    if reservation.enabled.unwrap_or(true) && reservation.configs.is_empty() {
        let resources = [("cpu", RESERVED_CPU), ("memory", RESERVED_MEMORY)]
            .map(|(name, size)| (name.to_owned(), Quantity(size.to_owned())));
        reservation.configs.push(SeedSettingExcessCapacityReservationConfig {
            resources: BTreeMap::from(resources),
            ..Default::default()
        });
    }
}

/// Everything that is wrong with a seed by itself.
pub fn validate_seed(seed: &Seed) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&seed.spec, Path::new("spec"));
    dns_label(&mut errors, &Path::new("metadata.name"), name(&seed.metadata));
    not_empty(&mut errors, &path.child("provider.type"), &spec.provider.type_);
    not_empty(&mut errors, &path.child("provider.region"), &spec.provider.region);
    let zones = path.child("provider.zones");
    distinct(&mut errors, spec.provider.zones.iter().map(String::as_str), |index| {
        zones.index(index)
    });
    validate_networks(&mut errors, &path.child("networks"), spec);
    validate_dns(&mut errors, &path.child("dns"), spec);
    if let Some(backup) = &spec.backup {
        let path = path.child("backup");
        not_empty(&mut errors, &path.child("provider"), &backup.provider);
        if backup.provider != spec.provider.type_ && backup.region.as_deref().unwrap_or_default().is_empty() {
            errors.push(
                path.child("region")
                    .required("name the region if the backup's provider is not the seed's"),
            );
        }
        match &backup.credentials_ref {
            None => errors.push(
                path.child("credentialsRef")
                    .required("name the Secret or WorkloadIdentity to use"),
            ),
            Some(reference) => credentials_ref(&mut errors, &path.child("credentialsRef"), reference),
        }
    }
    if let Some(ingress) = &spec.ingress {
        dns_name(&mut errors, &path.child("ingress.domain"), &ingress.domain);
        let kind = &ingress.controller.kind;
        known(
            &mut errors,
            &path.child("ingress.controller.kind"),
            kind == "nginx",
            kind,
            &["nginx"],
        );
    }
    let taints = path.child("taints");
    distinct(
        &mut errors,
        spec.taints.iter().map(|taint| taint.key.as_str()),
        |index| taints.index(index).child("key"),
    );
    for (index, taint) in spec.taints.iter().enumerate() {
        not_empty(&mut errors, &taints.index(index).child("key"), &taint.key);
    }
    let extensions = path.child("extensions");
    let types: Vec<String> = spec
        .extensions
        .iter()
        .map(|extension| extension.type_.to_lowercase())
        .collect();
    distinct(&mut errors, types.iter().map(String::as_str), |index| {
        extensions.index(index).child("type")
    });
    both_on_and_off(&mut errors, &extensions, &spec.extensions);
    validate_settings(&mut errors, &path, seed);
    named_resources(&mut errors, &path.child("resources"), &spec.resources);
    errors
}

/// Load balancers, volumes, and the operation that an annotation requests.
fn validate_settings(errors: &mut Vec<FieldError>, path: &Path, seed: &Seed) {
    const POLICIES: [&str; 2] = ["Cluster", "Local"];
    const OPERATIONS: [&str; 4] = [
        "reconcile",
        "renew-garden-access-secrets",
        "renew-kubeconfig",
        "renew-workload-identity-tokens",
    ];
    let services = seed
        .spec
        .settings
        .as_ref()
        .and_then(|settings| settings.load_balancer_services.as_ref());
    if let Some(policy) = services.and_then(|services| services.external_traffic_policy.as_ref()) {
        let path = path.child("settings.loadBalancerServices.externalTrafficPolicy");
        known(errors, &path, POLICIES.contains(&policy.as_str()), policy, &POLICIES);
    }
    let smallest = seed
        .spec
        .volume
        .as_ref()
        .and_then(|volume| volume.minimum_size.as_ref());
    if let Some(size) = smallest.filter(|size| quantity::value(&size.0).is_none_or(|size| size <= 0.0)) {
        errors.push(
            path.child("volume.minimumSize")
                .invalid(&size.0, "must be a quantity above zero"),
        );
    }
    let requested = seed.metadata.annotations.as_ref().and_then(|all| all.get(OPERATION));
    if let Some(requested) = requested.filter(|requested| !requested.is_empty()) {
        let path = Path::new("metadata.annotations").key(OPERATION);
        known(
            errors,
            &path,
            OPERATIONS.contains(&requested.as_str()),
            requested,
            &OPERATIONS,
        );
    }
}

fn validate_networks(errors: &mut Vec<FieldError>, path: &Path, spec: &SeedSpec) {
    let networks = &spec.networks;
    let mut known_networks = Vec::new();
    for (field, network) in [
        // An overlap is reported at the later one.
        ("pods", Some(networks.pods.as_str())),
        ("services", Some(networks.services.as_str())),
        ("nodes", networks.nodes.as_deref()),
    ] {
        if let Some(network) = network {
            cidr::any_network(errors, &path.child(field), network);
            known_networks.push((path.child(field), network));
        }
    }
    cidr::disjoint(errors, &known_networks);
    if let [family @ (IPFamily::IPv4 | IPFamily::IPv6)] = &networks.ip_families[..] {
        for (path, network) in &known_networks {
            if network.contains(':') != (*family == IPFamily::IPv6) {
                let words = format!("must be an {} network, the only one of ipFamilies", family.as_str());
                errors.push(path.invalid(network, words));
            }
        }
    }
    if let Some(defaults) = &networks.shoot_defaults {
        for (field, network) in [("pods", &defaults.pods), ("services", &defaults.services)] {
            if let Some(network) = network {
                cidr::network(errors, &path.child("shootDefaults").child(field), network);
            }
        }
    }
    for (index, family) in networks.ip_families.iter().enumerate() {
        known(
            errors,
            &path.child("ipFamilies").index(index),
            family.is_known(),
            family.as_str(),
            IPFamily::KNOWN,
        );
    }
}

fn validate_dns(errors: &mut Vec<FieldError>, path: &Path, spec: &SeedSpec) {
    let dns = &spec.dns;
    if dns.internal.is_none() {
        errors.push(
            path.child("internal")
                .required("name the domain of the shoots' internal API server addresses"),
        );
    }
    let internal = dns.internal.iter().map(|config| (path.child("internal"), config));
    let defaults = dns
        .defaults
        .iter()
        .enumerate()
        .map(|(index, config)| (path.child("defaults").index(index), config));
    for (path, config) in internal.chain(defaults) {
        not_empty(errors, &path.child("type"), &config.type_);
        dns_name(errors, &path.child("domain"), &config.domain);
        credentials_ref(errors, &path.child("credentialsRef"), &config.credentials_ref);
    }
    let domains = path.child("defaults");
    distinct(
        errors,
        dns.defaults.iter().map(|config| config.domain.as_str()),
        |index| domains.index(index).child("domain"),
    );
    if let Some(provider) = &dns.provider {
        not_empty(errors, &path.child("provider.type"), &provider.type_);
    }
}

/// Everything that is wrong with a change of a seed.
pub fn validate_seed_update(new: &Seed, old: &Seed) -> Vec<FieldError> {
    let mut errors = validate_seed(new);
    let path = Path::new("spec");
    errors.extend(frozen("seed", new.spec != old.spec, &new.metadata));
    let (now, before) = (&new.spec.networks, &old.spec.networks);
    errors.extend(path.child("networks.pods").immutable(&now.pods, &before.pods));
    errors.extend(
        path.child("networks.services")
            .immutable(&now.services, &before.services),
    );
    errors.extend(
        path.child("networks.ipFamilies")
            .immutable(&now.ip_families, &before.ip_families),
    );
    if before.nodes.is_some() {
        errors.extend(path.child("networks.nodes").immutable(&now.nodes, &before.nodes));
    }
    if let (Some(now), Some(before)) = (&new.spec.ingress, &old.spec.ingress) {
        errors.extend(path.child("ingress.domain").immutable(&now.domain, &before.domain));
    }
    match (&new.spec.backup, &old.spec.backup) {
        (Some(now), Some(before)) => {
            errors.extend(path.child("backup.provider").immutable(&now.provider, &before.provider));
            errors.extend(path.child("backup.region").immutable(&now.region, &before.region));
        }
        (None, Some(_)) => errors.push(path.child("backup").forbidden("a seed's backup cannot be switched off")),
        _ => {}
    }
    let identity = |seed: &Seed| seed.status.as_ref().and_then(|status| status.cluster_identity.clone());
    if identity(old).is_some() {
        errors.extend(Path::new("status.clusterIdentity").immutable(&identity(new), &identity(old)));
    }
    errors
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A seed that nothing is wrong with.
    pub(crate) fn seed() -> Seed {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "name": "dns", "namespace": "garden"});
        serde_json::from_value(json!({"metadata": {"name": "north"}, "spec": {
            "provider": {"type": "local", "region": "r1"},
            "networks": {"nodes": "10.1.0.0/16", "pods": "10.2.0.0/16", "services": "10.3.0.0/16"},
            "dns": {"internal": {"type": "local-dns", "domain": "internal.example.com", "credentialsRef": secret},
                    "defaults": [{"type": "public-dns", "domain": "shoots.example.com", "credentialsRef": secret}]},
            "backup": {"provider": "Bucket", "region": "r1", "credentialsRef": secret}}}))
        .unwrap()
    }

    #[test]
    fn defaults_settle_and_are_valid() {
        let mut defaulted = seed();
        default_seed(&mut defaulted);
        let again = defaulted.clone();
        default_seed(&mut defaulted);
        assert_eq!(defaulted, again);
        assert_eq!(validate_seed(&defaulted), []);
        let settings = defaulted.spec.settings.unwrap();
        assert!(settings.scheduling.unwrap().visible);
        assert_eq!(
            settings.excess_capacity_reservation.unwrap().configs[0].resources["memory"].0,
            "6Gi"
        );
    }

    #[test]
    fn each_rule_names_the_field() {
        type Change = fn(&mut Seed);
        let cases: [(&str, Change); 6] = [
            ("spec.dns.internal", |s| s.spec.dns.internal = None),
            ("spec.networks.services", |s| {
                s.spec.networks.services = "10.2.128.0/17".into()
            }),
            ("spec.networks.pods", |s| s.spec.networks.pods = "ten".into()),
            ("spec.backup.credentialsRef", |s| {
                s.spec.backup.as_mut().unwrap().credentials_ref = None
            }),
            ("spec.provider.region", |s| s.spec.provider.region = String::new()),
            ("spec.extensions[1].type", |s| {
                s.spec.extensions = serde_json::from_value(json!([{"type": "a"}, {"type": "A"}])).unwrap();
            }),
        ];
        for (path, change) in cases {
            let mut bad = seed();
            change(&mut bad);
            let found = validate_seed(&bad);
            assert_eq!(
                found.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
                [path],
                "{found:?}"
            );
        }
    }

    #[test]
    fn networks_and_backup_stay() {
        let mut new = seed();
        new.spec.networks.pods = "10.4.0.0/16".into();
        new.spec.backup = None;
        let paths: Vec<String> = validate_seed_update(&new, &seed())
            .into_iter()
            .map(|error| error.path)
            .collect();
        assert_eq!(paths, ["spec.networks.pods", "spec.backup"]);
    }
}
