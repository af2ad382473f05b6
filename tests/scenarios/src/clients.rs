//! The people in front of a landscape, whichever form it has: one process, or programs beside real Kubernetes.

use api_core::v1beta1::Shoot;
use kube::{Api, Client};
use landscape_local::{apply_all, documents};
use serde_json::json;

use crate::{PATIENCE, has_succeeded, merge, wait};

/// The administrators of garden and seeds, and what they do by their API servers alone.
#[derive(Clone)]
pub struct Clients {
    /// The garden's administrator.
    pub garden: Client,
    /// The seeds' administrators, in the order of the settings.
    pub seeds: Vec<Client>,
}

impl Clients {
    /// Applies YAML manifests to the garden.
    pub async fn apply(&self, manifests: &[&str]) {
        for manifest in manifests {
            let objects = documents(manifest).unwrap();
            apply_all(&self.garden, objects)
                .await
                .unwrap_or_else(|fault| panic!("{fault}"));
        }
    }

    /// The Shoots of a project.
    #[must_use]
    pub fn shoots(&self, namespace: &str) -> Api<Shoot> {
        Api::namespaced(self.garden.clone(), namespace)
    }

    /// Waits until the Shoot's last operation has succeeded for its newest generation.
    pub async fn succeeded(&self, namespace: &str, name: &str) -> Shoot {
        let succeeded = |shoot: Option<&Shoot>| shoot.filter(|shoot| has_succeeded(shoot)).cloned();
        wait(&self.shoots(namespace), name, succeeded).await
    }

    /// Deletes a Shoot as its user does: with the confirmation, then waits until it is gone.
    pub async fn delete_shoot(&self, namespace: &str, name: &str) {
        let shoots = self.shoots(namespace);
        let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
        merge(&shoots, name, &confirmed).await;
        base_client::delete_and_wait(&shoots, name, PATIENCE)
            .await
            .unwrap_or_else(|waited| panic!("{waited}"));
    }
}
