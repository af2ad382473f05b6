//! What the seed needs and how it stands. A plain function.

use api_core::v1beta1::{BackupBucket, BackupBucketProvider, BackupBucketSpec, Gardener, Seed, SeedStatus};
use api_meta::{Condition, ConditionStatus, LastOperationState, conditions, names};
use components_seed::{RESOURCE_MANAGER, ResourceManagerObjects, ResourceManagerSettings, Serving, resource_manager};
use control_plane_readiness::deployment_not_rolled_out;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::observe::Seen;
use super::owner::first_identity;
use super::secrets::SeedSecrets;
use super::{alive, extensions};
use crate::config::Config;

/// Pods of the seed's gardener-resource-manager: one works at a time, and a node that goes takes a moment.
const RESOURCE_MANAGER_REPLICAS: i32 = 1;

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The cluster's identity, if it has to be given one.
    pub new_identity: Option<String>,
    /// What applies the ManagedResources of class `seed`.
    pub resource_manager: ResourceManagerObjects,
    /// Whether a pod of it answers.
    pub resource_manager_runs: bool,
    /// Secrets that it no longer mounts.
    pub obsolete_secrets: Vec<String>,
    /// The bucket, if the seed has backups.
    pub bucket: Option<BackupBucket>,
    /// The seed's own Extensions.
    pub extensions: extensions::Plan,
    /// How the Seed stands after that.
    pub status: SeedStatus,
}

/// Plans.
pub(crate) fn plan(seed: &Seed, seen: &Seen, secrets: &SeedSecrets, config: &Config, now: Timestamp) -> Plan {
    let identity = seen
        .cluster_identity
        .clone()
        .unwrap_or_else(|| first_identity(&seed.name_any(), &seen.cluster_uid));
    let mut status = seed.status.clone().unwrap_or_default();
    status.gardener = Some(Gardener {
        id: config.identity.clone(),
        name: config.identity.clone(),
        version: config.version.clone(),
    });
    status.kubernetes_version = Some(seen.kubernetes_version.clone());
    // Immutable once written.
    status.cluster_identity.get_or_insert_with(|| identity.clone());
    status.observed_generation = seed.metadata.generation;
    let extensions = extensions::plan(seed, &seen.registrations, &seen.extensions);
    status.last_operation = Some(extensions.last_operation(status.last_operation.as_ref(), now));
    alive::ready(now).put_into(&mut status.conditions);
    system_condition(seen, now).put_into(&mut status.conditions);
    let bucket = bucket_of(seed);
    match bucket {
        Some(_) => {
            bucket_condition(seen.bucket.as_ref(), now).put_into(&mut status.conditions);
        }
        None => status
            .conditions
            .retain(|condition| condition.type_ != conditions::seed::BACKUP_BUCKETS_READY),
    }
    Plan {
        new_identity: seen.cluster_identity.is_none().then_some(identity),
        resource_manager: resource_manager(&ResourceManagerSettings {
            image: config.images.program(RESOURCE_MANAGER, None),
            replicas: RESOURCE_MANAGER_REPLICAS,
            serving: secrets.serving.clone(),
            webhooks: config.seed_webhooks.clone(),
        }),
        resource_manager_runs: runs(seen.resource_manager.as_ref()),
        obsolete_secrets: obsolete_secrets(seen, secrets),
        bucket,
        extensions,
        status,
    }
}

fn runs(resource_manager: Option<&Deployment>) -> bool {
    let status = resource_manager.and_then(|deployment| deployment.status.as_ref());
    status.is_some_and(|status| status.ready_replicas.is_some_and(|ready| ready > 0))
}

/// What can be deleted: nothing while a pod may still have the certificate of before.
fn obsolete_secrets(seen: &Seen, secrets: &SeedSecrets) -> Vec<String> {
    match &seen.resource_manager {
        Some(found) if uses(found, &secrets.serving) => secrets.obsolete.clone(),
        _ => Vec::new(),
    }
}

/// Whether all pods of it have the certificate.
fn uses(resource_manager: &Deployment, serving: &Serving) -> bool {
    let template = resource_manager
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let volumes = template.and_then(|pod| pod.volumes.as_ref());
    let mounts = volumes.into_iter().flatten().any(|volume| {
        let mounted = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref());
        mounted == Some(&serving.secret)
    });
    mounts && deployment_not_rolled_out(resource_manager).is_none()
}

