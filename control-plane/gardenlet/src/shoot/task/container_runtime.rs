//! Container runtimes that pools want beside the one that each machine has (kind ContainerRuntime): one object for each type of
//! each pool (gardener/gardener v1.150 `pkg/component/extensions/containerruntime`).

use std::collections::{BTreeMap, BTreeSet};

use api_extensions::{ContainerRuntime, ContainerRuntimeSpec, ContainerRuntimeWorkerPool};
use api_meta::{Fault, labels};
use base_client::list;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::single;
use crate::extension::{delete_confirmed, wait_deleted, wait_ready};
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
    let api = &op.here::<ContainerRuntime>();
    let one = |desired| async move { Ok(single::requested(&op.request(api, desired).await?)) };
    Ok(all(desired(op).into_iter().map(one))
        .await?
        .into_iter()
        .flatten()
        .collect())
}

/// Waits for all of them.
pub(crate) async fn wait(op: &Operation, requests: &Requests, until: Option<Instant>) -> Result<(), Fault> {
    let cache = op.context.seed_caches.of::<ContainerRuntime>();
    let waits = requests.iter().map(|(name, request)| async move {
        let key = op.key(name);
        wait_ready(cache, &key, Some(request), left(until), &op.waiting).await
    });
    all(waits).await.map(drop)
}

/// Requests the deletion of those that no pool wants; of all, in a deletion.
pub(crate) async fn delete(op: &Operation, which: Which) -> Result<(), Fault> {
    let api = &op.here::<ContainerRuntime>();
    let one = |name: String| async move { delete_confirmed(&op.context, api, &name).await };
    all(names(op, which).await?.into_iter().map(one)).await.map(drop)
}

/// Waits until they are gone.
pub(crate) async fn wait_gone(op: &Operation, which: Which, until: Option<Instant>) -> Result<(), Fault> {
    let api = &op.here::<ContainerRuntime>();
    let one = |name: String| async move { wait_deleted(api, &op.key(&name), left(until), &op.waiting).await };
    all(names(op, which).await?.into_iter().map(one)).await.map(drop)
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
    let present = list(&op.here::<ContainerRuntime>(), "").await?;
    let names = present.iter().map(ResourceExt::name_any);
    Ok(names.filter(|name| !wanted.contains(name)).collect())
}
