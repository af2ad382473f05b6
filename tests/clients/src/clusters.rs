//! The two clusters: real Kubernetes and a bare one of ours, each with controllers, scheduler and one of our nodes that runs a shell
//! and pretends to run every other image. The same administrator on both.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{CertificateSpec, Credential, KubeconfigSpec, SecretText};
use cluster_bare::{Cluster, Keys};
use cluster_node::{ImageCatalogue, Network, Volumes};
use cluster_programs::{AtAddress, ImageFile, Isolation, Options as ProgramOptions, Programs};
use serde_json::json;
use tempfile::TempDir;
use tests_conformance::Outcome;
use tests_conformance::real::{Options, Real, VERSION};

use crate::node::{self, Joined};

/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// The node's name, as a bare cluster calls its own.
const NODE: &str = "orangery-0";

/// Both of them, until they are dropped.
pub(crate) struct Clusters {
    /// The administrator's kubeconfig of each, real first.
    pub(crate) kubeconfigs: [SecretText; 2],
    _real: Real,
    _node: Joined,
    _ours: Cluster,
    _programs: TempDir,
}

impl Clusters {
    pub(crate) async fn start() -> Outcome<Self> {
        let all = Options {
            controllers: true,
            scheduler: true,
            ..Options::default()
        };
        let real = Real::start(all).await?;
        let programs = tempfile::tempdir().map_err(|error| format!("no folder for programs: {error}"))?;
        let node = node::join(&real, NODE, catalogue(programs.path(), "real")?, Network::new()).await?;
        let (ours, ours_kubeconfig) = ours(catalogue(programs.path(), "ours")?).await?;
        node::ready(&node::client(ours_kubeconfig.expose())?, NODE).await?;
        Ok(Self {
            kubeconfigs: [real.endpoint.kubeconfig.clone(), ours_kubeconfig],
            _real: real,
            _node: node,
            _ours: ours,
            _programs: programs,
        })
    }
}

/// A shell that is run, and all else that is pretended. No program asks for its API server.
fn catalogue(folder: &Path, node: &str) -> Outcome<ImageCatalogue> {
    let file = folder.join("images.yaml");
    let images = json!({"images": [{"image": "example.org/shell", "command": ["sh"]}]});
    std::fs::write(&file, images.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
    let options = ProgramOptions {
        folder: folder.join(node),
        hidden: Vec::new(),
        isolation: Isolation::None,
        servers: Arc::new(AtAddress(SocketAddr::from(([127, 0, 0, 1], 0)))),
    };
    let programs = ImageFile::read(&file).and_then(|file| Programs::new(&file, options));
    let programs = programs.map_err(|fault| fault.chain())?;
    Ok(programs.add_to(ImageCatalogue::new().simulating()))
}

async fn ours(catalogue: ImageCatalogue) -> Outcome<(Cluster, SecretText)> {
    let (clock, entropy) = (Clock::real(), Entropy::os());
    let failed = |error: &dyn std::fmt::Display| format!("the bare cluster does not start: {error}");
    let keys = Keys::generate(&clock, &entropy).map_err(|error| failed(&error))?;
    let masters = CertificateSpec::client("admin", &["system:masters"], VALIDITY);
    let issued = keys.clients.issue(&masters, &clock, &entropy);
    let credential = Credential::Certificate(Box::new(issued.map_err(|error| failed(&error))?));
    let authorities = keys.authority.certificate_pem();
    let cluster = Cluster::builder()
        .keys(keys)
        .git_version(VERSION)
        .node(catalogue, Volumes::new())
        .start()
        .await
        .map_err(|error| failed(&error))?;
    let kubeconfig = base_secrets::kubeconfig(&KubeconfigSpec {
        name: "admin".to_owned(),
        server: cluster.url().to_owned(),
        tls_server_name: None,
        authorities,
        credential,
        namespace: None,
    });
    let text = base_secrets::to_yaml(&kubeconfig).map_err(|error| failed(&error))?;
    Ok((cluster, text))
}
