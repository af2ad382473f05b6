//! What the people in front of a landscape can see of it and do to it, wherever it runs.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec};
use api_core::v1beta1::Shoot;
use api_machine::Machine;
use base_client::Connector;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource, ResourceExt};
use landscape_local::apply_all;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::installation;
use crate::picture::Picture;
use crate::script::{NAME, NAMESPACE, Phase, TECHNICAL_ID};

/// How patiently one looks.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long everything may take to come to rest after the Shoot has: garbage collection, care, a node that is drained.
    pub rest: Duration,
    /// How long nothing must change until it is at rest.
    pub still: Duration,
    /// The first pause between two looks; each is twice the one before.
    pub look: Duration,
    /// The longest pause.
    pub seldom: Duration,
}

impl Pace {
    /// In virtual time, which costs little.
    pub const VIRTUAL: Self = Self {
        rest: Duration::from_secs(1800),
        still: Duration::from_secs(300),
        look: Duration::from_secs(5),
        seldom: Duration::from_secs(60),
    };
    /// In real time.
    pub const REAL: Self = Self {
        rest: Duration::from_secs(60),
        still: Duration::from_secs(2),
        look: Duration::from_millis(100),
        seldom: Duration::from_millis(1000),
    };
}

/// A landscape as it is seen from outside.
pub struct View {
    /// The garden, as its administrator.
    pub garden: Client,
    /// The seed, likewise.
    pub seed: Client,
    /// Makes clients.
    pub connector: Arc<dyn Connector>,
    /// Folders in which nothing must be left.
    pub folders: Vec<PathBuf>,
    /// How patiently one looks.
    pub pace: Pace,
}

impl View {
    /// The uids of the Shoot's machines.
    ///
    /// # Errors
    /// The seed's refusal.
    pub async fn machines(&self) -> Result<BTreeSet<String>, String> {
        uids::<Machine>(&self.seed).await
    }

    /// The uids of the claims of the volumes that hold the Shoot's data.
    ///
    /// # Errors
    /// The seed's refusal.
    pub async fn claims(&self) -> Result<BTreeSet<String>, String> {
        uids::<PersistentVolumeClaim>(&self.seed).await
    }

    /// All that there is. `phase` says whether there is a Shoot to look into, or an installation to look at closely.
    ///
    /// # Errors
    /// A server's refusal.
    pub async fn picture(&self, phase: Phase) -> Result<Picture, String> {
        let mut picture = Picture::default();
        let closely = matches!(phase, Phase::Install | Phase::Upgrade | Phase::Remove).then_some(installation::NAME);
        picture.add_server("garden", &self.garden, closely).await?;
        picture.add_server("seed", &self.seed, closely).await?;
        let awake = [Phase::Create, Phase::Update, Phase::Tunnel, Phase::Direct, Phase::Wake];
        if awake.contains(&phase) {
            picture.add_server("shoot", &self.shoot().await?, None).await?;
        }
        for folder in &self.folders {
            picture.add_folders(folder)?;
        }
        Ok(picture)
    }

    /// Puts something into the Shoot that only its user can put there again. A Shoot whose control plane has died
    /// with the process is asked again until it is back.
    ///
    /// # Errors
    /// The Shoot's last refusal.
    pub async fn mark(&self) -> Result<(), String> {
        let mark =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}});
        let put = async || {
            apply_all(&self.shoot().await?, vec![mark.clone()])
                .await
                .map_err(|fault| fault.to_string())
        };
        let put = self.eventually(self.pace.rest, put).await;
        put.map_err(|why| format!("the Shoot is not served: {why}"))
    }

    /// Tries again and again until something succeeds, for so long.
    ///
    /// # Errors
    /// Why it did not succeed the last time.
    pub async fn eventually(
        &self,
        patience: Duration,
        attempt: impl AsyncFn() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut waited = Duration::ZERO;
        loop {
            match attempt().await {
                Err(why) if waited > patience => return Err(why),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
            tokio::time::sleep(self.pace.look).await;
            waited += self.pace.look;
        }
    }

    /// A client for the Shoot, as its user gets one.
    ///
    /// # Errors
    /// The garden's refusal.
    pub async fn shoot(&self) -> Result<Client, String> {
        let request = AdminKubeconfigRequest {
            spec: KubeconfigRequestSpec {
                expiration_seconds: Some(3600),
            },
            ..AdminKubeconfigRequest::default()
        };
        let shoots: Api<Shoot> = Api::namespaced(self.garden.clone(), NAMESPACE);
        let answer: AdminKubeconfigRequest = shoots
            .create_subresource("adminkubeconfig", NAME, &PostParams::default(), &request)
            .await
            .map_err(|error| error.to_string())?;
        let text =
            String::from_utf8(answer.status.unwrap_or_default().kubeconfig.0).map_err(|error| error.to_string())?;
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| error.to_string())?;
        let client = self.connector.client(&kubeconfig);
        client.map_err(|fault| fault.to_string())
    }

    /// The picture once it no longer changes.
    ///
    /// # Errors
    /// It changes for ever, or a server refuses to show it.
    pub async fn at_rest(&self, phase: Phase) -> Result<Picture, String> {
        let mut last = self.picture(phase).await?;
        let mut since = Duration::ZERO;
        for _ in 0..self.pace.rest.as_millis() / self.pace.seldom.as_millis() {
            tokio::time::sleep(self.pace.seldom).await;
            let next = self.picture(phase).await?;
            since = if next == last {
                since + self.pace.seldom
            } else {
                Duration::ZERO
            };
            last = next;
            if since >= self.pace.still {
                return Ok(last);
            }
        }
        Err(format!("it does not come to rest within {:?}", self.pace.rest))
    }

    /// Adds to what went wrong how the picture differs from the wanted one, as far as it can be seen.
    pub async fn explain(&self, phase: Phase, wanted: &Picture, why: String) -> String {
        match self.picture(phase).await {
            Ok(picture) => format!("{phase}: {why}\n    {}", picture.differences(wanted).join("\n    ")),
            Err(blind) => format!("{phase}: {why}\n    {blind}"),
        }
    }

    /// Waits until the picture is as wanted.
    ///
    /// # Errors
    /// What differs in the end.
    pub async fn becomes(&self, phase: Phase, wanted: &Picture) -> Result<(), String> {
        let (mut waited, mut pause) = (Duration::ZERO, self.pace.look);
        loop {
            let differences = match self.picture(phase).await {
                Ok(picture) => picture.differences(wanted),
                Err(why) => vec![why],
            };
            if differences.is_empty() {
                return Ok(());
            }
            if waited > self.pace.rest {
                return Err(format!(
                    "after {phase}, this is not as when nothing goes wrong:\n    {}",
                    differences.join("\n    ")
                ));
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(self.pace.seldom);
        }
    }
}

/// The uids of all objects of a kind in the Shoot's namespace.
async fn uids<K>(seed: &Client) -> Result<BTreeSet<String>, String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = Api::namespaced(seed.clone(), TECHNICAL_ID);
    match api.list(&ListParams::default()).await {
        // The kind is not there before the seed has its custom resource definitions.
        Err(error) if base_client::is_missing(&error) => Ok(BTreeSet::new()),
        Err(error) => Err(error.to_string()),
        Ok(listed) => Ok(listed.items.iter().filter_map(ResourceExt::uid).collect()),
    }
}
