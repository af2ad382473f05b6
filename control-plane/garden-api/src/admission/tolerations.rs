//! Which tainted seeds a project's Shoots may tolerate is not its members' decision: Shoots get what their project
//! gives to all, and nothing beyond its whitelist (gardener/gardener v1.150 plugin/pkg/shoot/tolerationrestriction);
//! and the whitelist is written by who may (plugin/pkg/global/customverbauthorizer).

use std::collections::BTreeSet;

use api_meta::names::{GARDEN_NAMESPACE, SEED_TAINT_PROTECTED};
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Call, Objects, Review};
use serde_json::{Value, json};

use super::{Plugin, Verdict, project_of, some_of, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, forbid, is_leaving, list, text};

/// The verb that a change of the whitelist needs.
const VERB: &str = "modify-spec-tolerations-whitelist";

/// The plug-in `ShootTolerationRestriction`.
pub(crate) struct Tolerations;

impl Plugin for Tolerations {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootTolerationRestriction)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            if !writes_object(&call) || old.is_some() {
                return Ok(Vec::new());
            }
            let project = project_of(objects, call.namespace.unwrap_or_default()).await?;
            let defaults = list(project.as_deref(), "/spec/tolerations/defaults");
            let own = list(&*object, "/spec/tolerations").iter();
            let own: BTreeSet<&str> = own.map(|own| text(own, "/key")).collect();
            let missing = defaults.iter().filter(|default| !own.contains(text(default, "/key")));
            let missing: Vec<Value> = missing.cloned().collect();
            if let Some(spec) = object["spec"].as_object_mut().filter(|_| !missing.is_empty()) {
                // What is no list is refused by validation, which names the field.
                if let Some(own) = spec.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
                    own.extend(missing);
                }
            }
            Ok(Vec::new())
        })
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(shoot) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let before = keys_and_values(list(review.old, "/spec/tolerations"));
            let requested = list(shoot, "/spec/tolerations").iter().map(key_and_value).enumerate();
            let requested: Vec<(usize, KeyAndValue<'_>)> = requested.filter(|(_, one)| !before.contains(one)).collect();
            if requested.is_empty() || is_leaving(shoot) {
                return Ok(Vec::new());
            }
            let namespace = text(shoot, "/metadata/namespace");
            let project = project_of(review.objects, namespace).await?;
            let whitelist = list(project.as_deref(), "/spec/tolerations/whitelist");
            let allowed = keys_and_values(whitelist);
            let own = namespace == GARDEN_NAMESPACE;
            let is_allowed = |requested: &KeyAndValue<'_>| {
                let (key, _) = *requested;
                // A toleration without a value allows every value of its key.
                own && key == SEED_TAINT_PROTECTED || allowed.contains(&(key, "")) || allowed.contains(requested)
            };
            let why = why_forbidden(project.as_deref(), whitelist);
            let forbidden = requested.iter().filter(|(_, requested)| !is_allowed(requested));
            let errors: Vec<FieldError> = forbidden
                .map(|(index, requested)| {
                    FieldError::forbidden(
                        format!("spec.tolerations[{index}]"),
                        format!("{} {why}", shown(requested)),
                    )
                })
                .collect();
            forbid(CORE, "shoots", review.call.name, &errors)?;
            Ok(Vec::new())
        })
    }
}

/// What a toleration is compared by; without a value, the value is empty.
type KeyAndValue<'v> = (&'v str, &'v str);

fn key_and_value(toleration: &Value) -> KeyAndValue<'_> {
    (text(toleration, "/key"), text(toleration, "/value"))
}

fn keys_and_values(tolerations: &[Value]) -> BTreeSet<KeyAndValue<'_>> {
    tolerations.iter().map(key_and_value).collect()
}

/// The words that follow a toleration outside of the whitelist.
fn why_forbidden(project: Option<&Value>, whitelist: &[Value]) -> String {
    let project = project.map_or("of its namespace", |project| text(project, "/metadata/name"));
    let allowed: Vec<String> = whitelist.iter().map(|one| shown(&key_and_value(one))).collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let allowed = match allowed.as_slice() {
        [] => "nothing".to_owned(),
        some => some_of(some),
    };
    format!(
        "is not in the whitelist of project {project}, which has {allowed}; leave it out, or ask who runs the landscape"
    )
}

/// `key`, or `key=value`.
fn shown(toleration: &KeyAndValue<'_>) -> String {
    match toleration {
        (key, "") => (*key).to_owned(),
        (key, value) => format!("{key}={value}"),
    }
}

/// Who changes the whitelist of a Project needs a verb that no member has.
pub(crate) struct TolerationsWhitelist;

