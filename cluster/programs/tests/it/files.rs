//! Volumes as files: what is in them, how they change, who else sees them.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cluster::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_are_files_with_their_modes_and_paths_lead_there() {
    let world = World::new(&[(
        "show",
        r#"cat "$1"; echo; cat "${2#--config=}"; echo; stat -L -c %a "$1"; cat "$ORANGERY_ROOT/etc/info/labels"; echo
           cat "$FILE""#,
    )])
    .await;
    world
        .create::<Secret>(json!({"metadata": {"name": "s"}, "stringData": {"key": "secret"}}))
        .await;
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"config": "from the map"}}))
        .await;
    let fields = json!({
        "args": ["/etc/secret/key", "--config=/etc/map/nested/config"],
        "env": [{"name": "FILE", "value": "/etc/map/nested/config"}],
        "volumeMounts": [
            {"name": "secret", "mountPath": "/etc/secret"}, {"name": "map", "mountPath": "/etc/map"},
            {"name": "info", "mountPath": "/etc/info"},
        ],
    });
    let volumes = json!([
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
        {"name": "map", "configMap": {"name": "m", "items": [{"key": "config", "path": "nested/config"}]}},
        {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]);
    world.pod("p", "show", fields, json!({"volumes": volumes})).await;
    let (_, log) = world.outcome("p").await;
    assert_eq!(log, "secret\nfrom the map\n400\napp=\"p\"\nfrom the map\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mounted_source_changes_under_a_running_program() {
    let script = r#"cat /etc/hostname > /dev/null; echo "first: $(cat "$1")"
        while ! grep -q two "$1"; do sleep 0.1; done; echo "second: $(cat "$1")""#;
    let world = World::new(&[("follow", script)]).await;
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"key": "one"}}))
        .await;
    let fields = json!({"args": ["/etc/map/key"], "volumeMounts": [{"name": "map", "mountPath": "/etc/map"}]});
    let spec = json!({"volumes": [{"name": "map", "configMap": {"name": "m"}}]});
    world.pod("p", "follow", fields, spec).await;
    world.logged("p", "first: one").await;
    let maps = world.api::<ConfigMap>();
    let two = Patch::Merge(json!({"data": {"key": "two"}}));
    maps.patch("m", &PatchParams::default(), &two).await.unwrap();
    let (_, log) = world.outcome("p").await;
    assert_eq!(log, "first: one\nsecond: two\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_mounts_kubeconfig_leads_to_the_api_server_with_the_pods_own_token() {
    let script = r#"cat "$KUBECONFIG"; echo; token=$(sed -n 's/.*tokenFile: *//p' "$KUBECONFIG" | tr -d '"')
        test -s "$token" && echo "token: yes"; echo "host: ${KUBERNETES_SERVICE_HOST-none}""#;
    let world = World::new(&[("identity", script)]).await;
    world.pod("p", "identity", json!({}), json!({})).await;
    let (_, log) = world.outcome("p").await;
    assert!(log.contains(world.cluster.url()) && log.contains("token: yes"), "{log}");
    assert!(
        log.ends_with("host: none\n"),
        "a client is not to look for a mounted token: {log}"
    );
}
