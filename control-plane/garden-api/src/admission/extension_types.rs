//! Objects may only name extension kinds and types that a registration controls primarily
//! (gardener/gardener v1.150 plugin/pkg/global/extensionvalidation). What was stored with a type whose registration
//! went away afterwards may be updated still, as long as the change adds no such type.

use std::collections::BTreeSet;

use api_core::v1beta1::{BackupBucket, BackupEntry, ControllerRegistration, Seed, Shoot};
use api_extensions::ExtensionKind;
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Objects, Review};
use serde_json::Value;

use super::{Plugin, Verdict, registrations, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, decode_stored, field_errors, forbid, text};

/// The plug-in `ExtensionValidator`.
pub(crate) struct ExtensionTypes;

impl Plugin for ExtensionTypes {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ExtensionValidator)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let unchanged = review.old.is_some_and(|old| old["spec"] == object["spec"]);
            let leaving = object
                .pointer("/metadata/deletionTimestamp")
                .is_some_and(|at| !at.is_null());
            if unchanged || leaving {
                return Ok(Vec::new());
            }
            let registrations = registrations(review.objects).await?;
            let mut errors = unknown_types(object, &registrations, review.objects).await?;
            if let Some(old) = review.old {
                let before = unknown_types(old, &registrations, review.objects).await?;
                let before: BTreeSet<String> = before.into_iter().map(|error| error.detail).collect();
                errors.retain(|error| !before.contains(&error.detail));
            }
            let resource = match text(object, "/kind") {
                "BackupEntry" => "backupentries".to_owned(),
                kind => format!("{}s", kind.to_lowercase()),
            };
            forbid(CORE, &resource, text(object, "/metadata/name"), &errors)?;
            Ok(Vec::new())
        })
    }
}

async fn unknown_types(
    object: &Value,
    registrations: &[ControllerRegistration],
    objects: &dyn Objects,
) -> Result<Vec<FieldError>, Status> {
    let kind = text(object, "/kind");
    let errors = match kind {
        "Shoot" => api_rules::unregistered_types(&decode_stored::<Shoot>(kind, object)?, registrations),
        "Seed" => api_rules::unregistered_types_of_seed(&decode_stored::<Seed>(kind, object)?, registrations),
        "BackupBucket" => {
            let bucket: BackupBucket = decode_stored(kind, object)?;
            return Ok(missing(
                ExtensionKind::BackupBucket,
                "spec.provider.type",
                &bucket.spec.provider.type_,
                registrations,
            ));
        }
        "BackupEntry" => {
            let entry: BackupEntry = decode_stored(kind, object)?;
            let Some(bucket) = objects
                .get(CORE, "backupbuckets", None, &entry.spec.bucket_name)
                .await?
            else {
                return Ok(vec![FieldError::not_found("spec.bucketName", entry.spec.bucket_name)]);
            };
            let bucket: BackupBucket = decode_stored("BackupBucket", &bucket)?;
            return Ok(missing(
                ExtensionKind::BackupEntry,
                "spec.bucketName",
                &bucket.spec.provider.type_,
                registrations,
            ));
        }
        _ => Vec::new(),
    };
    Ok(field_errors(errors))
}

fn missing(kind: ExtensionKind, path: &str, type_: &str, registrations: &[ControllerRegistration]) -> Vec<FieldError> {
    let wanted = api_rules::KindType::new(kind, type_);
    let resources = registrations
        .iter()
        .flat_map(|registration| &registration.spec.resources);
    if resources
        .into_iter()
        .any(|resource| api_rules::is_primary(resource) && wanted.matches(resource))
    {
        return Vec::new();
    }
    let why = format!(
        "given {kind} uses non-registered extension type: {path} (\"{type_}\"); create a ControllerRegistration for {kind}/{type_}"
    );
    vec![FieldError::invalid(path, type_, why)]
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn shoot(extension: &str, purpose: &str) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-p"}, "spec": {"purpose": purpose,
            "provider": {"type": "x"}, "extensions": [{"type": extension}]}})
    }

    fn registered() -> Fixture {
        let resources = json!([{"kind": "Extension", "type": "known", "workerlessSupported": true, "clusterCompatibility": ["shoot"]},
            {"kind": "BackupBucket", "type": "store"}]);
        let registration = json!({"metadata": {"name": "r"}, "spec": {"resources": resources}});
        Fixture::default().with("controllerregistrations", registration)
    }

    #[test]
    fn an_unregistered_type_is_refused_naming_field_kind_and_type() {
        let known = shoot("known", "testing");
        assert_eq!(
            review(&ExtensionTypes, Operation::Create, Some(&known), None, &registered()),
            Ok(Vec::new())
        );
        let unknown = shoot("unheard-of", "testing");
        let refusal = review(&ExtensionTypes, Operation::Create, Some(&unknown), None, &registered());
        let refusal = refusal.expect_err("not registered");
        for part in [
            "spec.extensions[0].type",
            "Extension",
            "unheard-of",
            "create a ControllerRegistration",
        ] {
            assert!(refusal.contains(part), "{refusal} lacks {part}");
        }
    }

    #[test]
    fn a_type_whose_registration_went_away_does_not_block_other_changes() {
        let (old, new) = (shoot("gone", "testing"), shoot("gone", "development"));
        assert!(
            review(
                &ExtensionTypes,
                Operation::Update,
                Some(&new),
                Some(&old),
                &registered()
            )
            .is_ok()
        );
        let worse = shoot("gone-too", "testing");
        assert!(
            review(
                &ExtensionTypes,
                Operation::Update,
                Some(&worse),
                Some(&old),
                &registered()
            )
            .is_err()
        );
    }

    #[test]
    fn buckets_need_a_registered_provider() {
        let bucket = |type_: &str| json!({"kind": "BackupBucket", "metadata": {"name": "b"}, "spec": {"provider": {"type": type_, "region": "r"}}});
        assert!(
            review(
                &ExtensionTypes,
                Operation::Create,
                Some(&bucket("STORE")),
                None,
                &registered()
            )
            .is_ok()
        );
        assert!(
            review(
                &ExtensionTypes,
                Operation::Create,
                Some(&bucket("other")),
                None,
                &registered()
            )
            .is_err()
        );
    }
}
