//! The files of `deploy/production` by which a kube-apiserver on this machine confines the identities of seeds and guards what the
//! garden needs: an authorizer and admission webhooks of `orangery admission-controller`.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tests_parts::Outcome;

use crate::{local, write_private};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/production");

/// Where `orangery admission-controller` answers, and whose certificate it shows.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// Its port on loopback.
    pub port: u16,
    /// Folder of `tls.crt` and `tls.key`.
    pub certificates: PathBuf,
    /// PEM of the authority of its certificate.
    pub authority: String,
}

impl Webhooks {
    /// Writes an AuthorizationConfiguration and the kubeconfig that it names into the folder; the path of the first.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn authorization(&self, folder: &Path) -> Outcome<PathBuf> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "seeds",
            "contexts": [{"name": "seeds", "context": {"cluster": "seeds", "user": "kube-apiserver"}}],
            "clusters": [{"name": "seeds", "cluster": {
                "server": self.url("/webhooks/auth/seed"), "certificate-authority-data": STANDARD.encode(&self.authority)}}],
            "users": [{"name": "kube-apiserver", "user": {}}],
        });
        let named = folder.join("seed-authorizer.kubeconfig");
        write_private(&named, &kubeconfig.to_string())?;
        let mut authorization = read("authorization-configuration.yaml")?;
        authorization["authorizers"][1]["webhook"]["connectionInfo"]["kubeConfigFile"] =
            named.display().to_string().into();
        let path = folder.join("authorization-configuration.yaml");
        write_private(&path, &authorization.to_string())?;
        Ok(path)
    }

    /// The ValidatingWebhookConfiguration.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn admission(&self) -> Outcome<Value> {
        let mut webhooks = read("admission-controller.yaml")?;
        for webhook in webhooks["webhooks"].as_array_mut().into_iter().flatten() {
            let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap_or_default();
            webhook["clientConfig"] = json!({"url": self.url(path), "caBundle": STANDARD.encode(&self.authority)});
        }
        Ok(webhooks)
    }

    /// The configuration of `orangery admission-controller`, with these ports of health and metrics.
    #[must_use]
    pub fn configuration(&self, health: u16, metrics: u16) -> Value {
        let mut webhooks = local(self.port);
        webhooks["tls"] = json!({"serverCertDir": self.certificates});
        json!({
            "apiVersion": "admissioncontroller.config.gardener.cloud/v1alpha1",
            "kind": "AdmissionControllerConfiguration",
            "logFormat": "text",
            "server": {"healthProbes": local(health), "metrics": local(metrics), "webhooks": webhooks},
        })
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }
}

fn read(name: &str) -> Outcome<Value> {
    let path = format!("{FOLDER}/{name}");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    base_yaml::read_strict(&text).map_err(|error| format!("{path}: {error}"))
}
