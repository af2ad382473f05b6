//! `GardenletConfiguration` (gardener/gardener v1.150 pkg/apis/config/gardenlet/v1alpha1), and one field of our own: what
//! stands under `orangery` defines how the API servers of shoots are addressed and where their images come from, which
//! Gardener decides by Istio and by an image vector.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api_core::v1beta1::SeedTemplate;

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::garden_connection::{GardenConnection, garden_connection};
use crate::process::{Defaults, Process, connection, process};

/// Most Shoots that a gardenlet may work on at the same time.
const SHOOTS_MAX: u64 = 1000;
/// Ten years: more would overflow nothing, and be a mistake.
const GRACE_HOURS_MAX: u64 = 24 * 365 * 10;

/// Configuration of a gardenlet.
#[derive(Clone, Debug, PartialEq)]
pub struct GardenletConfiguration {
    /// What every process has.
    pub process: Process,
    /// How it gets into the garden.
    pub garden: GardenConnection,
    /// Path of the seed's kubeconfig.
    pub seed_kubeconfig: Option<String>,
    /// The Seed that it registers.
    pub seed: SeedTemplate,
    /// Shoots worked on at the same time.
    pub shoots_max: usize,
    /// How often a healthy Shoot is reconciled without cause.
    pub sync_period: Duration,
    /// When the health of a Shoot is trouble.
    pub care: ShootCare,
    /// How long backups stay after their Shoot is gone.
    pub backup_grace: Duration,
    /// What Gardener's kind does not have.
    pub orangery: Extended,
}

/// When trouble of a Shoot makes a condition `False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShootCare {
    /// How long a condition of a type is `Progressing` before it is `False`; none: the defaults of gardenlet's chart.
    pub thresholds: Option<BTreeMap<String, Duration>>,
    /// The age from which on what an extension reports is outdated; none: never.
    pub stale_after: Option<Duration>,
}

/// What stands under `orangery`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extended {
    /// How the API servers of shoots are reached.
    pub addressing: Addressing,
    /// How they reach the nodes of their shoots.
    pub node_access: NodeAccess,
    /// Where images come from.
    pub images: Images,
    /// How pods of the seed know the garden.
    pub garden_access: GardenAccess,
    /// Where the seed's webhooks are reached; none: at the Service of its gardener-resource-manager.
    pub seed_webhooks: Option<SeedWebhooks>,
}

/// A server of webhooks that is not behind a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedWebhooks {
    /// `https://host:port`.
    pub url: String,
    /// PEM of the authorities of its certificate.
    pub ca_bundle: String,
}

/// How clients reach the API servers of shoots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// Each by its own Service and DNS name.
    #[default]
    PerService,
    /// All by one URL; the TLS server name distinguishes them.
    Shared {
        /// `https://host:port`.
        url: String,
        /// What their DNS records point to.
        address: IpAddr,
    },
}

/// How the API servers of shoots reach nodes, pods and Services of their shoot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeAccess {
    /// By their addresses.
    Direct,
    /// Through a connection that an agent in the shoot holds open.
    #[default]
    Tunnel,
}

/// Where the images of control planes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Registry and path before an image's name.
    pub repository: String,
    /// Tag of our own images; none: this version.
    pub tag: Option<String>,
    /// Reference of the image with the program `orangery`; none: `orangery` of the repository.
    pub program: Option<String>,
    /// Images that come from elsewhere.
    pub overwrites: Vec<ImageOverwrite>,
}

/// An entry of Gardener's image vector (gardener/gardener v1.150 pkg/utils/imagevector).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageOverwrite {
    /// Name of the image.
    pub name: String,
    /// Registry, path and name in place of ours.
    pub repository: Option<String>,
    /// Tag, or digest (`sha256:...`), in place of ours.
    pub tag: Option<String>,
    /// A whole reference, in place of both.
    pub reference: Option<String>,
    /// For which Kubernetes versions of Shoots, such as `>= 1.35`; none: for all.
    pub target_version: Option<String>,
}

