//! Settings of a gardenlet. Plain values; nothing here reads files.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::conditions::shoot;
use base_flow_run::{Feed, TaskLayer};
use base_version::{Constraint, Version};
use components_hosted::{EtcdStorage, NodeAccess};
use components_seed::WebhookServer;

/// Name of the image with the product's program.
const PROGRAM: &str = "orangery";

/// How clients reach the API servers of shoots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// Each by its own Service and its own DNS name, port 443.
    PerService,
    /// All by one URL; the TLS server name distinguishes them.
    Shared {
        /// `https://host:port`.
        url: String,
        /// What their DNS records point to.
        address: IpAddr,
    },
}

/// Where the images of control planes come from.
#[derive(Clone, Debug)]
pub struct Images {
    /// Registry and path before the image's name, such as `orangery.dev`.
    pub repository: String,
    /// Tag of our own images; Kubernetes' images carry the shoot's version.
    pub tag: String,
    /// Reference of the image with the program `orangery`; none: `orangery` of the repository with our tag.
    pub program: Option<String>,
    /// Images that come from elsewhere.
    pub overwrites: Vec<ImageOverwrite>,
}

/// Where an image comes from in place of [`Images::repository`].
#[derive(Clone, Debug)]
pub struct ImageOverwrite {
    /// Name of the image.
    pub name: String,
    /// For which Kubernetes versions of shoots; none: for all, and for the seed's own.
    pub versions: Option<Constraint>,
    /// Where it comes from.
    pub source: ImageSource,
}

/// Where one image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A whole reference.
    Reference(String),
    /// Registry, path and name, and tag or digest; none: as without an overwrite.
    Parts {
        /// Registry, path and name.
        repository: Option<String>,
        /// Tag, or digest with `sha256:` before it.
        tag: Option<String>,
    },
}

impl Images {
    /// What comes from `repository`, our own with `tag`.
    #[must_use]
    pub fn new(repository: &str, tag: &str) -> Self {
        Self {
            repository: repository.to_owned(),
            tag: tag.to_owned(),
            program: None,
            overwrites: Vec::new(),
        }
    }

    /// Our own image `name`, for a shoot of `version` (`1.35.0`).
    #[must_use]
    pub fn own(&self, name: &str, version: &str) -> String {
        self.tagged(name, &self.tag, version)
    }

    /// The image `name` of another project with its own tag, for a shoot of `version`.
    #[must_use]
    pub fn tagged(&self, name: &str, tag: &str, version: &str) -> String {
        self.resolved(name, tag, Some(version))
            .unwrap_or_else(|| format!("{}/{name}:{tag}", self.repository))
    }

    /// Kubernetes' image `name` in `version`.
    #[must_use]
    pub fn kubernetes(&self, name: &str, version: &str) -> String {
        self.tagged(name, &format!("v{}", version.trim_start_matches('v')), version)
    }

    /// The image with the program `orangery`, for `component`, which overwrites may name; `version` of a shoot's component.
    #[must_use]
    pub fn program(&self, component: &str, version: Option<&str>) -> String {
        let given = self
            .resolved(component, &self.tag, version)
            .or_else(|| self.program.clone());
        given.unwrap_or_else(|| format!("{}/{PROGRAM}:{}", self.repository, self.tag))
    }

    /// By the overwrite for this image: one for the version comes before one for all, as in Gardener.
    fn resolved(&self, name: &str, tag: &str, version: Option<&str>) -> Option<String> {
        let version = version.and_then(|version| Version::read(version).ok());
        let of_name = || self.overwrites.iter().filter(|one| one.name == name);
        let is_for = |one: &&ImageOverwrite| match (&one.versions, &version) {
            (Some(versions), Some(version)) => versions.allows(version),
            _ => false,
        };
        let found = of_name().find(is_for);
        let found = found.or_else(|| of_name().find(|one| one.versions.is_none()))?;
        Some(match &found.source {
            ImageSource::Reference(reference) => reference.clone(),
            ImageSource::Parts { repository, tag: other } => {
                let repository = repository
                    .clone()
                    .unwrap_or_else(|| format!("{}/{name}", self.repository));
                let tag = other.as_deref().unwrap_or(tag);
                let joint = if tag.starts_with("sha256:") { '@' } else { ':' };
                format!("{repository}{joint}{tag}")
            }
        })
    }
}

/// How pods of the seed reach the garden's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GardenAccess {
    /// `https://host:port`.
    pub server: String,
    /// PEM bundle of the authorities that its certificate may come from.
    pub ca_pem: String,
    /// Server name to send and to expect in its certificate, where that is not the URL's host.
    pub tls_server_name: Option<String>,
}

/// Settings of one gardenlet.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Seed it registers: name, labels and spec. Its status is ours to write.
    pub seed: Seed,
    /// This process among several of one seed, such as a pod's name.
    pub identity: String,
    /// Our version, as it stands in `status.gardener`.
    pub version: String,
    /// Identity of the garden, part of each shoot's cluster identity.
    pub garden_identity: String,
    /// Where images come from.
    pub images: Images,
    /// How shoots' API servers are reached.
    pub addressing: Addressing,
    /// How they reach the nodes of their shoots.
    pub node_access: NodeAccess,
    /// Sizes of etcd's volumes.
    pub etcd_storage: EtcdStorage,
    /// Shoots worked on at the same time.
    pub shoots_max: usize,
    /// How often a healthy shoot is reconciled without cause.
    pub sync_period: Duration,
    /// When the health of a shoot is trouble.
    pub care: CareSettings,
    /// How long backups stay after their shoot is gone.
    pub backup_grace: Duration,
    /// How pods of extensions reach the garden; without it none can.
    pub garden_access: Option<GardenAccess>,
    /// Where the seed's webhooks are reached, if not at the Service of its gardener-resource-manager.
    pub seed_webhooks: Option<WebhookServer>,
    /// Receives the events of the flows of shoots, each named "namespace/name". Nothing depends on a listener.
    pub feed: Feed,
    /// Around every task of the flows of shoots: for tests that make tasks fail. None by default.
    pub task_layer: TaskLayer,
}

