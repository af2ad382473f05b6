//! Watches: initial events, resuming, bookmarks, expiry, selectors.

use std::time::Duration;

use cluster_store::{HISTORY_CHANGES_MAX, HISTORY_FRESH_AGE};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, config_map, delete, get, merge, post, start};

fn shown(event: &WatchEvent<ConfigMap>) -> String {
    let name = |object: &ConfigMap| object.metadata.name.clone().unwrap();
    match event {
        WatchEvent::Added(object) => format!("added {}", name(object)),
        WatchEvent::Modified(object) => format!("modified {}", name(object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(object)),
        WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.annotations.len()),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_is_there_and_resumes_where_it_ended() {
    let server = start().await;
    let client = server.admin();
    let (_, first) = post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut events = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    assert_eq!(shown(&events.try_next().await.unwrap().unwrap()), "added a");
    assert_eq!(shown(&events.try_next().await.unwrap().unwrap()), "bookmark 1");
    post(&client, CONFIG_MAPS, &config_map("b", &json!({}))).await;
    merge(&client, &format!("{CONFIG_MAPS}/b"), &json!({"data": {"k": "v"}})).await;
    delete(&client, &format!("{CONFIG_MAPS}/a")).await;
    for expected in ["added b", "modified b", "deleted a"] {
        assert_eq!(shown(&events.try_next().await.unwrap().unwrap()), expected);
    }
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let resumed = api.watch(&WatchParams::default(), version).await.unwrap().take(3);
    let resumed: Vec<String> = resumed.map(|event| shown(&event.unwrap())).collect().await;
    assert_eq!(resumed, ["added b", "modified b", "deleted a"]);
    assert_eq!(server.api.watches(), 1, "a dropped watch is closed");
}

#[tokio::test(start_paused = true)]
async fn a_selector_turns_changes_into_additions_and_deletions() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({"k": "1"}))).await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut events = api
        .watch(&WatchParams::default().labels("on=yes").disable_bookmarks(), "0")
        .await
        .unwrap()
        .boxed();
    let path = format!("{CONFIG_MAPS}/a");
    for labels in [
        json!({"on": "yes"}),
        json!({"on": "yes", "more": "x"}),
        json!({"on": "no"}),
    ] {
        merge(&client, &path, &json!({"metadata": {"labels": labels}})).await;
    }
    for expected in ["added a", "modified a", "deleted a"] {
        assert_eq!(shown(&events.try_next().await.unwrap().unwrap()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_report_the_newest_version_to_an_idle_watch() {
    let server = start().await;
    let client = server.admin();
    let (_, list) = get(&client, CONFIG_MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut events = api.watch(&WatchParams::default(), version).await.unwrap().boxed();
    // A write of another resource moves the store on.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let (_, made) = post(&client, "/api/v1/namespaces", &namespace).await;
    let Some(WatchEvent::Bookmark(bookmark)) = events.try_next().await.unwrap() else {
        panic!("no bookmark")
    };
    assert_eq!(made["metadata"]["resourceVersion"], bookmark.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let streaming = WatchParams::default().initial_events();
    let events = api.watch(&streaming, "0").await.unwrap().take(2);
    let events: Vec<String> = events.map(|event| shown(&event.unwrap())).collect().await;
    assert_eq!(events.first().unwrap(), "added a");
    assert_eq!(events.last().unwrap(), "bookmark 1");
}

#[tokio::test(start_paused = true)]
async fn a_version_older_than_the_history_or_ahead_of_the_store_is_expired() {
    let server = start().await;
    let client = server.admin();
    let (_, made) = post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    for round in 0..=HISTORY_CHANGES_MAX {
        if round == HISTORY_CHANGES_MAX {
            // A burst stays in the history while it is fresh.
            tokio::time::advance(HISTORY_FRESH_AGE + Duration::from_secs(1)).await;
        }
        merge(
            &client,
            &format!("{CONFIG_MAPS}/a"),
            &json!({"data": {"round": round.to_string()}}),
        )
        .await;
    }
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let (code, expired) = get(&client, &format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}")).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    let (code, _) = get(&client, &format!("{CONFIG_MAPS}?watch=1&resourceVersion=99999999")).await;
    assert_eq!(code, 410);
    let (code, ahead) = get(&client, &format!("{CONFIG_MAPS}?resourceVersion=99999999")).await;
    assert_eq!(
        (code, &ahead["details"]["causes"][0]["reason"]),
        (504, &json!("ResourceVersionTooLarge"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_up_and_when_the_server_stops() {
    let server = start().await;
    let client = server.admin();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let begun = tokio::time::Instant::now();
    let events = api
        .watch(&WatchParams::default().timeout(30).disable_bookmarks(), "0")
        .await
        .unwrap();
    assert_eq!(events.count().await, 0);
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
    let quiet = WatchParams::default().disable_bookmarks();
    let events = api.watch(&quiet, "0").await.unwrap();
    let stop = async {
        server.api.shutdown().await;
    };
    let (count, ()) = tokio::join!(events.count(), stop);
    assert_eq!(count, 0);
    let (code, refused) = get(&client, CONFIG_MAPS).await;
    assert_eq!((code, &refused["reason"]), (503, &json!("ServiceUnavailable")));
}

#[tokio::test(start_paused = true)]
async fn raw_watch_lines_are_kubernetes_events() {
    let server = start().await;
    let client = server.admin();
    post(&client, CONFIG_MAPS, &config_map("a", &json!({}))).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1");
    let (code, text) = crate::server::send_text(&client, Request::get(path).body(Vec::new()).unwrap()).await;
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (code, &line["type"], &line["object"]["kind"]),
        (200, &json!("ADDED"), &json!("ConfigMap"))
    );
}
