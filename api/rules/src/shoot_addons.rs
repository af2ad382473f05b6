//! Rules of a Shoot's addons, CoreDNS and automatic rotation (gardener/gardener v1.150
//! pkg/api/core/validation/shoot.go).

use api_core::v1beta1::{Addons, Maintenance, ShootPurpose, ShootSpec};
use api_meta::GoDuration;
use ipnet::IpNet;

use crate::checks::{distinct, is_dns_name, known};
use crate::{FieldError, Path, versions};

/// First minor version of Kubernetes without addons.
const NO_ADDONS_FROM: u64 = 35;
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const LOGINS: [&str; 1] = ["token"];
/// How often credentials rotate at most and at least.
const ROTATION: [GoDuration; 2] = [GoDuration::from_mins(30), GoDuration::from_hours(90 * 24)];

/// Everything that is wrong with addons; `path` is that of the spec.
pub(crate) fn validate_addons(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let Some(addons) = &spec.addons else { return };
    let path = path.child("addons");
    if spec.provider.workers.is_empty() {
        return;
    }
    if versions::is_from(spec.kubernetes.version.as_deref().unwrap_or_default(), NO_ADDONS_FROM) {
        errors.push(path.forbidden(format!(
            "Kubernetes 1.{NO_ADDONS_FROM} and newer come without addons; remove them and install them yourself"
        )));
        return;
    }
    let Addons {
        kubernetes_dashboard,
        nginx_ingress,
    } = addons;
    let dashboard = kubernetes_dashboard.as_ref().filter(|dashboard| dashboard.enabled);
    let ingress = nginx_ingress.as_ref().filter(|ingress| ingress.enabled);
    let is_trial = spec
        .purpose
        .as_ref()
        .is_none_or(|purpose| *purpose == ShootPurpose::Evaluation);
    if (dashboard.is_some() || ingress.is_some()) && !is_trial {
        errors.push(path.forbidden("addons are for purpose evaluation alone; remove them, or change the purpose"));
    }
    if let Some(ingress) = ingress {
        let path = path.child("nginxIngress");
        for (index, range) in ingress.load_balancer_source_ranges.iter().enumerate() {
            if range.parse::<IpNet>().is_err() {
                let path = path.child("loadBalancerSourceRanges").index(index);
                errors.push(path.invalid(range, "must be a network such as \"10.0.0.0/16\""));
            }
        }
        if let Some(policy) = &ingress.external_traffic_policy {
            let is_known = TRAFFIC_POLICIES.contains(&policy.as_str());
            known(
                errors,
                &path.child("externalTrafficPolicy"),
                is_known,
                policy,
                &TRAFFIC_POLICIES,
            );
        }
    }
    if let Some(login) = dashboard.and_then(|dashboard| dashboard.authentication_mode.as_ref()) {
        let path = path.child("kubernetesDashboard.authenticationMode");
        known(errors, &path, LOGINS.contains(&login.as_str()), login, &LOGINS);
    }
}

/// Suffixes that CoreDNS rewrites: domains of two labels at least.
pub(crate) fn validate_rewriting(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let dns = spec
        .system_components
        .as_ref()
        .and_then(|system| system.core_dns.as_ref());
    let Some(rewriting) = dns.and_then(|dns| dns.rewriting.as_ref()) else {
        return;
    };
    let path = path.child("systemComponents.coreDNS.rewriting.commonSuffixes");
    let suffixes = &rewriting.common_suffixes;
    distinct(errors, suffixes.iter().map(String::as_str), |index| path.index(index));
    for (index, suffix) in suffixes.iter().enumerate() {
        let domain = suffix.strip_prefix('.').unwrap_or(suffix);
        if !domain.contains('.') || !is_dns_name(domain) {
            errors.push(path.index(index).invalid(
                suffix,
                "must be a domain of at least two labels such as \".example.com\"",
            ));
        }
    }
}

