//! Whether a Shoot is as it was asked for: its operation, its conditions, its spec, and its nodes as the Shoot itself
//! shows them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api_core::v1beta1::Shoot;
use api_meta::LastOperationState;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::user::User;
use crate::watching::Watching;
use crate::wish::{Place, Wish};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// How many Shoots are looked into at the same time.
const AT_ONCE: usize = 6;
/// How many differences are listed.
const LISTED_MAX: usize = 10;
/// Where a node says which pool it is of.
const POOL_LABEL: &str = "worker.gardener.cloud/pool";

/// Waits until everything is as it was asked for.
///
/// # Errors
/// What is not within this time.
pub async fn settled(
    user: &User,
    watching: &Watching,
    wishes: &BTreeMap<Place, Option<Wish>>,
    patience: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut differing: Vec<(&Place, String)> = wishes.keys().map(|place| (place, String::new())).collect();
    loop {
        let looks = differing.into_iter().map(|(place, _)| async move {
            let found = difference(user, watching, place, wishes[place].as_ref()).await;
            found.map(|difference| (place, difference))
        });
        let found: Vec<_> = stream::iter(looks).buffer_unordered(AT_ONCE).collect().await;
        differing = found.into_iter().flatten().collect();
        if differing.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > patience {
            let listed: Vec<String> = differing
                .iter()
                .take(LISTED_MAX)
                .map(|(place, difference)| format!("{place}: {difference}"))
                .collect();
            return Err(format!(
                "{} Shoots are not as they were asked for after {patience:?}:\n    {}",
                differing.len(),
                listed.join("\n    ")
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn difference(user: &User, watching: &Watching, place: &Place, wish: Option<&Wish>) -> Option<String> {
    let shoot = watching.get(place);
    let (shoot, wish) = match (shoot, wish) {
        (None, None) => return None,
        (Some(shoot), Some(wish)) => (shoot, wish),
        (Some(shoot), None) => {
            return Some(format!(
                "it is there; deleted at {:?}",
                shoot.metadata.deletion_timestamp
            ));
        }
        (None, Some(_)) => return Some("it is not there".to_owned()),
    };
    if let Some(difference) = of_shoot(&shoot, wish) {
        return Some(difference);
    }
    let client = match user.shoot(place).await {
        Ok(client) => client,
        Err(why) => return Some(why),
    };
    match Api::<Node>::all(client).list(&ListParams::default()).await {
        Ok(nodes) => of_nodes(&nodes.items, wish),
        Err(error) => Some(format!("its nodes cannot be listed: {error}")),
    }
}

/// What the Shoot says and what it should.
fn of_shoot(shoot: &Shoot, wish: &Wish) -> Option<String> {
    let status = shoot.status.clone().unwrap_or_default();
    let last = status.last_operation.as_ref();
    if status.observed_generation != shoot.metadata.generation
        || !last.is_some_and(|last| last.state == LastOperationState::Succeeded && last.progress == 100)
        || !status.last_errors.is_empty()
    {
        return Some(format!(
            "generation {:?}, observed {:?}, last operation {last:?}, last errors {:?}",
            shoot.metadata.generation, status.observed_generation, status.last_errors
        ));
    }
    let unwell: Vec<String> = status
        .conditions
        .iter()
        .filter(|condition| condition.status.to_string() != "True")
        .map(|condition| format!("{} {}: {}", condition.type_, condition.status, condition.message))
        .collect();
    if status.conditions.is_empty() || !unwell.is_empty() {
        return Some(format!(
            "of {} conditions: {}",
            status.conditions.len(),
            unwell.join("; ")
        ));
    }
    let pools: BTreeMap<&str, u64> = shoot
        .spec
        .provider
        .workers
        .iter()
        .map(|worker| (worker.name.as_str(), worker.minimum.unsigned_abs().into()))
        .collect();
    let wanted: BTreeMap<&str, u64> = wish.pools.iter().map(|(name, pool)| (*name, pool.machines)).collect();
    let version = shoot.spec.kubernetes.version.as_deref().unwrap_or_default();
    if pools != wanted || version != wish.kubernetes() {
        return Some(format!(
            "a change was lost: {version} with {pools:?}, asked for {} with {wanted:?}",
            wish.kubernetes()
        ));
    }
    None
}

/// What nodes there are and what should be.
fn of_nodes(nodes: &[Node], wish: &Wish) -> Option<String> {
    let mut there: BTreeMap<&str, u64> = BTreeMap::new();
    for node in nodes {
        let status = node.status.as_ref();
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let version = status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.kubelet_version.trim_start_matches('v'))
            .unwrap_or_default();
        if !ready || version != wish.kubernetes() {
            return Some(format!(
                "node {} has version {version:?} instead of {}, ready: {ready}",
                node.name_any(),
                wish.kubernetes()
            ));
        }
        *there
            .entry(node.labels().get(POOL_LABEL).map_or("", String::as_str))
            .or_default() += 1;
    }
    let wanted: BTreeMap<&str, u64> = wish.pools.iter().map(|(name, pool)| (*name, pool.machines)).collect();
    (there != wanted).then(|| format!("its nodes are {there:?} instead of {wanted:?}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::wish::Pool;

    fn wish() -> Wish {
        Wish {
            version: 3,
            pools: BTreeMap::from([("pool-a", Pool { machines: 2, mark: 0 })]),
            extension: false,
            misconfigured: false,
        }
    }

    fn shoot(change: impl FnOnce(&mut Value)) -> Shoot {
        let mut shoot = wish().manifest(&Place::of(0)).unwrap();
        shoot["metadata"]["generation"] = json!(4);
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "r", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"})
        };
        shoot["status"] = json!({
            "observedGeneration": 4,
            "conditions": [condition("APIServerAvailable"), condition("SystemComponentsHealthy")],
            "lastOperation": {"type": "Reconcile", "state": "Succeeded", "progress": 100, "description": "d",
                "lastUpdateTime": "2026-01-01T00:00:00Z"},
        });
        change(&mut shoot);
        serde_json::from_value(shoot).unwrap()
    }

    #[test]
    fn a_shoot_differs_by_generation_operation_condition_and_spec() {
        assert_eq!(of_shoot(&shoot(|_| {}), &wish()), None);
        let check = |pointer: &str, value: Value, expected: &str| {
            let differing = shoot(|shoot| *shoot.pointer_mut(pointer).unwrap() = value);
            let difference = of_shoot(&differing, &wish()).unwrap();
            assert!(difference.contains(expected), "{difference}");
        };
        check("/status/observedGeneration", json!(3), "observed Some(3)");
        check("/status/lastOperation/state", json!("Error"), "Error");
        check(
            "/status/conditions/1/status",
            json!("False"),
            "SystemComponentsHealthy False: m",
        );
        check("/status/conditions", json!([]), "of 0 conditions");
        check("/spec/provider/workers/0/minimum", json!(1), "a change was lost");
        check("/spec/kubernetes/version", json!("1.34.3"), "a change was lost: 1.34.3");
    }

    #[test]
    fn nodes_differ_by_number_pool_readiness_and_version() {
        let node = |pool: &str, ready: &str, version: &str| -> Node {
            serde_json::from_value(json!({
                "metadata": {"name": "n", "labels": {POOL_LABEL: pool}},
                "status": {
                    "conditions": [{"type": "Ready", "status": ready}],
                    "nodeInfo": {"architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                        "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "", "operatingSystem": "",
                        "osImage": "", "systemUUID": ""},
                },
            }))
            .unwrap()
        };
        let well = || node("pool-a", "True", "v1.35.0");
        assert_eq!(of_nodes(&[well(), well()], &wish()), None);
        for nodes in [
            vec![well()],
            vec![well(), well(), well()],
            vec![well(), node("pool-b", "True", "v1.35.0")],
            vec![well(), node("pool-a", "Unknown", "v1.35.0")],
            vec![well(), node("pool-a", "True", "v1.34.3")],
        ] {
            assert!(of_nodes(&nodes, &wish()).is_some(), "{nodes:?}");
        }
    }
}
