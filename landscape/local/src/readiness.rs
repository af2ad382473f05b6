//! When the garden is ready: once every seed can take a Shoot, which needs its gardenlet and the extensions that the
//! landscape brings. The garden's `/readyz` shows it as the check `seed-ready`, by what the Seeds and installations report;
//! after a restart that may be what they reported before. An extension of a user that is broken keeps nothing from being
//! ready: it is reported by name.

use std::collections::BTreeSet;
use std::time::Duration;

use api_core::v1beta1::{ControllerInstallation, Seed};
use api_meta::conditions::installation::{HEALTHY, INSTALLED, PROGRESSING, VALID};
use api_meta::conditions::seed::{BACKUP_BUCKETS_READY, EXTENSIONS_READY, GARDENLET_READY};
use api_meta::names::{EXTENSION_NAMESPACE_PREFIX, SEED_LEASE_NAMESPACE};
use api_meta::{Condition, ConditionStatus, Fault, labels};
use base_client::{WaitState, fault_of, wait_until};
use base_controller::{Cache, ObjectKey};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the extensions of users may take once the landscape's own parts are ready: many times what a program of the
/// image catalogue needs after a restart, and no longer than a person watches a silent command.
const USERS_PATIENCE: Duration = Duration::from_secs(15);

/// What Seeds and installations report, and which of them the landscape needs.
#[derive(Clone)]
pub(super) struct Readiness {
    seeds: Cache<Seed>,
    installations: Cache<ControllerInstallation>,
    /// The registrations that the landscape brings.
    own: BTreeSet<String>,
}

/// An extension of a user that does not work, in a landscape that is ready all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotHealthy {
    /// Name of its ControllerInstallation.
    pub installation: String,
    /// What it reports.
    pub why: String,
}

impl Readiness {
    /// Begins to watch.
    pub(super) fn watch(garden: &Client, own: BTreeSet<String>, stop: &CancellationToken) -> Self {
        let (all, config) = (kube::Api::all(garden.clone()), watcher::Config::default());
        Self {
            seeds: Cache::start(all, config.clone(), stop.clone()),
            installations: Cache::start(kube::Api::all(garden.clone()), config, stop.clone()),
            own,
        }
    }

    /// What keeps one of these seeds from taking a Shoot.
    pub(super) fn first_missing(&self, seeds: &[String]) -> Option<String> {
        seeds
            .iter()
            .find_map(|seed| Some(format!("seed {seed}: {}", self.missing(seed)?)))
    }

    /// What keeps a seed from taking a Shoot.
    fn missing(&self, seed: &str) -> Option<String> {
        let Some(object) = self.seeds.get(&ObjectKey::cluster(seed)) else {
            return Some("it is not registered".to_owned());
        };
        let of_backup = object.spec.backup.is_some().then_some(BACKUP_BUCKETS_READY);
        let mut wanted = [GARDENLET_READY].into_iter().chain(of_backup);
        wanted
            .find_map(|type_| lacks(&object, type_))
            .or_else(|| self.own.iter().find_map(|own| self.own_missing(own, seed)))
    }

    /// What is wrong with the installation of one of the landscape's own registrations.
    fn own_missing(&self, registration: &str, seed: &str) -> Option<String> {
        let of_registration =
            |one: &ControllerInstallation| one.spec.registration_ref.name.as_deref() == Some(registration);
        let installations = self.of_seed(seed);
        let Some(found) = installations.iter().find(|one| of_registration(one)) else {
            return Some(format!("ControllerRegistration {registration} is not installed yet"));
        };
        let why = not_healthy(found)?;
        Some(format!("ControllerInstallation {}: {why}", found.name_any()))
    }

    fn of_seed(&self, seed: &str) -> Vec<std::sync::Arc<ControllerInstallation>> {
        let mut all = self.installations.list();
        all.retain(|one| one.spec.seed_ref.as_ref().and_then(|of| of.name.as_deref()) == Some(seed));
        all
    }

    /// Waits until the seed can take a Shoot, and a little longer for the extensions of users; names those that do not work.
    pub(super) async fn wait(
        &self,
        before: &Before,
        garden: &Client,
        seed: &Client,
        patience: Duration,
    ) -> Result<Vec<NotHealthy>, Fault> {
        before.wait_until_past(garden, seed, patience).await?;
        self.installations.ready().await;
        let name = &before.seed;
        let is_ready = || match self.missing(name) {
            None => WaitState::Done(()),
            Some(what) => WaitState::NotYet(what),
        };
        // Either cache may hear of the last thing that was missing.
        let what = format!("Seed {name}");
        tokio::select! {
            biased;
            done = self.seeds.wait_for(&what, patience, |_| is_ready()) => done?,
            done = self.installations.wait_for(&what, patience, |_| is_ready()) => done?,
        }
        let end = Instant::now() + USERS_PATIENCE;
        let mut found = before.late(seed, end).await;
        let key = ObjectKey::cluster(name.as_str());
        let left = end.saturating_duration_since(Instant::now());
        let all_well = self.seeds.wait_until(&key, left, |seed| {
            match seed.map(|seed| lacks(seed, EXTENSIONS_READY)) {
                Some(None) => WaitState::Done(()),
                _ => WaitState::NotYet("its extensions are not ready".to_owned()),
            }
        });
        if all_well.await.is_err() {
            for one in self.of_seed(name) {
                let installation = one.name_any();
                let is_known = found.iter().any(|known| known.installation == installation);
                if let Some(why) = not_healthy(&one).filter(|_| !is_known) {
                    found.push(NotHealthy { installation, why });
                }
            }
        }
        Ok(found)
    }
}

