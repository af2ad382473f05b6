//! Mounts a token into pods whose ServiceAccount has `automountServiceAccountToken: false`, as the charts of Gardener's
//! extensions do: who runs such a pod expects a token that lives longer than Kubernetes' own.
//! (gardener/gardener v1.149 pkg/resourcemanager/webhook/projectedtokenmount)

use api_meta::Fault;
use api_meta::names::SERVICE_ACCOUNT_FOLDER;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use serde_json::{Value, json};

/// What the names of token volumes begin with, those of Kubernetes too.
const VOLUME_PREFIX: &str = "kube-api-access-";
const VOLUME: &str = "kube-api-access-gardener";
/// Lifetime of a token without an annotation.
const TOKEN_SECONDS: i64 = 43_200;
/// How long the token of a pod with this annotation lives, in seconds.
const TOKEN_SECONDS_ANNOTATION: &str = "projected-token-mount.resources.gardener.cloud/expiration-seconds";

/// The JSON patch for the pod of a review; empty if nothing is to be done.
///
/// # Errors
/// The pod's account cannot be read, or the annotation is no number.
pub(super) async fn patch(target: &Client, request: &Value) -> Result<Vec<Value>, Fault> {
    let pod = &request["object"];
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if account.is_empty() || account == "default" || !may_mount(pod) {
        return Ok(Vec::new());
    }
    // A pod that is created may have no namespace of its own.
    let namespace = request["namespace"].as_str().unwrap_or_default();
    let accounts: Api<ServiceAccount> = Api::namespaced(target.clone(), namespace);
    let found = base_client::get(&accounts, account).await?;
    let wants = found.and_then(|account| account.automount_service_account_token);
    match wants {
        Some(false) => mount(pod),
        Some(true) | None => Ok(Vec::new()),
    }
}

/// Whether the pod itself leaves room for a token.
fn may_mount(pod: &Value) -> bool {
    let has_token = |volume: &Value| {
        volume["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(VOLUME_PREFIX))
    };
    pod["spec"]["automountServiceAccountToken"] != false && !each(&pod["spec"]["volumes"]).any(has_token)
}

fn mount(pod: &Value) -> Result<Vec<Value>, Fault> {
    let seconds = seconds(pod)?;
    let volume = json!({"name": VOLUME, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": seconds, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"},
        ]}},
    ]}});
    let mount = json!({"name": VOLUME, "mountPath": SERVICE_ACCOUNT_FOLDER, "readOnly": true});
    let mut patch = vec![append("/spec", "volumes", &pod["spec"], volume)];
    for list in ["containers", "initContainers"] {
        for (index, container) in each(&pod["spec"][list]).enumerate() {
            let place = format!("/spec/{list}/{index}");
            patch.push(append(&place, "volumeMounts", container, mount.clone()));
        }
    }
    Ok(patch)
}

fn seconds(pod: &Value) -> Result<i64, Fault> {
    let Some(given) = pod["metadata"]["annotations"][TOKEN_SECONDS_ANNOTATION].as_str() else {
        return Ok(TOKEN_SECONDS);
    };
    given.parse().map_err(|_| {
        Fault::user(format!(
            "annotation {TOKEN_SECONDS_ANNOTATION} is {given:?}, a number of seconds is allowed"
        ))
    })
}

/// Puts one more item into a list that may not be there yet.
fn append(place: &str, list: &str, owner: &Value, item: Value) -> Value {
    match owner[list].is_array() {
        true => json!({"op": "add", "path": format!("{place}/{list}/-"), "value": item}),
        false => json!({"op": "add", "path": format!("{place}/{list}"), "value": [item]}),
    }
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_without_token_gets_one_in_every_container() {
        let pod = json!({
            "metadata": {"annotations": {TOKEN_SECONDS_ANNOTATION: "600"}},
            "spec": {"containers": [{"name": "a", "volumeMounts": [{"name": "x"}]}, {"name": "b"}], "initContainers": [{"name": "i"}]},
        });
        let patch = mount(&pod).unwrap();
        let paths: Vec<&str> = patch
            .iter()
            .filter_map(|operation| operation["path"].as_str())
            .collect();
        assert_eq!(
            paths,
            [
                "/spec/volumes",
                "/spec/containers/0/volumeMounts/-",
                "/spec/containers/1/volumeMounts",
                "/spec/initContainers/0/volumeMounts",
            ]
        );
        let volume = &patch[0]["value"][0];
        assert_eq!(
            volume.pointer("/projected/sources/0/serviceAccountToken/expirationSeconds"),
            Some(&json!(600))
        );
        assert_eq!(patch[2]["value"][0]["mountPath"], SERVICE_ACCOUNT_FOLDER);
    }

    #[test]
    fn pod_with_a_token_or_without_the_wish_is_left_alone() {
        assert!(may_mount(&json!({"spec": {"volumes": [{"name": "data"}]}})));
        assert!(!may_mount(&json!({"spec": {"automountServiceAccountToken": false}})));
        assert!(!may_mount(
            &json!({"spec": {"volumes": [{"name": "kube-api-access-x"}]}})
        ));
    }

    #[test]
    fn annotation_that_is_no_number_is_refused_with_its_name() {
        let pod = json!({"metadata": {"annotations": {TOKEN_SECONDS_ANNOTATION: "1h"}}, "spec": {}});
        assert!(mount(&pod).unwrap_err().to_string().contains(TOKEN_SECONDS_ANNOTATION));
    }
}