/// Where nothing is pulled, the catalogue of our node knows images by name alone.
const REPOSITORY: &str = "orangery.dev";

impl Default for Images {
    fn default() -> Self {
        Self {
            repository: REPOSITORY.to_owned(),
            tag: None,
            program: None,
            overwrites: Vec::new(),
        }
    }
}

/// How pods of the seed know the garden; what is absent is taken from the garden's kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GardenAccess {
    /// PEM of the authorities of its certificate.
    pub ca_bundle: Option<String>,
    /// The name in its certificate, where that is not the host of its address.
    pub tls_server_name: Option<String>,
}

impl Configuration for GardenletConfiguration {
    const API_VERSION: &'static str = "gardenlet.config.gardener.cloud/v1alpha1";
    const KIND: &'static str = "GardenletConfiguration";

    fn of(fields: &mut Fields<'_>) -> Self {
        let garden = fields.object("gardenClientConnection", garden_connection);
        let seed_kubeconfig = connection(fields, "seedClientConnection");
        fields.without_effect(&[("shootClientConnection", Form::Object)]);
        let defaults = Defaults {
            lease: Some(("gardenlet-leader-election", "garden")),
            health_port: 2728,
            metrics_port: 2729,
        };
        let (process, ()) = process(fields, &defaults, |_| ());
        let Controllers {
            shoots_max,
            sync_period,
            care,
            backup_grace,
        } = fields.object("controllers", controllers);
        let seed = seed(fields);
        let orangery = fields.object("orangery", extended);
        fields.without_effect(&[
            ("resources", Form::Object),
            ("logging", Form::Object),
            ("sni", Form::Object),
            ("etcdConfig", Form::Object),
            ("exposureClassHandlers", Form::List),
            ("monitoring", Form::Object),
            ("nodeToleration", Form::Object),
        ]);
        Self {
            process,
            garden,
            seed_kubeconfig,
            seed,
            shoots_max,
            sync_period,
            care,
            backup_grace,
            orangery,
        }
    }

    fn process(&self) -> &Process {
        &self.process
    }
}

/// The Seed is named: without a name there is nothing to register.
fn seed(fields: &mut Fields<'_>) -> SeedTemplate {
    let purpose = "The Seed that gardenlet registers: metadata and spec";
    let absent = !fields.has("seedConfig");
    let seed: Option<SeedTemplate> = fields.typed("seedConfig", "an object with metadata and spec of a Seed", purpose);
    let unnamed = seed.as_ref().is_some_and(|seed| {
        let name = seed.metadata.name.as_deref();
        name.is_none_or(str::is_empty)
    });
    if absent {
        fields.contradicts("seedConfig", "absent", "an object with metadata and spec of a Seed");
    } else if unnamed {
        fields.contradicts("seedConfig.metadata.name", "absent", "the name of the Seed");
    }
    seed.unwrap_or_default()
}

struct Controllers {
    shoots_max: usize,
    sync_period: Duration,
    care: ShootCare,
    backup_grace: Duration,
}

fn controllers(fields: &mut Fields<'_>) -> Controllers {
    let (shoots_max, sync_period) = fields.object("shoot", |fields| {
        let shoots = fields.count(
            "concurrentSyncs",
            1..=SHOOTS_MAX,
            20,
            "Shoots worked on at the same time",
        );
        let purpose = "How often a healthy Shoot is reconciled without cause";
        let period = fields.span("syncPeriod", Duration::from_secs(3600), purpose);
        fields.without_effect(&[
            ("retryDuration", Form::Span),
            ("respectSyncPeriodOverwrite", Form::Flag),
            ("reconcileInMaintenanceOnly", Form::Flag),
            ("progressReportPeriod", Form::Span),
            ("dnsEntryTTLSeconds", Form::Whole),
        ]);
        (usize::try_from(shoots).unwrap_or(usize::MAX), period)
    });
    let care = fields.object("shootCare", shoot_care);
    let backup_grace = fields.object("backupEntry", |fields| {
        let purpose = "How long backups stay after their Shoot is gone";
        let hours = fields.count("deletionGracePeriodHours", 0..=GRACE_HOURS_MAX, 0, purpose);
        fields.without_effect(&[
            ("concurrentSyncs", Form::Whole),
            ("deletionGracePeriodShootPurposes", Form::List),
        ]);
        Duration::from_secs(3600 * hours)
    });
    for (name, more) in IDLE {
        fields.object(name, |fields| fields.without_effect(more));
    }
    fields.without_effect(&[("cacheSyncTimeout", Form::Span)]);
    Controllers {
        shoots_max,
        sync_period,
        care,
        backup_grace,
    }
}