/// Whether the seed's own parts run. Without its gardener-resource-manager, nothing that charts hold is applied.
fn system_condition(seen: &Seen, now: Timestamp) -> Condition {
    let type_ = conditions::seed::SYSTEM_COMPONENTS_HEALTHY;
    let unhealthy = |reason: &str, message: &str| Condition::new(type_, ConditionStatus::False, reason, message, now);
    let missing = match &seen.resource_manager {
        Some(deployment) => deployment_not_rolled_out(deployment),
        None => Some("it does not exist yet".to_owned()),
    };
    if let Some(why) = missing {
        let message = format!(
            "Deployment {}/{RESOURCE_MANAGER}: {why}. Charts of extensions are not applied to the seed until it runs.",
            names::GARDEN_NAMESPACE
        );
        return unhealthy("ResourceManagerNotRunning", &message);
    }
    match seen.troubled_components.as_slice() {
        [] => {
            let message = "All kinds, namespaces and system components that shoots and extensions need exist.";
            Condition::new(type_, ConditionStatus::True, "SystemComponentsRunning", message, now)
        }
        troubled => unhealthy("SystemComponentsUnhealthy", &troubled.join("; ")),
    }
}

/// The bucket of a seed is named after its uid: names come back, uids do not.
fn bucket_of(seed: &Seed) -> Option<BackupBucket> {
    let backup = seed.spec.backup.as_ref()?;
    Some(BackupBucket {
        metadata: ObjectMeta {
            name: seed.uid(),
            ..ObjectMeta::default()
        },
        spec: BackupBucketSpec {
            provider: BackupBucketProvider {
                type_: backup.provider.clone(),
                region: backup
                    .region
                    .clone()
                    .unwrap_or_else(|| seed.spec.provider.region.clone()),
            },
            provider_config: backup.provider_config.clone(),
            seed_name: seed.metadata.name.clone(),
            credentials_ref: backup.credentials_ref.clone(),
            shoot_ref: None,
        },
        status: None,
    })
}

fn bucket_condition(bucket: Option<&BackupBucket>, now: Timestamp) -> Condition {
    let type_ = conditions::seed::BACKUP_BUCKETS_READY;
    let Some(bucket) = bucket else {
        return Condition::new(
            type_,
            ConditionStatus::False,
            "BackupBucketMissing",
            "The backup bucket does not exist yet.",
            now,
        );
    };
    let status = bucket.status.clone().unwrap_or_default();
    if let Some(error) = status.last_error {
        let mut condition = Condition::new(
            type_,
            ConditionStatus::False,
            "BackupBucketsError",
            &error.description,
            now,
        );
        condition.codes = error.codes;
        return condition;
    }
    match status.last_operation {
        Some(last) if last.state == LastOperationState::Succeeded => Condition::new(
            type_,
            ConditionStatus::True,
            "BackupBucketsAvailable",
            "Backup Buckets are available.",
            now,
        ),
        _ => Condition::new(
            type_,
            ConditionStatus::False,
            "BackupBucketsProgressing",
            "The backup bucket is being made.",
            now,
        ),
    }
}

#[cfg(test)]
mod tests {
    use api_core::v1beta1::{Backup, BackupBucketStatus};
    use api_meta::LastError;

    use super::*;
    use crate::config::{Addressing, Images};

    fn seed(backup: bool) -> Seed {
        let mut seed = Seed::default();
        seed.metadata.name = Some("s".into());
        seed.metadata.uid = Some("uid-1".into());
        seed.metadata.generation = Some(4);
        seed.spec.provider.region = "north".into();
        seed.spec.backup = backup.then(|| Backup {
            provider: "store".into(),
            ..Backup::default()
        });
        seed
    }

    fn seen(bucket: Option<BackupBucket>) -> Seen {
        Seen {
            kubernetes_version: "v1.35.0".into(),
            cluster_identity: None,
            cluster_uid: "c".into(),
            resource_manager: None,
            troubled_components: Vec::new(),
            bucket,
            extensions: Vec::new(),
            registrations: Vec::new(),
        }
    }

