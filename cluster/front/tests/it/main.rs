//! A toy server behind the front, reached over real sockets and in process by the same kubeconfigs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod bodies;
mod forwarded;
mod program;
mod slow;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Connector, HttpService, Https, full_body, stream_body};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, Issued, KubeconfigSpec, SecretText, kubeconfig};
use cluster_access::PeerCertificates;
use cluster_front::{Front, RegisteredServer, Timeouts};
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, WatchParams};
use kube::client::Body;
use kube::config::Kubeconfig;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// More than the buffers of both ends of a connection hold.
const LARGE_BYTES: usize = 64 << 20;

struct Landscape {
    front: Front,
    authority: Authority,
    clock: Clock,
    entropy: Entropy,
    port: u16,
    stop: CancellationToken,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Landscape {
    async fn new() -> Self {
        Self::with(Timeouts::default()).await
    }

    async fn with(timeouts: Timeouts) -> Self {
        let (clock, entropy) = (Clock::real(), Entropy::seeded(1));
        let front = Front::new(clock.clone()).with_timeouts(timeouts);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        tokio::spawn({
            let (front, stop) = (front.clone(), stop.clone());
            async move { front.serve(listener, stop).await }
        });
        let authority = Authority::generate("ca", &clock, &entropy).unwrap();
        Self {
            front,
            authority,
            clock,
            entropy,
            port,
            stop,
            seen: Arc::default(),
        }
    }

    fn server(&self, name: &str) -> RegisteredServer {
        let spec = CertificateSpec::server(name, vec![name.to_owned()], vec![], DAY);
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        RegisteredServer::new(
            toy(name, self.seen.clone()),
            &issued.certificate_pem(),
            issued.key_pem().expose(),
        )
        .unwrap()
    }

    fn kubeconfig(&self, name: &str, credential: Credential) -> Kubeconfig {
        kubeconfig(&KubeconfigSpec {
            name: "t".into(),
            server: format!("https://127.0.0.1:{}", self.port),
            tls_server_name: Some(name.into()),
            authorities: self.authority.certificate_pem(),
            credential,
            namespace: None,
        })
    }

    fn jane(&self) -> Issued {
        self.authority
            .issue(
                &CertificateSpec::client("jane", &["dev"], DAY),
                &self.clock,
                &self.entropy,
            )
            .unwrap()
    }

    /// Both ways to the same servers.
    fn ways(&self) -> [(&'static str, Arc<dyn Connector>); 2] {
        [
            ("tls", Arc::new(Https::new("test"))),
            ("in process", Arc::new(self.front.clone())),
        ]
    }
}

/// Answers every GET with a ConfigMap that names the server and the caller; a watch with one event and then nothing. The answer
/// at `/large` is more than a connection buffers, at `/endless` without end.
fn toy(name: &str, seen: Arc<Mutex<Vec<String>>>) -> HttpService {
    let name = name.to_owned();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (name, seen) = (name.clone(), seen.clone());
        async move {
            let peer = request.extensions().get::<PeerCertificates>();
            let user = peer.map(|peer| base_secrets::Certificate::from_der(&peer.0[0]).unwrap().common_name());
            let token = request
                .headers()
                .get("authorization")
                .map(|value| value.to_str().unwrap().to_owned());
            let data: BTreeMap<_, _> = [("server", Some(name)), ("user", user), ("token", token)]
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect();
            seen.lock().unwrap().push(request.uri().path().to_owned());
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "1"}, "data": data});
            let answer = if request.uri().path() == "/large" {
                full_body(vec![b'x'; LARGE_BYTES])
            } else if request.uri().path() == "/endless" {
                stream_body(futures::stream::repeat_with(|| {
                    Ok::<_, std::io::Error>(vec![b'x'; 1024].into())
                }))
            } else if request.uri().query().unwrap_or_default().contains("watch=") {
                let event = format!("{}\n", json!({"type": "ADDED", "object": object}));
                stream_body(
                    futures::stream::iter([Ok::<_, std::io::Error>(event.into())]).chain(futures::stream::pending()),
                )
            } else {
                full_body(object.to_string())
            };
            Ok::<_, std::convert::Infallible>(Response::new(answer))
        }
    }))
}

