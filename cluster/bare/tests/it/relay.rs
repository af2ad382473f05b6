//! Requests that are forwarded to nodes and pods: over real sockets where these are of another process.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use base_client::{HttpService, Upgrade, WaitState, empty_body, full_body, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::CertificateSpec;
use cluster_bare::{Cluster, Keys};
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_node::{ContainerContext, Endpoint, Exit, ImageCatalogue, Volumes};
use cluster_store::MemoryStore;
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Endpoints, Node, Pod, Service};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::PATIENCE;

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn text(client: &Client, path: &str) -> String {
    let request = Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap()
}

pub(crate) async fn make<T>(api: &Api<T>, object: Value)
where
    T: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

pub(crate) async fn runs(pods: &Api<Pod>, name: &str) {
    let running = wait_until(pods, name, PATIENCE, |pod| {
        match pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) {
            Some("Running") => WaitState::Done(()),
            other => WaitState::NotYet(format!("phase {other:?}")),
        }
    });
    running.await.unwrap();
}

/// The service account of pods, which a controller makes.
pub(crate) async fn account(client: &Client) {
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), "default");
    let made = wait_until(&accounts, "default", PATIENCE, |account| match account {
        Some(_) => WaitState::Done(()),
        None => WaitState::NotYet("it is not made".to_owned()),
    });
    made.await.unwrap();
}

#[tokio::test]
async fn the_log_of_a_pod_is_read_at_the_node_of_another_process() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::real());
    let keys = Keys::generate(&clock, &Entropy::os()).unwrap();
    let start = |node: &str| {
        let builder = Cluster::builder()
            .store(store.clone())
            .keys(keys.clone())
            .node_name(node);
        let builder = builder.node(ImageCatalogue::new().simulating(), Volumes::new());
        builder.replicated(true).start()
    };
    let (first, second) = (start("one").await.unwrap(), start("two").await.unwrap());
    account(&first.client()).await;
    let pods: Api<Pod> = Api::namespaced(first.client(), "default");
    for node in ["one", "two"] {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        make(&pods, json!({"metadata": {"name": node}, "spec": spec})).await;
        runs(&pods, node).await;
    }
    for cluster in [&first, &second] {
        for pod in ["one", "two"] {
            let path = format!("/api/v1/namespaces/default/pods/{pod}/log");
            let log = text(&cluster.client(), &path).await;
            assert!(log.contains("simulated"), "{log}");
        }
    }
    let listed = text(&second.client(), "/api/v1/nodes/two/proxy/pods").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], "two");
    assert_eq!(listed["items"][0]["status"]["phase"], "Running");
    assert_eq!(text(&second.client(), "/api/v1/nodes/two/proxy/healthz").await, "ok");
    // From the other process it is an address of the machine itself.
    let away = Request::get("/api/v1/nodes/two/proxy/pods").body(Vec::new()).unwrap();
    let refused = first.client().request_text(away).await.unwrap_err().to_string();
    assert!(refused.contains("address not allowed"), "{refused}");
    let exec = Request::get("/api/v1/namespaces/default/pods/two/exec?command=a&stdout=1")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1")
        .body(Vec::new())
        .unwrap();
    let refused = first.client().request_text(exec).await.unwrap_err().to_string();
    assert!(refused.contains("part of this node's process"), "{refused}");
}

#[tokio::test]
async fn client_without_a_certificate_reads_nothing_at_a_node() {
    let (store, clock) = (Arc::new(MemoryStore::new()), Clock::real());
    let keys = Keys::generate(&clock, &Entropy::os()).unwrap();
    let builder = Cluster::builder().store(store).keys(keys.clone()).replicated(true);
    let builder = builder.node(ImageCatalogue::new().simulating(), Volumes::new());
    let cluster = builder.start().await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());
    let port = wait_until(&nodes, "orangery-0", PATIENCE, |node| {
        let endpoints = node.and_then(|node| node.status.as_ref()?.daemon_endpoints.as_ref());
        match endpoints.and_then(|endpoints| endpoints.kubelet_endpoint.as_ref()) {
            Some(endpoint) => WaitState::Done(endpoint.port),
            None => WaitState::NotYet("no port".to_owned()),
        }
    });
    let address = format!("127.0.0.1:{}", port.await.unwrap());
    for (user, code) in [
        (None, "401"),
        (Some(("jane", "devs")), "403"),
        (Some(("root", "system:masters")), "200"),
    ] {
        let mut stream = tls(&keys, &address, user).await;
        let request = "GET /pods HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{user:?}: {answer}");
    }
}

