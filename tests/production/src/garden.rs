//! A garden: a real kube-apiserver, an etcd for the garden's objects, and `orangery garden-apiserver` with the rights of
//! `deploy/production/garden-apiserver.yaml`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base_client::{Connector, Https};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, Certificate, CertificateSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request};
use kube::Client;
use kube::config::Kubeconfig;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tests_conformance::real::{Options, Place, Real};
use tests_parts::{Etcd, Folder, cache_folder, fed, free_port};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::process::Running;
use crate::{LOOK_PAUSE, PATIENCE};

/// Groups and versions of the garden.
pub const GROUPS: [(&str, &str); 5] = [
    ("core.gardener.cloud", "v1"),
    ("core.gardener.cloud", "v1beta1"),
    ("security.gardener.cloud", "v1alpha1"),
    ("operations.gardener.cloud", "v1alpha1"),
    ("seedmanagement.gardener.cloud", "v1alpha1"),
];
/// The manifest of the server's rights.
const MANIFEST: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deploy/production/garden-apiserver.yaml"
);
/// The name in the certificate, which is the Service's.
pub const SERVER_NAME: &str = "garden-apiserver.garden.svc";
/// Longer than any test.
pub(crate) const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// The garden, until it is dropped.
pub struct Garden {
    /// Kubernetes.
    pub real: Real,
    /// Where the garden's objects are.
    pub etcd: Etcd,
    /// Who signs the server's certificates.
    pub authority: Authority,
    /// Files of the test.
    pub folder: Folder,
    /// A client of `system:masters`.
    pub admin: Client,
}

/// A replica of the server.
pub struct Replica {
    /// The process.
    pub running: Running,
    /// Where it listens.
    pub port: u16,
    authority: String,
}

impl Garden {
    /// Starts Kubernetes and an etcd, and gives the server its rights.
    ///
    /// # Panics
    /// A real part is missing or does not start.
    pub async fn start(options: Options) -> Self {
        let real = Real::start(options).await.unwrap_or_else(|why| panic!("{why}"));
        let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
        let folder = Folder::temporary("orangery-garden-").unwrap();
        Self::on(real, etcd, folder)
    }

    /// The same in a folder that stays, on what is there already: Kubernetes at `place`, the etcd of the garden's objects beside it.
    ///
    /// # Panics
    /// As [`Garden::start`].
    pub async fn start_in(folder: &Path, place: &Place, options: Options) -> Self {
        let owned = Folder::lasting(folder.to_owned()).unwrap_or_else(|why| panic!("{why}"));
        let real = Real::start_at(place, options).await;
        let etcd = Etcd::start_in(folder.join("objects"));
        Self::on(
            real.unwrap_or_else(|why| panic!("{why}")),
            etcd.unwrap_or_else(|why| panic!("{why}")),
            owned,
        )
    }