    fn planned(seed: &Seed, seen: &Seen) -> Plan {
        let config = Config::new(seed.clone(), Images::new("r", "t"), Addressing::PerService);
        let secrets = SeedSecrets {
            serving: Serving {
                secret: "server-2".into(),
                ca_bundle: "pem".into(),
            },
            obsolete: vec!["server-1".into()],
        };
        plan(seed, seen, &secrets, &config, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_planned_status_planned_again_is_the_same() {
        let mut seed = seed(true);
        let first = planned(&seed, &seen(None));
        assert_eq!(first.new_identity.as_deref(), Some("s-c"));
        assert_eq!(first.status.observed_generation, Some(4));
        seed.status = Some(first.status.clone());
        let mut later = seen(None);
        later.cluster_identity = first.new_identity;
        let second = planned(&seed, &later);
        assert_eq!(second.status, first.status);
        assert!(second.new_identity.is_none());
    }

    #[test]
    fn the_bucket_is_named_by_uid_and_its_error_is_shown() {
        let bucket = planned(&seed(true), &seen(None)).bucket.unwrap();
        assert_eq!(
            (bucket.name_any(), bucket.spec.provider.region.clone()),
            ("uid-1".to_owned(), "north".to_owned())
        );
        let error = LastError {
            description: "quota".into(),
            ..LastError::default()
        };
        let failing = BackupBucket {
            status: Some(BackupBucketStatus {
                last_error: Some(error),
                ..BackupBucketStatus::default()
            }),
            ..bucket
        };
        let status = planned(&seed(true), &seen(Some(failing))).status;
        let condition = Condition::find(&status.conditions, conditions::seed::BACKUP_BUCKETS_READY).unwrap();
        assert_eq!(
            (condition.status.clone(), condition.message.as_str()),
            (ConditionStatus::False, "quota")
        );
        let none = planned(&seed(false), &seen(None));
        assert!(none.bucket.is_none());
        assert!(Condition::find(&none.status.conditions, conditions::seed::BACKUP_BUCKETS_READY).is_none());
    }

    #[test]
    fn replaced_certificate_is_deleted_once_every_pod_has_the_new_one() {
        let obsolete = |deployment: Option<Deployment>| {
            let mut seen = seen(None);
            seen.resource_manager = deployment;
            planned(&seed(false), &seen).obsolete_secrets
        };
        let mut deployment = planned(&seed(false), &seen(None)).resource_manager.deployment;
        let with_pods = |deployment: &mut Deployment, updated: i32| {
            deployment.metadata.generation = Some(2);
            deployment.status = serde_json::from_value(serde_json::json!({
                "observedGeneration": 2, "replicas": 1, "updatedReplicas": updated, "availableReplicas": 1,
            }))
            .unwrap();
        };
        assert!(obsolete(None).is_empty());
        with_pods(&mut deployment, 0);
        assert!(obsolete(Some(deployment.clone())).is_empty());
        with_pods(&mut deployment, 1);
        assert_eq!(obsolete(Some(deployment.clone())), ["server-1"]);
        let pod = deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        for volume in pod.volumes.iter_mut().flatten() {
            volume
                .secret
                .iter_mut()
                .for_each(|secret| secret.secret_name = Some("server-1".into()));
        }
        assert!(obsolete(Some(deployment)).is_empty());
    }

    #[test]
    fn the_system_is_healthy_once_the_resource_manager_and_what_it_applies_run() {
        let system = |deployment: Option<Deployment>, troubled: &[&str]| {
            let mut seen = seen(None);
            seen.resource_manager = deployment;
            seen.troubled_components = troubled.iter().map(|one| (*one).to_owned()).collect();
            let status = planned(&seed(false), &seen).status;
            Condition::find(&status.conditions, conditions::seed::SYSTEM_COMPONENTS_HEALTHY)
                .unwrap()
                .clone()
        };
        let planned = planned(&seed(false), &seen(None)).resource_manager.deployment;
        let with_status = |available: i32| {
            let mut deployment = planned.clone();
            deployment.metadata.generation = Some(1);
            deployment.status = serde_json::from_value(serde_json::json!({
                "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": available,
            }))
            .unwrap();
            Some(deployment)
        };
        let troubled = "ManagedResource istio: ApplyFailed: x";
        for (deployment, troubled, status, text) in [
            (None, &[][..], ConditionStatus::False, "it does not exist yet"),
            (
                with_status(0),
                &[troubled],
                ConditionStatus::False,
                "0 of 1 pods are available",
            ),
            (with_status(1), &[troubled], ConditionStatus::False, troubled),
            (with_status(1), &[], ConditionStatus::True, "exist."),
        ] {
            let condition = system(deployment, troubled);
            assert_eq!(condition.status, status, "{condition:?}");
            assert!(condition.message.contains(text), "{condition:?}");
        }
    }
}
