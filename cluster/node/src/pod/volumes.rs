//! From a pod's volumes to files: which sources they need, and what they look like once those are there. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIVolumeFile, EnvFromSource, EnvVar, KeyToPath, Pod,
    ProjectedVolumeSource, SecretProjection, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use super::environment::{Facts, field_value};
use super::resources::resource_value;
use super::sources::Found;
use crate::SERVICE_ACCOUNT_FOLDER;

/// What the names of volumes begin with that the API server's admission injects.
const INJECTED: &str = "kube-api-access-";
/// The name of the volume that the node adds where the API server's admission did not inject one.
const TOKEN_VOLUME: &str = "kube-api-access";
/// Lifetime of injected tokens (kubernetes/kubernetes v1.35 plugin/pkg/admission/serviceaccount/admission.go).
const TOKEN_SECONDS: i64 = 3607;
/// The ConfigMap of each namespace with the API server's authority.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A token that a volume wants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenKey {
    pub(crate) audience: Option<String>,
    pub(crate) seconds: i64,
}

impl TokenKey {
    fn of(source: &ServiceAccountTokenProjection) -> Self {
        TokenKey {
            audience: source.audience.clone(),
            seconds: source.expiration_seconds.unwrap_or(3600),
        }
    }
}

/// What volumes and environments of a pod refer to outside of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) claims: BTreeSet<String>,
    pub(crate) tokens: BTreeSet<TokenKey>,
}

impl Wanted {
    /// Adds what `other` wants, and returns the part that is new.
    pub(crate) fn add(&mut self, other: &Wanted) -> Wanted {
        fn add<T: Clone + Ord>(own: &mut BTreeSet<T>, other: &BTreeSet<T>) -> BTreeSet<T> {
            let new = other.difference(own).cloned().collect::<BTreeSet<T>>();
            own.extend(new.iter().cloned());
            new
        }
        Wanted {
            secrets: add(&mut self.secrets, &other.secrets),
            config_maps: add(&mut self.config_maps, &other.config_maps),
            claims: add(&mut self.claims, &other.claims),
            tokens: add(&mut self.tokens, &other.tokens),
        }
    }

    /// Adds what the environment of a container refers to.
    fn add_environment(&mut self, env_from: Option<&[EnvFromSource]>, env: Option<&[EnvVar]>) {
        for from in env_from.into_iter().flatten() {
            self.secrets
                .extend(from.secret_ref.as_ref().map(|secret| secret.name.clone()));
            self.config_maps
                .extend(from.config_map_ref.as_ref().map(|map| map.name.clone()));
        }
        let sources = env.into_iter().flatten();
        for from in sources.filter_map(|variable| variable.value_from.as_ref()) {
            self.secrets
                .extend(from.secret_key_ref.as_ref().map(|secret| secret.name.clone()));
            self.config_maps
                .extend(from.config_map_key_ref.as_ref().map(|map| map.name.clone()));
        }
    }
}

/// Why a volume is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("MountVolume.SetUp failed for volume \"{volume}\": {kind} \"{name}\" not found")]
    Missing {
        volume: String,
        kind: &'static str,
        name: String,
    },
    #[error("MountVolume.SetUp failed for volume \"{volume}\": references non-existent {kind} key: {key}")]
    KeyMissing {
        volume: String,
        kind: &'static str,
        key: String,
    },
    #[error("MountVolume.SetUp failed for volume \"{volume}\": failed to fetch token: {why}")]
    Token { volume: String, why: String },
    #[error("MountVolume.SetUp failed for volume \"{volume}\": this node has no volumes of its kind")]
    Unsupported { volume: String },
    #[error("MountVolume.SetUp failed for volume \"{volume}\": {why}")]
    Unreadable { volume: String, why: String },
    /// Not asked yet, which is no failure.
    #[error("waiting for the sources of volume \"{volume}\"")]
    NotRead { volume: String },
}

