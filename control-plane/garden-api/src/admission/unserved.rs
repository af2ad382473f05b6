//! Kinds that can be written and have no effect yet: their creation is answered with a warning, and refused where another
//! object would depend on the effect.

use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{refuse, text};

/// Answers the creation of one kind.
pub(crate) struct Unserved {
    /// The field that no controller acts on; the whole kind without one.
    path: &'static str,
    /// Whether this object sets it.
    is_set: fn(&Value) -> bool,
    /// Whether it is refused rather than stored with a warning.
    refused: bool,
    words: &'static str,
}

impl Unserved {
    /// It gets no address.
    pub(crate) const BASTION: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "Bastions are not deployed yet: nothing acts on them; connect to the machines by the cloud's own means",
    };
    /// Shoots that use it would fail.
    pub(crate) const BINDING_OF_WORKLOAD_IDENTITY: Self = Self {
        path: "credentialsRef.kind",
        is_set: |binding| text(binding, "/credentialsRef/kind") == "WorkloadIdentity",
        refused: true,
        words: "gardenlets request no tokens of WorkloadIdentities yet; name a Secret",
    };
    /// No gardenlet is deployed.
    pub(crate) const GARDENLET: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "Gardenlets are not deployed yet: nothing acts on them",
    };
    /// Its Shoot stays a Shoot.
    pub(crate) const MANAGED_SEED: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "ManagedSeeds are not deployed yet: nothing acts on them, and their Shoots become no seeds",
    };
    /// It gets no members.
    pub(crate) const MANAGED_SEED_SET: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "ManagedSeedSets are not acted on yet: they get no Shoots and no ManagedSeeds",
    };
    /// It is of no use to Shoots.
    pub(crate) const NAMESPACED_CLOUD_PROFILE: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "NamespacedCloudProfiles are not merged with their parents yet: Shoots cannot use them",
    };
    /// Nothing ends in time.
    pub(crate) const QUOTA: Self = Self {
        path: "spec.clusterLifetimeDays",
        is_set: |quota| !quota["spec"]["clusterLifetimeDays"].is_null(),
        refused: false,
        words: "spec.clusterLifetimeDays: Shoots are not deleted yet when their time is over",
    };
    /// No Shoot uses it; tokens of it can be requested by users with that right.
    pub(crate) const WORKLOAD_IDENTITY: Self = Self {
        path: "",
        is_set: |_| true,
        refused: false,
        words: "gardenlets request no tokens of WorkloadIdentities yet: bindings need a Secret",
    };
}

impl Plugin for Unserved {
    fn name(&self) -> Option<AdmissionPlugin> {
        // What nothing acts on cannot be switched on.
        None
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let created = review.call.operation == Operation::Create && writes_object(&review.call);
            let Some(object) = review.object.filter(|object| created && (self.is_set)(object)) else {
                return Ok(Vec::new());
            };
            if self.refused {
                let errors = [FieldError::forbidden(self.path, self.words)];
                refuse(text(object, "/kind"), text(object, "/metadata/name"), &errors)?;
            }
            Ok(vec![self.words.to_owned()])
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn unserved_fields_are_refused_or_warned_about_at_creation() {
        let check = |plugin: &Unserved, operation, object: Value| {
            review(plugin, operation, Some(&object), Some(&object), &Fixture::default())
        };
        let binding =
            |kind| json!({"kind": "CredentialsBinding", "metadata": {"name": "b"}, "credentialsRef": {"kind": kind}});
        let plugin = &Unserved::BINDING_OF_WORKLOAD_IDENTITY;
        let refusal = check(plugin, Operation::Create, binding("WorkloadIdentity")).unwrap_err();
        assert!(
            refusal.contains("credentialsRef.kind: Forbidden: gardenlets request no tokens"),
            "{refusal}"
        );
        assert_eq!(
            check(plugin, Operation::Create, binding("Secret")).unwrap(),
            Vec::<String>::new()
        );
        assert!(check(plugin, Operation::Update, binding("WorkloadIdentity")).is_ok());
        let quota = |days: Value| json!({"kind": "Quota", "spec": {"clusterLifetimeDays": days}});
        let warned = check(&Unserved::QUOTA, Operation::Create, quota(json!(3))).unwrap();
        assert_eq!(warned, [Unserved::QUOTA.words]);
        assert!(
            check(&Unserved::QUOTA, Operation::Create, quota(Value::Null))
                .unwrap()
                .is_empty()
        );
    }
}
