//! Every kind but Worker.

use api_extensions::{ControlPlane, DNSRecord, Extension, Infrastructure, Network, OperatingSystemConfig};
use api_meta::{ErrorCode, LastOperationState};
use api_resources::ManagedResource;
use extensions_provider_local::{InfrastructureStatus, ledger};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};
use tests_kit::until;

use crate::landscape::{Landscape, NAMESPACE, TYPE};

fn spec(more: Value) -> Value {
    let mut spec = json!({"type": TYPE, "region": "r", "secretRef": {"name": "c", "namespace": NAMESPACE}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

#[tokio::test(start_paused = true)]
async fn an_infrastructure_keeps_its_network_and_its_status_to_the_byte() {
    let landscape = Landscape::new().await;
    landscape.start();
    let first = landscape.infrastructure().await.status.unwrap();
    let raw = first.provider_status.unwrap();
    let read: InfrastructureStatus = raw.decode().unwrap();
    assert_eq!(first.nodes_cidr.as_deref(), Some(read.network.cidr.as_str()));
    assert_eq!(read.network.subnets[0].zone, "west");
    assert!(read.network.id > 1 << 53, "{}", read.network.id);
    let second = landscape.infrastructure().await.status.unwrap();
    assert_eq!(second.provider_status.unwrap().get(), raw.get());
    landscape.take_down::<Infrastructure>("ape").await;
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_verifies_the_infrastructure_status_in_its_spec() {
    let landscape = Landscape::new().await;
    landscape.start();
    landscape
        .write::<ControlPlane>("ape", spec(json!({"infrastructureProviderStatus": {"kind": "Other"}})))
        .await;
    let api = landscape.api::<ControlPlane>();
    let object = until(&api, "ape", "refused", |object| {
        object
            .status
            .as_ref()
            .and_then(|s| s.last_operation.as_ref())
            .is_some_and(|l| l.state == LastOperationState::Error)
    })
    .await;
    let error = object.status.unwrap().last_error.unwrap();
    assert_eq!(error.codes, [ErrorCode::RetryableConfigurationProblem]);
    assert!(
        error.description.contains("no usable infrastructureProviderStatus"),
        "{}",
        error.description
    );

    let status = landscape
        .infrastructure()
        .await
        .status
        .unwrap()
        .provider_status
        .unwrap();
    let status: Value = serde_json::from_str(status.get()).unwrap();
    landscape
        .bring_about::<ControlPlane>("ape", spec(json!({"infrastructureProviderStatus": status})))
        .await;
    landscape
        .api::<ManagedResource>()
        .get("extension-controlplane-shoot")
        .await
        .unwrap();
    let secret = landscape
        .api::<Secret>()
        .get("extension-controlplane-shoot")
        .await
        .unwrap();
    let manifest: Value = serde_json::from_slice(&secret.data.unwrap()["manifest.yaml"].0).unwrap();
    assert_eq!(manifest["metadata"]["name"], "provider-local-network");
    assert_eq!(manifest["data"]["networkID"], status["network"]["id"].to_string());
    // An extension's webhook may bring this one for kube-controller-manager.
    let cloud_config = landscape.api::<ConfigMap>().get_opt("cloud-provider-config").await;
    assert!(cloud_config.unwrap().is_none());
    landscape.take_down::<ControlPlane>("ape").await;
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        ["ConfigMap/local-network"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_network_that_cannot_work_is_the_users_to_correct() {
    let landscape = Landscape::new().await;
    landscape.start();
    let bad = json!({"type": TYPE, "podCIDR": "10.0.0.0/8", "serviceCIDR": "10.1.0.0/16"});
    landscape.write::<Network>("ape", bad).await;
    let object = until(&landscape.api::<Network>(), "ape", "refused", |object| {
        object.status.as_ref().is_some_and(|status| status.last_error.is_some())
    })
    .await;
    assert_eq!(
        object.status.unwrap().last_error.unwrap().codes,
        [ErrorCode::ConfigurationProblem]
    );
    landscape.take_down::<Network>("ape").await;
    let good = json!({"type": TYPE, "podCIDR": "10.0.0.0/16", "serviceCIDR": "10.1.0.0/16"});
    let object = landscape.bring_about::<Network>("ape", good).await;
    assert_eq!(object.status.unwrap().ip_families.len(), 1);
    landscape.take_down::<Network>("ape").await;
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn user_data_hold_the_files_and_units_of_the_config() {
    let landscape = Landscape::new().await;
    landscape.start();
    let config = json!({
        "type": TYPE, "purpose": "provision",
        "units": [{"name": "a.service", "enable": true, "command": "start", "content": "[Unit]\n"}],
        "files": [
            {"path": "/plain", "permissions": 384, "content": {"inline": {"encoding": "", "data": "x: \"y\"\n"}}},
            {"path": "/coded", "content": {"inline": {"encoding": "b64", "data": "aGk="}}},
            {"path": "/secret", "content": {"secretRef": {"name": "user-data", "dataKey": "cloud_config"}}},
        ],
    });
    let object = landscape.bring_about::<OperatingSystemConfig>("osc", config).await;
    let reference = object.status.unwrap().cloud_config.unwrap().secret_ref;
    assert_eq!(reference.name.as_deref(), Some("osc-result-osc"));
    let data = landscape
        .api::<Secret>()
        .get("osc-result-osc")
        .await
        .unwrap()
        .data
        .unwrap();
    let text: Value = serde_json::from_slice(&data["cloud_config"].0).unwrap();
    assert_eq!(
        text["files"][0],
        json!({"path": "/plain", "permissions": 384, "content": "x: \"y\"\n"})
    );
    assert_eq!(text["files"][1]["content"], "hi");
    assert_eq!(text["files"][2]["content"], "{\"files\": [], \"units\": []}");
    assert_eq!(text["units"][0]["command"], "start");
    let reconcile = json!({"type": TYPE, "purpose": "reconcile"});
    let object = landscape
        .bring_about::<OperatingSystemConfig>("osc-original", reconcile)
        .await;
    let status = object.status.unwrap();
    assert_eq!((status.cloud_config, status.extension_files.len()), (None, 1));
    landscape.take_down::<OperatingSystemConfig>("osc").await;
    landscape.take_down::<OperatingSystemConfig>("osc-original").await;
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        Vec::<String>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn an_extension_and_a_name_come_and_go() {
    let landscape = Landscape::new().await;
    landscape.start();
    let config = json!({"type": "Jungle-ext", "providerConfig": {"n": 9007199254740993_i64, "a": [1, "é"]}});
    let object = landscape.bring_about::<Extension>("extension", config).await;
    assert_eq!(
        object.metadata.finalizers.unwrap(),
        ["extensions.gardener.cloud/Jungle-ext"]
    );
    let data = landscape
        .api::<ConfigMap>()
        .get("extension-extension")
        .await
        .unwrap()
        .data
        .unwrap();
    assert_eq!(data["providerConfig"], r#"{"a":[1,"é"],"n":9007199254740993}"#);
    let record = spec(json!({"name": "api.ape.example.org", "recordType": "A", "values": ["10.0.0.1"]}));
    let object = landscape.bring_about::<DNSRecord>("ape-internal", record).await;
    assert_eq!(object.status.unwrap().zone.as_deref(), Some("ape.example.org"));
    landscape.take_down::<Extension>("extension").await;
    landscape.take_down::<DNSRecord>("ape-internal").await;
    assert_eq!(
        ledger(&landscape.client, NAMESPACE).await.unwrap(),
        Vec::<String>::new()
    );
}
