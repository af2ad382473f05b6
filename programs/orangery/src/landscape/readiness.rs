//! When the garden is ready: once every seed can take a Shoot. The garden's `/readyz` shows it as the check
//! `seed-ready`, by what the Seeds report; after a restart that may be what they reported before.

use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::names::SEED_LEASE_NAMESPACE;
use api_meta::{ConditionStatus, Fault, labels};
use base_client::{Connector, Judgement, fault_of, wait_until};
use base_controller::{Cache, ObjectKey};
use cluster_front::Front;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};

use super::api::Api;
use super::{ADMIN, ADMINS, Parts, Settings};

/// What a Seed must report before a Shoot can be placed on it and come up there.
const CONDITIONS: [&str; 2] = ["GardenletReady", "ExtensionsReady"];
/// What a Seed with a backup must report as well.
const CONDITION_BACKUP: &str = "BackupBucketsReady";

pub(super) fn add(settings: &Settings, front: &Front, garden: &Api, parts: &Parts) -> Result<(), Fault> {
    let client = front.client(&garden.kubeconfig(ADMIN, &[ADMINS])?)?;
    let seeds: Cache<Seed> = Cache::start(kube::Api::all(client), watcher::Config::default(), parts.stop.clone());
    let names: Vec<String> = settings.seeds.iter().map(|seed| seed.name.clone()).collect();
    garden.server().readiness().add("seed-ready", move || {
        let lacks = |name: &String| match seeds.get(&ObjectKey::cluster(name.as_str())) {
            Some(seed) => missing(&seed).map(|what| format!("seed {name}: its {what}")),
            None => Some(format!("seed {name} is not registered")),
        };
        names.iter().find_map(lacks).map_or(Ok(()), Err)
    });
    Ok(())
}

/// What a landscape on this state left behind of one seed: its gardenlet's last beat, and the pods of its extensions that were
/// ready, each with how often it had been started. Until they are past it, what the Seed reports is of that time.
pub(super) struct Before {
    seed: String,
    beat: Option<String>,
    pods: Vec<(String, String, i32)>,
}

impl Before {
    /// Looks before any part runs.
    pub(super) async fn look(garden: &Client, seed: &Client, name: &str) -> Result<Self, Fault> {
        let beat = base_client::get(&leases(garden), name).await?;
        let pods = pods_of_extensions(seed).await?;
        Ok(Before {
            seed: name.to_owned(),
            beat: beat.and_then(|lease| lease.resource_version()),
            pods: pods
                .iter()
                .filter(|pod| is_ready(pod))
                .map(|pod| (pod.namespace().unwrap_or_default(), pod.name_any(), starts(pod)))
                .collect(),
        })
    }

    /// Waits until the gardenlet has given a sign of life, and the pods that were ready are ready again or gone.
    pub(super) async fn wait_until_past(
        &self,
        garden: &Client,
        seed: &Client,
        patience: Duration,
    ) -> Result<(), Fault> {
        if self.beat.is_some() {
            wait_until(&leases(garden), &self.seed, patience, |lease| {
                if lease.and_then(ResourceExt::resource_version) == self.beat {
                    Judgement::NotYet("its gardenlet has not renewed it since the start".to_owned())
                } else {
                    Judgement::Done(())
                }
            })
            .await?;
        }
        for (namespace, pod, started) in &self.pods {
            let pods: kube::Api<Pod> = kube::Api::namespaced(seed.clone(), namespace);
            wait_until(&pods, pod, patience, |pod| match pod {
                Some(pod) if starts(pod) == *started => Judgement::NotYet("it has not been started again".to_owned()),
                Some(pod) if !is_ready(pod) => Judgement::NotYet("it is not ready again".to_owned()),
                _ => Judgement::Done(()),
            })
            .await?;
        }
        Ok(())
    }
}

/// The pods in the namespaces of extensions: whoever installed them, those are labelled.
async fn pods_of_extensions(seed: &Client) -> Result<Vec<Pod>, Fault> {
    let extensions = ListParams::default().labels(&format!("{}={}", labels::ROLE, labels::role::EXTENSION));
    let namespaces = kube::Api::<Namespace>::all(seed.clone()).list(&extensions).await;
    let mut pods = Vec::new();
    for namespace in namespaces.map_err(|error| fault_of(error, "list the namespaces of extensions"))? {
        let inside: kube::Api<Pod> = kube::Api::namespaced(seed.clone(), &namespace.name_any());
        pods.extend(base_client::list(&inside, "").await?);
    }
    Ok(pods)
}

fn leases(garden: &Client) -> kube::Api<Lease> {
    kube::Api::namespaced(garden.clone(), SEED_LEASE_NAMESPACE)
}

/// How often the containers of a pod were started again.
fn starts(pod: &Pod) -> i32 {
    let status = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    status
        .into_iter()
        .flatten()
        .map(|container| container.restart_count)
        .sum()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Waits until the seed can take a Shoot.
pub(super) async fn wait(client: Client, seed: &str, patience: Duration) -> Result<(), Fault> {
    let seeds: kube::Api<Seed> = kube::Api::all(client);
    wait_until(&seeds, seed, patience, |seed| match seed.map(missing) {
        Some(None) => Judgement::Done(()),
        Some(Some(what)) => Judgement::NotYet(format!("its {what}")),
        None => Judgement::NotYet("it is not registered".to_owned()),
    })
    .await?;
    Ok(())
}

/// The first condition that keeps the seed from taking a Shoot, and what it says.
fn missing(seed: &Seed) -> Option<String> {
    let conditions = seed
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let lacks = |wanted: &str| match conditions.iter().find(|condition| condition.type_ == wanted) {
        Some(condition) if condition.status == ConditionStatus::True => None,
        Some(condition) => Some(format!("condition {wanted} is not True: {}", condition.message)),
        None => Some(format!("condition {wanted} is not there yet")),
    };
    let of_backup = seed.spec.backup.is_some().then_some(CONDITION_BACKUP);
    CONDITIONS.into_iter().chain(of_backup).find_map(lacks)
}
