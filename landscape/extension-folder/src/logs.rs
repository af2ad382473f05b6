//! The pods of an extension in the seeds, by the seeds' own API: what they print, and which of them run. It follows them over
//! restarts, and never writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base_client::watch;
use futures::{AsyncBufReadExt, StreamExt};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::LogParams;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch as latest;
use tokio::task::JoinSet;

/// What the namespaces of extensions begin with, before the installation's name.
const NAMESPACE_PREFIX: &str = "extension-";

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The seed.
    pub seed: String,
    /// The pod.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The container.
    pub container: String,
    /// How often it had been started before.
    pub restarts: i32,
    /// Whether it is ready.
    pub ready: bool,
    /// Why it does not run, where it waits.
    pub waits: Option<String>,
}

impl Run {
    /// Whether it is the same run, ready or not.
    fn key(&self) -> (&str, &str, &str, i32) {
        (&self.seed, &self.uid, &self.container, self.restarts)
    }
}

/// The runs that there are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(pub Vec<Run>);

impl Runs {
    /// A run that is ready and did not run among `before`.
    #[must_use]
    pub fn ready_since(&self, before: &Self) -> Option<&Run> {
        let ran = |old: &&Run| old.waits.is_none();
        let is_new = |run: &&Run| run.ready && before.0.iter().filter(ran).all(|old| old.key() != run.key());
        self.0.iter().find(is_new)
    }
}

/// Follows the pods of the extension `name` in one seed for ever: `line` gets what they print, `runs` which there are.
pub async fn follow(
    seed: &str,
    client: Client,
    name: &str,
    runs: &latest::Sender<Runs>,
    line: Arc<dyn Fn(&str) + Send + Sync>,
) {
    let mut events = Box::pin(watch::<Pod>(Api::all(client.clone()), Config::default()));
    let mut pods: BTreeMap<(String, String), Vec<Run>> = BTreeMap::new();
    let mut followed: BTreeSet<(String, String, i32)> = BTreeSet::new();
    let mut followers: JoinSet<()> = JoinSet::new();
    while let Some(event) = events.next().await {
        // A failed attempt is made again by the watch itself.
        let Ok(event) = event else { continue };
        let (pod, is_there) = match event {
            Event::Apply(pod) | Event::InitApply(pod) => (pod, true),
            Event::Delete(pod) => (pod, false),
            Event::Init => {
                pods.clear();
                continue;
            }
            Event::InitDone => continue,
        };
        let namespace = pod.namespace().unwrap_or_default();
        if !is_of(&namespace, name) {
            continue;
        }
        let key = (namespace, pod.name_any());
        match is_there {
            true => pods.insert(key.clone(), runs_of(seed, &pod)),
            false => pods.remove(&key),
        };
        for run in pods.get(&key).into_iter().flatten() {
            if run.waits.is_none() && followed.insert((run.uid.clone(), run.container.clone(), run.restarts)) {
                let api: Api<Pod> = Api::namespaced(client.clone(), &key.0);
                followers.spawn(print(api, run.clone(), line.clone()));
            }
        }
        while followers.try_join_next().is_some() {}
        let of_seed: Vec<Run> = pods.values().flatten().cloned().collect();
        runs.send_if_modified(|all| {
            let before = all.clone();
            all.0.retain(|run| run.seed != seed);
            all.0.extend(of_seed);
            *all != before
        });
    }
}

/// Whether a namespace is that of an installation of this registration: its name has a part of its own behind the
/// registration's.
fn is_of(namespace: &str, registration: &str) -> bool {
    let installation = namespace.strip_prefix(NAMESPACE_PREFIX);
    let suffix = installation.and_then(|installation| installation.strip_prefix(registration)?.strip_prefix('-'));
    suffix.is_some_and(|suffix| !suffix.is_empty() && !suffix.contains('-'))
}

fn runs_of(seed: &str, pod: &Pod) -> Vec<Run> {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_deref());
    let run = |status: &ContainerStatus| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let waits = waiting.map(|waiting| {
            let [reason, message] = [&waiting.reason, &waiting.message].map(|text| text.as_deref().unwrap_or_default());
            format!("{reason}: {message}")
        });
        Run {
            seed: seed.to_owned(),
            pod: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            container: status.name.clone(),
            restarts: status.restart_count,
            ready: status.ready,
            waits,
        }
    };
    statuses.into_iter().flatten().map(run).collect()
}

/// Passes on what one run prints, until it ends.
async fn print(pods: Api<Pod>, run: Run, line: Arc<dyn Fn(&str) + Send + Sync>) {
    let params = LogParams {
        container: Some(run.container.clone()),
        follow: true,
        ..LogParams::default()
    };
    let mut lines = match pods.log_stream(&run.pod, &params).await {
        Ok(stream) => stream.lines(),
        Err(error) => {
            tracing::debug!(pod = run.pod, "its log cannot be read: {error}");
            return;
        }
    };
    while let Some(Ok(text)) = lines.next().await {
        line(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_those_of_the_registrations_installations() {
        assert!(is_of("extension-moon-f39e4", "moon"));
        assert!(is_of("extension-provider-moon-f39e4", "provider-moon"));
        for other in [
            "extension-moon",
            "extension-moon-",
            "extension-moon-sun-f39e4",
            "moon-f39e4",
            "extension-moons-f39e4",
        ] {
            assert!(!is_of(other, "moon"), "{other}");
        }
    }

    #[test]
    fn a_new_run_counts_once_it_is_ready() {
        let run = |restarts, ready| Run {
            seed: "local".to_owned(),
            pod: "p".to_owned(),
            uid: "u".to_owned(),
            container: "c".to_owned(),
            restarts,
            ready,
            waits: None,
        };
        let before = Runs(vec![run(0, true)]);
        assert_eq!(Runs(vec![run(0, true)]).ready_since(&before), None);
        assert_eq!(Runs(vec![run(1, false)]).ready_since(&before), None);
        assert_eq!(Runs(vec![run(1, true)]).ready_since(&before), Some(&run(1, true)));
        let waits = Run {
            waits: Some("CreateContainerError: no program".to_owned()),
            ..run(0, false)
        };
        assert_eq!(
            Runs(vec![run(0, true)]).ready_since(&Runs(vec![waits])),
            Some(&run(0, true))
        );
    }
}
