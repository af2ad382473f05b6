//! Programs with namespaces: what a container finds in a cluster, they find here. Where a machine's users have none, these
//! tests print why and prove nothing.

use std::fs;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::{World, container, is_ready, write_script};

const TESTEE: &str = env!("CARGO_BIN_EXE_programs-testee");

fn service(name: &str, ports: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pods_on_one_port_are_reached_by_name_service_and_address() {
    let script = format!("until {TESTEE} get $1 /x; do sleep 0.2; done");
    let Some(world) = World::isolated(&[("ask", &script)]).await else {
        return;
    };
    for name in ["a", "b"] {
        let probe = json!({"httpGet": {"port": 8080, "path": "/healthz"}, "periodSeconds": 1});
        let fields = json!({"args": ["serve", "8080"], "readinessProbe": probe});
        world.pod(name, "testee", fields, json!({})).await;
        let port = json!([{"port": 80, "targetPort": 8080}]);
        world.create::<Service>(service(name, port)).await;
    }
    let mut addresses = Vec::new();
    for name in ["a", "b"] {
        let pod = world.pod_until(name, is_ready).await;
        addresses.push(pod.status.unwrap().pod_ip.unwrap());
        let made: Service = world.api().get(name).await.unwrap();
        addresses.push(made.spec.unwrap().cluster_ip.unwrap());
    }
    for (number, (address, answers)) in [
        ("a:80".to_owned(), "a"),
        ("b.ns.svc.cluster.local:80".to_owned(), "b"),
        (format!("{}:8080", addresses[0]), "a"),
        (format!("{}:80", addresses[3]), "b"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("ask-{number}");
        world.pod(&name, "ask", json!({"args": [address]}), json!({})).await;
        let (phase, log) = world.outcome(&name).await;
        assert!(
            phase == "Succeeded" && log.contains(&format!("{answers} to ")),
            "{address}: {log}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_a_pod_finds_its_api_server_and_its_identity_unchanged() {
    let show = format!(
        "{TESTEE} whoami; echo \"$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT\"; echo ${{KUBECONFIG-none}}"
    );
    let Some(world) = World::isolated(&[("show", &show)]).await else {
        return;
    };
    world.pod("p", "show", json!({}), json!({})).await;
    let (_, log) = world.outcome("p").await;
    assert_eq!(log, "system:serviceaccount:ns:default\n10.96.0.1:443\nnone\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_are_at_their_paths_and_only_what_is_writable_is_written() {
    let script = r#"cat /etc/app/key; echo; touch /etc/app/x /usr/x 2>/dev/null || echo read-only; echo kept > /work/f
        cat /work/f; test -z "$(ls "$DATA" 2>/dev/null)" && echo hidden; cat /etc/hostname; grep -cw "$HOSTNAME" /etc/hosts; grep search /etc/resolv.conf
        while ! grep -q two /etc/app/key; do sleep 0.1; done; cat /etc/app/key"#;
    let Some(world) = World::isolated(&[("show", script)]).await else {
        return;
    };
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"key": "one"}}))
        .await;
    let fields = json!({
        "env": [{"name": "DATA", "value": world.data.path()}],
        "volumeMounts": [{"name": "map", "mountPath": "/etc/app"}, {"name": "work", "mountPath": "/work"}],
    });
    let spec = json!({"volumes": [{"name": "map", "configMap": {"name": "m"}}, {"name": "work", "emptyDir": {}}]});
    world.pod("p", "show", fields, spec).await;
    world.logged("p", "search").await;
    let two = Patch::Merge(json!({"data": {"key": "two"}}));
    world
        .api::<ConfigMap>()
        .patch("m", &PatchParams::default(), &two)
        .await
        .unwrap();
    let (_, log) = world.outcome("p").await;
    let search = "search ns.svc.cluster.local svc.cluster.local cluster.local";
    assert_eq!(log, format!("one\nread-only\nkept\nhidden\np\n1\n{search}\ntwo\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_volumes_are_mounted_but_not_through_links_out_of_them() {
    let outside = tempfile::tempdir().unwrap();
    let prepare = format!(
        "mkdir /work/in; ln -s in /work/link; ln -s {} /work/out",
        outside.path().display()
    );
    let write = "cat /map; echo kept > /part/file; cat /part/file";
    let Some(world) = World::isolated(&[("prepare", &prepare), ("write", write)]).await else {
        return;
    };
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "m"}, "data": {"key": "one\n"}}))
        .await;
    let spec = json!({
        "initContainers": [{"name": "a", "image": "prepare", "volumeMounts": [{"name": "work", "mountPath": "/work"}]}],
        "volumes": [{"name": "map", "configMap": {"name": "m"}}, {"name": "work", "emptyDir": {}}],
    });
    for (sub_path, expected) in [("made/deep", true), ("link", true), ("out/new", false)] {
        let mounts = json!([
            {"name": "map", "mountPath": "/map", "subPath": "key"},
            {"name": "work", "mountPath": "/part", "subPath": sub_path},
        ]);
        let name = format!("p-{}", sub_path.replace('/', "-"));
        world
            .pod(&name, "write", json!({"volumeMounts": mounts}), spec.clone())
            .await;
        let (phase, log) = world.outcome(&name).await;
        assert_eq!(
            (phase == "Succeeded", log == "one\nkept\n"),
            (expected, expected),
            "{sub_path}: {log}"
        );
        let pod = world.api::<Pod>().get(&name).await.unwrap();
        let message = container(&pod, "main")["state"]["terminated"]["message"].to_string();
        assert_eq!(
            message.contains("the path leads out of the volume"),
            !expected,
            "{message}"
        );
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_codes_probes_hooks_and_signals_are_those_of_a_container() {
    let stubborn =
        "trap '' TERM; (trap '' TERM; setsid sh -c 'while :; do sleep 1; done') & echo up; while :; do sleep 1; done";
    let Some(world) = World::isolated(&[("code", "exit 3"), ("stubborn", stubborn)]).await else {
        return;
    };
    world.pod("code", "code", json!({}), json!({})).await;
    world.outcome("code").await;
    let pod = world.api::<Pod>().get("code").await.unwrap();
    assert_eq!(container(&pod, "main")["state"]["terminated"]["exitCode"], 3);

    let probed = json!({
        "lifecycle": {"postStart": {"exec": {"command": ["touch", "/tmp/started"]}}},
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/started"]}, "periodSeconds": 1},
    });
    world
        .pod("p", "stubborn", probed, json!({"terminationGracePeriodSeconds": 1}))
        .await;
    let pod = world.pod_until("p", is_ready).await;
    let folder = world.data.path().join(pod.metadata.uid.unwrap());
    assert!(folder.exists());
    world.api::<Pod>().delete("p", &DeleteParams::default()).await.unwrap();
    world.pod_gone("p").await;
    let gone = async {
        while folder.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::cluster::PATIENCE, gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_is_started_again_stays_in_its_pod() {
    let Some(world) = World::isolated(&[("app", "echo one; while :; do sleep 0.1; done")]).await else {
        return;
    };
    world
        .pod("p", "app", json!({}), json!({"terminationGracePeriodSeconds": 1}))
        .await;
    world.logged("p", "one").await;
    write_script(&world.path("app"), "echo two; while :; do sleep 0.1; done");
    world
        .pod_until("p", |pod| container(pod, "main")["restartCount"] == 1)
        .await;
    world.logged("p", "two").await;
    assert!(fs::exists(world.path("app")).unwrap());
}
