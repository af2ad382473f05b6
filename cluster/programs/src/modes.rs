//! The modes of the files of a volume, as its pod sets them. Pure
//! (kubernetes/kubernetes v1.35 pkg/volume/secret/secret.go, configmap/configmap.go, projected/projected.go).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod};

/// The mode of files for which a pod sets none.
const DEFAULT: i32 = 0o644;

/// Modes by path within a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    default: u32,
    by_path: BTreeMap<String, u32>,
}

impl Modes {
    /// Those of a volume of a pod; one that the node has added has the usual ones.
    pub(crate) fn of(pod: &Pod, volume: &str) -> Self {
        let mut modes = Modes {
            default: bits(DEFAULT),
            by_path: BTreeMap::new(),
        };
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let Some(volume) = volumes.into_iter().flatten().find(|own| own.name == volume) else {
            return modes;
        };
        if let Some(secret) = &volume.secret {
            modes.default = bits(secret.default_mode.unwrap_or(DEFAULT));
            modes.keys(secret.items.as_deref());
        } else if let Some(map) = &volume.config_map {
            modes.default = bits(map.default_mode.unwrap_or(DEFAULT));
            modes.keys(map.items.as_deref());
        } else if let Some(fields) = &volume.downward_api {
            modes.default = bits(fields.default_mode.unwrap_or(DEFAULT));
            modes.fields(fields.items.as_deref());
        } else if let Some(projected) = &volume.projected {
            modes.default = bits(projected.default_mode.unwrap_or(DEFAULT));
            for source in projected.sources.iter().flatten() {
                modes.keys(source.secret.as_ref().and_then(|secret| secret.items.as_deref()));
                modes.keys(source.config_map.as_ref().and_then(|map| map.items.as_deref()));
                modes.fields(source.downward_api.as_ref().and_then(|fields| fields.items.as_deref()));
            }
        }
        modes
    }

    /// The mode of a file.
    pub(crate) fn mode(&self, path: &str) -> u32 {
        self.by_path.get(path).copied().unwrap_or(self.default)
    }

    fn keys(&mut self, items: Option<&[KeyToPath]>) {
        let items = items.into_iter().flatten();
        self.by_path
            .extend(items.filter_map(|item| Some((item.path.clone(), bits(item.mode?)))));
    }

    fn fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>) {
        let items = items.into_iter().flatten();
        self.by_path
            .extend(items.filter_map(|item| Some((item.path.clone(), bits(item.mode?)))));
    }
}

/// Nothing beyond the bits of a mode, which the API has validated.
fn bits(mode: i32) -> u32 {
    u32::try_from(mode).unwrap_or_default() & 0o777
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mode_is_the_items_or_the_volumes_or_the_usual_one() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "volumes": [
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 256, "items": [
                {"key": "a", "path": "x/a", "mode": 493}, {"key": "b", "path": "b"}]}},
            {"name": "p", "projected": {"sources": [
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "a", "mode": 292}]}}]}},
        ]}}))
        .unwrap();
        for (volume, path, mode) in [
            ("s", "x/a", 0o755),
            ("s", "b", 0o400),
            ("p", "a", 0o444),
            ("p", "token", 0o644),
            ("none", "x", 0o644),
        ] {
            assert_eq!(Modes::of(&pod, volume).mode(path), mode, "{volume} {path}");
        }
    }
}
