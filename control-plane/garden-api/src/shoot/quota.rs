//! Shoots count against the Quotas that their bindings name (gardener/gardener v1.150 plugin/pkg/shoot/quotavalidator).
//! Nothing is deleted when its time is over: an expiration is only held within its limit.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_core::v1beta1::{CloudProfileSpec, Quota, Shoot};
use api_rules::QuotaUsage;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Objects, Review};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::profile;
use crate::AdmissionPlugin;
use crate::admission::{Plugin, Verdict, writes_object};
use crate::convert::{CORE, SECURITY, annotation, decode_stored, is_leaving, list, text};

/// When a Shoot's time is over.
const EXPIRATION: &str = "shoot.gardener.cloud/expiration-timestamp";

/// The plug-in `ShootQuotaValidator`.
pub(super) struct Quotas;

impl Plugin for Quotas {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootQuotaValidator)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            if is_leaving(object) {
                return Ok(Vec::new());
            }
            // Most Shoots have no quota: without one, no Shoot is decoded or listed.
            let binding = binding_of(&review, object).await?;
            let quotas = list(binding.as_deref(), "/quotas");
            if quotas.is_empty() {
                return Ok(Vec::new());
            }
            let shoot: Shoot = decode_stored("Shoot", object)?;
            let old: Option<Shoot> = review.old.map(|old| decode_stored("Shoot", old)).transpose()?;
            let grows = old.as_ref().is_none_or(|old| api_rules::may_count_more(&shoot, old));
            let lasts = review
                .old
                .is_some_and(|old| annotation(old, EXPIRATION) != annotation(object, EXPIRATION));
            if !grows && !lasts {
                return Ok(Vec::new());
            }
            let mut seen = BTreeSet::new();
            for reference in quotas {
                if !seen.insert((text(reference, "/namespace"), text(reference, "/name"))) {
                    continue;
                }
                let quota = quota(review.objects, reference).await?;
                if grows {
                    check_usage(&review, &shoot, &quota).await?;
                }
                if lasts {
                    check_lifetime(&review, annotation(object, EXPIRATION), &quota)?;
                }
            }
            Ok(Vec::new())
        })
    }
}

/// Group, resource, and where a Shoot names them, of both kinds of bindings.
const BINDINGS: [(&str, &str, &str); 2] = [
    (CORE, "secretbindings", "/spec/secretBindingName"),
    (SECURITY, "credentialsbindings", "/spec/credentialsBindingName"),
];

/// The binding that the Shoot names; a missing one is refused elsewhere.
async fn binding_of(review: &Review<'_>, shoot: &Value) -> Result<Option<Arc<Value>>, Status> {
    for (group, resource, field) in BINDINGS {
        let name = text(shoot, field);
        if !name.is_empty() {
            return review.objects.get(group, resource, review.call.namespace, name).await;
        }
    }
    Ok(None)
}

async fn quota(objects: &dyn Objects, reference: &Value) -> Result<Quota, Status> {
    let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
    match objects.get(CORE, "quotas", Some(namespace), name).await? {
        Some(quota) => decode_stored("Quota", &quota),
        None => Err(Status::internal(format!(
            "there is no Quota {namespace}/{name}, which the binding names; create it"
        ))),
    }
}

async fn check_usage(review: &Review<'_>, shoot: &Shoot, quota: &Quota) -> Result<(), Status> {
    let mut profiles = Profiles::new();
    let mut usage = usage_of(review.objects, shoot, &mut profiles).await?;
    for other in counted(review, quota).await? {
        let is_itself = (text(&other, "/metadata/namespace"), text(&other, "/metadata/name"))
            == (review.call.namespace.unwrap_or_default(), review.call.name);
        if !is_itself {
            let other: Shoot = decode_stored("Shoot", &other)?;
            usage.add(&usage_of(review.objects, &other, &mut profiles).await?);
        }
    }
    let exceeded = api_rules::exceeded_metrics(quota, &usage);
    if exceeded.is_empty() {
        return Ok(());
    }
    let why = format!(
        "quota limits exceeded: Quota {}/{} has no more {}; ask for less, or delete other Shoots",
        quota.metadata.namespace.as_deref().unwrap_or_default(),
        quota.metadata.name.as_deref().unwrap_or_default(),
        exceeded.join(", ")
    );
    Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
}

/// Profiles that were read, by the namespace of a Shoot, and the kind and the name that it gives: most Shoots share one.
type Profiles = BTreeMap<[String; 3], CloudProfileSpec>;

async fn usage_of(objects: &dyn Objects, shoot: &Shoot, profiles: &mut Profiles) -> Result<QuotaUsage, Status> {
    let (kind, name) = api_rules::cloud_profile_name(shoot).unwrap_or_default();
    let namespace = shoot.metadata.namespace.as_deref().unwrap_or_default();
    let profile = match profiles.entry([namespace, kind, name].map(str::to_owned)) {
        Entry::Occupied(read) => read.into_mut(),
        Entry::Vacant(place) => place.insert(profile::profile(shoot, objects).await?.unwrap_or_default()),
    };
    Ok(QuotaUsage::of(shoot, profile))
}

