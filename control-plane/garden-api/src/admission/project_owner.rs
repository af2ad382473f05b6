//! The user who creates a Project is its creator, and its owner if no other is named
//! (gardener/gardener v1.150 plugin/pkg/project/mutator). It never changes an existing Project.

use api_core::v1beta1::Project;
use cluster_apiserver::User;
use cluster_apiserver::kind::{Call, Objects, Operation};
use k8s_openapi::api::rbac::v1::Subject;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::convert::{decode, encode_over, refuse, text};
use crate::{AdmissionPlugin, AdmissionPlugins};

/// The plug-in `ProjectMutator`, and the defaults that need no plug-in.
pub(crate) struct ProjectOwner {
    notes_creator: bool,
}

impl ProjectOwner {
    pub(crate) fn new(on: &AdmissionPlugins) -> Self {
        Self {
            notes_creator: on.has(AdmissionPlugin::ProjectMutator),
        }
    }
}

impl Plugin for ProjectOwner {
    fn name(&self) -> Option<AdmissionPlugin> {
        // It also completes what Gardener completes without a plug-in.
        None
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        _objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            if writes_object(&call) {
                let mut project: Project = decode(object).or_else(|error| {
                    refuse("Project", text(object, "/metadata/name"), &[error]).map(|()| Project::default())
                })?;
                let is_new = call.operation == Operation::Create && old.is_none();
                let creator = (is_new && self.notes_creator).then(|| subject(call.user));
                api_rules::default_project(&mut project, creator.as_ref());
                encode_over(&project, object);
            }
            Ok(Vec::new())
        })
    }
}

/// As Gardener does, a user whatever the name: service accounts have one of their own form.
fn subject(user: &User) -> Subject {
    Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: "User".to_owned(),
        name: user.name.clone(),
        namespace: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, admitted};

    #[test]
    fn the_creator_is_remembered_and_owns() {
        let plugin = ProjectOwner::new(&AdmissionPlugins::default());
        let project = json!({"metadata": {"name": "p"}, "spec": {}});
        let made = admitted(&plugin, None, project, None, &Fixture::default()).expect("admitted");
        assert_eq!(made["spec"]["createdBy"]["name"], "alice");
        assert_eq!(made["spec"]["owner"]["name"], "alice");
        let forged = json!({"metadata": {"name": "p"}, "spec": {"createdBy": {"kind": "User", "name": "bob"}}});
        let made = admitted(&plugin, None, forged, None, &Fixture::default()).expect("admitted");
        assert_eq!(made["spec"]["createdBy"]["name"], "alice");
    }
}
