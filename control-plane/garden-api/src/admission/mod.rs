//! Admission that looks at other objects, one plug-in per file (gardener/gardener v1.150 plugin/pkg). A plug-in never
//! writes another object, and it never repeats a rule that `api/rules` can check from the object alone.

mod backup_entry;
mod backup_identity;
mod bastion;
mod custom_verbs;
mod deletion_confirmation;
mod exposure_class;
mod extension_labels;
mod extension_types;
mod finalizer_removal;
mod in_use;
mod manage_members;
mod not_yet;
mod one_gardenlet;
mod one_project;
mod parent_profile;
mod project_namespace;
mod project_owner;
mod quota_scopes;
mod references;
mod secret_in_use;
mod seed_in_use;
mod seed_label;
mod single_primary;
mod tolerations;
mod unserved;
mod versions_in_use;

use std::sync::Arc;

use api_core::v1beta1::ControllerRegistration;
use api_meta::labels::PROJECT_NAME;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects, Operation, Review};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::AdmissionPlugin;
use crate::convert::{CORE, decode_stored, text};

pub(crate) use backup_entry::OfOwnShoot;
pub(crate) use backup_identity::BackupIdentity;
pub(crate) use bastion::Bastion;
pub(crate) use custom_verbs::{CustomVerbs, MarkSelfHosted};
pub(crate) use deletion_confirmation::DeletionConfirmation;
pub(crate) use exposure_class::ExposureClass;
pub(crate) use extension_labels::ExtensionLabels;
pub(crate) use extension_types::ExtensionTypes;
pub(crate) use finalizer_removal::FinalizerRemoval;
pub(crate) use in_use::InUse;
pub(crate) use manage_members::ManageMembers;
pub(crate) use not_yet::NotYet;
pub(crate) use one_gardenlet::OneGardenlet;
pub(crate) use one_project::OneProject;
pub(crate) use parent_profile::ParentProfile;
pub(crate) use project_namespace::ProjectNamespace;
pub(crate) use project_owner::ProjectOwner;
pub(crate) use quota_scopes::QuotaScopes;
pub(crate) use references::References;
pub(crate) use secret_in_use::SecretInUse;
pub(crate) use seed_in_use::SeedInUse;
pub(crate) use seed_label::SeedLabel;
pub(crate) use single_primary::SinglePrimary;
pub(crate) use tolerations::{Tolerations, TolerationsWhitelist};
pub(crate) use unserved::Unserved;
pub(crate) use versions_in_use::VersionsInUse;

/// Names that a refusal lists at most: what a person reads at a glance.
const NAMES_SHOWN_MAX: usize = 10;

/// What [`Plugin`] methods return: warnings for the client, or a refusal.
pub(crate) type Verdict<'a> = BoxFuture<'a, Result<Vec<String>, Status>>;

/// One concern of admission.
pub(crate) trait Plugin: Send + Sync {
    /// The plug-in of Gardener whose work this is: switched off, it is never called. None for what stays on, and for
    /// what does the work of several and looks itself which of them are on.
    fn name(&self) -> Option<AdmissionPlugin>;

    /// May change the object before it is validated; not called on delete.
    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        let _ = (call, object, old, objects);
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Has the last word; also called on delete.
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        let _ = review;
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Whether the call writes the object itself, not a part of it, and does not delete it.
pub(crate) fn writes_object(call: &Call<'_>) -> bool {
    call.subresource.is_none() && call.operation != Operation::Delete
}

/// Names in one line: the first ones, and how many more there are.
pub(crate) fn some_of(names: &[&str]) -> String {
    let shown = &names[..names.len().min(NAMES_SHOWN_MAX)];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The Project of a namespace, as [`api_rules::project_of_namespace`] finds it.
pub(crate) async fn project_of(objects: &dyn Objects, namespace: &str) -> Result<Option<Arc<Value>>, Status> {
    let found = objects.get("", "namespaces", None, namespace).await?;
    let label = found.as_ref().map(|found| &found["metadata"]["labels"][PROJECT_NAME]);
    let projects = objects.list(CORE, "projects", None).await?;
    api_rules::project_among(namespace, label.and_then(Value::as_str), projects, |project| {
        (text(project, "/metadata/name"), text(project, "/spec/namespace"))
    })
    .map_err(|several| Status::internal(several.to_string()))
}

/// Every ControllerRegistration of the garden.
pub(crate) async fn registrations(objects: &dyn Objects) -> Result<Vec<ControllerRegistration>, Status> {
    let found: Vec<Arc<Value>> = objects.list(CORE, "controllerregistrations", None).await?;
    found
        .iter()
        .map(|registration| decode_stored("ControllerRegistration", registration))
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    //! A server's objects and calls for the tests of plug-ins.

    use std::collections::BTreeMap;
    use std::sync::Arc;

    use cluster_apiserver::kind::{Call, Objects, Operation, Review};
    use cluster_apiserver::{Status, User};
    use futures::future::BoxFuture;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Plugin, project_of};

    /// Objects by resource, namespace and name; everybody may do everything that `denied` does not name.
    #[derive(Default)]
    pub(crate) struct Fixture {
        objects: BTreeMap<(String, Option<String>, String), Arc<Value>>,
        pub(crate) denied: Vec<&'static str>,
    }

    impl Fixture {
        pub(crate) fn with(mut self, resource: &str, object: Value) -> Self {
            let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned);
            let key = (resource.to_owned(), text("namespace"), text("name").unwrap_or_default());
            self.objects.insert(key, Arc::new(object));
            self
        }
    }

