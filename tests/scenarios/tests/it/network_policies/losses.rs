//! Policies and labels that a running landscape loses one by one, while no controller may write them again: exactly the
//! connections end that the generated table lists for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy as Rule, ValidatingAdmissionPolicyBinding as Binding,
};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tests_scenarios::{TECHNICAL_ID, World, merge, wait};

use super::{Connection, Row, Seen, differences, in_namespace, program, requests_access, rows, settled};

const FREEZE: &str = "network-policies.example.com";
const DENY_ALL: &str = "deny-all";
/// Virtual: many times what a change takes through watches.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn lost_policies_and_labels_end_exactly_the_listed_connections_until_they_are_healed() {
    let world = World::with_example_shoot().await;
    settled(&world).await;
    let seen = Seen::read(&world).await;
    let table = rows(&seen);
    let all: BTreeSet<Connection> = table.keys().cloned().collect();
    is_allowed(&world, &all, "at first").await;

    freeze(&world).await;
    let policies = lose_each_policy(&world, &seen, &table).await;
    let labels = lose_each_label(&world, &seen, &table).await;
    assert!(policies >= 10 && labels >= 20, "{policies} policies, {labels} labels");

    // All that open connections are lost at once, and the controllers write them again as soon as they may.
    let api: Api<NetworkPolicy> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let opening: Vec<String> = names(&seen).filter(|name| *name != DENY_ALL).cloned().collect();
    for name in &opening {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let elsewhere =
        |connection: &Connection| !connection.0.contains(TECHNICAL_ID) && !connection.1.contains(TECHNICAL_ID);
    let left = all.iter().filter(|connection| elsewhere(connection)).cloned().collect();
    is_allowed(&world, &left, "without policies that open connections").await;
    thaw(&world).await;
    for name in &opening {
        wait(&api, name, |policy| policy.map(drop)).await;
    }
    is_allowed(&world, &all, "healed").await;
}

/// Deletes each policy of the Shoot's namespace and puts it back; returns how many.
async fn lose_each_policy(world: &World, seen: &Seen, table: &BTreeMap<Connection, Row>) -> usize {
    let api: Api<NetworkPolicy> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let mut count = 0;
    for name in names(seen) {
        let lost = in_namespace(TECHNICAL_ID, &format!("`{name}`"));
        let key = (TECHNICAL_ID.to_owned(), name.clone());
        let expected = match name.as_str() {
            // It opens nothing; without it pods are open that no other policy selects.
            DENY_ALL => seen.allowed(&seen.evaluator(Some(&key))),
            _ => without(table, |_, (_, policies)| policies.contains(&lost)),
        };
        api.delete(name, &DeleteParams::default()).await.unwrap();
        is_allowed(world, &expected, &format!("without policy {name}")).await;
        let mut again = seen.policies[&key].clone();
        again.metadata.resource_version = None;
        again.metadata.uid = None;
        api.create(&PostParams::default(), &again).await.unwrap();
        is_allowed(
            world,
            &table.keys().cloned().collect(),
            &format!("with policy {name} again"),
        )
        .await;
        count += 1;
    }
    count
}

/// Takes each label that asks for connections from its pod and puts it back; returns how many.
async fn lose_each_label(world: &World, seen: &Seen, table: &BTreeMap<Connection, Row>) -> usize {
    let api: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let mut count = 0;
    for pod in seen.pods.iter().filter(|pod| pod.namespace == TECHNICAL_ID) {
        let from = in_namespace(TECHNICAL_ID, &program(pod));
        for (label, value) in pod.labels.iter().filter(|(label, _)| requests_access(label)) {
            let expected = without(table, |connection, (labels, _)| {
                connection.0 == from && labels.contains(label)
            });
            merge(&api, &pod.name, &json!({"metadata": {"labels": {label: null}}})).await;
            is_allowed(world, &expected, &format!("{from} without label {label}")).await;
            merge(&api, &pod.name, &json!({"metadata": {"labels": {label: value}}})).await;
            count += 1;
        }
    }
    is_allowed(world, &table.keys().cloned().collect(), "with all labels again").await;
    count
}

/// The names of the policies in the Shoot's namespace.
fn names(seen: &Seen) -> impl Iterator<Item = &String> {
    let keys = seen.policies.keys();
    keys.filter(|(namespace, _)| namespace == TECHNICAL_ID)
        .map(|(_, name)| name)
}

/// The connections of the table but for those that end.
fn without(table: &BTreeMap<Connection, Row>, ends: impl Fn(&Connection, &Row) -> bool) -> BTreeSet<Connection> {
    let left = table.iter().filter(|(connection, row)| !ends(connection, row));
    left.map(|(connection, _)| connection.clone()).collect()
}

/// Asserts that the objects in the API server allow exactly these connections, and that the pod network makes them.
async fn is_allowed(world: &World, expected: &BTreeSet<Connection>, when: &str) {
    let now = Seen::read(world).await;
    assert_eq!(&now.allowed(&now.evaluator(None)), expected, "{when}");
    let mut last = Vec::new();
    let followed = async {
        loop {
            last = differences(world, &now, expected).await;
            if last.is_empty() {
                return;
            }
            // The network follows the API by watches; in virtual time this only lets them run.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(SEEN_WITHIN, followed).await.is_ok();
    assert!(in_time, "{when}: {}", last.join("\n"));
}

/// Lets only this test write network policies.
async fn freeze(world: &World) {
    let reviews: Api<SelfSubjectReview> = Api::all(world.seed.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = review.unwrap().status.unwrap().user_info.unwrap().username.unwrap();
    let rule = json!({"metadata": {"name": FREEZE}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "resources": ["networkpolicies"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }]},
        "validations": [{"expression": format!("request.userInfo.username == '{user}'")}],
    }});
    let binding = json!({"metadata": {"name": FREEZE}, "spec": {"policyName": FREEZE, "validationActions": ["Deny"]}});
    let rules: Api<Rule> = Api::all(world.seed.clone());
    let bindings: Api<Binding> = Api::all(world.seed.clone());
    let created = PostParams::default();
    rules
        .create(&created, &serde_json::from_value(rule).unwrap())
        .await
        .unwrap();
    bindings
        .create(&created, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

async fn thaw(world: &World) {
    let bindings: Api<Binding> = Api::all(world.seed.clone());
    bindings.delete(FREEZE, &DeleteParams::default()).await.unwrap();
}
