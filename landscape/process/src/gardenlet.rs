//! gardenlet: one seed of the garden.

use std::path::Path;
use std::sync::Arc;

use api_config::{Addressing, Extended, GardenletConfiguration, NodeAccess};
use api_core::v1beta1::Seed;
use api_meta::{Fault, names};
use base_client::{Https, Target};
use base_clock::{Clock, Entropy};
use base_process::{ApiRequests, Elected, STOP_PATIENCE};
use base_version::Constraint;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use control_plane_gardenlet::{
    Addressing as Reached, CareSettings, Clients, Config, GardenAccess, ImageOverwrite, ImageSource, Images,
    NodeAccess as Reaching, WebhookServer, cluster_identity, run as run_gardenlet,
};
use kube::Client;
use kube::config::{Cluster, Kubeconfig};
use landscape_images::tunnel::{self, API_SERVER};
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Kubeconfigs, Wanted, access};
use crate::credential::Stored;

pub(crate) async fn run(
    elected: Elected,
    configuration: GardenletConfiguration,
    kubeconfigs: &Kubeconfigs,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let wanted = Wanted {
        of: "the seed",
        flag: "--kubeconfig",
        given: kubeconfigs.kubeconfig.as_deref(),
        field: "seedClientConnection.kubeconfig",
        configured: configuration.seed_kubeconfig.as_deref(),
    };
    let seed = access(elected.name(), &wanted).await?.client;
    let garden = garden(&elected, &configuration, kubeconfigs, &seed).await?;
    let requests = elected.requests();
    let gardenlet = Arc::new(Gardenlet {
        garden,
        seed: requests.around(seed.clone()),
        requests,
        configuration,
        identity: elected.identity.clone(),
        clock: elected.clock.clone(),
        entropy: elected.entropy.clone(),
    });
    let work = |stop| {
        let gardenlet = gardenlet.clone();
        async move { gardenlet.work(stop).await }
    };
    elected.run(seed, stop, work).await
}

/// Logs what is not wrong and will most likely not work.
pub(crate) fn warn(configuration: &GardenletConfiguration, path: &Path) {
    if let Some(missing) = missing_images(&configuration.orangery) {
        tracing::warn!("{}: {missing}", path.display());
    }
}

/// Whether kube-apiserver comes from elsewhere, and an end of the tunnel that it needs does not: an overwrite from before there
/// was a tunnel names neither. Which images a seed can pull is not known here, but that none is pulled from the default.
fn missing_images(configured: &Extended) -> Option<String> {
    let images = &configured.images;
    let is_overwritten = |name: &str| images.overwrites.iter().any(|one| one.name == name);
    let missing = tunnel::ends().into_iter().filter(|name| !is_overwritten(name));
    let missing: Vec<&str> = missing.collect();
    let from_default = images.repository == api_config::Images::default().repository;
    let tunnelled = configured.node_access == NodeAccess::Tunnel;
    if missing.is_empty() || !from_default || !tunnelled || !is_overwritten(API_SERVER) {
        return None;
    }
    let missing = missing.join(" and ");
    Some(format!(
        "orangery.images.overwrites has an entry for {API_SERVER} and none for {missing}: the tunnel to nodes of Shoots runs \
         images of {}, which no registry has; add entries for {missing} (values of the chart: imageVectorOverwrite), or set \
         orangery.nodeAccess.type to Direct where nodes are reached without a tunnel",
        images.repository
    ))
}

/// The way into the garden: a flag, the Secret that gardenlet writes itself, or a file.
async fn garden(
    elected: &Elected,
    configuration: &GardenletConfiguration,
    kubeconfigs: &Kubeconfigs,
    seed: &Client,
) -> Result<Garden, Fault> {
    let connection = &configuration.garden;
    match &connection.stored {
        Some(settings) if kubeconfigs.garden.is_none() => Ok(Garden::Stored(Stored {
            settings: settings.clone(),
            seed_name: configuration.seed.metadata.name.clone().unwrap_or_default(),
            seed: seed.clone(),
            clock: elected.clock.clone(),
            entropy: elected.entropy.clone(),
        })),
        _ if kubeconfigs.garden.is_none() && connection.kubeconfig.is_none() => Err(Fault::user(
            "there is no kubeconfig of the garden, and the service account of the pod is one of the seed",
        )
        .hint(
            "name a file with --garden-kubeconfig or in gardenClientConnection.kubeconfig, or a Secret in \
             gardenClientConnection.kubeconfigSecret",
        )),
        _ => {
            let wanted = Wanted {
                of: "the garden",
                flag: "--garden-kubeconfig",
                given: kubeconfigs.garden.as_deref(),
                field: "gardenClientConnection.kubeconfig",
                configured: connection.kubeconfig.as_deref(),
            };
            access(elected.name(), &wanted).await.map(Garden::Given)
        }
    }
}

