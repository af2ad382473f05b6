//! A server for one test, and clients of given users.

use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, PrivateKey};
use cluster_apiserver::{AUDIT_RECORDS_MAX, ApiServer, Authorities, Builder, PeerCertificates, TokenAuthority};
use cluster_store::MemoryStore;
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

pub(crate) struct Server {
    pub(crate) api: ApiServer,
    pub(crate) clock: Clock,
    entropy: Entropy,
    authority: Authority,
}

pub(crate) async fn start() -> Server {
    start_with(|builder| builder).await
}

pub(crate) async fn start_with(change: impl FnOnce(Builder) -> Builder) -> Server {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let entropy = Entropy::seeded(7);
    let authority = Authority::generate("clients", &clock, &entropy).unwrap();
    let authorities = Authorities {
        client_authorities: authority.certificate_pem(),
        service_accounts: Some(TokenAuthority {
            issuer: "https://issuer.example".to_owned(),
            keys_url: None,
            audiences: Vec::new(),
            signer: Some(PrivateKey::generate(&entropy)),
            verifiers: Vec::new(),
        }),
        bootstrap_tokens: true,
    };
    let builder = ApiServer::builder("test")
        .store(MemoryStore::new())
        .clock(clock.clone())
        .entropy(entropy.clone())
        .authorities(authorities)
        .audit_records(AUDIT_RECORDS_MAX)
        // Tests of service accounts turn it on.
        .pods_as_accounts(false)
        .service_range("10.0.0.0/24".parse().unwrap());
    let api = change(builder).build().await.unwrap();
    Server {
        api,
        clock,
        entropy,
        authority,
    }
}

impl Server {
    pub(crate) fn admin(&self) -> Client {
        self.api.loopback_client()
    }

    pub(crate) fn user(&self, name: &str, groups: &[&str]) -> Client {
        self.api.client_for(self.certificates(name, groups))
    }

    /// A user's certificate.
    pub(crate) fn certificates(&self, name: &str, groups: &[&str]) -> PeerCertificates {
        let spec = CertificateSpec::client(name, groups, Duration::from_secs(86_400));
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        PeerCertificates::new(vec![issued.certificate.der().to_vec().into()])
    }

    /// The authority that signs them, in PEM.
    pub(crate) fn authority(&self) -> String {
        self.authority.certificate_pem()
    }
}

/// An authority of clients, and a client with a certificate of it.
pub(crate) struct Others {
    pub(crate) authority: Authority,
    clock: Clock,
    entropy: Entropy,
}

impl Others {
    pub(crate) fn new(clock: &Clock) -> Self {
        let entropy = Entropy::seeded(8);
        Self {
            authority: Authority::generate("others", clock, &entropy).unwrap(),
            clock: clock.clone(),
            entropy,
        }
    }

    pub(crate) fn client(&self, server: &Server, name: &str) -> Client {
        let spec = CertificateSpec::client(name, &[], Duration::from_secs(86_400));
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        let certificate = issued.certificate.der().to_vec().into();
        server.api.client_for(PeerCertificates::new(vec![certificate]))
    }
}

/// A raw request: code and JSON body.
pub(crate) async fn call(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: impl Into<Vec<u8>>,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(body.into())
        .unwrap();
    send(client, request).await
}

pub(crate) async fn send(client: &Client, request: Request<Vec<u8>>) -> (u16, Value) {
    let (code, text) = send_text(client, request).await;
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

pub(crate) async fn send_text(client: &Client, request: Request<Vec<u8>>) -> (u16, String) {
    let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

pub(crate) async fn get(client: &Client, path: &str) -> (u16, Value) {
    call(client, Method::GET, path, "application/json", Vec::new()).await
}

pub(crate) async fn post(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    call(client, Method::POST, path, "application/json", body.to_string()).await
}

pub(crate) async fn put(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    call(client, Method::PUT, path, "application/json", body.to_string()).await
}

pub(crate) async fn delete(client: &Client, path: &str) -> (u16, Value) {
    call(client, Method::DELETE, path, "application/json", Vec::new()).await
}

pub(crate) async fn merge(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    call(
        client,
        Method::PATCH,
        path,
        "application/merge-patch+json",
        body.to_string(),
    )
    .await
}

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