impl Plugin for TolerationsWhitelist {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::CustomVerbAuthorizer)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            const WHITELIST: &str = "/spec/tolerations/whitelist";
            let Review { call, objects, .. } = review;
            let Some(project) = review.object.filter(|_| writes_object(&call)) else {
                return Ok(Vec::new());
            };
            if list(project, WHITELIST) == list(review.old, WHITELIST)
                || objects
                    .allowed(call.user, VERB, CORE, "projects", None, call.name)
                    .await?
            {
                return Ok(Vec::new());
            }
            let why = format!(
                "spec.tolerations.whitelist: user {:?} is not allowed to {VERB}; ask who runs the landscape",
                call.user.name
            );
            Err(Status::forbidden(CORE, "projects", call.name, &why))
        })
    }
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;

    use super::*;
    use crate::admission::tests::{Fixture, admitted, review};

    fn shoot(namespace: &str, tolerations: Value) -> Value {
        json!({"metadata": {"name": "s", "namespace": namespace}, "spec": {"tolerations": tolerations}})
    }

    fn project(namespace: &str, defaults: Value, whitelist: Value) -> Fixture {
        let spec = json!({"namespace": namespace, "tolerations": {"defaults": defaults, "whitelist": whitelist}});
        Fixture::default().with("projects", json!({"metadata": {"name": "p"}, "spec": spec}))
    }

    #[test]
    fn a_shoot_tolerates_what_its_projects_whitelist_covers() {
        let whitelist = json!([{"key": "a"}, {"key": "b", "value": "1"}]);
        let fixture = project("garden-p", json!([]), whitelist);
        let checked = |toleration: Value| {
            let requested = shoot("garden-p", json!([toleration]));
            review(&Tolerations, Operation::Create, Some(&requested), None, &fixture)
        };
        for good in [
            json!({"key": "a"}),
            json!({"key": "a", "value": "x"}),
            json!({"key": "b", "value": "1"}),
        ] {
            assert!(checked(good.clone()).is_ok(), "{good}");
        }
        for (bad, message) in [
            (json!({"key": "b"}), "b is not"),
            (json!({"key": "b", "value": "2"}), "b=2 is not"),
            (
                json!({"key": SEED_TAINT_PROTECTED}),
                "seed.gardener.cloud/protected is not",
            ),
        ] {
            let refusal = checked(bad).expect_err(message);
            for part in [
                "spec.tolerations[0]: Forbidden",
                message,
                "whitelist of project p, which has a, b=1; leave it out",
            ] {
                assert!(refusal.contains(part), "{refusal} lacks {part}");
            }
        }
        let nobodys = shoot("garden-q", json!([{"key": "a"}]));
        assert!(review(&Tolerations, Operation::Create, Some(&nobodys), None, &fixture).is_err());
        let own = shoot("garden", json!([{"key": SEED_TAINT_PROTECTED}]));
        assert!(review(&Tolerations, Operation::Create, Some(&own), None, &fixture).is_ok());
    }

    #[test]
    fn unchanged_tolerations_are_not_validated_again() {
        let fixture = project("garden-p", json!([]), json!([]));
        let old = shoot("garden-p", json!([{"key": "x"}]));
        let checked = |new: &Value| review(&Tolerations, Operation::Update, Some(new), Some(&old), &fixture);
        assert!(checked(&old).is_ok());
        let refusal = checked(&shoot("garden-p", json!([{"key": "x"}, {"key": "y"}]))).expect_err("one more");
        assert!(
            refusal.contains("spec.tolerations[1]") && refusal.contains("which has nothing"),
            "{refusal}"
        );
    }

    #[test]
    fn a_new_shoot_gets_what_its_project_gives_to_all() {
        let defaults = json!([{"key": "a"}, {"key": "b", "value": "1"}]);
        let fixture = project("garden-p", defaults.clone(), defaults);
        let given = |own: Value, old: Option<&Value>| {
            admitted(&Tolerations, None, shoot("garden-p", own), old, &fixture).expect("admitted")["spec"]["tolerations"]
                .clone()
        };
        assert_eq!(
            given(json!([{"key": "a", "value": "own"}]), None),
            json!([{"key": "a", "value": "own"}, {"key": "b", "value": "1"}])
        );
        let old = shoot("garden-p", json!([]));
        assert_eq!(given(json!([]), Some(&old)), json!([]));
        let without = json!({"metadata": {"name": "s", "namespace": "garden-p"}, "spec": {}});
        let made = admitted(&Tolerations, None, without, None, &fixture).expect("admitted");
        assert_eq!(made["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn only_permitted_users_change_the_whitelist() {
        let project =
            |whitelist: Value| json!({"metadata": {"name": "p"}, "spec": {"tolerations": {"whitelist": whitelist}}});
        let (old, new) = (project(json!([])), project(json!([{"key": "a"}])));
        let mut member = Fixture::default();
        assert!(
            review(
                &TolerationsWhitelist,
                Operation::Update,
                Some(&new),
                Some(&old),
                &member
            )
            .is_ok()
        );
        member.denied.push("projects");
        for old in [Some(&old), None] {
            let refusal =
                review(&TolerationsWhitelist, Operation::Update, Some(&new), old, &member).expect_err("denied");
            assert!(
                refusal.contains("spec.tolerations.whitelist: user \"alice\" is not allowed to modify-spec"),
                "{refusal}"
            );
        }
        assert!(
            review(
                &TolerationsWhitelist,
                Operation::Update,
                Some(&new),
                Some(&new),
                &member
            )
            .is_ok()
        );
        let bare = json!({"metadata": {"name": "p"}, "spec": {}});
        assert!(review(&TolerationsWhitelist, Operation::Create, Some(&bare), None, &member).is_ok());
    }
}
