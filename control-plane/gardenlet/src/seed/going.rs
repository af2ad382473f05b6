//! A Seed on its way out: what is still on it is named and waited for, then its own Extensions and its backup bucket go,
//! and our finalizer last. Nothing of its users is deleted: Shoots and their backups go when their owners delete them.

use std::sync::Arc;

use api_core::v1beta1::{BackupBucket, BackupEntry, ControllerInstallation, Seed, Shoot};
use api_extensions::Extension;
use api_meta::{Condition, ConditionStatus, Fault, conditions, finalizers, labels};
use base_client::{delete, list, list_by, patch_status_if_changed, remove_finalizer};
use base_controller::{Next, ObjectKey};
use jiff::Timestamp;
use kube::{Api, ResourceExt};

use super::apply::delete_extensions;
use super::observe::extensions;
use crate::context::Context;
use crate::outcome::deletion_waits;

/// Objects named in the status at most: what a person reads at a glance.
const NAMES_SHOWN_MAX: usize = 10;

/// One turn for a Seed in deletion.
pub(super) async fn reconcile(context: &Context, seed: &Arc<Seed>) -> Result<Next, Fault> {
    let seen = observe(context, seed).await?;
    let plan = plan(seed, &seen);
    let seeds: Api<Seed> = Api::all(context.garden.clone());
    if plan.waits_for.is_empty() {
        remove_finalizer(&seeds, (**seed).clone(), finalizers::GARDENER).await?;
        return Ok(Next::Change);
    }
    let mut after = (**seed).clone();
    report_waiting(&mut after, &plan, context.clock.now());
    patch_status_if_changed(&seeds, seed, &after).await?;
    if let Some(bucket) = &plan.delete_bucket {
        delete(&Api::<BackupBucket>::all(context.garden.clone()), bucket).await?;
    }
    delete_extensions(context, &plan.delete_extensions).await?;
    Ok(Next::Change)
}

/// What the garden has on the seed. Read from the API server: a stale cache would release it too early.
struct Seen {
    shoots: Vec<Shoot>,
    entries: Vec<BackupEntry>,
    buckets: Vec<BackupBucket>,
    installations: Vec<ControllerInstallation>,
    /// The seed's own.
    extensions: Vec<Extension>,
}

async fn observe(context: &Context, seed: &Seed) -> Result<Seen, Fault> {
    let garden = || context.garden.clone();
    let name = seed.name_any();
    let mark = format!("{}{name}=true", labels::SEED_NAME_PREFIX);
    let mut seen = Seen {
        shoots: list(&Api::all(garden()), &mark).await?,
        entries: list(&Api::all(garden()), &mark).await?,
        buckets: list_by(&Api::all(garden()), &format!("spec.seedName={name}")).await?,
        installations: list_by(&Api::all(garden()), &format!("spec.seedRef.name={name}")).await?,
        extensions: extensions(context).await?,
    };
    seen.shoots.retain(|shoot| has_shoot(&name, shoot));
    seen.entries.retain(|entry| has_entry(&name, entry));
    seen.buckets
        .retain(|bucket| bucket.spec.seed_name.as_deref() == Some(&name));
    seen.installations.retain(|one| has_installation(&name, one));
    Ok(seen)
}

/// Whether the Shoot lives on the seed, or is to.
pub(super) fn has_shoot(seed: &str, shoot: &Shoot) -> bool {
    let lives = shoot.status.as_ref().and_then(|status| status.seed_name.as_deref());
    lives == Some(seed) || shoot.spec.seed_name.as_deref() == Some(seed)
}

/// Whether the backup lies in one of the seed's buckets.
pub(super) fn has_entry(seed: &str, entry: &BackupEntry) -> bool {
    entry.spec.seed_name.as_deref() == Some(seed)
}

/// Whether it is installed in the seed.
pub(super) fn has_installation(seed: &str, installation: &ControllerInstallation) -> bool {
    let of = installation.spec.seed_ref.as_ref();
    of.and_then(|of| of.name.as_deref()) == Some(seed)
}

/// What is to be done now.
#[derive(Debug, PartialEq)]
struct Plan {
    /// What must be gone before the Seed goes; none: it goes.
    waits_for: Vec<String>,
    /// Our bucket, once nothing lies in it and no client can put anything there.
    delete_bucket: Option<String>,
    /// The seed's own Extensions, once no Shoot can need what they bring.
    delete_extensions: Vec<String>,
}

