//! Values that cannot be used, and what is reported of them.

use serde_json::{Value, json};

use crate::own;

/// That a chart refuses values, with all of these words.
#[track_caller]
fn assert_refused(chart: &str, values: &str, more: &Value, words: &[&str]) {
    let Err(why) = own::rendered_in(own::namespace(chart), chart, values, more) else {
        panic!("{chart} with {more} is rendered");
    };
    for word in words {
        assert!(why.contains(word), "{word:?} is missing: {why}");
    }
}

#[test]
fn wrong_values_of_the_garden_are_refused_by_name() {
    let refused = |more: Value, words: &[&str]| assert_refused("garden", "given", &more, words);
    refused(json!({"clusterIdentity": ""}), &["clusterIdentity is missing"]);
    refused(json!({"clusterIdentity": "A B"}), &["clusterIdentity"]);
    refused(json!({"replicas": 3}), &["replicas"]);
    refused(json!({"apiserver": {"replicaCount": "two"}}), &["replicaCount"]);
    refused(json!({"certificates": {"mode": "maybe"}}), &["mode"]);
    refused(
        json!({"apiserver": {"etcd": {"servers": []}}}),
        &["apiserver.etcd.servers is missing", "etcd.enabled"],
    );
    refused(json!({"apiserver": {"etcd": {"servers": ["etcd:2379"]}}}), &["servers"]);
    refused(
        json!({"apiserver": {"caBundle": ""}}),
        &["apiserver.caBundle is missing"],
    );
    refused(
        json!({"admission": {"tls": {"secretName": ""}}}),
        &["admission.tls.crt is missing"],
    );
    let half = json!({"apiserver": {"etcd": {"secretName": "", "caBundle": "authority"}}});
    refused(half, &["apiserver.etcd.tls.crt is missing"]);
    let keyless = json!({"apiserver": {"workloadIdentity": {"token": {"issuer": "https://a"}}}});
    refused(keyless, &["apiserver.workloadIdentity.token.key is missing"]);
    refused(
        json!({"scheduler": {"config": {"server": {"metrics": {"port": 70000}}}}}),
        &["port"],
    );
}

#[test]
fn wrong_values_of_gardenlet_are_refused_by_name() {
    let refused = |more: Value, words: &[&str]| assert_refused("gardenlet", "kubeconfig", &more, words);
    refused(json!({"config": {"seedConfig": {"metadata": {"name": ""}}}}), &["name"]);
    refused(json!({"config": {"seedConfig": null}}), &["seedConfig"]);
    refused(json!({"isolateClusterResources": true}), &["isolateClusterResources"]);
    let path = json!({"config": {"gardenClientConnection": {"kubeconfig": "/etc/garden"}}});
    refused(path, &["kubeconfig"]);
    let none = json!({"config": {"gardenClientConnection": {"kubeconfig": ""}}});
    refused(none, &["no kubeconfig of the garden", "gardenKubeconfigSecret.name"]);
    let half = json!({"config": {"gardenClientConnection": {"kubeconfig": "", "bootstrapKubeconfig": {"name": "a"}}}});
    refused(half, &["kubeconfigSecret is missing"]);
    for vector in ["images: {", "- name: etcd", "images:\n  etcd: r.example/etcd"] {
        refused(
            json!({"imageVectorOverwrite": vector}),
            &["imageVectorOverwrite has no list `images`"],
        );
    }
}

#[test]
fn address_of_the_authorizer_is_the_fixed_one() {
    let more = json!({"admission": {"service": {"clusterIP": "10.0.0.20"}}});
    let rendered = own::rendered_in(own::namespace("garden"), "garden", "given", &more).unwrap();
    let objects = own::objects_of(&rendered);
    let service = own::object(&objects, "Service", "gardener-admission-controller");
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.20");
}
