//! What a container mounts: the parts of its pod's volumes. Pure; a path that leads out of its volume is refused, whatever the
//! API server let through.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::Mounted;
use super::environment::expand;
use crate::files::{Content, Mount};

/// Why a container's mounts cannot be made, as a kubelet reports it with reason `CreateContainerConfigError`
/// (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet_pods.go, makeMounts).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MountError {
    #[error("error SubPath `{0}` must not be an absolute path")]
    Absolute(String),
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    Backsteps(String),
}

/// The mounts of a container, of those volumes that the pod has.
pub(super) fn mounts(
    container: &Container,
    env: &BTreeMap<String, String>,
    volumes: &BTreeMap<String, Mounted>,
) -> Result<Vec<Mount>, MountError> {
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let Some(volume) = volumes.get(&mount.name) else {
            continue;
        };
        mounts.push(Mount {
            volume: mount.name.clone(),
            scratch: volume.writable && matches!(volume.content, Content::Files(_)),
            path: mount.mount_path.trim_end_matches('/').to_owned(),
            sub_path: sub_path(mount, env)?,
            writable: volume.writable && mount.read_only != Some(true),
            content: volume.content.clone(),
        });
    }
    Ok(mounts)
}

fn sub_path(mount: &VolumeMount, env: &BTreeMap<String, String>) -> Result<String, MountError> {
    let expanded = mount.sub_path_expr.as_ref().map(|path| expand(path, env));
    let path = expanded.or_else(|| mount.sub_path.clone()).unwrap_or_default();
    if path.starts_with('/') {
        return Err(MountError::Absolute(path));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(MountError::Backsteps(path));
    }
    Ok(path.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::directory::Directory;

    #[test]
    fn a_sub_path_that_leads_out_of_its_volume_is_refused() {
        let volume = Mounted {
            content: Content::Files(Directory::default()),
            writable: true,
        };
        let volumes = BTreeMap::from([("v".to_owned(), volume)]);
        let env = BTreeMap::from([
            ("UP".to_owned(), "../..".to_owned()),
            ("ROOT".to_owned(), "/".to_owned()),
        ]);
        let backsteps = |path: &str| Err(MountError::Backsteps(path.to_owned()));
        let absolute = |path: &str| Err(MountError::Absolute(path.to_owned()));
        for (fields, expected) in [
            (json!({}), Ok("")),
            (json!({"subPath": "a..b/..c/"}), Ok("a..b/..c")),
            (json!({"subPathExpr": "x-$(NONE)"}), Ok("x-$(NONE)")),
            (json!({"subPath": ".."}), backsteps("..")),
            (json!({"subPath": "a/../.."}), backsteps("a/../..")),
            (json!({"subPath": "/etc"}), absolute("/etc")),
            (json!({"subPathExpr": "a/$(UP)"}), backsteps("a/../..")),
            (json!({"subPathExpr": "$(ROOT)etc"}), absolute("/etc")),
        ] {
            let mut mount = json!({"name": "v", "mountPath": "/v/"});
            mount
                .as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            let container = serde_json::from_value(json!({"name": "c", "volumeMounts": [mount]})).unwrap();
            let made = super::mounts(&container, &env, &volumes).map(|mounts| mounts[0].sub_path.clone());
            assert_eq!(made, expected.map(str::to_owned), "{fields}");
        }
    }
}