fn plan(seed: &Seed, seen: &Seen) -> Plan {
    let Seen {
        shoots,
        entries,
        buckets,
        installations,
        extensions,
    } = seen;
    let ours = buckets
        .iter()
        .find(|bucket| bucket.metadata.name == seed.metadata.uid && bucket.metadata.deletion_timestamp.is_none());
    let is_empty = shoots.is_empty() && entries.is_empty();
    let waits_for = (shoots.iter().map(|shoot| format!("Shoot {}", ObjectKey::of(shoot))))
        .chain(
            entries
                .iter()
                .map(|entry| format!("BackupEntry {}", ObjectKey::of(entry))),
        )
        .chain(buckets.iter().map(bucket_with_trouble))
        .chain(extensions.iter().map(|one| format!("Extension {}", ObjectKey::of(one))))
        .chain(
            installations
                .iter()
                .map(|one| format!("ControllerInstallation {}", one.name_any())),
        );
    Plan {
        waits_for: waits_for.collect(),
        delete_bucket: ours.filter(|_| is_empty).map(ResourceExt::name_any),
        delete_extensions: extensions
            .iter()
            .filter(|one| is_empty && one.metadata.deletion_timestamp.is_none())
            .map(ResourceExt::name_any)
            .collect(),
    }
}

fn bucket_with_trouble(bucket: &BackupBucket) -> String {
    let error = bucket.status.as_ref().and_then(|status| status.last_error.as_ref());
    match error {
        None => format!("BackupBucket {}", bucket.name_any()),
        Some(error) => format!("BackupBucket {}: {}", bucket.name_any(), error.description),
    }
}

/// Writes what is waited for into the status. An unchanged report is not written again.
fn report_waiting(seed: &mut Seed, plan: &Plan, now: Timestamp) {
    let shown: Vec<&str> = plan
        .waits_for
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(String::as_str)
        .collect();
    let mut description = format!("Deletion of Seed waits for {}", shown.join(", "));
    if plan.waits_for.len() > shown.len() {
        description.push_str(&format!(" and {} more", plan.waits_for.len() - shown.len()));
    }
    let generation = seed.metadata.generation;
    let status = seed.status.get_or_insert_default();
    status.observed_generation = generation;
    deletion_waits(&mut status.last_operation, description, now);
    let type_ = conditions::seed::BACKUP_BUCKETS_READY;
    if Condition::find(&status.conditions, type_).is_some() {
        let message = "The backup bucket goes with the Seed.";
        Condition::new(type_, ConditionStatus::False, "SeedIsDeleted", message, now).put_into(&mut status.conditions);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    fn object<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn seed() -> Seed {
        object(json!({"metadata": {"name": "south", "uid": "u-1"}}))
    }

    fn nothing() -> Seen {
        Seen {
            shoots: Vec::new(),
            entries: Vec::new(),
            buckets: Vec::new(),
            installations: Vec::new(),
            extensions: Vec::new(),
        }
    }

    fn bucket(name: &str, more: serde_json::Value) -> BackupBucket {
        let mut bucket: BackupBucket = object(json!({"metadata": {"name": name}, "spec": {"seedName": "south"}}));
        bucket.status = object(more);
        bucket
    }

    #[test]
    fn a_seed_is_released_after_its_shoots_and_its_bucket_after_its_entries() {
        let mut seen = nothing();
        seen.shoots = vec![object(json!({"metadata": {"namespace": "garden-a", "name": "b"}}))];
        seen.entries = vec![object(json!({"metadata": {"namespace": "garden-a", "name": "b--1"}}))];
        seen.buckets = vec![bucket("u-1", json!({})), bucket("pail", json!({}))];
        seen.installations = vec![object(json!({"metadata": {"name": "moon-abcde"}}))];
        seen.extensions = vec![object(json!({"metadata": {"namespace": "garden", "name": "tide"}}))];
        let all = [
            "Shoot garden-a/b",
            "BackupEntry garden-a/b--1",
            "BackupBucket u-1",
            "BackupBucket pail",
            "Extension garden/tide",
            "ControllerInstallation moon-abcde",
        ];
        for (gone, deletes) in [(0, None), (1, None), (2, Some("u-1"))] {
            let plan = plan(&seed(), &seen);
            assert_eq!(plan.waits_for, all[gone..]);
            assert_eq!(plan.delete_bucket.as_deref(), deletes);
            assert_eq!(plan.delete_extensions.is_empty(), deletes.is_none());
            seen.shoots.clear();
            if gone == 1 {
                seen.entries.clear();
            }
        }
        seen.buckets[0].metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(plan(&seed(), &seen).delete_bucket, None, "requested once");
        assert_eq!(plan(&seed(), &nothing()).waits_for, Vec::<String>::new());
    }

    #[test]
    fn a_waiting_deletion_reports_its_buckets_trouble_once() {
        let mut seen = nothing();
        seen.buckets = vec![bucket("u-1", json!({"lastError": {"description": "no rights"}}))];
        let (mut seed, at) = (seed(), |seconds| Timestamp::from_second(seconds).unwrap());
        let plan = plan(&seed, &seen);
        report_waiting(&mut seed, &plan, at(1));
        let reported = seed.clone();
        report_waiting(&mut seed, &plan, at(2));
        assert_eq!(seed.status, reported.status);
        let last = seed.status.unwrap().last_operation.unwrap();
        assert_eq!(
            last.description,
            "Deletion of Seed waits for BackupBucket u-1: no rights"
        );
    }
}
