//! The same answers for another API server: SubjectAccessReview and AdmissionReview as kube-apiserver sends them to webhooks.
//! It serves nothing; an answer that hangs on the graph is given when the graph has had the time to catch up.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/api/{authorization,admission}/v1)

use std::time::Duration;

use base_client::Admission;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::admit::Write;
use crate::decide::{Decision, Request};
use crate::identity::{Who, identify};
use crate::keeper::Keeper;
use crate::kinds::Kind;
use crate::refusal::Refusal;

/// How long an object that does not belong to a seed is given to do so: what makes it belong there reaches a gardenlet and
/// the graph by two watches, of which either may be first.
pub const BEHIND_MAX: Duration = Duration::from_secs(1);

/// Answers a SubjectAccessReview (`authorization.k8s.io/v1`).
///
/// # Errors
/// What is no such review.
pub async fn review_access(keeper: &Keeper, review: &Value) -> Result<Value, String> {
    let Access { spec } = read(review, "SubjectAccessReview")?;
    let (allowed, denied, reason) = match identify(&spec.user, spec.groups.iter().map(String::as_str)) {
        Who::Other => (false, false, String::new()),
        Who::Unclear(why) => (false, true, why),
        Who::Confined(identity) => match &spec.resource_attributes {
            None => (false, false, String::new()),
            Some(attributes) => {
                let request = attributes.request();
                match settled(keeper, || refused(keeper.decide(&identity, &request))).await {
                    Ok(Some(())) => (true, false, format!("it belongs to seed {:?}", identity.seed)),
                    Ok(None) => (false, false, String::new()),
                    Err(refusal) => (false, true, refusal.to_string()),
                }
            }
        },
    };
    let mut status = json!({"allowed": allowed});
    if denied {
        status["denied"] = json!(true);
    }
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    Ok(json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status}))
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`).
///
/// # Errors
/// What is no such review.
pub async fn review_write(keeper: &Keeper, review: &Value) -> Result<Value, String> {
    let WriteReview { request } = read(review, "AdmissionReview")?;
    let user = &request.user_info;
    let refusal = match identify(&user.username, user.groups.iter().map(String::as_str)) {
        Who::Other => None,
        Who::Unclear(why) => Some(why),
        Who::Confined(identity) => {
            let write = request.write();
            let outcome = settled(keeper, || keeper.admit(&identity, &write)).await;
            outcome.err().map(|refusal| refusal.to_string())
        }
    };
    let admission = match refusal {
        None => Admission::allowed(),
        Some(why) => Admission::refused(403, "Forbidden", why),
    };
    Ok(admission.answer(review))
}

fn refused(decision: Decision) -> Result<Option<()>, Refusal> {
    match decision {
        Decision::Allow => Ok(Some(())),
        Decision::NoOpinion => Ok(None),
        Decision::Deny(refusal) => Err(refusal),
    }
}

/// Repeats an attempt until it is allowed or no news can be waited for any longer.
async fn settled<T>(keeper: &Keeper, attempt: impl Fn() -> Result<T, Refusal>) -> Result<T, Refusal> {
    let until = Instant::now() + BEHIND_MAX;
    loop {
        // Made before the attempt, it hears of all that comes after the answer.
        let news = keeper.news();
        match attempt() {
            Err(refusal) if refusal.may_change() => {
                if timeout_at(until, news).await.is_err() {
                    return Err(refusal);
                }
            }
            outcome => return outcome,
        }
    }
}

fn read<'v, T: Deserialize<'v>>(review: &'v Value, kind: &str) -> Result<T, String> {
    match review.get("kind").and_then(Value::as_str) {
        Some(found) if found == kind => {}
        found => {
            return Err(format!(
                "{kind} was expected and {} was sent",
                found.unwrap_or("nothing")
            ));
        }
    }
    T::deserialize(review).map_err(|error| format!("the {kind} cannot be read: {error}"))
}

#[derive(Deserialize)]
struct Access {
    spec: AccessSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessSpec {
    #[serde(default)]
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    resource_attributes: Option<Attributes>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Attributes {
    verb: String,
    group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    field_selector: Selector,
    label_selector: Selector,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// What is a plain equality.
    fn equalities(&self) -> Vec<(&str, &str)> {
        let equal = self.requirements.iter().filter(|one| one.operator == "In");
        equal
            .filter_map(|one| match one.values.as_slice() {
                [value] => Some((one.key.as_str(), value.as_str())),
                _ => None,
            })
            .collect()
    }
}

impl Attributes {
    fn request(&self) -> Request<'_> {
        Request {
            verb: &self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            fields: self.field_selector.equalities(),
            labels: self.label_selector.equalities(),
        }
    }
}

#[derive(Deserialize)]
struct WriteReview {
    request: AdmissionRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AdmissionRequest {
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    user_info: UserInfo,
    #[serde(default)]
    object: Option<Value>,
    #[serde(default)]
    old_object: Option<Value>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    resource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo {
    username: String,
    groups: Vec<String>,
}

impl AdmissionRequest {
    fn write(&self) -> Write<'_> {
        let named = self.object.as_ref().and_then(|object| object.pointer("/metadata/name"));
        let named = named.and_then(Value::as_str).filter(|name| !name.is_empty());
        let kind = Kind::of(&self.resource.group, &self.resource.resource);
        let name = match (self.name.as_str(), named) {
            ("", Some(name)) => name,
            // Its name is drawn later and has no meaning.
            ("", None) if kind == Some(Kind::Event) => "new",
            (name, _) => name,
        };
        // A request for a Namespace has its name as its namespace, too.
        let inside = kind.is_none_or(Kind::is_namespaced);
        Write {
            group: &self.resource.group,
            resource: &self.resource.resource,
            subresource: &self.sub_resource,
            namespace: if inside { &self.namespace } else { "" },
            name,
            object: self.object.as_ref(),
            old: self.old_object.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Seed, Shoot};

    fn keeper() -> Keeper {
        let keeper = Keeper::default();
        let seed: Seed = serde_json::from_value(json!({"metadata": {"name": "a", "uid": "u"}})).unwrap();
        let shoot = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"seedName": "a"}});
        let shoot: Shoot = serde_json::from_value(shoot).unwrap();
        keeper.fill(|graph| {
            graph.put(&seed);
            graph.put(&shoot);
        });
        keeper
    }

    const GARDENLET: &str = "gardener.cloud:system:seed:a";

    async fn access(user: &str, groups: &[&str], attributes: Value) -> Value {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes}});
        review_access(&keeper(), &review).await.unwrap()["status"].take()
    }

    #[tokio::test(start_paused = true)]
    async fn access_is_allowed_denied_or_left_to_others() {
        let groups = ["gardener.cloud:system:seeds"];
        let shoot = |name: &str| json!({"verb": "get", "group": "core.gardener.cloud", "resource": "shoots", "namespace": "n", "name": name});
        let own = access(GARDENLET, &groups, shoot("s")).await;
        assert_eq!(own, json!({"allowed": true, "reason": "it belongs to seed \"a\""}));
        let other = access(GARDENLET, &groups, shoot("t")).await;
        assert_eq!(
            (&other["allowed"], &other["denied"]),
            (&json!(false), &json!(true)),
            "{other}"
        );
        assert_eq!(access("alice", &[], shoot("s")).await, json!({"allowed": false}));
        let unclear = access("alice", &groups, shoot("s")).await;
        assert_eq!(unclear["denied"], json!(true), "{unclear}");
        let pods = json!({"verb": "list", "resource": "pods"});
        assert_eq!(access(GARDENLET, &groups, pods).await, json!({"allowed": false}));
        let list = |operator: &str, values: Value| {
            let requirement = json!({"key": "name.seed.gardener.cloud/a", "operator": operator, "values": values});
            json!({"verb": "list", "group": "core.gardener.cloud", "resource": "shoots", "labelSelector": {"requirements": [requirement]}})
        };
        assert_eq!(
            access(GARDENLET, &groups, list("In", json!(["true"]))).await["allowed"],
            json!(true)
        );
        assert_eq!(
            access(GARDENLET, &groups, list("In", json!(["true", "x"]))).await["denied"],
            json!(true)
        );
        assert_eq!(
            access(GARDENLET, &groups, list("NotIn", json!(["true"]))).await["denied"],
            json!(true)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_let_pass_or_refused_with_its_uid() {
        let review = |name: &str| {
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "resource": {"group": "", "version": "v1", "resource": "secrets"}, "namespace": "n", "name": name,
                "operation": "CREATE", "object": {"metadata": {"name": name}}, "oldObject": null,
                "userInfo": {"username": GARDENLET, "groups": ["gardener.cloud:system:seeds"]}}})
        };
        let own = review_write(&keeper(), &review("s.ssh-keypair")).await.unwrap();
        assert_eq!(own["response"], json!({"uid": "1", "allowed": true}));
        let other = review_write(&keeper(), &review("t.ssh-keypair")).await.unwrap();
        assert_eq!(other["response"]["status"]["code"], json!(403), "{other}");
        assert_eq!(other["response"]["uid"], json!("1"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_review_is_an_error() {
        for review in [
            json!({}),
            json!({"kind": "Pod"}),
            json!({"kind": "SubjectAccessReview", "spec": 1}),
        ] {
            assert!(review_access(&keeper(), &review).await.is_err(), "{review}");
            assert!(review_write(&keeper(), &review).await.is_err(), "{review}");
        }
    }
}