/// The Shoots whose bindings name the Quota: those of one project for a Quota of projects.
async fn counted(review: &Review<'_>, quota: &Quota) -> Result<Vec<Arc<Value>>, Status> {
    let of_project = quota.spec.scope.kind.as_deref() == Some("Project");
    let namespace = review.call.namespace.filter(|_| of_project);
    let names_quota = |binding: &Arc<Value>| {
        let is = |field: &Option<String>, reference: &Value, pointer: &str| {
            field.as_deref() == Some(text(reference, pointer))
        };
        list(&**binding, "/quotas").iter().any(|reference| {
            is(&quota.metadata.name, reference, "/name") && is(&quota.metadata.namespace, reference, "/namespace")
        })
    };
    let mut bindings = BTreeSet::new();
    for (group, resource, field) in BINDINGS {
        let found = review.objects.list(group, resource, namespace).await?;
        let named = found.iter().filter(|binding| names_quota(binding)).map(|binding| {
            let of = |pointer| text(binding, pointer).to_owned();
            (field, of("/metadata/namespace"), of("/metadata/name"))
        });
        bindings.extend(named);
    }
    let mut shoots = review.objects.list(CORE, "shoots", namespace).await?;
    shoots.retain(|shoot| {
        BINDINGS.iter().any(|(_, _, field)| {
            let key = (
                *field,
                text(shoot, "/metadata/namespace").to_owned(),
                text(shoot, field).to_owned(),
            );
            bindings.contains(&key)
        })
    });
    Ok(shoots)
}

fn check_lifetime(review: &Review<'_>, expiration: &str, quota: &Quota) -> Result<(), Status> {
    let Some(days) = quota.spec.cluster_lifetime_days.filter(|_| !expiration.is_empty()) else {
        return Ok(());
    };
    let planned: Timestamp = expiration.parse().map_err(|error| {
        Status::internal(format!(
            "annotation {EXPIRATION} is no time: {error}; write it as RFC 3339"
        ))
    })?;
    let lifetime = SignedDuration::from_hours(24 * i64::from(days));
    let latest = review.call.now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
    if planned <= latest {
        return Ok(());
    }
    let why = format!("the expiration can only be extended by {days} days; set {EXPIRATION} to {latest} at the latest");
    Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn shoot(namespace: &str, name: &str, maximum: u32) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": name, "namespace": namespace}, "spec": {"credentialsBindingName": "b",
            "cloudProfile": {"kind": "CloudProfile", "name": "c"},
            "provider": {"type": "t", "workers": [{"name": "w", "maximum": maximum, "machine": {"type": "m"}}]}}})
    }

    /// A Quota of four cores for one project or for all who have the credentials, and a Shoot with one core each in two
    /// projects.
    fn landscape(scope: &str) -> Fixture {
        let binding = |namespace: &str| json!({"metadata": {"name": "b", "namespace": namespace}, "quotas": [{"name": "q", "namespace": "garden"}]});
        let profile = json!({"metadata": {"name": "c"}, "spec": {"type": "t",
            "machineTypes": [{"name": "m", "cpu": "1", "gpu": "0", "memory": "1Gi"}]}});
        let quota = json!({"metadata": {"name": "q", "namespace": "garden"},
            "spec": {"scope": {"kind": scope}, "metrics": {"cpu": "4"}, "clusterLifetimeDays": 2}});
        Fixture::default()
            .with("quotas", quota)
            .with("cloudprofiles", profile)
            .with("credentialsbindings", binding("garden-p"))
            .with("credentialsbindings", binding("garden-q"))
            .with("shoots", shoot("garden-p", "other", 1))
            .with("shoots", shoot("garden-q", "foreign", 1))
    }

    fn create(scope: &str, maximum: u32) -> Result<Vec<String>, String> {
        let new = shoot("garden-p", "o", maximum);
        review(&Quotas, Operation::Create, Some(&new), None, &landscape(scope))
    }

    #[test]
    fn shoots_of_the_scope_count_together() {
        assert!(create("Project", 3).is_ok());
        let refusal = create("Project", 4).unwrap_err();
        assert!(refusal.contains("Quota garden/q has no more cpu"), "{refusal}");
        assert!(create("Secret", 2).is_ok());
        assert!(create("Secret", 3).is_err());
    }

    #[test]
    fn what_does_not_grow_is_not_refused() {
        let update = |old: u32, new: u32| {
            let (old, new) = (shoot("garden-p", "o", old), shoot("garden-p", "o", new));
            review(
                &Quotas,
                Operation::Update,
                Some(&new),
                Some(&old),
                &landscape("Project"),
            )
        };
        assert!(update(9, 9).is_ok());
        assert!(update(2, 3).is_ok());
        assert!(update(3, 4).is_err());
    }

    #[test]
    fn an_expiration_is_extended_by_the_days_of_the_quota() {
        let until = |at: &str| {
            let old = shoot("garden-p", "o", 1);
            let mut new = old.clone();
            new["metadata"]["annotations"] = json!({ EXPIRATION: at });
            review(
                &Quotas,
                Operation::Update,
                Some(&new),
                Some(&old),
                &landscape("Project"),
            )
        };
        assert!(until("1970-01-03T00:00:00Z").is_ok());
        assert!(until("1970-01-03T00:00:01Z").unwrap_err().contains("by 2 days"));
        assert!(until("tomorrow").is_err());
    }
}
