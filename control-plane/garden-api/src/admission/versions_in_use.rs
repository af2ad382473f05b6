//! Versions that Shoots use stay in their cloud profile (gardener/gardener v1.150
//! plugin/pkg/global/resourcereferencemanager). Machine types, regions and volumes may go: a Shoot keeps what it has.

use std::collections::BTreeSet;

use cluster_apiserver::kind::{Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict};
use crate::AdmissionPlugin;
use crate::convert::{CORE, list, text};

/// Validates updates of CloudProfiles.
pub(crate) struct VersionsInUse;

impl Plugin for VersionsInUse {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ResourceReferenceManager)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let updates = review.call.operation == Operation::Update && review.call.subresource.is_none();
            let (Some(new), Some(old), true) = (review.object, review.old, updates) else {
                return Ok(Vec::new());
            };
            let retained = offered(new);
            let gone: BTreeSet<String> = offered(old).difference(&retained).cloned().collect();
            if gone.is_empty() {
                return Ok(Vec::new());
            }
            let name = text(new, "/metadata/name");
            for shoot in review.objects.list(CORE, "shoots", None).await? {
                let used = used(&shoot, name);
                if let Some(version) = used.intersection(&gone).next() {
                    let (namespace, shoot) = (text(&shoot, "/metadata/namespace"), text(&shoot, "/metadata/name"));
                    let why = format!(
                        "{version} is still used by shoot {namespace}/{shoot}; keep it, or set its expirationDate"
                    );
                    return Err(cluster_apiserver::Status::forbidden(CORE, "cloudprofiles", name, &why));
                }
            }
            Ok(Vec::new())
        })
    }
}

fn kubernetes(version: &str) -> String {
    format!("Kubernetes version {version}")
}

fn image(name: &str, version: &str) -> String {
    format!("machine image version {name}/{version}")
}

/// Every version of the profile.
fn offered(profile: &Value) -> BTreeSet<String> {
    let versions = list(profile, "/spec/kubernetes/versions")
        .iter()
        .map(|version| kubernetes(text(version, "/version")));
    let images = list(profile, "/spec/machineImages").iter().flat_map(|offered| {
        let name = text(offered, "/name");
        list(offered, "/versions")
            .iter()
            .map(move |version| image(name, text(version, "/version")))
    });
    versions.chain(images).collect()
}

/// Every version that the shoot has of the profile called `name`.
fn used(shoot: &Value, name: &str) -> BTreeSet<String> {
    let (kind, named) = match text(shoot, "/spec/cloudProfile/name") {
        "" => ("CloudProfile", text(shoot, "/spec/cloudProfileName")),
        named => (text(shoot, "/spec/cloudProfile/kind"), named),
    };
    if kind != "CloudProfile" || named != name {
        return BTreeSet::new();
    }
    let mut used = BTreeSet::from([kubernetes(text(shoot, "/spec/kubernetes/version"))]);
    for pool in list(shoot, "/spec/provider/workers") {
        let machine = |field: &str| text(pool, &format!("/machine/image/{field}")).to_owned();
        used.insert(image(&machine("name"), &machine("version")));
        used.insert(kubernetes(text(pool, "/kubernetes/version")));
    }
    used
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_version_that_a_shoot_uses_stays() {
        let profile = |versions: &[&str], images: &[&str]| {
            let entries = |all: &[&str]| {
                all.iter()
                    .map(|version| json!({ "version": version }))
                    .collect::<Vec<_>>()
            };
            json!({"metadata": {"name": "c"}, "spec": {"kubernetes": {"versions": entries(versions)},
                "machineImages": [{"name": "i", "versions": entries(images)}]}})
        };
        let shoot = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "c"}, "kubernetes": {"version": "1.34.3"},
            "provider": {"workers": [{"machine": {"image": {"name": "i", "version": "1.0.0"}}}]}}});
        let objects = Fixture::default().with("shoots", shoot);
        let old = profile(&["1.34.3", "1.33.0"], &["1.0.0", "2.0.0"]);
        let change = |new: Value| review(&VersionsInUse, Operation::Update, Some(&new), Some(&old), &objects);
        assert!(change(profile(&["1.34.3"], &["1.0.0"])).is_ok());
        assert!(
            change(profile(&["1.33.0"], &["1.0.0"]))
                .unwrap_err()
                .contains("Kubernetes version 1.34.3")
        );
        assert!(
            change(profile(&["1.34.3"], &["2.0.0"]))
                .unwrap_err()
                .contains("i/1.0.0")
        );
    }
}
