//! Rights are stated twice, in manifests and in charts: here one is held against the other, rule by rule.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::own;

/// Manifests that the chart of the garden repeats.
const GARDEN: [&str; 3] = [
    "landscape/local/manifests/garden.yaml",
    "landscape/local/manifests/garden-processes.yaml",
    "deploy/production/garden-apiserver.yaml",
];
/// Manifests that the chart of gardenlet repeats.
const SEED: [&str; 2] = [
    "landscape/local/manifests/seed.yaml",
    "landscape/local/manifests/seed-processes.yaml",
];
/// What is in manifests and in no chart: the people and the operator of `orangery up`.
const LEFT_OUT: [&str; 2] = ["orangery:admins", "orangery:builtin-operator"];
/// Users and accounts of manifests, and the service accounts that have their rights where they run as pods: of which chart, and
/// their name.
const ACCOUNTS: [(&str, &str, &str); 5] = [
    ("garden-apiserver", "garden", "garden-apiserver"),
    (
        "gardener.cloud:system:controller-manager",
        "garden",
        "gardener-controller-manager",
    ),
    ("gardener.cloud:system:scheduler", "garden", "gardener-scheduler"),
    (
        "gardener.cloud:system:admission-controller",
        "garden",
        "gardener-admission-controller",
    ),
    ("gardener.cloud:system:gardenlet", "gardenlet", "gardenlet"),
];
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Rules, or who has which role, by kind, namespace and name.
type Rights = BTreeMap<[String; 3], Value>;

/// The rights among objects.
fn rights(objects: impl IntoIterator<Item = Value>) -> Rights {
    let mut rights = Rights::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = [
            text(&object["kind"]),
            text(&metadata["namespace"]),
            text(&metadata["name"]),
        ];
        if object["apiVersion"] != RBAC || LEFT_OUT.contains(&key[2].as_str()) {
            continue;
        }
        let subjects = object["subjects"].as_array().into_iter().flatten();
        let subjects: Vec<Value> = subjects.map(|subject| as_in_pods(subject.clone())).collect();
        let stated = json!({"rules": object["rules"], "roleRef": object["roleRef"], "subjects": subjects});
        let before = rights.insert(key.clone(), stated);
        assert!(before.is_none(), "{key:?} is there twice");
    }
    rights
}

/// The service account that stands for a subject of the manifests; of a chart's, itself.
fn as_in_pods(subject: Value) -> Value {
    let found = ACCOUNTS
        .iter()
        .find(|(name, ..)| subject["kind"] != "Group" && subject["name"] == **name);
    match found {
        Some((_, chart, account)) => {
            json!({"kind": "ServiceAccount", "name": account, "namespace": own::namespace(chart)})
        }
        None => subject,
    }
}

fn of_manifests(paths: &[&str]) -> Rights {
    rights(paths.iter().flat_map(|path| {
        let text = std::fs::read_to_string(own::repository(path)).unwrap();
        base_yaml::read_all_strict::<Value>(&text).unwrap()
    }))
}

#[track_caller]
fn assert_same(chart: &Rights, manifests: &Rights) {
    let missing: Vec<_> = manifests.keys().filter(|key| !chart.contains_key(*key)).collect();
    assert!(missing.is_empty(), "of the manifests and not in the chart: {missing:?}");
    for (key, stated) in chart {
        let Some(expected) = manifests.get(key) else {
            panic!("{key:?} of the chart is not in the manifests");
        };
        assert_eq!(stated, expected, "{key:?} differs");
    }
    assert!(!chart.is_empty());
}

#[test]
fn garden_chart_grants_what_the_manifests_grant() {
    for values in ["given", "full", "generated"] {
        assert_same(&rights(own::objects("garden", values)), &of_manifests(&GARDEN));
    }
}

#[test]
fn gardenlet_chart_grants_what_the_manifests_grant() {
    // These values have nodes that are `orangery node`.
    assert_same(&rights(own::objects("gardenlet", "bootstrap")), &of_manifests(&SEED));
    let without = rights(own::objects("gardenlet", "kubeconfig"));
    assert_same(&without, &of_manifests(&SEED[..1]));
}

#[test]
fn pods_run_as_accounts_that_the_chart_makes() {
    for (chart, values) in own::cases() {
        let objects = own::objects(chart, &values);
        let workloads = ["Deployment", "StatefulSet"];
        for workload in objects
            .iter()
            .filter(|object| workloads.iter().any(|kind| object["kind"] == *kind))
        {
            let pod = &workload["spec"]["template"]["spec"];
            match pod["serviceAccountName"].as_str() {
                Some(account) => {
                    let found = own::object(&objects, "ServiceAccount", account);
                    assert_eq!(found["metadata"]["namespace"], workload["metadata"]["namespace"]);
                }
                None => assert_eq!(pod["automountServiceAccountToken"], false, "{chart} with {values}"),
            }
        }
    }
}

#[test]
fn webhooks_of_the_garden_chart_are_those_of_the_manifest() {
    let text = std::fs::read_to_string(own::repository("deploy/production/admission-controller.yaml")).unwrap();
    let manifest: Value = base_yaml::read_strict(&text).unwrap();
    let objects = own::objects("garden", "generated");
    let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
    let mut chart = own::object(&objects, "ValidatingWebhookConfiguration", &name).clone();
    // Where it is and whose certificate it shows are the chart's to state.
    for webhook in chart["webhooks"].as_array_mut().unwrap() {
        let client = &mut webhook["clientConfig"];
        assert_eq!(client["service"]["namespace"], own::namespace("garden"));
        assert!(client["caBundle"].is_string(), "{client}");
        client.as_object_mut().unwrap().remove("caBundle");
        client["service"]["namespace"] = "garden".into();
        client["service"].as_object_mut().unwrap().remove("port");
    }
    assert_eq!(chart["webhooks"], manifest["webhooks"]);
}
