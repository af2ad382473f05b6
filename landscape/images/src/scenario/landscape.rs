//! A cluster whose node runs the images, and the objects of a control plane in it.

use std::sync::Arc;
use std::time::Duration;

use base_client::{Connector, Target, WaitState, wait_until};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, KubeconfigSpec, PrivateKey, kubeconfig, to_yaml};
use cluster_apiserver::ApiServer;
use cluster_front::Front;
use cluster_node::NodeOptions;
use cluster_store::MemoryStore;
use components_hosted::secrets::{CA, CA_CLIENT, CA_ETCD, CA_FRONT_PROXY, CA_KUBELET, SERVICE_ACCOUNT_KEY};
use components_hosted::{ComponentId, EtcdStorage, HostedCluster, HostedObject, Image, Issued, Mounted, build};
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::super::{Host, catalogue};

/// Those that run without what a gardenlet adds.
const COMPONENTS: [ComponentId; 5] = [
    ComponentId::EtcdMain,
    ComponentId::EtcdEvents,
    ComponentId::ApiServer,
    ComponentId::ControllerManager,
    ComponentId::Scheduler,
];
const NAMESPACE: &str = "cp";
const SERVER: &str = "api.cp.internal";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Virtual time in which anything waited for must happen.
const PATIENCE: Duration = Duration::from_secs(300);

/// A cluster whose nodes run the images, and the authorities of the control plane in it.
pub(super) struct Landscape {
    outer: Client,
    pub(super) front: Front,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    authority: Authority,
    clients: Authority,
    _stop: DropGuard,
}

impl Landscape {
    pub(super) async fn start() -> Self {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let entropy = Entropy::seeded(1);
        let front = Front::new(clock.clone());
        let server = ApiServer::builder("outer")
            .store(MemoryStore::new())
            // No controller publishes an authority that a pod could mount.
            .pods_as_accounts(false)
            .clock(clock.clone())
            .entropy(entropy.clone())
            .build()
            .await
            .unwrap();
        let outer = server.loopback_client();
        let stop = CancellationToken::new();
        let options = cluster_controllers::Options::all(clock.clone(), entropy.clone());
        tokio::spawn(cluster_controllers::run(outer.clone(), options, stop.clone()));
        tokio::spawn(cluster_controllers::scheduler::run(
            outer.clone(),
            clock.clone(),
            stop.clone(),
        ));
        let host = Host::new(front.clone());
        let node = NodeOptions {
            network: host.network.clone(),
            ..NodeOptions::new(
                "outer-0",
                nowhere(),
                Arc::new(Outer {
                    client: outer.clone(),
                    front: front.clone(),
                }),
                Arc::new(catalogue(host)),
                clock.clone(),
                entropy.clone(),
            )
        };
        tokio::spawn(cluster_node::run(node, stop.clone()));
        let namespaces: Api<Namespace> = Api::all(outer.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        // A seed has them from its gardenlet.
        let classes: Api<PriorityClass> = Api::all(outer.clone());
        for value in [300, 400, 500] {
            let name = format!("gardener-system-{value}");
            let class = serde_json::from_value(json!({"metadata": {"name": name}, "value": value})).unwrap();
            classes.create(&PostParams::default(), &class).await.unwrap();
        }
        Landscape {
            authority: Authority::generate("ca", &clock, &entropy).unwrap(),
            clients: Authority::generate("ca-client", &clock, &entropy).unwrap(),
            outer,
            front,
            clock,
            entropy,
            _stop: stop.drop_guard(),
        }
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.outer.clone(), NAMESPACE)
    }

    async fn create<K>(&self, object: &K)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + Serialize
            + DeserializeOwned,
    {
        self.api::<K>().create(&PostParams::default(), object).await.unwrap();
    }

