//! What scenarios stand on: a landscape in virtual time without sockets, clients for its people, and waits by watch.
//! It asserts nothing itself.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a scenario that cannot be set up has failed"
)]

use std::fmt::Debug;
use std::time::Duration;

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec};
use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, Shoot};
use api_meta::{LastOperation, LastOperationState};
use base_client::{WaitState, wait_until};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Resource, ResourceExt};
use landscape_local::{Landscape, Settings, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Virtual time, so generous: longer than any wait inside the product.
pub const PATIENCE: Duration = Duration::from_secs(3600);
/// The project namespace of the examples.
pub const NAMESPACE: &str = "garden-local";
/// The Shoot of the examples.
pub const NAME: &str = "local";
/// Its namespace in the seed.
pub const TECHNICAL_ID: &str = "shoot--local--local";

/// The example manifests up to, but without, the Shoot.
pub const SURROUNDINGS: [&str; 3] = [
    include_str!("../../../examples/10-project.yaml"),
    include_str!("../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../examples/30-credentials.yaml"),
];
/// The example Shoot.
pub const SHOOT: &str = include_str!("../../../examples/40-shoot.yaml");

/// A landscape and the people in front of it.
pub struct World {
    /// What runs.
    pub landscape: Landscape,
    /// The garden, as its administrator.
    pub garden: Client,
    /// The first seed, as its administrator.
    pub seed: Client,
    /// All seeds, in the order of the settings, likewise.
    pub seeds: Vec<Client>,
    folder: Folder,
}

mod clients;
pub mod hold;
pub mod installations;
pub mod inventory;
pub mod journal;
pub mod kubectl;
pub mod moon;
pub mod scripts;
pub mod transcript;

pub use clients::Clients;
pub use tempdir::Folder;

mod tempdir {
    //! A folder that goes with the test.

    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    static NUMBER: AtomicU32 = AtomicU32::new(0);

    /// A folder that is removed when this is dropped.
    pub struct Folder(PathBuf);

    impl From<PathBuf> for Folder {
        fn from(path: PathBuf) -> Self {
            Self(path)
        }
    }

    impl Folder {
        pub(crate) fn new() -> Self {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("orangery-scenario-{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).expect("a temporary folder can be created");
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            // A leftover folder is no failure of the scenario.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl World {
    /// Starts a landscape in virtual time. The test's runtime must be paused and of one thread.
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same with settings of the scenario's own.
    pub async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = Folder::new();
        let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut settings = Settings::simulated(folder.path().to_owned(), epoch, 1);
        change(&mut settings);
        Self::started(&settings, folder).await
    }

    /// Starts a landscape in real time, for what needs sockets.
    pub async fn start_in_real_time() -> Self {
        let folder = Folder::new();
        let settings = Settings::real(folder.path().to_owned(), 0);
        Self::started(&settings, folder).await
    }

    async fn started(settings: &Settings, folder: Folder) -> Self {
        let state = State::memory(settings).unwrap();
        let landscape = Landscape::start(settings, &state)
            .await
            .unwrap_or_else(|fault| panic!("the landscape starts: {fault}"));
        landscape
            .ready(PATIENCE)
            .await
            .unwrap_or_else(|fault| panic!("the landscape becomes ready: {fault}"));
        Self::of(landscape, folder)
    }

    /// The people in front of a landscape that runs. Its folder goes with them.
    #[must_use]
    pub fn of(landscape: Landscape, folder: impl Into<Folder>) -> Self {
        let connector = landscape.connector();
        let garden = connector.client(&landscape.garden_kubeconfig().unwrap()).unwrap();
        let kubeconfigs = landscape.seeds.iter().map(|seed| seed.kubeconfig().unwrap());
        let seeds: Vec<Client> = kubeconfigs
            .map(|kubeconfig| connector.client(&kubeconfig).unwrap())
            .collect();
        Self {
            garden,
            seed: seeds[0].clone(),
            seeds,
            landscape,
            folder: folder.into(),
        }
    }

    /// Where the local provider keeps backups.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The people in front of it, without what runs.
    #[must_use]
    pub fn clients(&self) -> Clients {
        Clients {
            garden: self.garden.clone(),
            seeds: self.seeds.clone(),
        }
    }

    /// Applies YAML manifests to the garden.
    pub async fn apply(&self, manifests: &[&str]) {
        self.clients().apply(manifests).await;
    }

    /// The example, up to the Shoot's success.
    pub async fn with_example_shoot() -> Self {
        let world = Self::start().await;
        world.apply(&SURROUNDINGS).await;
        world.apply(&[SHOOT]).await;
        world.succeeded(NAMESPACE, NAME).await;
        world
    }

    /// The Shoots of a project.
    #[must_use]
    pub fn shoots(&self, namespace: &str) -> Api<Shoot> {
        self.clients().shoots(namespace)
    }

    /// Waits until the Shoot's last operation has succeeded for its newest generation.
    pub async fn succeeded(&self, namespace: &str, name: &str) -> Shoot {
        self.clients().succeeded(namespace, name).await
    }

    /// A client for a Shoot, as its user gets one: by the subresource `adminkubeconfig`.
    pub async fn shoot_client(&self, namespace: &str, name: &str) -> Client {
        let kubeconfig = self.shoot_kubeconfig(namespace, name).await;
        self.landscape.connector().client(&kubeconfig).unwrap()
    }

    /// The kubeconfig behind it.
    pub async fn shoot_kubeconfig(&self, namespace: &str, name: &str) -> Kubeconfig {
        admin_kubeconfig(&self.shoots(namespace), name).await
    }

    /// Runs the local provider of every seed in so many pods, as whoever deploys it would say it; 0 stops it. Waits until it is so on
    /// the first seed.
    pub async fn scale_provider(&self, replicas: i32) {
        let deployments: Api<ControllerDeployment> = Api::all(self.garden.clone());
        let values = json!({"providerConfig": {"values": {"replicas": replicas}}});
        merge(&deployments, "provider-local", &values).await;
        let installations: Api<ControllerInstallation> = Api::all(self.garden.clone());
        let first = &self.landscape.seeds[0].name;
        let is_on_first = |one: &ControllerInstallation| {
            let spec = &one.spec;
            spec.registration_ref.name.as_deref() == Some("provider-local")
                && spec.seed_ref.as_ref().and_then(|seed| seed.name.as_ref()) == Some(first)
        };
        let listed = installations.list(&ListParams::default()).await.unwrap();
        let installation = listed.items.into_iter().find(is_on_first).unwrap().name_any();
        let deployments: Api<Deployment> = Api::namespaced(self.seed.clone(), &format!("extension-{installation}"));
        wait(&deployments, "provider-local", |deployment| {
            let status = deployment?.status.as_ref()?;
            let counts = [status.replicas, status.ready_replicas].map(|count| count.unwrap_or(0));
            (counts == [replicas, replicas]).then_some(())
        })
        .await;
    }

    /// Deletes a Shoot as its user does: with the confirmation, then waits until it is gone.
    pub async fn delete_shoot(&self, namespace: &str, name: &str) {
        self.clients().delete_shoot(namespace, name).await;
    }
}

/// The kubeconfig of a Shoot, as its user gets one: by the subresource `adminkubeconfig`.
pub async fn admin_kubeconfig(shoots: &Api<Shoot>, name: &str) -> Kubeconfig {
    let request = AdminKubeconfigRequest {
        spec: KubeconfigRequestSpec {
            expiration_seconds: Some(3600),
        },
        ..AdminKubeconfigRequest::default()
    };
    let answer: AdminKubeconfigRequest = shoots
        .create_subresource("adminkubeconfig", name, &PostParams::default(), &request)
        .await
        .unwrap_or_else(|error| panic!("an admin kubeconfig is handed out: {error}"));
    let text = String::from_utf8(answer.status.unwrap().kubeconfig.0).unwrap();
    Kubeconfig::from_yaml(&text).unwrap()
}

/// Whether the last operation of a Shoot has succeeded for its newest generation.
#[must_use]
pub fn has_succeeded(shoot: &Shoot) -> bool {
    let Some(status) = &shoot.status else { return false };
    let is_done =
        |operation: &LastOperation| operation.state == LastOperationState::Succeeded && operation.progress == 100;
    status.last_operation.as_ref().is_some_and(is_done) && status.observed_generation == shoot.metadata.generation
}

/// Merge-patches an object.
pub async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Watches an object until `check` returns something; fails with the object's last state when it never does.
pub async fn wait<K, T>(api: &Api<K>, name: &str, mut check: impl FnMut(Option<&K>) -> Option<T>) -> T
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug + Send + 'static,
{
    wait_until(api, name, PATIENCE, |object| match check(object) {
        Some(found) => WaitState::Done(found),
        None => WaitState::NotYet(describe(object)),
    })
    .await
    .unwrap_or_else(|waited| panic!("{waited}"))
}

/// What a reader of a failed wait needs to see of an object.
fn describe<K: Serialize>(object: Option<&K>) -> String {
    let Some(object) = object else {
        return "it is not there".to_owned();
    };
    let object = serde_json::to_value(object).unwrap();
    let shown = if object["status"].is_null() {
        &object
    } else {
        &object["status"]
    };
    format!("last seen: {shown:#}")
}
