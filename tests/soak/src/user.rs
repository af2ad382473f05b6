//! The person in front of the garden: asks as often as needed without an answer, and takes a refusal for what it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api_core::v1beta1::{ControllerRegistration, Shoot};
use base_client::{Connector, Https, WaitState, wait_until};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, ResourceExt};
use landscape_data_folder::kubeconfig;
use landscape_local::apply_all;
use serde_json::{Value, json};

use crate::deed::Order;
use crate::wish::Place;

/// How long one asks in vain: the product is away for far less.
const PATIENCE: Duration = Duration::from_secs(400);
/// How long one waits for an answer before one asks again.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a Shoot may take to go.
const GONE_MAX: Duration = Duration::from_secs(1800);
/// Before the name of the pod behind a machine.
const MACHINE_POD: &str = "machine-";

/// Access to everything.
#[derive(Clone)]
pub struct User {
    /// The garden, as its administrator.
    pub garden: Client,
    /// The seed, likewise.
    pub seed: Client,
    data_dir: Arc<std::path::Path>,
}

/// Why something was not done.
enum Failed {
    /// It may be done later.
    NotNow(String),
    /// It will never be done.
    Refused(String),
}

fn refusal(error: kube::Error) -> Failed {
    const TOO_LONG: u16 = 408;
    const CONFLICT: u16 = 409;
    const TOO_MANY: u16 = 429;
    match &error {
        kube::Error::Api(status)
            if status.code < 500
                && ![TOO_LONG, TOO_MANY].contains(&status.code)
                && !(status.code == CONFLICT && base_client::is_conflict(&error)) =>
        {
            Failed::Refused(error.to_string())
        }
        _ => Failed::NotNow(error.to_string()),
    }
}

