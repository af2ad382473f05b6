//! A WorkloadIdentity that gives access to backups is of the same type as these (gardener/gardener v1.150
//! plugin/pkg/{backupbucket,seed}/validator).

use cluster_apiserver::Status;
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, SECURITY, text};

/// Validates where an object of one kind names its identity.
pub(crate) struct BackupIdentity {
    plugin: AdmissionPlugin,
    kind: &'static str,
    resource: &'static str,
    credentials: &'static str,
    provider: &'static str,
}

impl BackupIdentity {
    /// The plug-in `BackupBucketValidator`.
    pub(crate) const BACKUP_BUCKET: Self = Self {
        plugin: AdmissionPlugin::BackupBucketValidator,
        kind: "BackupBucket",
        resource: "backupbuckets",
        credentials: "/spec/credentialsRef",
        provider: "/spec/provider/type",
    };
    /// The part of plug-in `SeedValidator` that looks at backups.
    pub(crate) const SEED: Self = Self {
        plugin: AdmissionPlugin::SeedValidator,
        kind: "Seed",
        resource: "seeds",
        credentials: "/spec/backup/credentialsRef",
        provider: "/spec/backup/provider",
    };
}

impl Plugin for BackupIdentity {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(self.plugin)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let Some(to) = object
                .pointer(self.credentials)
                .filter(|to| text(to, "/kind") == "WorkloadIdentity")
            else {
                return Ok(Vec::new());
            };
            let (namespace, name) = (text(to, "/namespace"), text(to, "/name"));
            let found = review
                .objects
                .get(SECURITY, "workloadidentities", Some(namespace), name)
                .await?;
            let Some(identity) = found else {
                return Err(Status::internal(format!(
                    "there is no WorkloadIdentity {namespace}/{name}; create it first"
                )));
            };
            refuse_other_type(self, &review, object, &identity)?;
            Ok(Vec::new())
        })
    }
}

fn refuse_other_type(of: &BackupIdentity, review: &Review<'_>, object: &Value, identity: &Value) -> Result<(), Status> {
    let (provider, type_) = (text(object, of.provider), text(identity, "/spec/targetSystem/type"));
    if provider == type_ {
        return Ok(());
    }
    let why = format!(
        "{} with backups of type {provider:?} cannot use WorkloadIdentity {} of type {type_:?}; name one of type {provider:?}",
        of.kind,
        text(identity, "/metadata/name")
    );
    Err(Status::forbidden(CORE, of.resource, review.call.name, &why))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn an_identity_of_another_type_is_refused() {
        let identity =
            json!({"metadata": {"name": "i", "namespace": "garden"}, "spec": {"targetSystem": {"type": "a"}}});
        let objects = Fixture::default().with("workloadidentities", identity);
        let to = |name: &str| json!({"kind": "WorkloadIdentity", "name": name, "namespace": "garden"});
        let bucket =
            |type_: &str, name: &str| json!({"spec": {"provider": {"type": type_}, "credentialsRef": to(name)}});
        let create = |object: Value, of: BackupIdentity| review(&of, Operation::Create, Some(&object), None, &objects);
        assert!(create(bucket("a", "i"), BackupIdentity::BACKUP_BUCKET).is_ok());
        let refusal = create(bucket("b", "i"), BackupIdentity::BACKUP_BUCKET).unwrap_err();
        assert!(
            refusal.contains("type \"b\" cannot use WorkloadIdentity i of type \"a\""),
            "{refusal}"
        );
        assert!(create(bucket("a", "gone"), BackupIdentity::BACKUP_BUCKET).is_err());
        let seed = json!({"spec": {"backup": {"provider": "b", "credentialsRef": to("i")}}});
        assert!(create(seed, BackupIdentity::SEED).is_err());
        assert!(create(json!({"spec": {}}), BackupIdentity::SEED).is_ok());
    }
}
