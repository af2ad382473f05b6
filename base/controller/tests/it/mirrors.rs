//! Mirrors of other clusters.

use base_client::{apply, delete};
use base_controller::{Cache, MirrorChange, Mirrors, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::server::{Server, map, start};

/// Every ConfigMap is an owner of the mirror of its name, unless its value is "none".
async fn mirrors(server: &Server) -> (Cache<ConfigMap>, Mirrors<Namespace>, UnboundedReceiver<MirrorChange>) {
    let owners = server.cache();
    let home = |owner: &ConfigMap| {
        let value = owner.data.as_ref().and_then(|data| data.get("value"));
        (value.map(String::as_str) != Some("none")).then(|| owner.name_any())
    };
    let (mirrors, changes) = Mirrors::new(&owners, home, server.stop.clone());
    owners.ready().await;
    (owners, mirrors, changes)
}

/// Waits until the mirror of the owners is as wanted and has notified its subscribers.
async fn until(owners: &Cache<ConfigMap>, name: &str, wanted: impl Fn(Option<&ConfigMap>) -> bool) {
    let mut changes = owners.subscribe();
    let key = ObjectKey::namespaced("default", name);
    while !wanted(owners.get(&key).as_deref()) {
        changes.next().await;
    }
    // The subscribers notified with us have had their turn when all is idle.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_mirror_is_open_while_it_has_an_owner_and_reports_changes() {
    let server = start().await;
    server.create("a").await;
    let (owners, mirrors, mut changes) = mirrors(&server).await;
    let connect = || Ok(server.client.clone());
    let mirror = mirrors.open("a", Some("1"), connect).unwrap().unwrap();
    mirror.objects.ready().await;
    let first = changes.recv().await.unwrap();
    assert_eq!((first.namespace.as_str(), first.name), ("a", None));
    let namespace: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": "new"}})).unwrap();
    Api::<Namespace>::all(server.client.clone())
        .create(&Default::default(), &namespace)
        .await
        .unwrap();
    let name = loop {
        let name = changes.recv().await.unwrap().name;
        if name.as_deref() == Some("new") {
            break name;
        }
    };
    assert_eq!(name.as_deref(), Some("new"));
    let same = || panic!("one of the same version is there");
    assert!(mirrors.open("a", Some("1"), same).unwrap().is_some());
    let connections = std::cell::Cell::new(0);
    let again = || {
        connections.set(connections.get() + 1);
        Ok(server.client.clone())
    };
    mirrors.open("a", Some("2"), again).unwrap();
    mirrors.open("a", None, again).unwrap();
    mirrors.open("a", None, again).unwrap();
    assert_eq!(connections.get(), 3, "another version, and none at all");

    delete(&server.maps, "a").await.unwrap();
    until(&owners, "a", |owner| owner.is_none()).await;
    assert!(mirrors.get("a").is_none(), "its owner has gone");
}

#[tokio::test(start_paused = true)]
async fn mirror_is_not_opened_after_its_last_owner_is_gone() {
    let server = start().await;
    for name in ["deleted", "changed"] {
        server.create(name).await;
    }
    let (owners, mirrors, _changes) = mirrors(&server).await;
    for name in ["deleted", "changed"] {
        assert!(
            mirrors
                .open(name, None, || Ok(server.client.clone()))
                .unwrap()
                .is_some()
        );
    }
    delete(&server.maps, "deleted").await.unwrap();
    apply(&server.maps, &map("changed", "none"), "t").await.unwrap();
    until(&owners, "deleted", |owner| owner.is_none()).await;
    until(&owners, "changed", |owner| {
        owner.is_some_and(|owner| owner.data.as_ref().unwrap()["value"] == "none")
    })
    .await;
    for name in ["deleted", "changed", "never"] {
        assert!(mirrors.get(name).is_none(), "{name} is closed");
        let late = mirrors.open(name, None, || panic!("{name} has no owner"));
        assert!(late.unwrap().is_none());
    }
}