    fn on(real: Real, etcd: Etcd, folder: Folder) -> Self {
        let authority = Authority::generate("serving", &Clock::real(), &Entropy::os()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
        let admin = Https::new("tests").client(&kubeconfig).unwrap();
        std::fs::write(
            folder.path().join("admin.kubeconfig"),
            real.endpoint.kubeconfig.expose(),
        )
        .unwrap();
        let garden = Self {
            real,
            etcd,
            authority,
            folder,
            admin,
        };
        garden.kubectl("admin", &["apply", "-f", MANIFEST], "");
        garden.write_identity();
        garden.write_certificate("tls", VALIDITY);
        garden
    }

    /// The kubeconfig `server`: the token of the service account that the manifest gives its rights to.
    fn write_identity(&self) {
        let duration = format!("--duration={}s", VALIDITY.as_secs());
        let words = ["create", "token", "garden-apiserver", "-n", "garden", &duration];
        let token = self.kubectl("admin", &words, "");
        let text = with_token(&self.real, token.trim());
        std::fs::write(self.path("server.kubeconfig"), text).unwrap();
    }

    /// Writes a new certificate of the server to `NAME.crt` and `NAME.key`.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write_certificate(&self, name: &str, validity: Duration) {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let names = vec![SERVER_NAME.to_owned(), "localhost".to_owned()];
        let spec = CertificateSpec::server(
            "garden-apiserver",
            names,
            vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            validity,
        );
        let issued = self.authority.issue(&spec, &clock, &entropy).unwrap();
        std::fs::write(self.path(&format!("{name}.crt")), issued.certificate_pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), issued.key_pem().expose()).unwrap();
    }

    /// A file of the test.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What every replica is started with.
    #[must_use]
    pub fn arguments(&self, port: u16, more: &[&str]) -> Vec<String> {
        let flags = [
            format!("--etcd-servers={}", self.etcd.url()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", self.path("tls.crt").display()),
            format!("--tls-private-key-file={}", self.path("tls.key").display()),
            format!("--kubeconfig={}", self.path("server.kubeconfig").display()),
        ];
        let more = more.iter().map(|word| (*word).to_owned());
        std::iter::once("garden-apiserver".to_owned())
            .chain(flags)
            .chain(more)
            .collect()
    }

    /// Starts a replica and waits until it is ready.
    ///
    /// # Panics
    /// It does not become ready.
    pub async fn replica(&self, name: &str, more: &[&str]) -> Replica {
        let replica = self.start_replica(name, free_port().unwrap(), more);
        replica.until_ready().await;
        replica
    }

    /// Starts a replica, which listens when this returns.
    ///
    /// # Panics
    /// It ends.
    #[must_use]
    pub fn start_replica(&self, name: &str, port: u16, more: &[&str]) -> Replica {
        let mut running = Running::start(self.folder.path(), name, &self.arguments(port, more));
        let line = running.line();
        assert_eq!(line, format!("ready: https://127.0.0.1:{port}"));
        Replica {
            running,
            port,
            authority: self.authority.certificate_pem(),
        }
    }

    /// Lets kube-apiserver find the garden's groups at that port, and waits until it does.
    ///
    /// # Panics
    /// It does not find them.
    pub async fn publish(&self, port: u16) {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "garden-apiserver", "namespace": "garden"},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        let bundle = STANDARD.encode(self.authority.certificate_pem());
        let services = GROUPS.map(|(group, version)| {
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": format!("{version}.{group}")},
                "spec": {"group": group, "version": version, "groupPriorityMinimum": 10_000, "versionPriority": 20,
                    "caBundle": bundle,
                    "service": {"name": "garden-apiserver", "namespace": "garden", "port": port}}})
        });
        let all: Vec<Value> = std::iter::once(service).chain(services).collect();
        let all = json!({"apiVersion": "v1", "kind": "List", "items": all});
        self.kubectl("admin", &["apply", "-f", "-"], &all.to_string());
        for (group, version) in GROUPS {
            self.until_served(group, version).await;
        }
    }

    /// As [`until_served`], asked by the administrator.
    ///
    /// # Panics
    /// It does not in time.
    pub async fn until_served(&self, group: &str, version: &str) {
        until_served(&self.admin, group, version).await;
    }

    /// A user with a certificate of Kubernetes' own authority: a client, and a kubeconfig `NAME.kubeconfig`.
    ///
    /// # Panics
    /// The certificate cannot be made.
    #[must_use]
    pub fn user(&self, name: &str, groups: &[&str]) -> Client {
        let text = self.real.kubeconfig(name, groups).unwrap();
        std::fs::write(self.path(&format!("{name}.kubeconfig")), text.expose()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(text.expose()).unwrap();
        Https::new("tests").client(&kubeconfig).unwrap()
    }

    /// What kubectl prints when it succeeds, fed with `input`.
    ///
    /// # Panics
    /// It fails.
    pub fn kubectl(&self, user: &str, words: &[&str], input: &str) -> String {
        let output = self.try_kubectl(user, words, input);
        assert!(
            output.status.success(),
            "kubectl {words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// What kubectl says, whatever it is.
    ///
    /// # Panics
    /// There is no kubectl.
    pub fn try_kubectl(&self, user: &str, words: &[&str], input: &str) -> Output {
        let program = cache_folder().unwrap().join("real/kubectl/kubectl");
        let mut command = Command::new(program);
        command
            .args(words)
            .arg("--kubeconfig")
            .arg(self.path(&format!("{user}.kubeconfig")))
            .arg("--cache-dir")
            .arg(self.path(&format!("{user}.cache")))
            .env("HOME", self.folder.path());
        fed(&mut command, input).unwrap()
    }
}

impl Replica {
    /// A client without credentials, straight to the replica.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn anonymous(&self) -> Client {
        self.client(&json!({}))
    }

    /// A client with these credentials of a kubeconfig's user, straight to the replica.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn client(&self, user: &Value) -> Client {
        let kubeconfig = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {
                "server": format!("https://127.0.0.1:{}", self.port), "tls-server-name": SERVER_NAME,
                "certificate-authority-data": STANDARD.encode(&self.authority)}}],
            "users": [{"name": "u", "user": user}],
        });
        let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
        Https::new("tests").client(&kubeconfig).unwrap()
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The certificate that it shows.
    ///
    /// # Panics
    /// It shows none that its authority has signed.
    pub async fn certificate(&self) -> Certificate {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address()).await.unwrap();
        let name = ServerName::try_from(SERVER_NAME).unwrap();
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        let (_, session) = stream.get_ref();
        Certificate::from_der(&session.peer_certificates().unwrap()[0]).unwrap()
    }

    /// Waits until `/readyz` says yes.
    ///
    /// # Panics
    /// It does not in time.
    pub async fn until_ready(&self) {
        self.until("/readyz", |code, _| code == 200).await;
    }

    /// Asks for a path until the answer is the right one; no watch tells of it.
    ///
    /// # Panics
    /// It is not in time.
    pub async fn until(&self, path: &str, is_right: impl Fn(u16, &str) -> bool) -> String {
        let (client, begun) = (self.anonymous(), Instant::now());
        loop {
            let (code, text) = text(&client, path).await;
            if is_right(code, &text) {
                return text;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{path} is {code}: {text}\n{}",
                self.running.logged()
            );
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

/// A kubeconfig for a Kubernetes with this token, as text.
///
/// # Panics
/// The administrator's kubeconfig, which it is made from, cannot be read.
#[must_use]
pub fn with_token(real: &Real, token: &str) -> String {
    let mut kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    }
    serde_json::to_string(&kubeconfig).unwrap()
}

/// Waits until kube-apiserver leads requests of a group's version to a server behind it. The condition Available does not
/// tell: kube-aggregator writes it before its own routing follows, and answers 503 in between.
///
/// # Panics
/// It does not in time.
pub async fn until_served(client: &Client, group: &str, version: &str) {
    let (path, begun) = (format!("/apis/{group}/{version}"), Instant::now());
    loop {
        let (code, text) = text(client, &path).await;
        if code == 200 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{path} is {code}: {text}");
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Code and text of a GET; 0 without an answer.
pub async fn text(client: &Client, path: &str) -> (u16, String) {
    let request = Request::get(path).body(kube::client::Body::empty()).unwrap();
    let Ok(response) = client.send(request).await else {
        return (0, String::new());
    };
    let code = response.status().as_u16();
    match response.into_body().collect_bytes().await {
        Ok(bytes) => (code, String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => (0, error.to_string()),
    }
}

/// Code and body of a request; 0 without an answer.
///
/// # Panics
/// The request cannot be made.
pub async fn call(client: &Client, method: Method, path: &str, body: &Value) -> (u16, Value) {
    call_with(client, method, path, &[], body).await
}

/// The same with further headers.
///
/// # Panics
/// The request cannot be made.
pub async fn call_with(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> (u16, Value) {
    let media = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let bytes = match body.is_null() {
        true => Vec::new(),
        false => serde_json::to_vec(body).unwrap(),
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(kube::client::Body::from(bytes)).unwrap();
    let Ok(response) = client.send(request).await else {
        return (0, Value::Null);
    };
    let code = response.status().as_u16();
    match response.into_body().collect_bytes().await {
        Ok(bytes) => (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
        Err(_) => (0, Value::Null),
    }
}

/// Where objects of a manifest are created.
///
/// # Panics
/// It says no kind.
#[must_use]
pub fn path_of(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let plural = match object["kind"].as_str().unwrap() {
        kind if kind.ends_with('y') => format!("{}ies", kind[..kind.len() - 1].to_lowercase()),
        kind => format!("{}s", kind.to_lowercase()),
    };
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{version}/{plural}"),
    }
}

/// Creates an object of a manifest; code and body.
pub async fn create(client: &Client, object: &Value) -> (u16, Value) {
    call(client, Method::POST, &path_of(object), object).await
}