/// The pod with the service account volume that kube-apiserver's admission injects, where there is no such admission: then
/// a pod has no account's name. Where there is one, it has decided which pods get a token. In a pod of simulated containers
/// a token would never be read, so none is requested, nor what comes with it.
pub(crate) fn with_service_account(pod: &Pod, is_real: impl Fn(&Container) -> bool) -> Pod {
    let mut pod = pod.clone();
    let Some(spec) = pod.spec.as_mut() else { return pod };
    if !spec
        .init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .any(&is_real)
    {
        for volume in spec.volumes.iter_mut().flatten() {
            let Some(projected) = volume.projected.as_mut() else {
                continue;
            };
            if volume.name.starts_with(INJECTED) {
                projected.sources = None;
            }
            projected
                .sources
                .iter_mut()
                .flatten()
                .for_each(|source| source.service_account_token = None);
        }
        return pod;
    }
    let decided = spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty());
    if decided || spec.automount_service_account_token == Some(false) {
        return pod;
    }
    let mut added = false;
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let mounts = container.volume_mounts.get_or_insert_default();
        if mounts
            .iter()
            .any(|mount| mount.mount_path.trim_end_matches('/') == SERVICE_ACCOUNT_FOLDER)
        {
            continue;
        }
        mounts.push(VolumeMount {
            name: TOKEN_VOLUME.to_owned(),
            mount_path: SERVICE_ACCOUNT_FOLDER.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
        added = true;
    }
    if added {
        spec.volumes.get_or_insert_default().push(service_account_volume());
    }
    pod
}

