//! Scripts that run on any form of a landscape through its API servers alone, and write down what they were answered. The same
//! page is expected of `orangery up` and of the production form.

mod people;

use std::fmt::Debug;

use api_core::v1beta1::Project;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::transcript::Transcript;
use crate::{Clients, merge, wait};

/// A script.
#[derive(Clone, Copy)]
pub struct Script {
    /// Name of its page in `docs/transcripts`.
    pub name: &'static str,
    run: fn(Clients) -> BoxFuture<'static, Transcript>,
}

impl Script {
    /// Executes it; its page.
    pub async fn run(&self, clients: Clients) -> Transcript {
        (self.run)(clients).await
    }
}

/// All of them. Each has a project of its own, which [`clean`] removes.
pub const ALL: [Script; 4] = [
    Script {
        name: "dual-approval",
        run: |clients| people::dual_approval(clients).boxed(),
    },
    Script {
        name: "guarded-fields",
        run: |clients| people::guarded_fields(clients).boxed(),
    },
    Script {
        name: "forged-fields",
        run: |clients| people::forged_fields(clients).boxed(),
    },
    Script {
        name: "credentials",
        run: |clients| people::credentials(clients).boxed(),
    },
];

/// Removes what a script has left: its Shoots, its projects with their namespaces, and rights that it gave in the whole garden.
pub fn clean(clients: &Clients) -> BoxFuture<'_, ()> {
    async move {
        for namespace in ["garden-dev", "garden-bank"] {
            let shoots = clients.shoots(namespace);
            for shoot in shoots.list(&ListParams::default()).await.unwrap() {
                clients.delete_shoot(namespace, &shoot.name_any()).await;
            }
        }
        let projects: Api<Project> = Api::all(clients.garden.clone());
        for name in ["dev", "bank"] {
            if projects.get_opt(name).await.unwrap().is_some() {
                let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
                merge(&projects, name, &confirmed).await;
                remove(&projects, name).await;
            }
        }
        remove(
            &Api::<ClusterRoleBinding>::all(clients.garden.clone()),
            people::CREATORS_NAME,
        )
        .await;
        remove(&Api::<ClusterRole>::all(clients.garden.clone()), people::CREATORS_NAME).await;
    }
    .boxed()
}

/// Deletes an object and waits until it is gone.
async fn remove<K>(api: &Api<K>, name: &str)
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug + Send + 'static,
{
    base_client::delete(api, name)
        .await
        .unwrap_or_else(|fault| panic!("{fault}"));
    wait(api, name, |found| found.is_none().then_some(())).await;
}
