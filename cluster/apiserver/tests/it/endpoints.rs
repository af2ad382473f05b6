//! Servers that are named by a Service whose pods are on nodes of this process: webhooks and aggregated APIs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Dialer, HttpService, full_body};
use cluster_apiserver::PodPort;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::hook::Hook;
use crate::server::{CONFIG_MAPS, Server, get, post, put, start_with};

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const TIMEOUT: Duration = Duration::from_secs(20);
/// What pods listen on, behind port 443 of the Service.
const PORT: u16 = 8443;

/// What listens on pods.
#[derive(Clone)]
enum Listens {
    Bytes(Dialer),
    Http(HttpService),
    Nothing,
}

/// The pods of a process, by the last number of their addresses.
#[derive(Clone, Default)]
struct Pods(Arc<Mutex<BTreeMap<u8, Listens>>>);

impl Pods {
    fn put(&self, pod: u8, listens: Listens) {
        self.0.lock().unwrap().insert(pod, listens);
    }

    async fn server(&self) -> Server {
        let pods = self.0.clone();
        let find = move |ip: IpAddr, port: u16| {
            let pod = (0..=u8::MAX).find(|pod| address(*pod) == ip.to_string());
            let listens = pod.and_then(|pod| pods.lock().unwrap().get(&pod).cloned());
            match listens {
                None => PodPort::Elsewhere,
                Some(Listens::Bytes(dialer)) if port == PORT => PodPort::Bytes(dialer),
                Some(Listens::Http(service)) if port == PORT => PodPort::Http(service),
                Some(_) => PodPort::Closed,
            }
        };
        start_with(|builder| builder.pods(find)).await
    }
}

fn address(pod: u8) -> String {
    format!("10.1.0.{pod}")
}

/// Service `hook` with its slice of these pods.
async fn service(client: &Client, pods: &[(u8, bool)]) {
    let ports = json!([{"name": "https", "port": 443, "targetPort": PORT}]);
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": ports}});
    assert_eq!(post(client, SERVICES, &service).await.0, 201);
    let (code, made) = post(client, SLICES, &slice(pods)).await;
    assert_eq!(code, 201, "{made}");
}

fn slice(pods: &[(u8, bool)]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|(pod, ready)| json!({"addresses": [address(*pod)], "conditions": {"ready": ready}}))
        .collect();
    json!({
        "metadata": {"name": "hook-x", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}], "endpoints": endpoints,
    })
}

async fn configure(client: &Client, webhook: Value) {
    let configuration = json!({"metadata": {"name": "hooks"}, "webhooks": [webhook]});
    let (code, made) = post(client, VALIDATING, &configuration).await;
    assert_eq!(code, 201, "{made}");
}

async fn write(client: &Client, name: &str) -> (u16, Value) {
    let map = json!({"metadata": {"name": name}});
    tokio::time::timeout(TIMEOUT, post(client, CONFIG_MAPS, &map))
        .await
        .unwrap()
}

#[tokio::test]
async fn ready_endpoints_of_a_service_are_dialled_in_turn() {
    let (pods, first, second) = (Pods::default(), Hook::self_signed().await, Hook::self_signed().await);
    pods.put(1, Listens::Bytes(first.dialer()));
    pods.put(2, Listens::Bytes(second.dialer()));
    pods.put(3, Listens::Nothing);
    let server = pods.server().await;
    let client = server.admin();
    service(&client, &[(1, true), (2, true), (3, false)]).await;
    configure(&client, first.webhook_of_service("hold", &["configmaps"])).await;
    let release = async {
        first.has_received(1).await;
        second.has_received(1).await;
        first.release(1);
        second.release(1);
    };
    let (one, other, ()) = tokio::join!(write(&client, "a"), write(&client, "b"), release);
    assert_eq!((one.0, other.0), (201, 201), "{} {}", one.1, other.1);
    assert_eq!((first.connections(), second.connections()), (1, 1));
}

#[tokio::test]
async fn pooled_connection_of_an_ended_pod_is_replaced_by_one_to_another() {
    let (pods, first, second) = (Pods::default(), Hook::self_signed().await, Hook::self_signed().await);
    pods.put(1, Listens::Bytes(first.dialer()));
    pods.put(2, Listens::Bytes(second.dialer()));
    let server = pods.server().await;
    let client = server.admin();
    service(&client, &[(1, true)]).await;
    configure(&client, first.webhook_of_service("allow", &["configmaps"])).await;
    assert_eq!(write(&client, "a").await.0, 201);
    first.stop();
    pods.put(1, Listens::Nothing);
    let path = format!("{SLICES}/hook-x");
    let mut changed = get(&client, &path).await.1;
    changed["endpoints"] = slice(&[(1, true), (2, true)])["endpoints"].clone();
    assert_eq!(put(&client, &path, &changed).await.0, 200);
    // The end of a connection may be seen a moment after it.
    let replaced = async { while write(&client, "b").await.0 != 201 {} };
    tokio::time::timeout(TIMEOUT, replaced).await.unwrap();
    assert_eq!((first.requests(), second.requests()), (1, 1));
}