/// How it gets into the garden.
enum Garden {
    Given(Access),
    /// It gets its credential itself.
    Stored(Stored),
}

/// What a gardenlet works with.
struct Gardenlet {
    garden: Garden,
    seed: Client,
    requests: ApiRequests,
    configuration: GardenletConfiguration,
    identity: String,
    clock: Clock,
    entropy: Entropy,
}

impl Gardenlet {
    /// Works until `stop`, and begins again with each new credential.
    async fn work(&self, stop: CancellationToken) -> Result<(), Fault> {
        let stored = match &self.garden {
            Garden::Given(access) => return self.work_with(access, stop).await,
            Garden::Stored(stored) => stored,
        };
        while !stop.is_cancelled() {
            let held = stored.obtain().await?;
            let until = stop.child_token();
            let working = self.work_with(&held.access, until.clone());
            let mut working = std::pin::pin!(working);
            tokio::select! {
                ended = &mut working => return ended,
                () = stored.renew(&held) => {}
            }
            tracing::info!("starting again with the new credential");
            until.cancel();
            // What it has started ends with it, or is left behind.
            if let Ok(ended) = tokio::time::timeout(STOP_PATIENCE, working).await {
                ended?;
            }
        }
        Ok(())
    }

    async fn work_with(&self, garden: &Access, stop: CancellationToken) -> Result<(), Fault> {
        let clients = Clients {
            garden: self.requests.around(garden.client.clone()),
            seed: self.seed.clone(),
            shoots: Arc::new(Https::new("gardenlet")),
        };
        let garden_identity = identity(&clients.garden).await?;
        let config = Config {
            identity: self.identity.clone(),
            garden_identity,
            ..config(self.configuration.clone(), &garden.kubeconfig)?
        };
        Box::pin(run_gardenlet(
            clients,
            config,
            self.clock.clone(),
            self.entropy.clone(),
            stop,
        ))
        .await
    }
}

/// The garden's identity, which its API server writes; it is part of that of every Shoot, so that none is made up.
async fn identity(garden: &Client) -> Result<String, Fault> {
    let identity = cluster_identity(garden).await?;
    identity.filter(|identity| !identity.is_empty()).ok_or_else(|| {
        let name = names::CLUSTER_IDENTITY;
        Fault::dependency(format!(
            "the garden has no identity: ConfigMap {}/{name} has no key {name}",
            names::SYSTEM_NAMESPACE
        ))
        .hint("start the garden's API server with --cluster-identity")
    })
}

/// gardenlet's settings but for the identities.
fn config(configuration: GardenletConfiguration, garden: &Kubeconfig) -> Result<Config, Fault> {
    let GardenletConfiguration {
        process: _,
        garden: connection,
        seed_kubeconfig: _,
        seed,
        shoots_max,
        sync_period,
        care,
        backup_grace,
        orangery,
    } = configuration;
    let seed = Seed {
        metadata: seed.metadata,
        spec: seed.spec.unwrap_or_default(),
        status: None,
    };
    let images = images(orangery.images)?;
    let addressing = match orangery.addressing {
        Addressing::PerService => Reached::PerService,
        Addressing::Shared { url, address } => Reached::Shared { url, address },
    };
    let node_access = match orangery.node_access {
        NodeAccess::Direct => Reaching::Direct,
        NodeAccess::Tunnel => Reaching::Tunnel,
    };
    let defaults = CareSettings::default();
    let care = CareSettings {
        thresholds: care.thresholds.unwrap_or(defaults.thresholds),
        stale_after: care.stale_after,
    };
    let mut access = garden_access(garden)?;
    if let Some(address) = connection.address {
        access.server = address;
    }
    let given = orangery.garden_access;
    access.ca_pem = given.ca_bundle.unwrap_or(access.ca_pem);
    access.tls_server_name = given.tls_server_name.or(access.tls_server_name);
    Ok(Config {
        shoots_max,
        sync_period,
        care,
        backup_grace,
        node_access,
        garden_access: Some(access),
        seed_webhooks: orangery.seed_webhooks.map(|server| WebhookServer {
            url: server.url,
            ca_bundle: server.ca_bundle,
        }),
        ..Config::new(seed, images, addressing)
    })
}

