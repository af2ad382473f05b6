//! A webhook of the extension: a server over TLS on loopback that allows everything, or an address at which nothing
//! listens.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use kube::{Api, Client};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::extension::TYPE;

/// Longer than any test.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// A port of loopback at which nothing listens.
const DEAD: u16 = 1;

pub(crate) struct Hook {
    port: u16,
    authority: String,
    requests: Arc<AtomicUsize>,
    _serving: Option<AbortOnDropHandle<()>>,
}

impl Hook {
    pub(crate) async fn start() -> Self {
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
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(AtomicUsize::new(0));
        let serving = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), requests.clone()));
        Self {
            port,
            authority: authority.certificate_pem(),
            requests,
            _serving: Some(AbortOnDropHandle::new(serving)),
        }
    }

    /// One that does not answer.
    pub(crate) fn dead() -> Self {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let authority = Authority::generate("webhook", &clock, &entropy).unwrap();
        Self {
            port: DEAD,
            authority: authority.certificate_pem(),
            requests: Arc::default(),
            _serving: None,
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Selects every namespace.
    pub(crate) fn everywhere(&self) -> Value {
        json!({})
    }

    /// Selects namespaces of Shoots with the extension.
    pub(crate) fn in_own_namespaces() -> Value {
        json!({"matchExpressions": [{"key": format!("extensions.gardener.cloud/{TYPE}"), "operator": "Exists"}]})
    }

    /// Selects namespaces of all other Shoots.
    pub(crate) fn in_other_namespaces() -> Value {
        json!({"matchExpressions": [
            {"key": format!("extensions.gardener.cloud/{TYPE}"), "operator": "DoesNotExist"},
            {"key": "gardener.cloud/role", "operator": "In", "values": ["shoot"]},
        ]})
    }

    /// Registers it for Deployments, and for Networks if it answers, as Gardener's library names configurations.
    pub(crate) async fn register(&self, client: &Client, namespaces: Value) {
        let mut rules = vec![rule("apps", "v1", "deployments")];
        if self.port != DEAD {
            rules.push(rule("extensions.gardener.cloud", "v1alpha1", "networks"));
        }
        let configuration = json!({
            "metadata": {"name": format!("gardener-extension-{TYPE}")},
            "webhooks": [{
                "name": format!("controlplane.{TYPE}.extensions.gardener.cloud"),
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/", self.port),
                    "caBundle": ByteString(self.authority.clone().into_bytes()),
                },
                "rules": rules,
                "namespaceSelector": namespaces, "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 10,
                "admissionReviewVersions": ["v1"],
            }],
        });
        let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let configuration = serde_json::from_value(configuration).unwrap();
        configurations
            .create(&PostParams::default(), &configuration)
            .await
            .unwrap();
    }
}

fn rule(group: &str, version: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["CREATE"]})
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, requests: Arc<AtomicUsize>) {
    // Connections end with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, acceptor.clone(), requests.clone()));
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, requests: Arc<AtomicUsize>) {
    if let Ok(stream) = acceptor.accept(stream).await {
        let answer = service_fn(|request| answer(request, requests.clone()));
        // A client may leave at any time.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }
}

async fn answer(request: Request<Incoming>, requests: Arc<AtomicUsize>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    requests.fetch_add(1, Ordering::SeqCst);
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": review["request"]["uid"], "allowed": true},
    });
    let mut response = Response::new(Full::from(answer.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}