#[tokio::test]
async fn webhook_of_an_unreachable_service_fails_with_the_errors_of_go() {
    let (pods, hook) = (Pods::default(), Hook::self_signed().await);
    pods.put(1, Listens::Nothing);
    let server = pods.server().await;
    let client = server.admin();
    service(&client, &[(1, false)]).await;
    let mut webhook = hook.webhook_of_service("allow", &["configmaps"]);
    configure(&client, webhook.clone()).await;
    let expect = |why: &str, port: u16| {
        format!(
            "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: Post \
             \"https://hook.default.svc:{port}/allow?timeout=10s\": {why}"
        )
    };
    let (code, refused) = write(&client, "a").await;
    let why = "no endpoints available for service \"hook\"";
    assert_eq!((code, &refused["message"]), (500, &json!(expect(why, 443))));
    let path = format!("{SLICES}/hook-x");
    let mut changed = get(&client, &path).await.1;
    changed["endpoints"] = slice(&[(1, true)])["endpoints"].clone();
    assert_eq!(put(&client, &path, &changed).await.0, 200);
    let why = "dial tcp 10.1.0.1:8443: connect: connection refused";
    assert_eq!(write(&client, "a").await.1["message"], expect(why, 443));
    webhook["clientConfig"]["service"]["port"] = json!(444);
    let path = format!("{VALIDATING}/hooks");
    let mut configuration = get(&client, &path).await.1;
    configuration["webhooks"] = json!([webhook]);
    assert_eq!(put(&client, &path, &configuration).await.0, 200);
    let why = "no service port 444 found for service \"hook\"";
    assert_eq!(write(&client, "a").await.1["message"], expect(why, 444));
}

#[tokio::test]
async fn a_self_signed_certificate_is_accepted_by_url_only_with_its_bundle() {
    let (hook, other) = (Hook::self_signed().await, Hook::start().await);
    let server = Pods::default().server().await;
    let client = server.admin();
    configure(&client, hook.webhook("allow", &["configmaps"])).await;
    assert_eq!(write(&client, "a").await.0, 201);
    let path = format!("{VALIDATING}/hooks");
    let mut configuration = get(&client, &path).await.1;
    let foreign = other.webhook("allow", &["configmaps"])["clientConfig"]["caBundle"].clone();
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = foreign;
    assert_eq!(put(&client, &path, &configuration).await.0, 200);
    let refused = write(&client, "b").await.1;
    let why = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
}

/// Allows every review, and serves an API of its own.
async fn toy(request: Request<Body>) -> Result<Response<base_client::ResponseBody>, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect_bytes().await.unwrap();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = match path.as_str() {
        "/allow" => json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": review["request"]["uid"], "allowed": true},
        }),
        "/apis/toy.example/v1" => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "toy.example/v1", "resources": [],
        }),
        path => json!({"path": path}),
    };
    let mut response = Response::new(full_body(answer.to_string()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    Ok(response)
}

#[tokio::test]
async fn server_of_this_process_is_called_without_tls() {
    let (pods, hook) = (Pods::default(), Hook::self_signed().await);
    pods.put(1, Listens::Http(HttpService::new(tower::service_fn(toy))));
    let server = pods.server().await;
    let client = server.admin();
    service(&client, &[(1, true)]).await;
    configure(&client, hook.webhook_of_service("allow", &["configmaps"])).await;
    for name in ["a", "b"] {
        let (code, made) = write(&client, name).await;
        assert_eq!(code, 201, "{made}");
    }
    assert_eq!(hook.connections(), 0);
    let spec = json!({
        "group": "toy.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "hook"},
    });
    let object = json!({"metadata": {"name": "v1.toy.example"}, "spec": spec});
    let (code, made) = post(&client, "/apis/apiregistration.k8s.io/v1/apiservices", &object).await;
    assert_eq!(code, 201, "{made}");
    let passed = async {
        loop {
            let (code, answer) = get(&client, "/apis/toy.example/v1/things").await;
            if code == 200 {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::time::timeout(TIMEOUT, passed).await.unwrap();
    assert_eq!(answer, json!({"path": "/apis/toy.example/v1/things"}));
}