/// Listens on port 80 and answers with the request.
async fn serves(context: ContainerContext) -> Exit {
    let service = HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let answer = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
        Ok(Response::new(full_body(answer)))
    }));
    let _listening = context.network.bind(80, Endpoint::Http(service)).unwrap();
    context.ready.set(true);
    context.stop.cancelled().await;
    Exit::done()
}

#[tokio::test]
async fn pods_and_services_of_this_process_answer() {
    let builder = Cluster::builder().node(ImageCatalogue::new().with("app", serves), Volumes::new());
    let cluster = builder.start().await.unwrap();
    let client = cluster.client();
    account(&client).await;
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let spec = json!({"selector": {"a": "b"}, "ports": [{"name": "web", "port": 8080, "targetPort": 80}]});
    make(&services, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let spec = json!({"containers": [{"name": "c", "image": "app", "ports": [{"containerPort": 80}]}]});
    make(
        &pods,
        json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec}),
    )
    .await;
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    let listed = wait_until(&endpoints, "s", PATIENCE, |endpoints| {
        let subsets = endpoints.and_then(|endpoints| endpoints.subsets.as_ref());
        match subsets.is_some_and(|subsets| subsets.iter().any(|subset| subset.addresses.is_some())) {
            true => WaitState::Done(()),
            false => WaitState::NotYet("no address".to_owned()),
        }
    });
    listed.await.unwrap();
    let root = "/api/v1/namespaces/default";
    for (path, expected) in [
        ("pods/p/proxy/a/b?c=d", "GET /a/b?c=d "),
        ("pods/p:80/proxy/", "GET / "),
        ("pods/https:p:80/proxy/x%20y/", "GET /x%20y/ "),
        ("services/s:web/proxy/a", "GET /a "),
        ("services/http:s:8080/proxy/a/../b", "GET /b "),
    ] {
        assert_eq!(text(&client, &format!("{root}/{path}")).await, expected, "{path}");
    }
    let posted = Request::post(format!("{root}/services/s:web/proxy/a"))
        .body(b"body".to_vec())
        .unwrap();
    assert_eq!(client.request_text(posted).await.unwrap(), "POST /a body");
    let closed = Request::get(format!("{root}/pods/p:81/proxy/"))
        .body(Vec::new())
        .unwrap();
    let refused = client.request_text(closed).await.unwrap_err().to_string();
    assert!(refused.contains("connection refused"), "{refused}");
    cluster.stop().await;
}

/// Answers with what it is sent once it has agreed, or with 403 to a request for the command `no`.
fn echo() -> HttpService {
    HttpService::new(tower::service_fn(|request: Request<Body>| async move {
        let mut response = Response::new(empty_body());
        if request.headers().get(header::UPGRADE).is_none() {
            // The check whether a server behind an APIService is available.
            *response.body_mut() = full_body("{\"kind\": \"APIResourceList\", \"resources\": []}");
            return Ok(response);
        }
        let path = request.uri().path();
        assert!(
            ["/exec/default/p/c", "/apis/e.example.com/v1/echoes/a/b"].contains(&path),
            "{path}"
        );
        if request.uri().query().unwrap().contains("command=no") {
            *response.status_mut() = StatusCode::FORBIDDEN;
            *response.body_mut() = full_body("not you");
            return Ok(response);
        }
        assert!(request.headers().get(header::AUTHORIZATION).is_none());
        let upgrade = request.extensions().get::<Upgrade>().unwrap().clone();
        tokio::spawn(async move {
            let (mut from, mut to) = split(upgrade.accepted().await.unwrap());
            copy(&mut from, &mut to).await
        });
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, "Upgrade".parse().unwrap());
        headers.insert(header::UPGRADE, "echo".parse().unwrap());
        Ok(response)
    }))
}

/// A server that stands for a kubelet, and its port.
async fn kubelet(keys: &Keys, stop: &CancellationToken) -> (Registration, u16) {
    let (clock, entropy) = (Clock::real(), Entropy::os());
    let spec = CertificateSpec::server("kubelet", Vec::new(), vec![Ipv4Addr::LOCALHOST.into()], DAY);
    let issued = keys.authority.issue(&spec, &clock, &entropy).unwrap();
    let server = RegisteredServer::new(echo(), &issued.certificate_pem(), issued.key_pem().expose()).unwrap();
    let front = Front::new(clock);
    let registration = front.register([ANY_NAME], server).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let stop = stop.clone();
    tokio::spawn(async move { front.serve(listener, stop).await });
    (registration, port)
}

