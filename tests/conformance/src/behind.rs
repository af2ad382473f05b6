//! The embedded API server behind an APIService: one for each of the two servers, which is the only front proxy that it trusts.

use std::sync::Arc;

use base64::Engine as _;
use cluster_apiserver::{ApiServer, Authorities, FrontProxies};
use cluster_front::Timeouts;
use cluster_store::MemoryStore;
use http::Method;
use serde_json::{Value, json};

use crate::ours::Served;
use crate::pki::{FRONT_PROXY, Pki, SERVER_NAME};
use crate::wire::Call;
use crate::{Endpoint, Outcome};

/// The name of its Service, which is in namespace `default`.
const SERVICE: &str = "behind.default.svc";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The server, until it is dropped.
pub(crate) struct Behind {
    served: Served,
    authority: String,
}

impl Behind {
    /// Starts it behind a server whose front proxies have certificates of that authority.
    pub(crate) async fn start(front_authority: &str) -> Outcome<Self> {
        let pki = Pki::generate()?;
        let front_proxies = FrontProxies {
            authorities: front_authority.to_owned(),
            allowed_names: vec![FRONT_PROXY.to_owned()],
            ..FrontProxies::default()
        };
        let server = ApiServer::builder("behind")
            .shared_store(Arc::new(MemoryStore::new()))
            .authorities(Authorities {
                client_authorities: pki.authority.certificate_pem(),
                ..Authorities::default()
            })
            .front_proxies(front_proxies)
            .build()
            .await
            .map_err(|status| format!("the server behind did not start: {status:?}"))?;
        let served = Served::start(&server, &pki, [SERVICE, SERVER_NAME], Timeouts::default()).await?;
        let admin = Endpoint::new("behind", pki.admin_kubeconfig(served.port)?)?;
        let definition = Call::new(Method::POST, DEFINITIONS).with_body("application/json", definition().to_string());
        let answer = admin.connect().await?.send(&definition).await?;
        if !answer.status.is_success() {
            return Err(format!("the server behind took no definition: {}", answer.status));
        }
        Ok(Self {
            served,
            authority: pki.authority.certificate_pem(),
        })
    }

    /// What cases refer to: `<behind.port>`, `<behind.ca>`.
    pub(crate) fn known(&self) -> Value {
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        json!({"port": self.served.port, "ca": authority})
    }
}

fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.behind.example.com"},
        "spec": {
            "group": "behind.example.com", "names": {"plural": "things", "kind": "Thing"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}