/// What is rotated and updated by itself; `path` is that of `maintenance`.
pub(crate) fn validate_rotation(
    errors: &mut Vec<FieldError>,
    path: &Path,
    maintenance: &Maintenance,
    workerless: bool,
) {
    const NO_NODES: &str = "a Shoot without workers has none; remove the field";
    let images = maintenance
        .auto_update
        .as_ref()
        .and_then(|update| update.machine_image_version);
    if workerless && images.is_some() {
        errors.push(path.child("autoUpdate.machineImageVersion").forbidden(NO_NODES));
    }
    let rotation = maintenance
        .auto_rotation
        .as_ref()
        .and_then(|rotation| rotation.credentials.as_ref());
    let Some(credentials) = rotation else { return };
    let path = path.child("autoRotation.credentials");
    if workerless && credentials.ssh_keypair.is_some() {
        errors.push(path.child("sshKeypair").forbidden(NO_NODES));
    }
    let configs = [
        ("observability", &credentials.observability),
        ("sshKeypair", &credentials.ssh_keypair),
        ("etcdEncryptionKey", &credentials.etcd_encryption_key),
    ];
    let [least, most] = ROTATION;
    for (field, config) in configs {
        let period = config.as_ref().and_then(|config| config.rotation_period);
        let bounds = least.as_nanos()..=most.as_nanos();
        if let Some(period) = period.filter(|period| period.as_nanos() != 0 && !bounds.contains(&period.as_nanos())) {
            let words = format!("must be 0 for no rotation, or between {least} and {most}");
            errors.push(path.child(field).child("rotationPeriod").invalid(period, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::shoot::tests::shoot;
    use crate::validate_shoot;

    fn wrong(change: Value) -> Vec<String> {
        let mut shoot = shoot();
        shoot.spec.kubernetes.version = Some("1.34.1".to_owned());
        let mut written = serde_json::to_value(&shoot).unwrap();
        for (field, value) in change.as_object().unwrap() {
            written["spec"][field] = value.clone();
        }
        let shoot = serde_json::from_value(written).unwrap();
        validate_shoot(&shoot).into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn each_rule_names_its_field() {
        let rotation = |period: &str| json!({"maintenance": {"autoRotation": {"credentials": {"observability": {"rotationPeriod": period}}}}});
        let suffixes = |suffixes: &[&str]| json!({"systemComponents": {"coreDNS": {"autoscaling": {"mode": "horizontal"}, "rewriting": {"commonSuffixes": suffixes}}}});
        let cases = [
            (
                json!({"addons": {"nginxIngress": {"enabled": true, "loadBalancerSourceRanges": ["x"]}}}),
                "addons.nginxIngress.loadBalancerSourceRanges[0]",
            ),
            (
                json!({"addons": {"nginxIngress": {"enabled": true, "externalTrafficPolicy": "Far"}}}),
                "addons.nginxIngress.externalTrafficPolicy",
            ),
            (
                json!({"addons": {"kubernetesDashboard": {"enabled": true, "authenticationMode": "basic"}}}),
                "addons.kubernetesDashboard.authenticationMode",
            ),
            (
                json!({"addons": {"nginxIngress": {"enabled": true}}, "purpose": "production"}),
                "addons",
            ),
            (suffixes(&["a"]), "systemComponents.coreDNS.rewriting.commonSuffixes[0]"),
            (
                suffixes(&[".a.b", ".a.b"]),
                "systemComponents.coreDNS.rewriting.commonSuffixes[1]",
            ),
            (
                rotation("1m"),
                "maintenance.autoRotation.credentials.observability.rotationPeriod",
            ),
            (
                rotation("9999h"),
                "maintenance.autoRotation.credentials.observability.rotationPeriod",
            ),
        ];
        for (change, expected) in cases {
            assert_eq!(wrong(change), [format!("spec.{expected}")]);
        }
        assert_eq!(wrong(rotation("0s")), [""; 0]);
    }
}
