//! A mutating webhook over TLS on loopback, as an extension's own server. Virtual time has no use for sockets: scenarios
//! with it run in real time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Longer than any scenario.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// From an object that is about to be written to the operations of a JSON patch.
pub type Mutate = fn(&Value) -> Vec<Value>;

/// The webhook, until it is dropped.
pub struct Webhook {
    port: u16,
    authority: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Webhook {
    /// Starts it on a free port of loopback.
    pub async fn start(mutate: Mutate) -> Self {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let authority = Authority::generate("webhook", &clock, &entropy).unwrap();
        let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let spec = CertificateSpec::server("webhook", Vec::new(), addresses, VALIDITY);
        let issued = authority.issue(&spec, &clock, &entropy).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&issued.key_pem().expose_bytes()).unwrap();
        let chain = issued.certificate_pem();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.unwrap(), key)
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            authority: authority.certificate_pem(),
            serving: tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), mutate)),
        }
    }

    /// How a webhook configuration leads to it.
    #[must_use]
    pub fn client_config(&self) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}/", self.port),
            "caBundle": ByteString(self.authority.clone().into_bytes()),
        })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, mutate: Mutate) {
    // Connections end with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, acceptor.clone(), mutate));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, mutate: Mutate) {
    if let Ok(stream) = acceptor.accept(stream).await {
        let answer = service_fn(|request| answer(request, mutate));
        // A client may leave at any time.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }
}

async fn answer(request: Request<Incoming>, mutate: Mutate) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let operations = Value::Array(mutate(&review["request"]["object"]));
    let answer = json!({
        "apiVersion": review["apiVersion"], "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"], "allowed": true, "patchType": "JSONPatch",
            "patch": ByteString(operations.to_string().into_bytes()),
        },
    });
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(Full::new(answer.to_string().into())).unwrap())
}