/// Where images come from.
fn images(configured: api_config::Images) -> Result<Images, Fault> {
    let overwrites = configured.overwrites.into_iter().enumerate();
    let overwrites: Result<Vec<ImageOverwrite>, Fault> = overwrites.map(|(at, one)| overwrite(at, one)).collect();
    Ok(Images {
        repository: configured.repository,
        tag: (configured.tag).unwrap_or_else(|| format!("v{}", env!("CARGO_PKG_VERSION"))),
        program: configured.program,
        overwrites: overwrites?,
    })
}

fn overwrite(at: usize, configured: api_config::ImageOverwrite) -> Result<ImageOverwrite, Fault> {
    let versions = configured.target_version.map(|text| {
        Constraint::read(&text).map_err(|error| {
            Fault::user(format!(
                "orangery.images.overwrites[{at}].targetVersion is {text:?}: {error}"
            ))
            .hint("write a constraint of Kubernetes versions, such as \">= 1.35\", or leave it out")
        })
    });
    Ok(ImageOverwrite {
        name: configured.name,
        versions: versions.transpose()?,
        source: match configured.reference {
            Some(reference) => ImageSource::Reference(reference),
            None => ImageSource::Parts {
                repository: configured.repository,
                tag: configured.tag,
            },
        },
    })
}

/// How pods of the seed reach the garden: as gardenlet does.
fn garden_access(kubeconfig: &Kubeconfig) -> Result<GardenAccess, Fault> {
    let target = Target::of(kubeconfig)?;
    let server = cluster_of(kubeconfig).and_then(|cluster| cluster.server.clone());
    Ok(GardenAccess {
        server: server.unwrap_or_default(),
        ca_pem: authorities(kubeconfig),
        tls_server_name: target.tls_server_name,
    })
}

/// The authorities of the current context's server, as PEM; nothing where the kubeconfig has none.
pub(crate) fn authorities(kubeconfig: &Kubeconfig) -> String {
    let data = cluster_of(kubeconfig).and_then(|cluster| cluster.certificate_authority_data.as_deref());
    let pem = STANDARD.decode(data.unwrap_or_default().trim()).unwrap_or_default();
    String::from_utf8(pem).unwrap_or_default()
}

/// The cluster of the current context.
fn cluster_of(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let current = kubeconfig.current_context.as_deref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| named.name == current)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    clusters.find(|named| named.name == context.cluster)?.cluster.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_constraint_of_an_image_is_named_with_its_entry() {
        let entry = |target_version: &str| api_config::ImageOverwrite {
            name: "kube-apiserver".to_owned(),
            target_version: Some(target_version.to_owned()),
            ..api_config::ImageOverwrite::default()
        };
        let configured = |target_version: &str| api_config::Images {
            overwrites: vec![entry(">= 1.33"), entry(target_version)],
            ..api_config::Images::default()
        };
        assert_eq!(images(configured("1.35.x")).unwrap().overwrites.len(), 2);
        let refused = images(configured("newest")).unwrap_err().chain();
        assert!(
            refused.starts_with("orangery.images.overwrites[1].targetVersion is \"newest\": "),
            "{refused}"
        );
    }

    #[test]
    fn images_of_the_tunnel_that_no_overwrite_names_are_a_warning() {
        let warning = |overwritten: &[&str], change: fn(&mut Extended)| {
            let overwrites = overwritten.iter().map(|name| api_config::ImageOverwrite {
                name: (*name).to_owned(),
                ..api_config::ImageOverwrite::default()
            });
            let mut configured = Extended::default();
            configured.images.overwrites = overwrites.collect();
            change(&mut configured);
            missing_images(&configured)
        };
        let before = ["etcd", "kube-apiserver"];
        let message = warning(&before, |_| ()).unwrap();
        assert!(
            message.contains("an entry for kube-apiserver and none for proxy-server and proxy-agent: "),
            "{message}"
        );
        let message = warning(&["kube-apiserver", "proxy-server"], |_| ()).unwrap();
        assert!(message.contains("none for proxy-agent: "), "{message}");

        assert_eq!(
            warning(&["kube-apiserver", "proxy-server", "proxy-agent"], |_| ()),
            None
        );
        assert_eq!(
            warning(&["etcd"], |_| ()),
            None,
            "all is of the node that has our images"
        );
        let direct = |configured: &mut Extended| configured.node_access = NodeAccess::Direct;
        assert_eq!(warning(&before, direct), None);
        let mirrored = |configured: &mut Extended| configured.images.repository = "mirror.example".to_owned();
        assert_eq!(warning(&before, mirrored), None, "the default may be there");
    }
}