    async fn secret(&self, name: &str, data: &[(&str, String)]) -> Mounted {
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(
                data.iter()
                    .map(|(key, text)| ((*key).to_owned(), ByteString(text.clone().into_bytes())))
                    .collect(),
            ),
            ..Secret::default()
        };
        self.create(&secret).await;
        Mounted::of(&secret)
    }

    /// A kubeconfig of the control plane, as its components and people have them.
    fn kubeconfig(&self, user: &str, groups: &[&str]) -> Kubeconfig {
        let issued = self
            .clients
            .issue(&CertificateSpec::client(user, groups, DAY), &self.clock, &self.entropy)
            .unwrap();
        kubeconfig(&KubeconfigSpec {
            name: "cp".to_owned(),
            server: "https://127.0.0.1:1".to_owned(),
            tls_server_name: Some(SERVER.to_owned()),
            authorities: self.authority.certificate_pem(),
            credential: Credential::Certificate(Box::new(issued)),
            namespace: None,
        })
    }

    pub(super) fn admin(&self) -> Client {
        self.front
            .client(&self.kubeconfig("admin", &["system:masters"]))
            .unwrap()
    }

    async fn kubeconfig_secret(&self, component: &str) -> Mounted {
        let yaml = to_yaml(&self.kubeconfig(&format!("system:{component}"), &[])).unwrap();
        self.secret(
            &format!("shoot-access-{component}"),
            &[("kubeconfig", yaml.expose().to_owned())],
        )
        .await
    }

    pub(super) async fn control_plane(&self) {
        let bundle = self.authority.certificate_pem();
        let names = vec![SERVER.to_owned(), "kubernetes.default.svc".to_owned()];
        let spec = CertificateSpec::server("kube-apiserver", names, Vec::new(), DAY);
        let server = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        let pair = [
            ("tls.crt", server.certificate_pem()),
            ("tls.key", server.key_pem().expose().to_owned()),
        ];
        let service_accounts = PrivateKey::generate(&self.entropy);
        let key = service_accounts.to_pem().expose().to_owned();

        let ca = self.secret("ca", &[("bundle.crt", bundle)]).await;
        let client_bundle = self
            .secret("ca-client-bundle", &[("bundle.crt", self.clients.certificate_pem())])
            .await;
        let client_pair = [
            ("ca.crt", self.clients.certificate_pem()),
            ("ca.key", self.clients.key_pem().expose().to_owned()),
        ];
        let client_authority = self.secret("ca-client", &client_pair).await;
        let tls = self.secret("tls", &pair).await;
        let signing = self
            .secret("service-account-key", &[("signing.key", key.clone())])
            .await;
        let verifying = self.secret("service-account-key-bundle", &[("bundle.key", key)]).await;

        let mut issued = Issued {
            replicas: 1,
            ..Issued::default()
        };
        for authority in [CA, CA_ETCD, CA_FRONT_PROXY] {
            issued.bundles.insert(authority.to_owned(), ca.clone());
        }
        issued.bundles.insert(CA_CLIENT.to_owned(), client_bundle);
        issued.bundles.insert(SERVICE_ACCOUNT_KEY.to_owned(), verifying);
        for authority in [CA_CLIENT, CA_KUBELET] {
            issued.secrets.insert(authority.to_owned(), client_authority.clone());
        }
        issued.secrets.insert(SERVICE_ACCOUNT_KEY.to_owned(), signing);
        let cluster = HostedCluster {
            namespace: NAMESPACE.to_owned(),
            version: "1.34.2".to_owned(),
            pods: vec!["10.1.0.0/16".to_owned()],
            services: vec!["10.0.0.0/16".to_owned()],
            node_mask_size: Some(24),
            api_host: SERVER.to_owned(),
            etcd_storage: EtcdStorage {
                main: "1Gi".to_owned(),
                events: "1Gi".to_owned(),
            },
            ..HostedCluster::default()
        };
        for certificate in COMPONENTS.iter().flat_map(|id| id.component().secrets(&cluster)) {
            issued.secrets.insert(certificate.name, tls.clone());
        }
        self.components(&cluster, issued).await;
    }

    async fn components(&self, cluster: &HostedCluster, mut issued: Issued) {
        for id in COMPONENTS {
            let component = id.component();
            issued.kubeconfig = match component.client() {
                Some(_) => Some(self.kubeconfig_secret(component.name()).await),
                None => None,
            };
            issued.image = match component.image() {
                Image::Kubernetes(name) => format!("orangery.dev/{name}:v{}", cluster.version),
                Image::Own(name) => format!("orangery.dev/{name}:v0.1.0"),
                Image::Program => "orangery.dev/orangery:v0.1.0".to_owned(),
                Image::Upstream { name, tag } => format!("orangery.dev/{name}:{tag}"),
            };
            let objects = build(component, cluster, &issued).unwrap();
            for object in component.early_objects(cluster).iter().chain(&objects) {
                self.create_hosted(object).await;
            }
        }
        for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
            self.available(name, 1).await;
        }
    }

    async fn create_hosted(&self, object: &HostedObject) {
        match object {
            HostedObject::ServiceAccount(one) => self.create(one.as_ref()).await,
            HostedObject::Role(one) => self.create(one.as_ref()).await,
            HostedObject::RoleBinding(one) => self.create(one.as_ref()).await,
            HostedObject::Service(one) => self.create(one.as_ref()).await,
            HostedObject::ConfigMap(one) => self.create(one.as_ref()).await,
            HostedObject::PodDisruptionBudget(one) => self.create(one.as_ref()).await,
            HostedObject::Deployment(one) => self.create(one.as_ref()).await,
            HostedObject::StatefulSet(one) => self.create(one.as_ref()).await,
        }
    }

    pub(super) async fn available(&self, deployment: &str, pods: i32) {
        until(&self.api(), deployment, |deployment: Option<&Deployment>| {
            let status = deployment?.status.clone()?;
            let settled = status.observed_generation == deployment?.metadata.generation;
            (settled && status.ready_replicas.unwrap_or(0) == pods && status.replicas.unwrap_or(0) == pods)
                .then_some(())
        })
        .await;
    }

    pub(super) async fn scale<K>(&self, name: &str, replicas: i32)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// A machine's pod, created with a bootstrap token that may have been registered with `token` or not.
    pub(super) async fn machine(&self, name: &str, token: &str) {
        let config = format!(
            "apiServer:\n  server: https://{SERVER}\n  caBundle: {}\nsecretName: gardener-node-agent-pool\n",
            base64(&self.authority.certificate_pem())
        );
        let file = |path: &str, content: &str| json!({"path": path, "permissions": 0o600, "content": content});
        let user_data = json!({"files": [
            file("/var/lib/gardener-node-agent/config.yaml", &config),
            file("/var/lib/gardener-node-agent/credentials/bootstrap-token", token),
        ], "units": []});
        self.secret(&format!("user-data-{name}"), &[("userdata", user_data.to_string())])
            .await;
        let pod = json!({
            "metadata": {"name": format!("machine-{name}")},
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "machine", "image": "orangery.dev/local-machine:v0.1.0",
                    "volumeMounts": [{"name": "user-data", "mountPath": "/etc/machine"}],
                }],
                "volumes": [{"name": "user-data", "secret": {"secretName": format!("user-data-{name}")}}],
            },
        });
        self.create::<Pod>(&serde_json::from_value(pod).unwrap()).await;
    }
}

/// Gives the outer cluster's own its client, and everybody else what the front has.
struct Outer {
    client: Client,
    front: Front,
}

impl Connector for Outer {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<Client, api_meta::Fault> {
        match Target::of(kubeconfig)?.tls_server_name {
            Some(_) => self.front.client(kubeconfig),
            None => Ok(self.client.clone()),
        }
    }
}

fn nowhere() -> Kubeconfig {
    kubeconfig(&KubeconfigSpec {
        name: "outer".to_owned(),
        server: "https://127.0.0.1:1".to_owned(),
        tls_server_name: None,
        authorities: String::new(),
        credential: Credential::Anonymous,
        namespace: None,
    })
}

fn base64(text: &str) -> String {
    serde_json::to_value(ByteString(text.as_bytes().to_vec()))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

pub(super) async fn until<K, T>(api: &Api<K>, name: &str, seen: impl Fn(Option<&K>) -> Option<T>) -> T
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let check = |object: Option<&K>| match seen(object) {
        Some(result) => WaitState::Done(result),
        None => WaitState::NotYet("it is not as it should be".to_owned()),
    };
    wait_until(api, name, PATIENCE, check).await.unwrap()
}
