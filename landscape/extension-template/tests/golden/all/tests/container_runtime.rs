//! What the extension decides for a ContainerRuntime. What it does is validated in a seed:
//! `orangery conformance --kubeconfig .orangery/seed.kubeconfig --kind ContainerRuntime --type moon`

#[allow(dead_code)]
#[path = "../src/container_runtime.rs"]
mod container_runtime;

use api_extensions::ContainerRuntime;
use api_meta::Fault;
use serde_json::{from_value, json};

fn planned(config: serde_json::Value) -> Result<String, Fault> {
    let metadata = json!({"name": "example", "namespace": "shoot--local--example"});
    let object: ContainerRuntime =
        from_value(json!({"metadata": metadata, "spec": {"type": "moon", "providerConfig": config}})).unwrap();
    let made = container_runtime::plan(&object)?;
    Ok(made.data.unwrap()["greeting"].clone())
}

#[test]
fn what_is_configured_is_shown() {
    let config = json!({
        "apiVersion": "moon.extensions.gardener.cloud/v1alpha1", "kind": "ContainerRuntimeConfig", "greeting": "hello",
    });
    assert_eq!(planned(config).unwrap(), "hello");
    assert_eq!(planned(json!(null)).unwrap(), "");
}

#[test]
fn a_field_that_is_not_known_is_an_error_with_its_path() {
    let config = json!({
        "apiVersion": "moon.extensions.gardener.cloud/v1alpha1", "kind": "ContainerRuntimeConfig", "greting": "hello",
    });
    let fault = planned(config).unwrap_err();
    assert!(fault.to_string().contains(".greting is not known"), "{fault}");
}