/// Does something until it is done or refused.
async fn insist<T, F>(what: &str, attempt: impl Fn() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, Failed>>,
{
    let begun = Instant::now();
    loop {
        let why = match tokio::time::timeout(ANSWER_MAX, attempt()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(Failed::Refused(why))) => return Err(format!("{what} is refused: {why}")),
            Ok(Err(Failed::NotNow(why))) => why,
            Err(_) => format!("no answer within {ANSWER_MAX:?}"),
        };
        if begun.elapsed() > PATIENCE {
            return Err(format!("{what} is not possible for {PATIENCE:?}: {why}"));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl User {
    /// With the kubeconfigs that `up` has left in its data folder.
    ///
    /// # Errors
    /// A kubeconfig that is not there.
    pub fn of(data_dir: &std::path::Path) -> Result<Self, String> {
        let [garden, seed] = tests_crash::process::kubeconfigs(data_dir)?;
        Ok(Self {
            garden: client(&garden)?,
            seed: client(&seed)?,
            data_dir: data_dir.into(),
        })
    }

    fn shoots(&self, place: &Place) -> Api<Shoot> {
        Api::namespaced(self.garden.clone(), &place.namespace())
    }

    /// Applies objects to the garden.
    ///
    /// # Errors
    /// The garden's refusal.
    pub async fn apply(&self, objects: &[Value]) -> Result<(), String> {
        insist("apply objects", || async {
            apply_all(&self.garden, objects.to_vec())
                .await
                .map_err(|fault| Failed::NotNow(fault.chain()))
        })
        .await
    }

    /// Merges a patch into an object of the garden that has no namespace.
    ///
    /// # Errors
    /// The garden's refusal.
    pub async fn merge<K>(&self, name: &str, patch: &Value) -> Result<(), String>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.garden.clone());
        insist(&format!("patch {name}"), || async {
            let answer = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
            answer.map(drop).map_err(refusal)
        })
        .await
    }

    /// Deletes a registration and waits until it is gone.
    ///
    /// # Errors
    /// The garden's refusal; it stays.
    pub async fn remove_registration(&self, name: &str) -> Result<(), String> {
        let api: Api<ControllerRegistration> = Api::all(self.garden.clone());
        insist(&format!("the deletion of registration {name}"), || async {
            match api.delete(name, &DeleteParams::default()).await {
                Err(error) if base_client::is_missing(&error) => Ok(()),
                answer => answer.map(drop).map_err(refusal),
            }
        })
        .await?;
        wait_until(&api, name, PATIENCE, |registration| match registration {
            None => WaitState::Done(()),
            Some(_) => WaitState::NotYet("it is still there".to_owned()),
        })
        .await
        .map_err(|waited| waited.to_string())
    }

    /// Does what was ordered.
    ///
    /// # Errors
    /// What is refused, or not possible for long.
    pub async fn obey(&self, place: &Place, order: &Order) -> Result<(), String> {
        match order {
            Order::Create(wish) => self.create(place, wish.manifest(place)?).await,
            Order::Change(wish) => self.change(place, "a change", &wish.patch()).await,
            Order::Operation(operation) => {
                let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": operation}}});
                let answer = self.change(place, operation, &patch).await;
                // Whether there is anything to try again is known to the garden alone.
                if *operation == "retry" { Ok(()) } else { answer }
            }
            Order::Delete => self.delete(place).await,
            Order::Pause(length) => {
                tokio::time::sleep(*length).await;
                Ok(())
            }
            Order::LosePod { machine, pick, gently } => self.lose_pod(place, *machine, *pick, *gently).await,
        }
    }

    async fn create(&self, place: &Place, manifest: Value) -> Result<(), String> {
        self.gone(place).await?;
        let shoot: Shoot = serde_json::from_value(manifest).map_err(|error| error.to_string())?;
        let api = self.shoots(place);
        insist(&format!("create {place}"), || async {
            match api.create(&PostParams::default(), &shoot).await {
                // It had gone before, so this is the one that was requested when the answer was lost.
                Err(error) if base_client::is_exists(&error) => Ok(()),
                answer => answer.map(drop).map_err(refusal),
            }
        })
        .await
    }

    /// Waits until there is none of this name.
    ///
    /// # Errors
    /// It stays.
    pub async fn gone(&self, place: &Place) -> Result<(), String> {
        wait_until(&self.shoots(place), &place.name, GONE_MAX, |shoot| match shoot {
            None => WaitState::Done(()),
            Some(shoot) => {
                let status = shoot.status.as_ref();
                WaitState::NotYet(format!(
                    "its last operation is {:?}, its last errors {:?}",
                    status.and_then(|status| status.last_operation.as_ref()),
                    status.map(|status| &status.last_errors)
                ))
            }
        })
        .await
        .map_err(|waited| format!("the deletion of {place}: {waited}"))
    }

    async fn change(&self, place: &Place, what: &str, patch: &Value) -> Result<(), String> {
        let api = self.shoots(place);
        insist(&format!("{what} of {place}"), || async {
            let answer = api
                .patch(&place.name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            answer.map(drop).map_err(refusal)
        })
        .await
    }

    async fn delete(&self, place: &Place) -> Result<(), String> {
        let api = self.shoots(place);
        let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
        insist(&format!("the deletion of {place}"), || async {
            let parameters = PatchParams::default();
            let answer = match api.patch(&place.name, &parameters, &Patch::Merge(&confirmed)).await {
                Ok(_) => api.delete(&place.name, &DeleteParams::default()).await.map(drop),
                Err(error) => Err(error),
            };
            match answer {
                Err(error) if base_client::is_missing(&error) => Ok(()),
                answer => answer.map_err(refusal),
            }
        })
        .await
    }

    async fn lose_pod(&self, place: &Place, machine: bool, pick: u64, gently: bool) -> Result<(), String> {
        let api: Api<Pod> = Api::namespaced(self.seed.clone(), &place.technical_id());
        let parameters = match gently {
            true => DeleteParams::default(),
            false => DeleteParams::default().grace_period(0),
        };
        insist(&format!("the loss of a pod of {place}"), || async {
            let pods = api.list(&ListParams::default()).await.map_err(refusal)?;
            let names: Vec<String> = pods.items.iter().map(ResourceExt::name_any).collect();
            let fitting: Vec<&String> = names
                .iter()
                .filter(|name| name.starts_with(MACHINE_POD) == machine)
                .collect();
            let Some(name) = fitting.get(pick as usize % fitting.len().max(1)) else {
                return Ok(());
            };
            match api.delete(name, &parameters).await {
                Err(error) if base_client::is_missing(&error) => Ok(()),
                answer => answer.map(drop).map_err(refusal),
            }
        })
        .await
    }

    /// A client for a Shoot, as its user gets one.
    ///
    /// # Errors
    /// It is not given.
    pub async fn shoot(&self, place: &Place) -> Result<Client, String> {
        let text = kubeconfig::of_shoot(&self.data_dir, &place.namespace(), &place.name).await;
        let text = text.map_err(|fault| fault.chain())?;
        client(&Kubeconfig::from_yaml(&text).map_err(|error| error.to_string())?)
    }
}

fn client(kubeconfig: &Kubeconfig) -> Result<Client, String> {
    Https::new("soak").client(kubeconfig).map_err(|fault| fault.to_string())
}
