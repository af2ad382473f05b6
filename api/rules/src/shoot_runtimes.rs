//! Container runtimes of a pool beside what its machine image offers (gardener/gardener v1.150 plugin/pkg/shoot/validator,
//! `validateContainerRuntimeInterface`).

use api_core::v1beta1::{CloudProfileSpec, Worker};

use crate::{FieldError, Path};

/// The pool's container runtime interface and each further runtime are offered by the version of its machine image. A
/// version that the profile does not have is another rule's business. `path`: that of the pool.
pub(crate) fn validate_runtimes(
    errors: &mut Vec<FieldError>,
    path: &Path,
    pool: &Worker,
    before: Option<&Worker>,
    profile: &CloudProfileSpec,
) {
    let (Some(cri), Some(image)) = (&pool.cri, &pool.machine.image) else {
        return;
    };
    if before.is_some_and(|before| before.cri == pool.cri && before.machine.image == pool.machine.image) {
        return;
    }
    let versions = profile
        .machine_images
        .iter()
        .filter(|offered| offered.name == image.name)
        .flat_map(|offered| &offered.versions);
    let wanted = image.version.as_deref().unwrap_or_default();
    let Some(version) = versions.into_iter().find(|offered| offered.version == wanted) else {
        return;
    };
    let path = path.child("cri");
    let Some(offered) = version.cri.iter().find(|offered| offered.name == cri.name) else {
        let names: Vec<&str> = version.cri.iter().map(|offered| offered.name.as_str()).collect();
        let words = lacks(&image.name, wanted, &names);
        errors.push(path.child("name").invalid(cri.name.as_str(), words));
        return;
    };
    let types: Vec<&str> = offered
        .container_runtimes
        .iter()
        .map(|offered| offered.type_.as_str())
        .collect();
    for (index, runtime) in cri.container_runtimes.iter().enumerate() {
        if !types.contains(&runtime.type_.as_str()) {
            let path = path.child("containerRuntimes").index(index).child("type");
            errors.push(path.invalid(&runtime.type_, lacks(&image.name, wanted, &types)));
        }
    }
}

fn lacks(image: &str, version: &str, offered: &[&str]) -> String {
    let to_do = if offered.is_empty() {
        ", which has none; leave it out, or take another machine image".to_owned()
    } else {
        let names: Vec<String> = offered.iter().map(|name| format!("{name:?}")).collect();
        format!("; supported values: {}", names.join(", "))
    };
    format!("not supported by machine image \"{image}\" {version}{to_do}")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::shoot::tests::shoot;
    use crate::validate_shoot_against;

    fn profile() -> CloudProfileSpec {
        serde_json::from_value(json!({"type": "local", "regions": [{"name": "r1"}],
        "kubernetes": {"versions": [{"version": "1.35.1"}]},
        "machineTypes": [{"name": "small", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
        "machineImages": [{"name": "linux", "versions": [
            {"version": "1.0.0", "architectures": ["amd64"],
                "cri": [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}, {"type": "kata"}]}]},
            {"version": "1.1.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]},
        ]}]}))
        .unwrap()
    }

    /// Errors of a Shoot whose pool has this `cri` and this version of the image, after one with `before`.
    fn found(cri: &Value, version: &str, before: Option<(&Value, &str)>) -> Vec<String> {
        let of = |cri: &Value, version: &str| {
            let mut shoot = shoot();
            let pool = &mut shoot.spec.provider.workers[0];
            pool.cri = serde_json::from_value(cri.clone()).unwrap();
            pool.machine.image.as_mut().unwrap().version = Some(version.to_owned());
            shoot
        };
        let before = before.map(|(cri, version)| of(cri, version));
        let errors = validate_shoot_against(&of(cri, version), &profile(), before.as_ref(), Timestamp::UNIX_EPOCH);
        errors.iter().map(ToString::to_string).collect()
    }

    fn with(types: &[&str]) -> Value {
        let types: Vec<Value> = types.iter().map(|type_| json!({"type": type_})).collect();
        json!({"name": "containerd", "containerRuntimes": types})
    }

    #[test]
    fn runtimes_that_the_machine_image_does_not_offer_are_refused_with_the_choice() {
        assert_eq!(found(&with(&["kata", "gvisor"]), "1.0.0", None), [""; 0]);
        assert_eq!(found(&with(&[]), "1.1.0", None), [""; 0]);
        assert_eq!(
            found(&with(&["kata", "runq"]), "1.0.0", None),
            [
                "spec.provider.workers[0].cri.containerRuntimes[1].type: Invalid value: \"runq\": not supported by machine image \"linux\" 1.0.0; supported values: \"gvisor\", \"kata\""
            ]
        );
        assert_eq!(
            found(&with(&["kata"]), "1.1.0", None),
            [
                "spec.provider.workers[0].cri.containerRuntimes[0].type: Invalid value: \"kata\": not supported by machine image \"linux\" 1.1.0, which has none; leave it out, or take another machine image"
            ]
        );
        assert_eq!(
            found(&json!({"name": "docker"}), "1.0.0", None),
            [
                "spec.provider.workers[0].cri.name: Invalid value: \"docker\": not supported by machine image \"linux\" 1.0.0; supported values: \"containerd\""
            ]
        );
    }

    #[test]
    fn an_update_validates_runtimes_when_they_or_the_image_change() {
        let old = with(&["runq"]);
        assert_eq!(found(&old, "1.0.0", Some((&old, "1.0.0"))), [""; 0], "nothing changed");
        let more = with(&["runq", "kata"]);
        for (cri, version) in [(&more, "1.0.0"), (&old, "1.1.0")] {
            let found = found(cri, version, Some((&old, "1.0.0")));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains("containerRuntimes[0].type"), "{found:?}");
        }
    }
}