/// A connection over TLS, as a user of the cluster or anonymous.
pub(crate) async fn tls(keys: &Keys, address: &str, user: Option<(&str, &str)>) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(keys.authority.certificate_pem().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config.with_root_certificates(roots);
    let config = match user {
        None => config.with_no_client_auth(),
        Some((name, group)) => {
            let spec = CertificateSpec::client(name, &[group], DAY);
            let issued = keys.clients.issue(&spec, &Clock::real(), &Entropy::os()).unwrap();
            let chain = CertificateDer::pem_slice_iter(issued.certificate_pem().as_bytes())
                .map(Result::unwrap)
                .collect();
            let key = PrivateKeyDer::from_pem_slice(issued.key_pem().expose().as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

/// Requests an upgrade and reads the head of the answer.
async fn request_upgrade(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: api\r\nconnection: Upgrade\r\nupgrade: echo\r\nauthorization: Bearer x\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_connection_to_a_server_behind_an_api_service_is_upgraded() {
    let keys = Keys::generate(&Clock::real(), &Entropy::os()).unwrap();
    let builder = Cluster::builder().keys(keys.clone()).without_controllers();
    let cluster = builder.start().await.unwrap();
    let power = CancellationToken::new();
    let (_registration, port) = kubelet(&keys, &power).await;
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let spec = json!({"type": "ExternalName", "externalName": "localhost"});
    make(&services, json!({"metadata": {"name": "e"}, "spec": spec})).await;
    let registered: Api<APIService> = Api::all(cluster.client());
    let service = json!({"namespace": "default", "name": "e", "port": port});
    let spec = json!({"group": "e.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": service});
    make(
        &registered,
        json!({"metadata": {"name": "v1.e.example.com"}, "spec": spec}),
    )
    .await;
    let available = wait_until(&registered, "v1.e.example.com", PATIENCE, |service| {
        let conditions = service.and_then(|service| service.status.as_ref()?.conditions.clone());
        match conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition.status == "True")
        {
            true => WaitState::Done(()),
            false => WaitState::NotYet(format!("{service:?}")),
        }
    });
    available.await.unwrap();
    let address = cluster.url().trim_start_matches("https://").to_owned();
    let mut stream = tls(&keys, &address, Some(("root", "system:masters"))).await;
    let head = request_upgrade(&mut stream, "/apis/e.example.com/v1/echoes/a/b?c=d").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"to and fro").await.unwrap();
    let mut back = [0; 10];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"to and fro");
    cluster.stop().await;
    let ended = tokio::time::timeout(PATIENCE, stream.read(&mut back)).await.unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_until_one_side_ends() {
    let keys = Keys::generate(&Clock::real(), &Entropy::os()).unwrap();
    let cluster = Cluster::builder()
        .keys(keys.clone())
        .without_controllers()
        .start()
        .await
        .unwrap();
    let power = CancellationToken::new();
    let (_registration, port) = kubelet(&keys, &power).await;
    let nodes: Api<Node> = Api::all(cluster.client());
    make(&nodes, json!({"metadata": {"name": "n"}})).await;
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    nodes
        .patch_status("n", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    make(&pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let path = |command: &str| format!("/api/v1/namespaces/default/pods/p/exec?command={command}&stdin=true");
    let address = cluster.url().trim_start_matches("https://").to_owned();
    let root = Some(("root", "system:masters"));

    let mut refused = tls(&keys, &address, root).await;
    let head = request_upgrade(&mut refused, &path("no")).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let mut stream = tls(&keys, &address, root).await;
    let head = request_upgrade(&mut stream, &path("yes")).await;
    assert!(
        head.starts_with("HTTP/1.1 101") && head.to_lowercase().contains("upgrade: echo"),
        "{head}"
    );
    let sent: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let (mut from, mut to) = split(stream);
    let mut back = vec![0; sent.len()];
    let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut back));
    written.unwrap();
    read.unwrap();
    assert!(back == sent, "bytes were changed on their way");

    // One that is idle ends with the server behind, another with the cluster.
    let mut other = tls(&keys, &address, root).await;
    request_upgrade(&mut other, &path("yes")).await;
    power.cancel();
    let ended = tokio::time::timeout(PATIENCE, from.read(&mut back)).await.unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
    let mut rest = [0; 8];
    let stopped = tokio::time::timeout(PATIENCE, async {
        tokio::join!(cluster.stop(), other.read(&mut rest)).1
    });
    let ended = stopped.await.unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
}
