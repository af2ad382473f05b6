//! Kubelets of other processes: where they are, and as which user this server calls them.
//! (kubernetes/kubernetes v1.35 pkg/kubelet/client/kubelet_client.go)

use std::sync::Arc;

use base_client::{Connection, ResponseBody};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Request, Response, header};
use kube::client::Body;
use tokio_rustls::TlsConnector;

use crate::connections::addresses::bracketed;
use crate::connections::dial::{Destination, open, send};
use crate::connections::identity::ClientIdentity;
use crate::connections::tls::{Trust, tls};
use crate::wire::status::Status;

/// The default order of preference of node addresses (`--kubelet-preferred-address-types`).
const PREFERRED: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// How kubelets are reached.
pub(crate) struct Kubelets {
    tls: TlsConnector,
    preferred: Vec<String>,
}

/// How kubelets are reached; everything has a default.
#[derive(Default)]
pub struct KubeletClient {
    identity: Option<ClientIdentity>,
    authorities: Option<String>,
    preferred: Vec<String>,
}

impl KubeletClient {
    /// A client that presents no certificate and trusts any server, as kube-apiserver without the flags.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The client certificate (PEM, its chain behind it) and private key that it presents to kubelets.
    /// (`--kubelet-client-certificate`, `--kubelet-client-key`)
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn identity(mut self, certificate: &str, key: &[u8]) -> Result<Self, Status> {
        let identity = ClientIdentity::of("client of kubelets", certificate, key).map_err(Status::internal)?;
        self.identity = Some(identity);
        Ok(self)
    }

    /// Who signs the certificates of kubelets, as PEM; without it, any server is trusted.
    /// (`--kubelet-certificate-authority`)
    #[must_use]
    pub fn authorities(mut self, pem: &str) -> Self {
        self.authorities = Some(pem.to_owned());
        self
    }

    /// Which sorts of addresses of a node are taken, the best first. (`--kubelet-preferred-address-types`)
    #[must_use]
    pub fn preferred(mut self, types: impl IntoIterator<Item = String>) -> Self {
        self.preferred = types.into_iter().collect();
        self
    }

    pub(crate) fn build(self) -> Result<Kubelets, Status> {
        let bundle = self.authorities.map(|pem| STANDARD.encode(pem));
        let trust = bundle.as_deref().map_or(Trust::AnyServer, Trust::Bundle);
        let config = tls(trust, self.identity.as_ref())
            .map_err(|why| Status::internal(format!("the client of kubelets: {why}")))?;
        let preferred = match self.preferred.is_empty() {
            true => PREFERRED.map(str::to_owned).to_vec(),
            false => self.preferred,
        };
        Ok(Kubelets {
            tls: TlsConnector::from(Arc::new(config)),
            preferred,
        })
    }
}

impl Kubelets {
    /// Which sorts of addresses are taken, the best first.
    pub(crate) fn preferred(&self) -> &[String] {
        &self.preferred
    }

    /// How TLS is spoken with them.
    pub(crate) fn connector(&self) -> TlsConnector {
        self.tls.clone()
    }

    /// A connection to one. Errors: why there is none.
    pub(crate) async fn connect(&self, place: &NodePlace) -> Result<Connection, String> {
        let destination = Destination {
            host: &place.host,
            port: place.port,
            dialer: None,
            tls: Some(self.connector()),
        };
        open(destination).await
    }

    /// Calls one, and waits for the head of its answer. Errors: why there is none.
    pub(crate) async fn get(&self, place: &NodePlace, path: &str) -> Result<Response<ResponseBody>, String> {
        let url = format!("https://{}{path}", place.authority());
        let answer = async { send(self.connect(place).await?, request(place, path)?).await };
        answer.await.map_err(|why| format!("Get {url:?}: {why}"))
    }
}

fn request(place: &NodePlace, path: &str) -> Result<Request<Body>, String> {
    let mut request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let host = HeaderValue::from_str(&place.authority()).map_err(|error| error.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

/// Where the kubelet of a node is.
pub(crate) struct NodePlace {
    /// The first of its addresses that is preferred.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl NodePlace {
    /// As in a URL.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }
}

/// The port of a kubelet whose node has none (kubernetes/kubernetes v1.35 pkg/cluster/ports/ports.go).
pub(crate) const KUBELET_PORT: u16 = 10_250;
