//! Container runtimes that pools want beside the one that each machine has (kind ContainerRuntime): one object for each type of
//! each pool (gardener/gardener v1.150 `pkg/component/extensions/containerruntime`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_extensions::{ContainerRuntime, ContainerRuntimeSpec, ContainerRuntimeWorkerPool};
use api_meta::{Fault, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::several;
use crate::outcome::all;

/// Where extensions find the binaries of runtimes on a machine.
const BINARY_PATH: &str = "/var/bin/containerruntimes";

/// The objects that the shoot's pools want.
fn desired(op: &Operation) -> Vec<ContainerRuntime> {
    let mut all = Vec::new();
    for worker in &op.shoot.spec.provider.workers {
        let runtimes = worker.cri.iter().flat_map(|cri| &cri.container_runtimes);
        all.extend(runtimes.map(|runtime| {
            ContainerRuntime {
                metadata: ObjectMeta {
                    // A type may have capitals, where names may not.
                    name: Some(format!("{}-{}", runtime.type_.to_lowercase(), worker.name)),
                    namespace: Some(op.namespace().to_owned()),
                    ..ObjectMeta::default()
                },
                spec: ContainerRuntimeSpec {
                    type_: runtime.type_.clone(),
                    provider_config: runtime.provider_config.clone(),
                    binary_path: BINARY_PATH.to_owned(),
                    worker_pool: ContainerRuntimeWorkerPool {
                        name: worker.name.clone(),
                        selector: LabelSelector {
                            match_labels: Some(BTreeMap::from(
                                [labels::WORKER_POOL, labels::WORKER_POOL_DEPRECATED]
                                    .map(|key| (key.to_owned(), worker.name.clone())),
                            )),
                            ..LabelSelector::default()
                        },
                    },
                    ..ContainerRuntimeSpec::default()
                },
                status: None,
            }
        }));
    }
    all
}

/// Requests all of them.
pub(crate) async fn deploy(op: &Operation) -> Result<Requests, Fault> {
    several::request(op, desired(op)).await
}

/// Waits for all of them.
pub(crate) async fn wait(op: &Operation, requests: &Requests, until: Option<Instant>) -> Result<(), Fault> {
    let waits = requests.keys();
    let waits = waits.map(|name| several::wait::<ContainerRuntime>(op, name, requests, left(until)));
    all(waits).await.map(drop)
}

/// Requests the deletion of those that no pool wants; of all, in a deletion.
pub(crate) async fn delete(op: &Operation, which: Which) -> Result<(), Fault> {
    several::delete::<ContainerRuntime>(op, names(op, which).await?).await
}

/// Waits until they are gone.
pub(crate) async fn wait_gone(op: &Operation, which: Which, until: Option<Instant>) -> Result<(), Fault> {
    several::wait_gone::<ContainerRuntime>(op, names(op, which).await?, until, |_| Duration::MAX).await
}

/// Which objects are meant.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Which {
    /// Those that no pool wants.
    Stale,
    /// All.
    All,
}

async fn names(op: &Operation, which: Which) -> Result<Vec<String>, Fault> {
    let wanted: BTreeSet<String> = match which {
        Which::Stale => desired(op).iter().map(ResourceExt::name_any).collect(),
        Which::All => BTreeSet::new(),
    };
    let mut names = several::present::<ContainerRuntime>(op).await?;
    names.retain(|name| !wanted.contains(name));
    Ok(names)
}
