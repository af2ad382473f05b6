//! A whole rotation of authority and certificate while clients connect and API writes go on: in this process, and on real
//! kube-apiserver by `cargo xtask test managed-resources`.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base_clock::Clock;
use base_secrets::{Certificate, data, parse_chain, text_of};
use extensions_webhooks::Target;
use jiff::SignedDuration;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::runtime::watcher;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tests_kit::until;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::world::{CONFIGURATION, PATIENCE, SECRET, World, bundle_of, marks};

/// Clients that open a connection for each request.
const CLIENTS: usize = 8;
/// Requests of all clients between two steps of the rotation.
const REQUESTS: usize = 600;
/// Writers by way of the API server.
const WRITERS: usize = 2;

/// A client that believes the authorities of a configuration, as an API server does.
pub(crate) struct Client(TlsStream<TcpStream>);

impl Client {
    pub(crate) async fn connect(address: SocketAddr, bundle: &str) -> std::io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in parse_chain(bundle).unwrap() {
            roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(ServerName::from(address.ip()), stream);
        Ok(Self(tokio::time::timeout(PATIENCE, connecting).await??))
    }

    /// Sends a review. Whether it was allowed.
    pub(crate) async fn review(&mut self) -> std::io::Result<bool> {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "operation": "CREATE",
            "namespace": "n", "name": "a", "object": {"metadata": {"name": "a"}},
        }})
        .to_string();
        let length = review.len();
        let head = "POST /marks HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
        let request = format!("{head}content-length: {length}\r\n\r\n{review}");
        self.0.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut answer)).await??;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        let body: Value = serde_json::from_str(body).unwrap();
        Ok(body["response"]["allowed"] == true)
    }

    fn certificate(&self) -> Certificate {
        let chain = self.0.get_ref().1.peer_certificates().unwrap();
        Certificate::from_der(&chain[0]).unwrap()
    }
}

/// Serial number of the certificate in the Secret, and its authority.
fn shown(secret: &Secret) -> (String, Certificate) {
    let certificate = |key| Certificate::from_pem(text_of(secret, key).unwrap().expose()).unwrap();
    (
        certificate(data::CERTIFICATE).serial(),
        certificate(data::CA_CERTIFICATE),
    )
}

/// Name of the authority in the Secret.
pub(crate) fn issuer(secret: &Secret) -> String {
    shown(secret).1.common_name()
}

/// Counts requests, and lets the test wait for some.
#[derive(Default)]
struct Counter {
    count: AtomicUsize,
    news: tokio::sync::Notify,
}

impl Counter {
    fn one(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.news.notify_waiters();
    }

    async fn more(&self, requests: usize) {
        let target = self.count.load(Ordering::Relaxed) + requests;
        let come = async {
            loop {
                let news = self.news.notified();
                if self.count.load(Ordering::Relaxed) >= target {
                    return;
                }
                news.await;
            }
        };
        tokio::time::timeout(PATIENCE * 3, come).await.unwrap();
    }
}

/// Connects and asks until stopped; the serial numbers of the certificates that it was shown.
async fn client(
    address: SocketAddr,
    configurations: base_controller::Cache<MutatingWebhookConfiguration>,
    counter: Arc<Counter>,
    stop: CancellationToken,
) -> BTreeSet<String> {
    let mut serials = BTreeSet::new();
    while !stop.is_cancelled() {
        let bundle = bundle_of(&configurations.list()[0]);
        let mut client = Client::connect(address, &bundle).await.unwrap();
        serials.insert(client.certificate().serial());
        assert!(client.review().await.unwrap());
        counter.one();
    }
    serials
}

/// Creates objects that the webhook changes until stopped.
async fn writer(world: Arc<World>, number: usize, stop: CancellationToken) {
    for count in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let created = world.create_map(&format!("w{number}-{count}"), false).await;
        assert_eq!(created, Ok(true));
    }
}

/// Rotates authority and certificate, with requests between two steps: none of the clients and none of the writers fails.
pub(crate) async fn rotate(world: World) {
    let world = Arc::new(world);
    // All that is made on the way is valid by the machine's clock, which clients compare with.
    let (clock, hand) = Clock::settable(Clock::real().now());
    hand.jump(SignedDuration::from_hours(-27 * 24));
    let replica = world.start("a", clock, vec![marks(Target::Seed)]).await;
    world.until_marked().await;
    let (stop, counter) = (CancellationToken::new(), Arc::new(Counter::default()));
    let named = watcher::Config::default().fields(&format!("metadata.name={CONFIGURATION}"));
    let api = Api::<MutatingWebhookConfiguration>::all(world.client.clone());
    let configurations = base_controller::Cache::start(api, named, stop.clone());
    configurations.ready().await;

    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| client(replica.address, configurations.clone(), counter.clone(), stop.clone()))
        .map(tokio::spawn)
        .collect();
    let writers = (0..WRITERS).map(|number| writer(world.clone(), number, stop.clone()));
    let writers: Vec<_> = writers.map(tokio::spawn).collect();

    counter.more(REQUESTS).await;
    let first = shown(&world.secrets().get(SECRET).await.unwrap());
    hand.jump(SignedDuration::from_hours(24 * 24));
    world.touch("publish").await;
    let published = world.bundle(2).await;
    counter.more(REQUESTS).await;
    assert_eq!(
        shown(&world.secrets().get(SECRET).await.unwrap()),
        first,
        "the certificate stays for now"
    );
    hand.jump(SignedDuration::from_secs(3 * 24 * 3600 + 2));
    world.touch("take over").await;
    let taken = |secret: &Secret| shown(secret).1 != first.1;
    let second = shown(&until(&world.secrets(), SECRET, "of the next authority", taken).await);
    counter.more(REQUESTS).await;
    let both = world.bundle(2).await;
    assert!(
        both != published && both.contains(first.1.to_pem().trim()),
        "the old authority stays"
    );
    hand.jump(SignedDuration::from_hours(3 * 24));
    world.touch("drop").await;
    let last = world.bundle(1).await;
    assert_eq!(parse_chain(&last).unwrap(), [second.1]);
    counter.more(REQUESTS).await;

    stop.cancel();
    let mut serials = BTreeSet::new();
    for client in clients {
        serials.extend(client.await.unwrap());
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(serials, [first.0, second.0].into());
    assert!(counter.count.load(Ordering::Relaxed) >= 4 * REQUESTS);
    drop(replica);
}