const WORKERS: (&str, Form) = ("concurrentSyncs", Form::Whole);
const PERIOD: (&str, Form) = ("syncPeriod", Form::Span);

/// Controllers whose fields have no effect here.
const IDLE: [(&str, &[(&str, Form)]); 15] = [
    ("bastion", &[WORKERS]),
    ("backupBucket", &[WORKERS]),
    ("controllerInstallation", &[WORKERS]),
    ("controllerInstallationCare", &[WORKERS, PERIOD]),
    ("controllerInstallationRequired", &[WORKERS]),
    ("gardenlet", &[PERIOD]),
    (
        "networkPolicy",
        &[WORKERS, ("additionalNamespaceSelectors", Form::List)],
    ),
    ("shootState", &[WORKERS, PERIOD]),
    ("shootStatus", &[WORKERS]),
    (
        "seed",
        &[
            PERIOD,
            ("leaseResyncSeconds", Form::Whole),
            ("leaseResyncMissThreshold", Form::Whole),
        ],
    ),
    ("seedCare", &[PERIOD, ("conditionThresholds", Form::List)]),
    (
        "managedSeed",
        &[
            WORKERS,
            PERIOD,
            ("waitSyncPeriod", Form::Span),
            ("syncJitterPeriod", Form::Span),
            ("jitterUpdates", Form::Flag),
        ],
    ),
    ("tokenRequestor", &[WORKERS]),
    (
        "tokenRequestorWorkloadIdentity",
        &[WORKERS, ("tokenExpirationDuration", Form::Span)],
    ),
    ("vpaEvictionRequirements", &[WORKERS]),
];

fn shoot_care(fields: &mut Fields<'_>) -> ShootCare {
    let stale_after = fields.object("staleExtensionHealthChecks", |fields| {
        let purpose = "Whether what an extension reported goes out of date";
        let enabled = fields.flag("enabled", true, purpose);
        let threshold = fields.span("threshold", Duration::from_secs(300), "After which time");
        enabled.then_some(threshold)
    });
    let thresholds = fields.objects("conditionThresholds", |fields| {
        let type_ = fields.text("type", "", "Type of a condition");
        let purpose = "How long it is Progressing before it is False";
        (type_, fields.span("duration", Duration::ZERO, purpose))
    });
    fields.without_effect(&[
        ("concurrentSyncs", Form::Whole),
        ("syncPeriod", Form::Span),
        ("managedResourceProgressingThreshold", Form::Span),
        ("webhookRemediatorEnabled", Form::Flag),
    ]);
    ShootCare {
        thresholds: thresholds.map(BTreeMap::from_iter),
        stale_after,
    }
}

