//! A garden for one test, with a small landscape and raw requests.

use std::time::Duration;

use base_secrets::{Authority, Certificate};
use control_plane_garden_api::{AdmissionPlugins, GardenSettings, Gateway, kinds};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with};

const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
const JSON: &str = "application/json";

#[derive(Clone)]
pub(crate) struct Garden {
    embedded: Embedded,
    client: Client,
}

/// What a kubeconfig contains.
pub(crate) struct Way {
    pub(crate) server: String,
    pub(crate) server_name: Option<String>,
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
}

pub(crate) fn registration(name: &str, resources: &[(&str, &str)]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|(kind, type_)| json!({"kind": kind, "type": type_}))
        .collect();
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": name},
        "spec": {"resources": resources}})
}

pub(crate) fn profile() -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "CloudProfile", "metadata": {"name": "cloud"}, "spec": {
        "type": "prov", "regions": [{"name": "r"}],
        "kubernetes": {"versions": [{"version": "1.35.0", "classification": "supported"}]},
        "machineTypes": [{"name": "small", "cpu": 1, "gpu": 0, "memory": "1Gi", "architecture": "amd64"}],
        "machineImages": [{"name": "linux", "versions": [
            {"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}]}})
}

pub(crate) fn shoot(name: &str) -> Value {
    json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": {"name": name, "namespace": "garden-p"},
        "spec": {"cloudProfile": {"kind": "CloudProfile", "name": "cloud"}, "region": "r", "credentialsBindingName": "b",
            "kubernetes": {"version": "1.35"}, "networking": {"type": "net", "nodes": "10.250.0.0/16"},
            "provider": {"type": "prov", "workers": [{"name": "w", "minimum": 1, "maximum": 2, "machine": {"type": "small"}}]}}})
}

impl Garden {
    /// A project, a profile, a seed, a binding, and a registration for all that they need.
    pub(crate) async fn with_landscape() -> Self {
        Self::with_plugins(AdmissionPlugins::default()).await
    }

    /// The same with these admission plug-ins.
    pub(crate) async fn with_plugins(plugins: AdmissionPlugins) -> Self {
        let settings = GardenSettings {
            entropy: base_clock::Entropy::seeded(3),
            gateway: Some(Gateway {
                url: "https://127.0.0.1:6443".to_owned(),
                removes_paths: true,
            }),
            plugins,
        };
        let embedded = embedded_with("garden", kinds(&settings), |builder| builder).await;
        let garden = Self {
            client: embedded.admin(),
            embedded,
        };
        let all = ["Infrastructure", "ControlPlane", "Worker"].map(|kind| (kind, "prov"));
        let more = [
            ("Network", "net"),
            ("OperatingSystemConfig", "linux"),
            ("DNSRecord", "names"),
        ];
        let resources: Vec<_> = all.into_iter().chain(more).collect();
        garden
            .ok(
                Method::POST,
                &format!("{CORE}/controllerregistrations"),
                &registration("prov", &resources),
            )
            .await;
        let namespace = json!({"metadata": {"name": "garden-p"}});
        garden.ok(Method::POST, "/api/v1/namespaces", &namespace).await;
        let project = json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}});
        garden.ok(Method::POST, &format!("{CORE}/projects"), &project).await;
        garden
            .ok(Method::POST, &format!("{CORE}/cloudprofiles"), &profile())
            .await;
        let seed = json!({"metadata": {"name": "seed"}, "spec": {
            "provider": {"type": "prov", "region": "r"},
            "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "nodes": "10.3.0.0/16"},
            "dns": {"internal": {"domain": "internal.example", "type": "names",
                "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "n", "namespace": "garden"}},
                "provider": {"type": "names", "secretRef": {"name": "n", "namespace": "garden"}}}}});
        garden.ok(Method::POST, &format!("{CORE}/seeds"), &seed).await;
        let secret = json!({"metadata": {"name": "c"}});
        garden
            .ok(Method::POST, "/api/v1/namespaces/garden-p/secrets", &secret)
            .await;
        let binding = json!({"metadata": {"name": "b"}, "provider": {"type": "prov"},
            "credentialsRef": {"apiVersion": "v1", "kind": "Secret", "name": "c", "namespace": "garden-p"}});
        let path = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/credentialsbindings";
        garden.ok(Method::POST, path, &binding).await;
        garden
    }

    /// The same garden, for another user.
    pub(crate) fn as_user(&self, user: &str, groups: &[&str]) -> Self {
        Self {
            client: self.embedded.client(user, groups),
            embedded: self.embedded.clone(),
        }
    }

    /// Code and body.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let media = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            JSON
        };
        self.send(method, path, media, JSON, body).await
    }

    /// The same garden, as this user, who is in no group.
    pub(crate) fn by(&self, user: &str) -> Self {
        Self {
            client: self.embedded.client(user, &[]),
            ..self.clone()
        }
    }

    /// The body of a request that must succeed.
    pub(crate) async fn ok(&self, method: Method, path: &str, body: &Value) -> Value {
        let (code, answer) = self.call(method.clone(), path, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {code} {answer}");
        answer
    }

    /// Creates any object of a manifest, with unknown fields forbidden.
    pub(crate) async fn create(&self, object: &Value) {
        let version = object["apiVersion"].as_str().unwrap();
        let root = if version.contains('/') {
            format!("/apis/{version}")
        } else {
            format!("/api/{version}")
        };
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let scope = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/namespaces/{namespace}"),
            None => String::new(),
        };
        self.ok(
            Method::POST,
            &format!("{root}{scope}/{kind}s?fieldValidation=Strict"),
            object,
        )
        .await;
    }

    pub(crate) async fn apply(&self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.try_apply(path, body).await;
        assert!((200..300).contains(&code), "apply {path}: {code} {answer}");
        answer
    }

    /// Code and body of a server-side apply.
    pub(crate) async fn try_apply(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", JSON, body)
            .await
    }

    /// Code of what a user without any group of theirs gets to read.
    pub(crate) async fn code_for(&self, user: &str, path: &str) -> u16 {
        let request = Request::get(path).body(kube::client::Body::empty()).unwrap();
        let answer = self.embedded.client(user, &[]).send(request).await.unwrap();
        answer.status().as_u16()
    }

    pub(crate) async fn table(&self, path: &str) -> Value {
        self.read_as(path, "application/json;as=Table;v=v1;g=meta.k8s.io").await
    }

    /// An answer of a media type.
    pub(crate) async fn read_as(&self, path: &str, accept: &str) -> Value {
        self.send(Method::GET, path, JSON, accept, &Value::Null).await.1
    }

    async fn send(&self, method: Method, path: &str, media: &str, accept: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() {
            Vec::new()
        } else {
            serde_json::to_vec(body).unwrap()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", accept);
        let request = request.body(kube::client::Body::from(bytes)).unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// What gardenlet leaves in the project's namespace for a shoot.
    pub(crate) async fn leave_authorities(&self, shoot: &str) {
        let (clock, entropy) = (&self.embedded.clock, &self.embedded.entropy);
        let clients = Authority::generate("clients", clock, entropy).unwrap();
        let secret = json!({"metadata": {"name": format!("{shoot}.ca-client")},
            "stringData": {"ca.crt": clients.certificate_pem(), "ca.key": clients.key_pem().expose()}});
        self.ok(
            Method::POST,
            &format!("{CORE}/namespaces/garden-p/internalsecrets"),
            &secret,
        )
        .await;
        let config =
            json!({"metadata": {"name": format!("{shoot}.ca-cluster")}, "data": {"ca.crt": clients.certificate_pem()}});
        self.ok(Method::POST, "/api/v1/namespaces/garden-p/configmaps", &config)
            .await;
    }

    pub(crate) fn read_kubeconfig(&self, base64: &str) -> Way {
        let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(base64)).unwrap();
        let config = kube::config::Kubeconfig::from_yaml(std::str::from_utf8(&bytes.0).unwrap()).unwrap();
        let cluster = config.clusters[0].cluster.clone().unwrap();
        let user = config.auth_infos[0].auth_info.clone().unwrap();
        let pem: k8s_openapi::ByteString =
            serde_json::from_value(json!(user.client_certificate_data.unwrap())).unwrap();
        let certificate = Certificate::from_pem(std::str::from_utf8(&pem.0).unwrap()).unwrap();
        let validity = certificate.not_after().duration_since(self.embedded.clock.now());
        assert!(validity.unsigned_abs() <= Duration::from_secs(900));
        Way {
            server: cluster.server.unwrap(),
            server_name: cluster.tls_server_name,
            user: certificate.common_name(),
            groups: certificate.organizations(),
        }
    }
}