    impl Objects for Fixture {
        fn get<'a>(
            &'a self,
            _group: &'a str,
            resource: &'a str,
            namespace: Option<&'a str>,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
            let key = (resource.to_owned(), namespace.map(str::to_owned), name.to_owned());
            let found = self.objects.get(&key).cloned();
            Box::pin(async { Ok(found) })
        }

        fn list<'a>(
            &'a self,
            _group: &'a str,
            resource: &'a str,
            namespace: Option<&'a str>,
        ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
            let matches = |key: &(String, Option<String>, String)| {
                key.0 == resource && (namespace.is_none() || key.1.as_deref() == namespace)
            };
            let found = self
                .objects
                .iter()
                .filter(|(key, _)| matches(key))
                .map(|(_, object)| object.clone())
                .collect();
            Box::pin(async { Ok(found) })
        }

        fn allowed<'a>(
            &'a self,
            _user: &'a User,
            _verb: &'a str,
            _group: &'a str,
            resource: &'a str,
            _namespace: Option<&'a str>,
            _name: &'a str,
        ) -> BoxFuture<'a, Result<bool, Status>> {
            let allowed = !self.denied.contains(&resource);
            Box::pin(async move { Ok(allowed) })
        }
    }

    /// A call by `alice` on an object in namespace `garden-p`.
    pub(crate) fn call<'a>(operation: Operation, subresource: Option<&'a str>, user: &'a User) -> Call<'a> {
        Call {
            operation,
            version: "v1beta1",
            subresource,
            namespace: Some("garden-p"),
            name: "o",
            user,
            now: Timestamp::UNIX_EPOCH,
            dry_run: false,
        }
    }

    /// The refusal of a plug-in's last word, as text.
    pub(crate) fn review(
        plugin: &dyn Plugin,
        operation: Operation,
        object: Option<&Value>,
        old: Option<&Value>,
        objects: &Fixture,
    ) -> Result<Vec<String>, String> {
        let user = User::new("alice", &[]);
        let review = Review {
            call: call(operation, None, &user),
            object,
            old,
            objects,
        };
        futures::executor::block_on(plugin.review(review)).map_err(|status| status.to_string())
    }

    /// The object after a plug-in changed it.
    pub(crate) fn admitted(
        plugin: &dyn Plugin,
        subresource: Option<&str>,
        mut object: Value,
        old: Option<&Value>,
        objects: &Fixture,
    ) -> Result<Value, String> {
        let user = User::new("alice", &[]);
        let operation = if old.is_some() {
            Operation::Update
        } else {
            Operation::Create
        };
        let call = call(operation, subresource, &user);
        futures::executor::block_on(plugin.admit(call, &mut object, old, objects))
            .map_err(|status| status.to_string())?;
        Ok(object)
    }

    #[test]
    fn a_namespace_that_several_projects_name_is_refused_without_a_label() {
        let project = |name: &str| json!({"metadata": {"name": name}, "spec": {"namespace": "garden-p"}});
        let fixture = |label: Option<&str>| {
            let labels = json!({"project.gardener.cloud/name": label});
            Fixture::default()
                .with("projects", project("a"))
                .with("projects", project("b"))
                .with(
                    "namespaces",
                    json!({"metadata": {"name": "garden-p", "labels": labels}}),
                )
        };
        let found = |label| futures::executor::block_on(project_of(&fixture(label), "garden-p"));
        assert_eq!(
            found(Some("b")).unwrap().map(|project| (*project).clone()),
            Some(project("b"))
        );
        let refusal = found(None).unwrap_err().to_string();
        assert!(
            refusal.contains("several Projects name namespace garden-p"),
            "{refusal}"
        );
    }
}
