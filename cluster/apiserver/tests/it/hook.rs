//! A webhook over TLS for one test, which counts requests and answers when the test lets it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base_client::{Connection, Dialer};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use base64::Engine as _;
use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// Within which requests must reach the webhook.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    requests: AtomicUsize,
    received: Notify,
}

pub(crate) struct Hook {
    address: SocketAddr,
    authority: String,
    state: Arc<State>,
    gate: Arc<Semaphore>,
    /// Its end ends all its connections.
    serving: AbortOnDropHandle<()>,
}

impl Hook {
    pub(crate) async fn start() -> Self {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let authority = Authority::generate("hook", &clock, &entropy).unwrap();
        let address = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let spec = CertificateSpec::server("hook", Vec::new(), address, Duration::from_secs(3600));
        let issued = authority.issue(&spec, &clock, &entropy).unwrap();
        let key = issued.key_pem().expose_bytes();
        Self::serve(&issued.certificate_pem(), &key, &authority.certificate_pem()).await
    }

    /// One whose certificate is its own authority, as `openssl req -x509` makes it, for 127.0.0.1 and Service `default/hook`.
    pub(crate) async fn self_signed() -> Self {
        let certificate = include_str!("../certificates/own-authority.pem");
        let key = include_bytes!("../certificates/own-authority.key.pem");
        Self::serve(certificate, key, certificate).await
    }

    async fn serve(chain: &str, key: &[u8], authority: &str) -> Self {
        let key = PrivateKeyDer::from_pem_slice(key).unwrap();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.unwrap(), key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, gate) = (Arc::new(State::default()), Arc::new(Semaphore::new(0)));
        let (shared, closed) = (state.clone(), gate.clone());
        let serving = tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state, gate) = (acceptor.clone(), shared.clone(), closed.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    state.connections.fetch_add(1, Ordering::SeqCst);
                    let serve = service_fn(|request| answer(request, state.clone(), gate.clone()));
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), serve).await;
                });
            }
        });
        Self {
            address,
            authority: base64::engine::general_purpose::STANDARD.encode(authority),
            state,
            gate,
            serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Connects to it without its address.
    pub(crate) fn dialer(&self) -> Dialer {
        let address = self.address;
        Dialer::new(move || {
            async move {
                let stream = TcpStream::connect(address).await?;
                Ok(Box::new(stream) as Connection)
            }
            .boxed()
        })
    }

    /// Ends it with all its connections.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    /// The same, reached by Service `default/hook`.
    pub(crate) fn webhook_of_service(&self, path: &str, resources: &[&str]) -> Value {
        let mut webhook = self.webhook(path, resources);
        let service = json!({"namespace": "default", "name": "hook", "path": format!("/{path}")});
        webhook["clientConfig"] = json!({"service": service, "caBundle": self.authority});
        webhook
    }

    /// A webhook of a configuration, called for creates of these resources.
    pub(crate) fn webhook(&self, path: &str, resources: &[&str]) -> Value {
        json!({
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/{path}", self.address), "caBundle": self.authority},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources}],
        })
    }

    /// The conversion of a definition.
    pub(crate) fn conversion(&self, path: &str) -> Value {
        let client = json!({"url": format!("https://{}/{path}", self.address), "caBundle": self.authority});
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}})
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.requests.load(Ordering::SeqCst)
    }

    /// Waits until it has received so many requests.
    pub(crate) async fn has_received(&self, count: usize) {
        let received = async {
            loop {
                let next = self.state.received.notified();
                if self.requests() >= count {
                    return;
                }
                next.await;
            }
        };
        tokio::time::timeout(TIMEOUT, received).await.unwrap();
    }

    /// Answers so many requests that wait.
    pub(crate) fn release(&self, count: usize) {
        self.gate.add_permits(count);
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    gate: Arc<Semaphore>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map_err(|_| "no body")?.to_bytes();
    let review: Value = serde_json::from_slice(&body).map_err(|_| "no JSON")?;
    state.requests.fetch_add(1, Ordering::SeqCst);
    state.received.notify_waiters();
    match path.as_str() {
        "/close" => return Err("closed on purpose"),
        "/hold" => gate.acquire().await.map_err(|_| "gone")?.forget(),
        "/flood" => return Ok(Response::new(Full::from(vec![b' '; 9 << 20]))),
        _ => {}
    }
    if review["kind"] == "ConversionReview" {
        return Ok(Response::new(Full::from(
            converted(&review, path == "/deny").to_string(),
        )));
    }
    let allowed = path != "/deny";
    let answer = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "response": {
            "uid": review["request"]["uid"], "allowed": allowed, "auditAnnotations": {"seen": review["request"]["name"]},
        },
    });
    Ok(Response::new(Full::from(answer.to_string())))
}

/// Every object in the version that is wanted, with a mark.
fn converted(review: &Value, fails: bool) -> Value {
    let request = &review["request"];
    let mut objects = request["objects"].as_array().unwrap().clone();
    for object in &mut objects {
        object["apiVersion"] = request["desiredAPIVersion"].clone();
        object["metadata"]["labels"] = json!({"converted": "yes"});
    }
    let result = json!({"status": if fails { "Failure" } else { "Success" }, "message": "no"});
    json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {"uid": request["uid"], "result": result, "convertedObjects": objects},
    })
}