/// When trouble of a shoot makes a condition `False`, and what extensions report is too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CareSettings {
    /// How long a condition of this type is `Progressing` before it is `False`; one without a threshold is `False` at once.
    pub thresholds: BTreeMap<String, Duration>,
    /// The age of an extension's heartbeat from which on what it reports is outdated; nothing: never.
    pub stale_after: Option<Duration>,
}

impl CareSettings {
    /// The threshold of a type of conditions.
    #[must_use]
    pub fn threshold(&self, type_: &str) -> Option<Duration> {
        self.thresholds.get(type_).copied()
    }
}

/// Those of the gardenlet chart (gardener/gardener v1.150 charts/gardener/gardenlet/values.yaml).
impl Default for CareSettings {
    fn default() -> Self {
        let minutes = |type_: &str, minutes: u64| (type_.to_owned(), Duration::from_secs(60 * minutes));
        Self {
            thresholds: BTreeMap::from([
                minutes(shoot::API_SERVER_AVAILABLE, 1),
                minutes(shoot::CONTROL_PLANE_HEALTHY, 1),
                minutes(shoot::OBSERVABILITY_COMPONENTS_HEALTHY, 1),
                minutes(shoot::SYSTEM_COMPONENTS_HEALTHY, 1),
                minutes(shoot::EVERY_NODE_READY, 5),
            ]),
            stale_after: Some(Duration::from_secs(300)),
        }
    }
}

/// As upstream's default: more would only queue in the seed's API server.
pub const SHOOTS_MAX: usize = 20;
/// As upstream's default.
pub const SYNC_PERIOD: Duration = Duration::from_secs(3600);
/// 10 GiB for the store of everything but Events.
pub const ETCD_MAIN_STORAGE: &str = "10Gi";
/// 4 GiB for the store of Events: in the same proportion as upstream's 10 GiB to 25 GiB (gardener/gardener v1.150
/// `pkg/gardenlet/operation/botanist/etcd.go`).
pub const ETCD_EVENTS_STORAGE: &str = "4Gi";

impl Config {
    /// Upstream's defaults for this seed.
    #[must_use]
    pub fn new(seed: Seed, images: Images, addressing: Addressing) -> Self {
        Self {
            seed,
            identity: "gardenlet".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            garden_identity: "garden".to_owned(),
            images,
            addressing,
            node_access: NodeAccess::default(),
            etcd_storage: EtcdStorage {
                main: ETCD_MAIN_STORAGE.to_owned(),
                events: ETCD_EVENTS_STORAGE.to_owned(),
            },
            shoots_max: SHOOTS_MAX,
            sync_period: SYNC_PERIOD,
            care: CareSettings::default(),
            backup_grace: Duration::ZERO,
            garden_access: None,
            seed_webhooks: None,
            feed: Feed::default(),
            task_layer: TaskLayer::default(),
        }
    }

    /// Name of the seed.
    #[must_use]
    pub fn seed_name(&self) -> &str {
        self.seed.metadata.name.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overwrite(name: &str, versions: Option<&str>, source: ImageSource) -> ImageOverwrite {
        ImageOverwrite {
            name: name.to_owned(),
            versions: versions.map(|text| Constraint::read(text).unwrap()),
            source,
        }
    }

    fn parts(repository: Option<&str>, tag: Option<&str>) -> ImageSource {
        ImageSource::Parts {
            repository: repository.map(str::to_owned),
            tag: tag.map(str::to_owned),
        }
    }

    #[test]
    fn overwrite_for_a_version_comes_before_one_for_all() {
        let mut images = Images::new("r.example/o", "v2");
        assert_eq!(
            images.kubernetes("kube-apiserver", "1.35.0"),
            "r.example/o/kube-apiserver:v1.35.0"
        );
        images.overwrites = vec![
            overwrite(
                "kube-apiserver",
                None,
                parts(Some("registry.k8s.io/kube-apiserver"), None),
            ),
            overwrite(
                "kube-apiserver",
                Some(">= 1.36"),
                ImageSource::Reference("mirror.example/api@sha256:ab".into()),
            ),
            overwrite("etcd", None, parts(None, Some("sha256:cd"))),
        ];
        for (version, expected) in [
            ("1.35.0", "registry.k8s.io/kube-apiserver:v1.35.0"),
            ("1.36.1", "mirror.example/api@sha256:ab"),
        ] {
            assert_eq!(images.kubernetes("kube-apiserver", version), expected);
        }
        assert_eq!(images.tagged("etcd", "3.6.6-0", "1.35.0"), "r.example/o/etcd@sha256:cd");
    }

    #[test]
    fn program_is_the_repositorys_unless_given_or_overwritten() {
        let mut images = Images::new("r.example/o", "v2");
        assert_eq!(
            images.program("gardener-resource-manager", None),
            "r.example/o/orangery:v2"
        );
        images.program = Some("own.example/orangery:v3".into());
        assert_eq!(
            images.program("gardener-resource-manager", Some("1.35.0")),
            "own.example/orangery:v3"
        );
        images.overwrites = vec![overwrite(
            "gardener-resource-manager",
            None,
            parts(Some("m.example/grm"), None),
        )];
        assert_eq!(images.program("gardener-resource-manager", None), "m.example/grm:v2");
    }
}
