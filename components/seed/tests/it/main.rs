//! Every object of a seed's system as it reaches the API server, printed.

use components_seed::{
    RESOURCE_MANAGER, ResourceManagerSettings, STAND_IN, Serving, WebhookServer, extension_status_binding,
    extension_status_policy, is_stand_in, priority_classes, resource_manager, stand_ins,
};
use serde::Serialize;
use serde_json::{Value, json};

#[test]
fn the_resource_manager_matches_its_golden() {
    let built = resource_manager(&ResourceManagerSettings {
        image: "registry.example/orangery:v0.1.0".into(),
        replicas: 1,
        serving: Serving {
            secret: "gardener-resource-manager-server-1a2b3c4d".into(),
            ca_bundle: "authorities".into(),
        },
        webhooks: None,
    });
    golden(
        "gardener-resource-manager.json",
        &json!([
            built.service_account,
            built.cluster_role,
            built.cluster_role_binding,
            built.config_map,
            built.deployment,
            built.service,
            built.webhooks
        ]),
    );
    assert_eq!(built.deployment.metadata.name.as_deref(), Some(RESOURCE_MANAGER));
}

#[test]
fn webhooks_are_reached_by_url_where_no_service_leads_to_them() {
    let built = resource_manager(&ResourceManagerSettings {
        image: "i".into(),
        replicas: 1,
        serving: Serving::default(),
        webhooks: Some(WebhookServer {
            url: "https://127.0.0.1:9449/".into(),
            ca_bundle: "pem".into(),
        }),
    });
    let client = json!(built.webhooks.webhooks)[0]["clientConfig"].clone();
    let url = "https://127.0.0.1:9449/webhooks/mount-projected-service-account-token";
    assert_eq!(client, json!({"url": url, "caBundle": "cGVt"}));
}

#[test]
fn the_policy_of_extension_statuses_matches_its_golden() {
    let policy = json!([extension_status_policy(), extension_status_binding()]);
    golden("extension-status.json", &policy);
}

#[test]
fn priority_classes_match_their_golden() {
    golden("priority-classes.json", &priority_classes());
}

#[test]
fn each_stand_in_matches_its_line_in_the_golden() {
    let lines: String = stand_ins().iter().map(|definition| line(&json!(definition))).collect();
    compare("stand-ins.txt", &lines);
}

#[test]
fn stand_ins_are_labelled_and_keep_every_field() {
    let mut names = std::collections::BTreeSet::new();
    for definition in stand_ins() {
        let name = definition.metadata.name.clone().expect("a definition has a name");
        assert_eq!(
            definition.metadata.labels.as_ref().expect("it has labels")[STAND_IN],
            "true"
        );
        assert!(is_stand_in(&definition), "{name}");
        let stored = definition.spec.versions.iter().filter(|version| version.storage);
        assert_eq!(stored.count(), 1, "{name}");
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn a_definition_that_its_owner_has_written_over_is_no_stand_in() {
    let real = |schema: Value, label: Value| {
        let mut definition = json!(stand_ins()[0]);
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        definition["metadata"]["labels"] = label;
        is_stand_in(&serde_json::from_value(definition).expect("it is a definition"))
    };
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let typed = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let labelled = json!({STAND_IN: "true"});
    assert!(real(open.clone(), labelled.clone()));
    assert!(!real(typed, labelled));
    assert!(!real(open, json!({})));
}

/// `PLURAL.GROUP Kind scope versions, stored first; +status; short names; categories`.
fn line(definition: &Value) -> String {
    let spec = &definition["spec"];
    let words = |list: &Value| {
        let list = list.as_array().cloned().unwrap_or_default();
        let words: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        if words.is_empty() {
            "-".to_owned()
        } else {
            words.join(",")
        }
    };
    let versions = spec["versions"].as_array().expect("it has versions");
    let names: Vec<&str> = versions.iter().filter_map(|version| version["name"].as_str()).collect();
    let status = versions
        .iter()
        .all(|version| version["subresources"]["status"].is_object());
    format!(
        "{} {} {} {} {} {} {}\n",
        definition["metadata"]["name"].as_str().unwrap_or_default(),
        spec["names"]["kind"].as_str().unwrap_or_default(),
        spec["scope"].as_str().unwrap_or_default(),
        names.join(","),
        if status { "+status" } else { "-" },
        words(&spec["names"]["shortNames"]),
        words(&spec["names"]["categories"]),
    )
}

fn golden(name: &str, object: &impl Serialize) {
    let text = serde_json::to_string_pretty(object).expect("objects are JSON");
    compare(name, &format!("{text}\n"));
}

fn compare(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, actual).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, actual, "{name} differs; UPDATE_GOLDENS=1 rewrites it");
}
