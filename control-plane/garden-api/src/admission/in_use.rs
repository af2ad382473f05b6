//! What Shoots are made from is not deleted under them: cloud profiles and credentials bindings. Gardener holds such
//! an object with a finalizer and lets it wait; a refusal names at once what to do
//! (gardener/gardener v1.150 pkg/controllermanager/controller/{cloudprofile,credentialsbinding,secretbinding}).

use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict};
use crate::AdmissionPlugin;
use crate::convert::{CORE, SECURITY, text};

/// Looks for Shoots that name the object about to be deleted.
pub(crate) struct InUse {
    /// API group of the object.
    pub(crate) group: &'static str,
    /// Its resource.
    pub(crate) resource: &'static str,
    /// Whether a Shoot names the object of this name.
    pub(crate) names: fn(shoot: &Value, name: &str) -> bool,
}

impl InUse {
    /// For CloudProfiles.
    pub(crate) const CLOUD_PROFILE: Self = Self {
        group: CORE,
        resource: "cloudprofiles",
        names: |shoot, name| match text(shoot, "/spec/cloudProfile/name") {
            "" => text(shoot, "/spec/cloudProfileName") == name,
            named => named == name && text(shoot, "/spec/cloudProfile/kind") != "NamespacedCloudProfile",
        },
    };
    /// For NamespacedCloudProfiles.
    pub(crate) const NAMESPACED_CLOUD_PROFILE: Self = Self {
        group: CORE,
        resource: "namespacedcloudprofiles",
        names: |shoot, name| {
            text(shoot, "/spec/cloudProfile/kind") == "NamespacedCloudProfile"
                && text(shoot, "/spec/cloudProfile/name") == name
        },
    };
    /// For CredentialsBindings.
    pub(crate) const CREDENTIALS_BINDING: Self = Self {
        group: SECURITY,
        resource: "credentialsbindings",
        names: |shoot, name| text(shoot, "/spec/credentialsBindingName") == name,
    };
    /// For SecretBindings.
    pub(crate) const SECRET_BINDING: Self = Self {
        group: CORE,
        resource: "secretbindings",
        names: |shoot, name| text(shoot, "/spec/secretBindingName") == name,
    };
}

impl Plugin for InUse {
    fn name(&self) -> Option<AdmissionPlugin> {
        // Gardener's controllers hold these objects; no plug-in does.
        None
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.old.filter(|_| review.call.operation == Operation::Delete) else {
                return Ok(Vec::new());
            };
            let name = text(object, "/metadata/name");
            // Namespaced objects serve the Shoots of their own namespace.
            let namespace = Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty());
            let shoots = review.objects.list(CORE, "shoots", namespace).await?;
            match shoots.iter().find(|shoot| (self.names)(shoot, name)) {
                None => Ok(Vec::new()),
                Some(shoot) => {
                    let (namespace, shoot) = (text(shoot, "/metadata/namespace"), text(shoot, "/metadata/name"));
                    let why = format!("shoot {namespace}/{shoot} still uses it; delete that first");
                    Err(Status::forbidden(self.group, self.resource, name, &why))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn what_a_shoot_names_stays_until_the_shoot_is_gone() {
        let shoot = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": "a"}, "credentialsBindingName": "b"}});
        let fixture = Fixture::default().with("shoots", shoot);
        let delete = |plugin: &InUse, namespace: Option<&str>, name: &str| {
            let object = json!({"metadata": {"name": name, "namespace": namespace}});
            review(plugin, Operation::Delete, None, Some(&object), &fixture)
        };
        let refusal = delete(&InUse::CLOUD_PROFILE, None, "a").expect_err("in use");
        assert!(refusal.contains("shoot n/s still uses it"), "{refusal}");
        assert!(delete(&InUse::CLOUD_PROFILE, None, "b").is_ok());
        assert!(delete(&InUse::NAMESPACED_CLOUD_PROFILE, Some("n"), "a").is_ok());
        assert!(delete(&InUse::CREDENTIALS_BINDING, Some("n"), "b").is_err());
        assert!(delete(&InUse::CREDENTIALS_BINDING, Some("other"), "b").is_ok());
        assert!(delete(&InUse::SECRET_BINDING, Some("n"), "b").is_ok());
    }
}
