//! Rules of a Shoot's networks by themselves (gardener/gardener v1.150 pkg/api/core/validation/shoot.go,
//! plugin/pkg/shoot/validator). Room for nodes is checked in `node_ranges`, the seed's networks on admission.

use api_core::v1beta1::{IPFamily, Shoot, ShootSpec};

use crate::checks::{distinct, known};
use crate::{FieldError, Path, cidr};

/// The shoot's networks must not overlap with each other where addresses are IPv4's.
pub fn validate_shoot_networks(shoot: &Shoot) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(networking) = &shoot.spec.networking else {
        return errors;
    };
    if !networking.ip_families.is_empty() && !networking.ip_families.contains(&IPFamily::IPv4) {
        return errors;
    }
    let path = Path::new("spec.networking");
    let fields = [
        ("nodes", &networking.nodes),
        ("pods", &networking.pods),
        ("services", &networking.services),
    ];
    let networks = fields
        .into_iter()
        .filter_map(|(field, network)| Some((path.child(field), network.as_deref()?)));
    cidr::disjoint(&mut errors, &networks.collect::<Vec<_>>());
    errors
}

/// Networks by themselves; `path` is that of `networking`.
pub(crate) fn validate_networking(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let Some(networking) = &spec.networking else { return };
    let fields = [
        ("nodes", &networking.nodes),
        ("pods", &networking.pods),
        ("services", &networking.services),
    ];
    for (field, network) in fields {
        if let Some(network) = network {
            cidr::network(errors, &path.child(field), network);
        }
    }
    for (index, family) in networking.ip_families.iter().enumerate() {
        known(
            errors,
            &path.child("ipFamilies").index(index),
            family.is_known(),
            family.as_str(),
            IPFamily::KNOWN,
        );
    }
    validate_family(errors, path, spec);
    let families = path.child("ipFamilies");
    distinct(errors, networking.ip_families.iter().map(IPFamily::as_str), |index| {
        families.index(index)
    });
}

/// With one family, every network is of that family.
fn validate_family(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let Some(networking) = &spec.networking else { return };
    let [family @ (IPFamily::IPv4 | IPFamily::IPv6)] = &networking.ip_families[..] else {
        return;
    };
    let fields = [
        ("nodes", &networking.nodes),
        ("pods", &networking.pods),
        ("services", &networking.services),
    ];
    for (field, network) in fields {
        if let Some(network) = network
            .as_ref()
            .filter(|text| text.contains(':') != (*family == IPFamily::IPv6))
        {
            let words = format!("must be an {} network, the only one of ipFamilies", family.as_str());
            errors.push(path.child(field).invalid(network, words));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shoot::tests::shoot;
    use crate::validate_shoot;

    #[test]
    fn networks_of_a_single_family_are_of_that_family() {
        let with = |families: &[&str], pods: Option<&str>, services: Option<&str>| {
            let mut shoot = shoot();
            shoot.spec.networking = serde_json::from_value(
                json!({"type": "flat", "ipFamilies": families, "pods": pods, "services": services}),
            )
            .unwrap();
            let found = validate_shoot(&shoot);
            found.into_iter().map(|error| error.path).collect::<Vec<_>>()
        };
        let both = ["spec.networking.pods", "spec.networking.services"];
        assert_eq!(with(&["IPv6"], Some("10.2.0.0/16"), Some("10.3.0.0/16")), both);
        assert_eq!(with(&["IPv6"], Some("fd01::/64"), Some("fd02::/112")), [""; 0]);
        assert_eq!(with(&["IPv4"], Some("fd01::/64"), None), ["spec.networking.pods"]);
        assert_eq!(with(&["IPv4", "IPv6"], None, None), [""; 0]);
    }

    #[test]
    fn networks_of_a_shoot_do_not_overlap() {
        let mut shoot = shoot();
        assert_eq!(validate_shoot_networks(&shoot), []);
        shoot.spec.networking.as_mut().unwrap().services = Some("10.2.0.0/24".into());
        assert_eq!(validate_shoot_networks(&shoot)[0].path, "spec.networking.services");
    }
}