/// Why a condition of a Seed is not True.
fn lacks(seed: &Seed, wanted: &str) -> Option<String> {
    let conditions = seed.status.as_ref().map_or(&[][..], |status| &status.conditions);
    match Condition::find(conditions, wanted) {
        Some(condition) if condition.status == ConditionStatus::True => None,
        Some(condition) => Some(format!("its condition {wanted} is not True: {}", condition.message)),
        None => Some(format!("its condition {wanted} is not there yet")),
    }
}

/// What is wrong with an installation. An operator of its own need not report health and progress.
fn not_healthy(installation: &ControllerInstallation) -> Option<String> {
    let conditions = installation
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let checks = [
        (VALID, ConditionStatus::True, true),
        (INSTALLED, ConditionStatus::True, true),
        (HEALTHY, ConditionStatus::True, false),
        (PROGRESSING, ConditionStatus::False, false),
    ];
    checks
        .into_iter()
        .find_map(|(type_, good, is_required)| match Condition::find(conditions, type_) {
            Some(condition) if condition.status == good => None,
            Some(condition) => Some(condition.message.clone()),
            None => is_required.then(|| format!("condition {type_} is not reported yet")),
        })
}

/// What a landscape on this state left behind of one seed: its gardenlet's last beat, and the pods of its extensions that were
/// ready, each with how often it had been started. Until they are past it, what the Seed reports is of that time.
pub(super) struct Before {
    seed: String,
    beat: Option<String>,
    pods: Vec<Started>,
}

/// A pod of an extension that was ready.
struct Started {
    namespace: String,
    pod: String,
    /// How often it had been started.
    times: i32,
    /// Whether the landscape brings the extension.
    is_own: bool,
}

impl Before {
    /// Looks before any part runs.
    pub(super) async fn look(
        garden: &Client,
        seed: &Client,
        name: &str,
        own: &BTreeSet<String>,
    ) -> Result<Self, Fault> {
        let beat = base_client::get(&leases(garden), name).await?;
        Ok(Before {
            seed: name.to_owned(),
            beat: beat.and_then(|lease| lease.resource_version()),
            pods: ready_pods(seed, own).await?,
        })
    }

    /// Waits until the gardenlet has given a sign of life, and the pods of the landscape's own extensions that were ready are
    /// ready again or gone.
    async fn wait_until_past(&self, garden: &Client, seed: &Client, patience: Duration) -> Result<(), Fault> {
        if self.beat.is_some() {
            wait_until(&leases(garden), &self.seed, patience, |lease| {
                if lease.and_then(ResourceExt::resource_version) == self.beat {
                    WaitState::NotYet("its gardenlet has not renewed it since the start".to_owned())
                } else {
                    WaitState::Done(())
                }
            })
            .await?;
        }
        for pod in self.pods.iter().filter(|pod| pod.is_own) {
            pod.wait_until_again(seed, patience).await?;
        }
        Ok(())
    }

    /// The extensions of users whose pods were ready and are not by `end`.
    async fn late(&self, seed: &Client, end: Instant) -> Vec<NotHealthy> {
        let mut late = Vec::new();
        for pod in self.pods.iter().filter(|pod| !pod.is_own) {
            let left = end.saturating_duration_since(Instant::now());
            if pod.wait_until_again(seed, left).await.is_err() {
                let installation = pod.namespace.strip_prefix(EXTENSION_NAMESPACE_PREFIX);
                late.push(NotHealthy {
                    installation: installation.unwrap_or(&pod.namespace).to_owned(),
                    why: format!("pod {}/{} is not ready again since the start", pod.namespace, pod.pod),
                });
            }
        }
        late.dedup_by(|one, other| one.installation == other.installation);
        late
    }
}

impl Started {
    /// Waits until it is ready again, or gone.
    async fn wait_until_again(&self, seed: &Client, patience: Duration) -> Result<(), Fault> {
        let pods: kube::Api<Pod> = kube::Api::namespaced(seed.clone(), &self.namespace);
        wait_until(&pods, &self.pod, patience, |pod| match pod {
            Some(pod) if starts(pod) == self.times => WaitState::NotYet("it has not been started again".to_owned()),
            Some(pod) if !is_ready(pod) => WaitState::NotYet("it is not ready again".to_owned()),
            _ => WaitState::Done(()),
        })
        .await?;
        Ok(())
    }
}

/// The ready pods in the namespaces of extensions: whoever installed them, those are labelled.
async fn ready_pods(seed: &Client, own: &BTreeSet<String>) -> Result<Vec<Started>, Fault> {
    let extensions = ListParams::default().labels(&format!("{}={}", labels::ROLE, labels::role::EXTENSION));
    let namespaces = kube::Api::<Namespace>::all(seed.clone()).list(&extensions).await;
    let mut pods = Vec::new();
    for found in namespaces.map_err(|error| fault_of(error, "list the namespaces of extensions"))? {
        let namespace = found.name_any();
        let registration = found.labels().get(labels::CONTROLLER_REGISTRATION_NAME);
        let is_own = registration.is_some_and(|name| own.contains(name));
        let inside: kube::Api<Pod> = kube::Api::namespaced(seed.clone(), &namespace);
        let ready = base_client::list(&inside, "").await?.into_iter().filter(is_ready);
        pods.extend(ready.map(|pod| Started {
            namespace: namespace.clone(),
            pod: pod.name_any(),
            times: starts(&pod),
            is_own,
        }));
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