async fn get_data(connector: &Arc<dyn Connector>, kubeconfig: &Kubeconfig) -> Result<BTreeMap<String, String>, String> {
    let client = connector.client(kubeconfig).map_err(|fault| fault.to_string())?;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    api.get("x")
        .await
        .map(|map| map.data.unwrap_or_default())
        .map_err(|error| text_of(&error))
}

fn text_of(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[tokio::test]
async fn the_name_picks_the_server_and_the_credentials_reach_it_both_ways() {
    let landscape = Landscape::new().await;
    let _garden = landscape
        .front
        .register(["garden.internal"], landscape.server("garden.internal"))
        .unwrap();
    let _other = landscape
        .front
        .register(["Other.internal", "third"], landscape.server("other.internal"))
        .unwrap();
    for (way, connector) in landscape.ways() {
        let by_certificate =
            landscape.kubeconfig("garden.internal", Credential::Certificate(Box::new(landscape.jane())));
        let answer = get_data(&connector, &by_certificate).await.unwrap();
        assert_eq!(
            (answer["server"].as_str(), answer["user"].as_str(), answer.get("token")),
            ("garden.internal", "jane", None),
            "{way}"
        );
        let by_token = landscape.kubeconfig("other.internal", Credential::Token(SecretText::new("t0k")));
        let answer = get_data(&connector, &by_token).await.unwrap();
        assert_eq!(
            (answer["server"].as_str(), answer["token"].as_str(), answer.get("user")),
            ("other.internal", "Bearer t0k", None),
            "{way}"
        );
    }
}

#[tokio::test]
async fn connections_with_a_wrong_name_or_authority_are_refused() {
    let landscape = Landscape::new().await;
    let _garden = landscape
        .front
        .register(["garden.internal"], landscape.server("garden.internal"))
        .unwrap();
    let _alias = landscape
        .front
        .register(["alias.internal"], landscape.server("garden.internal"))
        .unwrap();
    let foreign = Authority::generate("ca", &landscape.clock, &landscape.entropy).unwrap();
    for (way, connector) in landscape.ways() {
        assert!(
            get_data(
                &connector,
                &landscape.kubeconfig("nobody.internal", Credential::Anonymous)
            )
            .await
            .is_err(),
            "{way}"
        );
        assert!(
            get_data(
                &connector,
                &landscape.kubeconfig("alias.internal", Credential::Anonymous)
            )
            .await
            .is_err(),
            "{way}"
        );
        let elsewhere = kubeconfig(&KubeconfigSpec {
            name: "t".into(),
            server: format!("https://127.0.0.1:{}", landscape.port),
            tls_server_name: Some("garden.internal".into()),
            authorities: foreign.certificate_pem(),
            credential: Credential::Anonymous,
            namespace: None,
        });
        assert!(get_data(&connector, &elsewhere).await.is_err(), "{way}");
    }
    assert!(
        landscape.seen.lock().unwrap().is_empty(),
        "a refused client's request arrived"
    );
    let in_process: Arc<dyn Connector> = Arc::new(landscape.front.clone());
    let error = get_data(
        &in_process,
        &landscape.kubeconfig("nobody.internal", Credential::Anonymous),
    )
    .await
    .unwrap_err();
    assert!(
        error.contains("connection refused: no API server is registered as nobody.internal"),
        "{error}"
    );
    let mut stolen = landscape.jane();
    stolen.key = base_secrets::PrivateKey::generate(&landscape.entropy);
    assert!(
        get_data(
            &in_process,
            &landscape.kubeconfig("garden.internal", Credential::Certificate(Box::new(stolen)))
        )
        .await
        .is_err(),
        "a certificate without its key"
    );
}

#[tokio::test]
async fn dropping_a_registration_cuts_open_watches_and_the_one_before_takes_over() {
    let landscape = Landscape::new().await;
    for (way, connector) in landscape.ways() {
        let _first = landscape
            .front
            .register(["api.internal"], landscape.server("api.internal"))
            .unwrap();
        let second = landscape
            .front
            .register(["api.internal"], landscape.server("api.internal"))
            .unwrap();
        let kubeconfig = landscape.kubeconfig("api.internal", Credential::Anonymous);
        let client = connector.client(&kubeconfig).unwrap();
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        assert!(watch.try_next().await.unwrap().is_some(), "{way}");
        assert!(second.open() > 0, "{way}");
        drop(second);
        let end = tokio::time::timeout(Duration::from_secs(5), watch.next())
            .await
            .expect("the watch is cut");
        assert!(!matches!(end, Some(Ok(_))), "{way}: {end:?}");
        assert!(get_data(&connector, &kubeconfig).await.is_ok(), "{way}");
        drop(_first);
        assert!(get_data(&connector, &kubeconfig).await.is_err(), "{way}");
    }
}

#[tokio::test]
async fn a_name_passes_to_another_authoritys_server_only_after_its_holder_is_gone() {
    let landscape = Landscape::new().await;
    let foreign = Landscape {
        authority: Authority::generate("ca", &landscape.clock, &landscape.entropy).unwrap(),
        ..Landscape::new().await
    };
    let holder = landscape
        .front
        .register(["api.internal"], landscape.server("api.internal"))
        .unwrap();
    let names = ["other.internal", "API.internal"];
    let refusal = landscape
        .front
        .register(names, foreign.server("api.internal"))
        .unwrap_err()
        .to_string();
    assert!(refusal.starts_with("the name \"api.internal\" is held by"), "{refusal}");
    assert_eq!(landscape.front.names(), ["api.internal"]);
    for (way, connector) in landscape.ways() {
        let kubeconfig = landscape.kubeconfig("api.internal", Credential::Anonymous);
        assert!(get_data(&connector, &kubeconfig).await.is_ok(), "{way}");
    }
    drop(holder);
    let newcomer = landscape.front.register(names, foreign.server("api.internal"));
    assert!(newcomer.is_ok());
}

#[tokio::test]
async fn a_graceful_close_waits_for_open_answers_no_longer_than_its_grace() {
    let landscape = Landscape::new().await;
    for (way, connector) in landscape.ways() {
        let registration = landscape
            .front
            .register(["api.internal"], landscape.server("api.internal"))
            .unwrap();
        let client = connector
            .client(&landscape.kubeconfig("api.internal", Credential::Anonymous))
            .unwrap();
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        api.get("x").await.unwrap();
        registration.close(Duration::from_secs(5)).await;
        let registration = landscape
            .front
            .register(["api.internal"], landscape.server("api.internal"))
            .unwrap();
        let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        watch.try_next().await.unwrap();
        registration.close(Duration::from_millis(50)).await;
        let end = tokio::time::timeout(Duration::from_secs(5), watch.next())
            .await
            .expect("the watch is cut");
        assert!(!matches!(end, Some(Ok(_))), "{way}: {end:?}");
    }
}

#[tokio::test]
async fn plain_http_gets_no_answer_and_an_unknown_name_is_reset() {
    let landscape = Landscape::new().await;
    let mut plain = TcpStream::connect(("127.0.0.1", landscape.port)).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", landscape.port)).await.unwrap();
    let error = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect("nobody.internal".try_into().unwrap(), stream)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    landscape.stop.cancel();
}

#[tokio::test]
async fn renewed_certificate_is_shown_to_those_who_connect_from_then_on() {
    let landscape = Landscape::new().await;
    let registration = landscape
        .front
        .register(["garden.internal"], landscape.server("garden.internal"))
        .unwrap();
    let anonymous = |authority: &Authority| {
        kubeconfig(&KubeconfigSpec {
            name: "t".into(),
            server: format!("https://127.0.0.1:{}", landscape.port),
            tls_server_name: Some("garden.internal".into()),
            authorities: authority.certificate_pem(),
            credential: Credential::Anonymous,
            namespace: None,
        })
    };
    let other = Authority::generate("other", &landscape.clock, &landscape.entropy).unwrap();
    let spec = CertificateSpec::server("g", vec!["garden.internal".to_owned()], vec![], DAY);
    let issued = other.issue(&spec, &landscape.clock, &landscape.entropy).unwrap();
    let (certificate, key) = (issued.certificate_pem(), issued.key_pem());
    assert!(registration.renew(&certificate, "no key").is_err());
    for (way, connector) in landscape.ways() {
        get_data(&connector, &anonymous(&landscape.authority))
            .await
            .unwrap_or_else(|why| panic!("{way}: {why}"));
    }
    registration.renew(&certificate, key.expose()).unwrap();
    for (way, connector) in landscape.ways() {
        get_data(&connector, &anonymous(&other))
            .await
            .unwrap_or_else(|why| panic!("{way}: {why}"));
        assert!(
            get_data(&connector, &anonymous(&landscape.authority)).await.is_err(),
            "{way}"
        );
    }
}
