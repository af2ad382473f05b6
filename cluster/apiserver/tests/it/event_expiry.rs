//! Old Events are deleted.

use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{Server, get, merge, post, start};

const EVENTS: &str = "/api/v1/namespaces/default/events";

async fn event(server: &Server, name: &str, times: Value) {
    let mut event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
    });
    for (field, value) in times.as_object().unwrap() {
        event[field] = value.clone();
    }
    let (code, made) = post(&server.admin(), EVENTS, &event).await;
    assert_eq!(code, 201, "{made}");
}

async fn names(server: &Server) -> Vec<String> {
    let (_, list) = get(&server.admin(), EVENTS).await;
    let items = list["items"].as_array().unwrap();
    let name = |event: &Value| event["metadata"]["name"].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn many_old_events_are_deleted_soon_and_some_at_a_time() {
    let server = start().await;
    for number in 0..1100 {
        event(&server, &format!("e{number}"), json!({})).await;
    }
    tokio::time::sleep(Duration::from_secs(3590)).await;
    let mut left = vec![names(&server).await.len()];
    // The sweep that finds them comes within its longest pause.
    for _ in 0..3900 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = names(&server).await.len();
        if left.last() != Some(&now) {
            left.push(now);
        }
        if now == 0 {
            break;
        }
    }
    assert_eq!((left.first(), left.last()), (Some(&1100), Some(&0)));
    let most = left.windows(2).map(|pair| pair[0] - pair[1]).max();
    assert!(most <= Some(500), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_an_hour_after_they_were_last_seen() {
    let server = start().await;
    let minutes = |count: u64| tokio::time::sleep(Duration::from_secs(count * 60));
    event(&server, "once", json!({"lastTimestamp": "2026-01-01T00:00:00Z"})).await;
    event(&server, "again", json!({"lastTimestamp": "2026-01-01T00:00:00Z"})).await;
    event(&server, "silent", json!({})).await;
    event(&server, "late", json!({"lastTimestamp": "2036-01-01T00:00:00Z"})).await;
    event(&server, "old", json!({"lastTimestamp": "2020-01-01T00:00:00Z"})).await;
    event(
        &server,
        "series",
        json!({"eventTime": "2026-01-01T00:00:00.000000Z", "action": "Test",
        "reportingComponent": "tests.example.org/it", "reportingInstance": "it",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:30:00.000000Z"}}),
    )
    .await;
    minutes(40).await;
    let seen = json!({"count": 2, "lastTimestamp": "2026-01-01T00:40:00Z"});
    assert_eq!(merge(&server.admin(), &format!("{EVENTS}/again"), &seen).await.0, 200);
    minutes(19).await;
    assert_eq!(
        names(&server).await,
        ["again", "late", "old", "once", "series", "silent"]
    );
    minutes(7).await;
    assert_eq!(
        names(&server).await,
        ["again", "series"],
        "a time in the future is ignored"
    );
    minutes(30).await;
    assert_eq!(names(&server).await, ["again"]);
    minutes(10).await;
    assert_eq!(names(&server).await, [""; 0]);
}
