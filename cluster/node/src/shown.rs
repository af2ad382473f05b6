//! What the node shows to its own callers rather than to those of the API server: its pods by name, with the output of
//! their containers. It knows nothing of requests.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde_json::{Value, json};

use crate::Commands;
use crate::log::Log;

/// Pods by namespace and name.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Mutex<BTreeMap<(String, String), ShownPod>>>);

/// A pod as it is now.
#[derive(Clone)]
pub(crate) struct ShownPod {
    pub(crate) uid: String,
    /// As the API has it.
    pub(crate) pod: Arc<Pod>,
    /// The status that the node reports.
    pub(crate) status: PodStatus,
    pub(crate) containers: Vec<ShownContainer>,
}

/// One container of it, init containers among them.
#[derive(Clone)]
pub(crate) struct ShownContainer {
    pub(crate) status: ContainerStatus,
    /// The log of the run that goes on, or of the last one.
    pub(crate) log: Option<Arc<Log>>,
    /// The log of the run before that.
    pub(crate) previous: Option<Arc<Log>>,
    pub(crate) runs: Runs,
}

/// What of a container runs now.
#[derive(Clone)]
pub(crate) enum Runs {
    Nothing,
    /// A task of this process, or a simulated container.
    Task,
    /// A program; commands can run beside it.
    Program(Commands),
}

/// Why no command can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoCommand {
    NoPod,
    NotRunning,
    NoProgram,
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoLog {
    /// The pod, or the container, is not here.
    Missing(String),
    /// It has not run yet, or its log is gone.
    NotNow(String),
}

impl Shown {
    pub(crate) fn put(&self, namespace: &str, name: &str, pod: ShownPod) {
        let mut pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pods.insert((namespace.to_owned(), name.to_owned()), pod);
    }

    /// Removes a pod, unless another one has its name by now.
    pub(crate) fn remove(&self, namespace: &str, name: &str, uid: &str) {
        let mut pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        if pods.get(&key).is_some_and(|pod| pod.uid == uid) {
            pods.remove(&key);
        }
    }

    /// All pods as a list, by namespace and name.
    pub(crate) fn pods(&self) -> Value {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let items = pods.values().map(|shown| {
            let (meta, spec, status) = (&shown.pod.metadata, &shown.pod.spec, &shown.status);
            json!({"metadata": meta, "spec": spec, "status": status})
        });
        let items: Vec<Value> = items.collect();
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
    }

    /// The log of a container; in the kubelet's words where there is none (kubernetes/kubernetes v1.35
    /// pkg/kubelet/kubelet_pods.go validateContainerLogStatus, pkg/kubelet/server/server.go getContainerLogs).
    pub(crate) fn log(&self, namespace: &str, name: &str, container: &str, previous: bool) -> Result<Arc<Log>, NoLog> {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pod = pods.get(&(namespace.to_owned(), name.to_owned()));
        let pod = pod.ok_or_else(|| NoLog::Missing(format!("pod \"{name}\" not found\n")))?;
        let found = pod.containers.iter().find(|shown| shown.status.name == container);
        let missing = || NoLog::Missing(format!("container \"{container}\" not found in pod \"{name}\"\n"));
        let shown = found.ok_or_else(missing)?;
        let which = format!("container \"{container}\" in pod \"{name}\"");
        if previous {
            let gone = || NoLog::NotNow(format!("previous terminated {which} not found"));
            let waits = shown.status.state.as_ref().is_some_and(|state| state.waiting.is_some());
            // While a container waits for its next run, its previous run is the last one.
            let log = if waits { &shown.log } else { &shown.previous };
            return log.clone().ok_or_else(gone);
        }
        if let Some(log) = &shown.log {
            return Ok(log.clone());
        }
        let state = shown.status.state.clone().unwrap_or_default();
        let last = shown
            .status
            .last_state
            .as_ref()
            .and_then(|last| last.terminated.as_ref());
        Err(NoLog::NotNow(match state.waiting {
            // It ran before this process began.
            _ if state.terminated.is_some() || last.is_some() => format!("{which} is terminated"),
            Some(waiting) => {
                let reason = waiting.reason.unwrap_or_default();
                format!("{which} is waiting to start: {reason}")
            }
            None => format!("{which} is not available"),
        }))
    }

    /// The uid of a pod, and its address if it has one by now.
    pub(crate) fn place(&self, namespace: &str, name: &str) -> Option<(String, Option<IpAddr>)> {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = pods.get(&(namespace.to_owned(), name.to_owned()))?;
        let ip = shown.status.pod_ip.as_deref().and_then(|ip| ip.parse().ok());
        Some((shown.uid.clone(), ip))
    }

    /// Where commands of a container are run.
    pub(crate) fn commands(&self, namespace: &str, name: &str, container: &str) -> Result<Commands, NoCommand> {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pod = pods.get(&(namespace.to_owned(), name.to_owned()));
        let mut containers = pod.ok_or(NoCommand::NoPod)?.containers.iter();
        let found = containers.find(|shown| shown.status.name == container);
        match found.map(|shown| &shown.runs) {
            Some(Runs::Program(commands)) => Ok(commands.clone()),
            Some(Runs::Task) => Err(NoCommand::NoProgram),
            Some(Runs::Nothing) | None => Err(NoCommand::NotRunning),
        }
    }
}
