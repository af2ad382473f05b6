//! A NamespacedCloudProfile extends a CloudProfile that is there, and moves the expiration of versions that this has
//! (gardener/gardener v1.150 plugin/pkg/namespacedcloudprofile/validator). What the merge of both would give is not
//! validated here.

use std::str::FromStr;

use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};
use jiff::Timestamp;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, is_leaving, text, uncoded};

/// The plug-in `NamespacedCloudProfileValidator`.
pub(crate) struct ParentProfile;

impl Plugin for ParentProfile {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::NamespacedCloudProfileValidator)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(profile) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let unchanged = review.old.is_some_and(|old| old["spec"] == profile["spec"]);
            if unchanged && is_leaving(profile) {
                return Ok(Vec::new());
            }
            let name = text(profile, "/spec/parent/name");
            let Some(parent) = review.objects.get(CORE, "cloudprofiles", None, name).await? else {
                return Err(Status::bad_request(format!(
                    "spec.parent.name: there is no CloudProfile {name:?}; name one that is there"
                )));
            };
            for version in versions(profile, "/spec") {
                check_version(&review, version, &parent)?;
            }
            Ok(Vec::new())
        })
    }
}

/// Refuses a version that the parent does not have, and a date that was not set before and is over.
fn check_version(review: &Review<'_>, version: &Value, parent: &Value) -> Result<(), Status> {
    let (number, expires) = (text(version, "/version"), text(version, "/expirationDate"));
    let is_offered = versions(parent, "/spec").any(|offered| text(offered, "/version") == number);
    if !is_offered {
        return Err(uncoded(format!(
            "spec.kubernetes.versions: {number:?} is no version of the parent, so it cannot be extended; name one that is"
        )));
    }
    if expires.is_empty() {
        return Err(uncoded(format!(
            "spec.kubernetes.versions: {number:?} has no expirationDate; add the date to which it is extended"
        )));
    }
    let known = review.old.is_some_and(|old| {
        versions(old, "/status/cloudProfileSpec")
            .any(|known| text(known, "/version") == number && text(known, "/expirationDate") == expires)
    });
    let is_over = Timestamp::from_str(expires).is_ok_and(|at| at < review.call.now);
    if review.call.operation == Operation::Update && is_over && !known {
        return Err(uncoded(format!(
            "spec.kubernetes.versions: the expirationDate {expires} of {number:?} is over; choose a later one"
        )));
    }
    Ok(())
}

fn versions<'v>(profile: &'v Value, of: &str) -> impl Iterator<Item = &'v Value> {
    let found = profile.pointer(&format!("{of}/kubernetes/versions"));
    found.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_profile_extends_versions_of_a_parent_that_is_there() {
        let parent = json!({"metadata": {"name": "c"}, "spec": {"kubernetes": {"versions": [{"version": "1.35.1"}]}}});
        let objects = Fixture::default().with("cloudprofiles", parent);
        let profile = |parent: &str, versions: Value| json!({"spec": {"parent": {"name": parent}, "kubernetes": {"versions": versions}}});
        let create = |object: Value| review(&ParentProfile, Operation::Create, Some(&object), None, &objects);
        let dated = |version: &str, at: &str| json!([{"version": version, "expirationDate": at}]);
        assert!(create(profile("c", json!([]))).is_ok());
        assert!(create(profile("c", dated("1.35.1", "2030-01-01T00:00:00Z"))).is_ok());
        for (wrong, message) in [
            (profile("gone", json!([])), "no CloudProfile \"gone\""),
            (
                profile("c", dated("1.35.2", "2030-01-01T00:00:00Z")),
                "\"1.35.2\" is no version of the parent",
            ),
            (
                profile("c", json!([{"version": "1.35.1"}])),
                "\"1.35.1\" has no expirationDate",
            ),
        ] {
            let refusal = create(wrong).unwrap_err();
            assert!(refusal.contains(message), "{refusal}");
        }
        let old = profile("c", json!([]));
        let past = profile("c", dated("1.35.1", "1960-01-01T00:00:00Z"));
        assert!(create(past.clone()).is_ok(), "validated on updates alone");
        let refusal = review(&ParentProfile, Operation::Update, Some(&past), Some(&old), &objects).unwrap_err();
        assert!(refusal.contains("is over"), "{refusal}");
    }
}
