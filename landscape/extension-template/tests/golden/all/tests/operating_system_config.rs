//! What the extension decides for an OperatingSystemConfig. What it does is validated in a seed:
//! `orangery conformance --kubeconfig .orangery/seed.kubeconfig --kind OperatingSystemConfig --type moon`

#[allow(dead_code)]
#[path = "../src/operating_system_config.rs"]
mod operating_system_config;

use api_extensions::OperatingSystemConfig;
use serde_json::{from_value, json};

fn object(purpose: &str, content: serde_json::Value) -> OperatingSystemConfig {
    let metadata = json!({"name": "example", "namespace": "shoot--local--example"});
    let file = json!({"path": "/etc/example", "content": content});
    from_value(json!({"metadata": metadata, "spec": {"type": "moon", "purpose": purpose, "files": [file]}})).unwrap()
}

#[test]
fn user_data_hold_every_file() {
    let object = object("provision", json!({"inline": {"encoding": "b64", "data": "YQ=="}}));
    let secret = operating_system_config::plan(&object).unwrap().unwrap();
    let text = &secret.string_data.unwrap()["cloud_config"];
    assert!(
        text.starts_with("#cloud-config\n") && text.contains("/etc/example"),
        "{text}"
    );
}

#[test]
fn a_machine_that_runs_needs_no_user_data() {
    let object = object("reconcile", json!({"inline": {"encoding": "", "data": "a"}}));
    assert!(operating_system_config::plan(&object).unwrap().is_none());
}

#[test]
fn a_file_without_content_is_named() {
    let fault = operating_system_config::plan(&object("provision", json!({}))).unwrap_err();
    assert!(fault.to_string().contains("/etc/example"), "{fault}");
}