fn extended(fields: &mut Fields<'_>) -> Extended {
    let addressing = fields.object("addressing", addressing);
    let node_access = fields.object("nodeAccess", |fields| node_access(fields, &addressing));
    let images = fields.object("images", |fields| {
        let purpose = "Registry and path before the name of an image of a control plane";
        let repository = fields.text("repository", REPOSITORY, purpose);
        let tag = fields.optional_text("tag", "Tag of our own images; without it this version");
        let purpose =
            "Image with the program orangery, for gardener-resource-manager; without it orangery of the repository";
        let program = fields.optional_text("program", purpose);
        Images {
            repository,
            tag,
            program,
            overwrites: fields.objects("overwrites", image_overwrite).unwrap_or_default(),
        }
    });
    let garden_access = fields.object("gardenAccess", |fields| {
        let purpose = "PEM of the garden's authorities for pods of the seed; without it that of the kubeconfig";
        let ca_bundle = fields.optional_text("caBundle", purpose);
        let purpose = "Name in the garden's certificate; without it that of the kubeconfig";
        let tls_server_name = fields.optional_text("tlsServerName", purpose);
        GardenAccess {
            ca_bundle,
            tls_server_name,
        }
    });
    let seed_webhooks = fields.object("seedWebhooks", |fields| {
        let purpose =
            "https://HOST:PORT of a gardener-resource-manager whose Service the seed's API server cannot reach";
        let url = fields.text("url", "", purpose);
        let ca_bundle = fields.text("caBundle", "", "PEM of the authorities of its certificate");
        if !url.is_empty() && !is_https(&url) {
            fields.contradicts("url", format!("{url:?}"), "https://HOST:PORT");
        }
        (!url.is_empty()).then_some(SeedWebhooks { url, ca_bundle })
    });
    Extended {
        addressing,
        node_access,
        images,
        garden_access,
        seed_webhooks,
    }
}

fn image_overwrite(fields: &mut Fields<'_>) -> ImageOverwrite {
    let name = fields.text("name", "", "Name of the image, such as kube-apiserver");
    let read = ImageOverwrite {
        repository: fields.optional_text("repository", "Registry, path and name in place of ours"),
        tag: fields.optional_text("tag", "Tag or digest in place of ours"),
        reference: fields.optional_text("ref", "A whole reference, in place of repository and tag"),
        target_version: fields.optional_text(
            "targetVersion",
            "For which Kubernetes versions of Shoots; without it all",
        ),
        name,
    };
    if read.name.is_empty() {
        fields.contradicts("name", "\"\"".to_owned(), "the name of an image");
    }
    fields.without_effect(&[
        ("architectures", Form::List),
        ("labels", Form::List),
        ("resourceId", Form::Object),
        ("runtimeVersion", Form::Text),
        ("sourceRepository", Form::Text),
        ("version", Form::Text),
    ]);
    read
}

fn addressing(fields: &mut Fields<'_>) -> Addressing {
    let purpose = "PerService: each API server of a Shoot by its Service and DNS name; Shared: all by one URL";
    let types = [("PerService", false), ("Shared", true)];
    let shared = fields.choice("type", &types, "PerService", purpose).unwrap_or_default();
    let url = fields.text("url", "", "Of Shared: https://HOST:PORT, as `orangery node` serves it");
    let address = fields.address("address", "Of Shared: what DNS records of shoots point to");
    if !shared {
        return Addressing::PerService;
    }
    if !is_https(&url) {
        fields.contradicts("url", format!("{url:?}"), "https://HOST:PORT, since type is Shared");
    }
    match address {
        Some(address) => Addressing::Shared { url, address },
        None => {
            fields.contradicts("address", "absent", "an IP address, since type is Shared");
            Addressing::PerService
        }
    }
}

/// API servers with addresses of their own are somewhere else than the nodes, whose networks are private. Those that share one URL
/// are in processes of one machine with their nodes.
fn node_access(fields: &mut Fields<'_>, addressing: &Addressing) -> NodeAccess {
    let purpose = "How API servers reach nodes, pods and Services of their Shoot. Tunnel: through an agent in the Shoot \
                   (konnectivity); Direct: by their addresses. Without it Tunnel where addressing.type is PerService, else Direct";
    let types = [("Direct", NodeAccess::Direct), ("Tunnel", NodeAccess::Tunnel)];
    let chosen = fields.choice("type", &types, "", purpose);
    chosen.unwrap_or(match addressing {
        Addressing::PerService => NodeAccess::Tunnel,
        Addressing::Shared { .. } => NodeAccess::Direct,
    })
}

fn is_https(url: &str) -> bool {
    let Some((host, port)) = url.strip_prefix("https://").and_then(|rest| rest.rsplit_once(':')) else {
        return false;
    };
    !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
}