fn service_account_volume() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: None,
        expiration_seconds: Some(TOKEN_SECONDS),
        path: "token".to_owned(),
    };
    let authority = ConfigMapProjection {
        name: ROOT_CA.to_owned(),
        // An API server reached in process needs no authority, and its cluster need not publish one.
        optional: Some(true),
        ..ConfigMapProjection::default()
    };
    let namespace = serde_json::json!({"downwardAPI": {"items": [
        {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
    ]}});
    Volume {
        name: TOKEN_VOLUME.to_owned(),
        projected: Some(ProjectedVolumeSource {
            sources: Some(vec![
                VolumeProjection {
                    service_account_token: Some(token),
                    ..VolumeProjection::default()
                },
                VolumeProjection {
                    config_map: Some(authority),
                    ..VolumeProjection::default()
                },
                serde_json::from_value(namespace).expect("a literal projection of one field"),
            ]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}

/// What an ephemeral container refers to: it brings no volume.
pub(crate) fn wanted_by(container: &Container) -> Wanted {
    let mut wanted = Wanted::default();
    wanted.add_environment(container.env_from.as_deref(), container.env.as_deref());
    wanted
}

/// What the pod refers to, except its ephemeral containers: they are added while it runs, see [`wanted_by`].
pub(crate) fn wanted(pod: &Pod) -> Wanted {
    let mut wanted = Wanted::default();
    let Some(spec) = &pod.spec else { return wanted };
    for volume in spec.volumes.iter().flatten() {
        wanted
            .secrets
            .extend(volume.secret.as_ref().and_then(|secret| secret.secret_name.clone()));
        wanted
            .config_maps
            .extend(volume.config_map.as_ref().map(|map| map.name.clone()));
        wanted.claims.extend(
            volume
                .persistent_volume_claim
                .as_ref()
                .map(|claim| claim.claim_name.clone()),
        );
        for source in volume
            .projected
            .iter()
            .flat_map(|projected| projected.sources.iter().flatten())
        {
            wanted
                .secrets
                .extend(source.secret.as_ref().map(|secret| secret.name.clone()));
            wanted
                .config_maps
                .extend(source.config_map.as_ref().map(|map| map.name.clone()));
            wanted
                .tokens
                .extend(source.service_account_token.as_ref().map(TokenKey::of));
        }
    }
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        wanted.add_environment(container.env_from.as_deref(), container.env.as_deref());
    }
    wanted
}

/// What a volume holds.
#[derive(Debug, PartialEq)]
pub(crate) enum Rendered {
    /// Files of which the node is the only writer.
    Files(BTreeMap<String, Bytes>),
    /// A folder that starts empty and belongs to the containers.
    Scratch,
    /// A persistent volume, by its claim.
    Claim(String),
}

/// The files of one volume. `lenient` nodes give an empty folder where they do not know the kind of volume.
pub(crate) fn render(
    pod: &Pod,
    volume: &Volume,
    found: &Found,
    facts: Facts<'_>,
    lenient: bool,
) -> Result<Rendered, VolumeError> {
    let name = volume.name.as_str();
    if volume.empty_dir.is_some() {
        return Ok(Rendered::Scratch);
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return match found.claim(&claim.claim_name) {
            Some(Some(_)) => Ok(Rendered::Claim(claim.claim_name.clone())),
            Some(None) => Err(missing(name, "persistentvolumeclaim", &claim.claim_name)),
            None => Err(VolumeError::NotRead {
                volume: name.to_owned(),
            }),
        };
    }
    let mut files = BTreeMap::new();
    let mut place = Place {
        pod,
        volume: name,
        found,
        facts,
        files: &mut files,
    };
    if let Some(secret) = &volume.secret {
        place.secret(&SecretProjection {
            name: secret.secret_name.clone().unwrap_or_default(),
            items: secret.items.clone(),
            optional: secret.optional,
        })?;
    } else if let Some(map) = &volume.config_map {
        place.config_map(&ConfigMapProjection {
            name: map.name.clone(),
            items: map.items.clone(),
            optional: map.optional,
        })?;
    } else if let Some(fields) = &volume.downward_api {
        place.fields(fields.items.as_deref().unwrap_or_default())?;
    } else if let Some(projected) = &volume.projected {
        for source in projected.sources.iter().flatten() {
            place.projection(source)?;
        }
    } else if lenient {
        return Ok(Rendered::Scratch);
    } else {
        return Err(VolumeError::Unsupported {
            volume: name.to_owned(),
        });
    }
    Ok(Rendered::Files(files))
}

fn missing(volume: &str, kind: &'static str, name: &str) -> VolumeError {
    VolumeError::Missing {
        volume: volume.to_owned(),
        kind,
        name: name.to_owned(),
    }
}

/// Files being laid out into one volume.
struct Place<'a> {
    pod: &'a Pod,
    volume: &'a str,
    found: &'a Found,
    facts: Facts<'a>,
    files: &'a mut BTreeMap<String, Bytes>,
}

impl Place<'_> {
    fn projection(&mut self, source: &VolumeProjection) -> Result<(), VolumeError> {
        if let Some(secret) = &source.secret {
            self.secret(secret)?;
        }
        if let Some(map) = &source.config_map {
            self.config_map(map)?;
        }
        if let Some(fields) = &source.downward_api {
            self.fields(fields.items.as_deref().unwrap_or_default())?;
        }
        if let Some(token) = &source.service_account_token {
            let volume = self.volume.to_owned();
            match self.found.token(&TokenKey::of(token)) {
                Some(Ok(bytes)) => self.files.insert(token.path.clone(), bytes.clone()),
                Some(Err(why)) => {
                    return Err(VolumeError::Token {
                        volume,
                        why: why.clone(),
                    });
                }
                None => return Err(VolumeError::NotRead { volume }),
            };
        }
        if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
            return Err(VolumeError::Unsupported {
                volume: self.volume.to_owned(),
            });
        }
        Ok(())
    }

    fn secret(&mut self, secret: &SecretProjection) -> Result<(), VolumeError> {
        if !self.found.knows_secret(&secret.name) {
            return Err(VolumeError::NotRead {
                volume: self.volume.to_owned(),
            });
        }
        let data = self.found.secret(&secret.name);
        self.keys("secret", &secret.name, data, secret.items.as_deref(), secret.optional)
    }

    fn config_map(&mut self, map: &ConfigMapProjection) -> Result<(), VolumeError> {
        if !self.found.knows_config_map(&map.name) {
            return Err(VolumeError::NotRead {
                volume: self.volume.to_owned(),
            });
        }
        let data = self.found.config_map(&map.name);
        self.keys("configmap", &map.name, data, map.items.as_deref(), map.optional)
    }

    fn keys(
        &mut self,
        kind: &'static str,
        name: &str,
        data: Option<&BTreeMap<String, Bytes>>,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
    ) -> Result<(), VolumeError> {
        let optional = optional == Some(true);
        let Some(data) = data else {
            return if optional {
                Ok(())
            } else {
                Err(missing(self.volume, kind, name))
            };
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            self.files
                .extend(data.iter().map(|(key, value)| (key.clone(), value.clone())));
            return Ok(());
        };
        for item in items {
            match data.get(&item.key) {
                Some(value) => {
                    self.files.insert(item.path.clone(), value.clone());
                }
                None if optional => {}
                None => {
                    let volume = self.volume.to_owned();
                    return Err(VolumeError::KeyMissing {
                        volume,
                        kind,
                        key: item.key.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn fields(&mut self, items: &[DownwardAPIVolumeFile]) -> Result<(), VolumeError> {
        for item in items {
            let field = item.field_ref.as_ref();
            let field = field.and_then(|field| field_value(self.pod, &field.field_path, self.facts));
            let resource = item.resource_field_ref.as_ref();
            let resource = || resource_value(self.pod, None, resource?, self.facts.capacity);
            let value = field.or_else(resource).ok_or_else(|| VolumeError::Unsupported {
                volume: self.volume.to_owned(),
            })?;
            self.files.insert(item.path.clone(), Bytes::from(value));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use serde_json::json;

    use super::*;

    const FACTS: Facts<'static> = Facts {
        pod_ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        host_ip: None,
        node_name: "node-a",
        capacity: &BTreeMap::new(),
    };

    fn pod(volumes: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"containers": [{"name": "c", "image": "c"}], "volumes": volumes}
        }))
        .unwrap()
    }

    fn render_first(pod: &Pod, found: &Found) -> Result<Rendered, VolumeError> {
        render(
            pod,
            &pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0],
            found,
            FACTS,
            false,
        )
    }

    #[test]
    fn a_service_account_is_mounted_once_and_only_where_it_can_be_read() {
        let bare = pod(json!([]));
        let mounted = with_service_account(&bare, |_| true);
        assert_eq!(wanted(&mounted).tokens.len(), 1);
        assert_eq!(with_service_account(&mounted, |_| true), mounted);
        assert!(wanted(&with_service_account(&mounted, |_| false)).tokens.is_empty());
        assert_eq!(with_service_account(&bare, |_| false), bare);
        let mut without = bare.clone();
        without.spec.as_mut().unwrap().automount_service_account_token = Some(false);
        assert_eq!(with_service_account(&without, |_| true), without);
        let mut decided = bare.clone();
        decided.spec.as_mut().unwrap().service_account_name = Some("shy".to_owned());
        assert_eq!(
            with_service_account(&decided, |_| true),
            decided,
            "admission gave it none"
        );
        let mut injected = service_account_volume();
        injected.name = format!("{INJECTED}abcde");
        let injected = pod(json!([injected]));
        assert_eq!(wanted(&injected).config_maps.len(), 1);
        assert_eq!(wanted(&with_service_account(&injected, |_| false)), Wanted::default());
    }

    #[test]
    fn a_volume_waits_for_its_sources_and_names_what_is_missing() {
        let pod = pod(json!([{"name": "v", "projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "ca.crt", "path": "pki/ca"}]}},
            {"configMap": {"name": "m", "optional": true}},
            {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}}]));
        let mut found = Found::default();
        assert_eq!(
            render_first(&pod, &found),
            Err(VolumeError::NotRead { volume: "v".into() })
        );
        found.put_secret("s", None);
        found.put_config_map("m", None);
        assert_eq!(
            render_first(&pod, &found).unwrap_err().to_string(),
            "MountVolume.SetUp failed for volume \"v\": secret \"s\" not found"
        );
        found.put_secret("s", Some([("other".to_owned(), Bytes::new())].into()));
        assert!(matches!(
            render_first(&pod, &found),
            Err(VolumeError::KeyMissing { .. })
        ));
        found.put_secret("s", Some([("ca.crt".to_owned(), "pem".into())].into()));
        let files = [("ns".to_owned(), "ns".into()), ("pki/ca".to_owned(), "pem".into())].into();
        assert_eq!(render_first(&pod, &found), Ok(Rendered::Files(files)));
    }

    #[test]
    fn only_a_lenient_node_invents_volumes_it_does_not_know() {
        let pod = pod(json!([{"name": "v", "hostPath": {"path": "/etc"}}]));
        let volume = &pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0];
        let found = Found::default();
        assert_eq!(render(&pod, volume, &found, FACTS, true), Ok(Rendered::Scratch));
        assert!(matches!(
            render(&pod, volume, &found, FACTS, false),
            Err(VolumeError::Unsupported { .. })
        ));
    }
}
