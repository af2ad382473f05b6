//! When the garden is ready: once a Shoot can be taken. The garden's `/readyz` shows it as the check `seed-ready`.

use std::time::Duration;

use api_core::v1beta1::Seed;
use api_meta::{ConditionStatus, Fault};
use base_client::{Connector, Judgement, wait_until};
use base_controller::{Cache, ObjectKey};
use cluster_front::Front;
use kube::Client;
use kube::runtime::watcher;

use super::api::Api;
use super::{ADMIN, ADMINS, Parts, Settings};

/// What a Seed must report before a Shoot can be placed on it and come up there.
const CONDITIONS: [&str; 2] = ["GardenletReady", "ExtensionsReady"];
/// What a Seed with a backup must report as well.
const CONDITION_BACKUP: &str = "BackupBucketsReady";

pub(super) fn add(settings: &Settings, front: &Front, garden: &Api, parts: &Parts) -> Result<(), Fault> {
    let client = front.client(&garden.kubeconfig(ADMIN, &[ADMINS])?)?;
    let seeds: Cache<Seed> = Cache::start(kube::Api::all(client), watcher::Config::default(), parts.stop.clone());
    let key = ObjectKey::cluster(settings.seed.name.clone());
    garden
        .server()
        .readiness()
        .add("seed-ready", move || match seeds.get(&key) {
            Some(seed) => missing(&seed).map_or(Ok(()), |condition| {
                Err(format!("the seed's condition {condition} is not True"))
            }),
            None => Err("the seed is not registered".to_owned()),
        });
    Ok(())
}

/// Waits until the seed can take a Shoot.
pub(super) async fn wait(client: Client, seed: &str, patience: Duration) -> Result<(), Fault> {
    let seeds: kube::Api<Seed> = kube::Api::all(client);
    wait_until(&seeds, seed, patience, |seed| match seed.map(missing) {
        Some(None) => Judgement::Done(()),
        Some(Some(condition)) => Judgement::NotYet(format!("its condition {condition} is not True")),
        None => Judgement::NotYet("it is not registered".to_owned()),
    })
    .await?;
    Ok(())
}

/// The first condition that keeps the seed from taking a Shoot.
fn missing(seed: &Seed) -> Option<&'static str> {
    let conditions = seed
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let holds = |wanted: &str| {
        conditions
            .iter()
            .any(|condition| condition.type_ == wanted && condition.status == ConditionStatus::True)
    };
    let of_backup = seed.spec.backup.is_some().then_some(CONDITION_BACKUP);
    CONDITIONS.into_iter().chain(of_backup).find(|wanted| !holds(wanted))
}
