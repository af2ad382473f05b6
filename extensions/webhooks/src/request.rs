//! What an API server sends to a webhook (kubernetes/kubernetes v1.35 staging/src/k8s.io/api/admission/v1/types.go): the request
//! of an AdmissionReview, read once. Objects stay raw.

use api_meta::{Fault, ObjectName, or_empty};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::refusal::Refusal;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// A subresource that is a connection.
    Connect,
}

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub struct ObjectKind {
    /// Empty for Kubernetes' core group.
    pub group: String,
    /// Version within the group.
    pub version: String,
    /// CamelCase.
    pub kind: String,
}

/// Who has sent the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// Name of the user or service account.
    pub username: String,
    /// Its groups.
    #[serde(deserialize_with = "or_empty")]
    pub groups: Vec<String>,
}

/// A request that a webhook is to decide about.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// What is done.
    pub operation: Operation,
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Name; empty where the server will make one.
    #[serde(default)]
    pub name: String,
    /// Namespace; empty for objects without.
    #[serde(default)]
    pub namespace: String,
    /// Such as `status`; empty for the object itself.
    #[serde(default)]
    pub sub_resource: String,
    /// Who does it.
    #[serde(default)]
    pub user_info: UserInfo,
    /// Nothing will be written.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// The object as it will be; null for deletions.
    #[serde(default)]
    pub object: Value,
    /// As it is; null for creations.
    #[serde(default)]
    pub old_object: Value,
}

impl Request {
    /// Reads the request of an AdmissionReview, of `admission.k8s.io/v1` or `v1beta1`, which have the same form.
    pub(crate) fn read(review: &mut Value) -> Result<Self, String> {
        match review["kind"].as_str() {
            Some("AdmissionReview") => {}
            kind => {
                let kind = kind.unwrap_or("nothing");
                return Err(format!("an AdmissionReview was expected and {kind} was sent"));
            }
        }
        let uid = review["request"]["uid"].clone();
        let request = review["request"].take();
        // What answers needs of it.
        review["request"] = serde_json::json!({"uid": uid});
        serde_json::from_value(request).map_err(|error| format!("the AdmissionReview cannot be read: {error}"))
    }

    /// Which object it is about.
    #[must_use]
    pub fn object_name(&self) -> ObjectName {
        let named = [&self.object, &self.old_object]
            .into_iter()
            .find_map(|object| object["metadata"]["name"].as_str());
        let made = || {
            format!(
                "{}?",
                self.object["metadata"]["generateName"].as_str().unwrap_or_default()
            )
        };
        let name = match self.name.as_str() {
            "" => named.map_or_else(made, str::to_owned),
            name => name.to_owned(),
        };
        let namespace = Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        ObjectName::new(self.kind.kind.clone(), namespace, name)
    }

    /// The object is being deleted: nothing of it is worth changing.
    #[must_use]
    pub fn is_in_deletion(&self) -> bool {
        self.object["metadata"]["deletionTimestamp"].is_string()
    }

    /// Both states of the object as their type.
    ///
    /// # Errors
    /// An object that does not fit its type: the class is user.
    pub(crate) fn typed<K: DeserializeOwned>(&self) -> Result<(K, Option<K>), Refusal> {
        let read = |object: &Value, which: &str| {
            K::deserialize(object).map_err(|error| {
                Refusal::from(
                    Fault::user(format!("the {which} cannot be read: {error}"))
                        .hint("correct the named field, or use a version of the extension that knows it"),
                )
            })
        };
        let new = read(&self.object, "object")?;
        let old = match &self.old_object {
            Value::Null => None,
            old => Some(read(old, "object as it was")?),
        };
        Ok((new, old))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_read_and_leave_the_uid_for_the_answer() {
        let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "operation": "UPDATE",
            "namespace": "n", "userInfo": {"username": "a", "uid": "x", "extra": {}}, "dryRun": null, "options": null,
            "object": {"metadata": {"generateName": "kube-"}}, "oldObject": null,
        }});
        let request = Request::read(&mut review).unwrap();
        assert_eq!(review["request"], json!({"uid": "u"}));
        assert_eq!(request.operation, Operation::Update);
        assert_eq!(request.object_name().to_string(), "Deployment n/kube-?");
        assert!(!request.is_in_deletion());
    }

    #[test]
    fn what_is_no_review_is_refused_with_what_it_is() {
        for (mut sent, why) in [
            (json!({}), "nothing was sent"),
            (json!({"kind": "Pod"}), "Pod was sent"),
            (json!({"kind": "AdmissionReview"}), "cannot be read"),
        ] {
            let refused = Request::read(&mut sent).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
