//! Audit events, as the log gets them.

use std::sync::{Arc, Mutex};

use cluster_apiserver::{AuditPolicy, AuditSink, Identity};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::server::{CONFIG_MAPS, Server, call, config_map, delete, get, post, start_with};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, nonResourceURLs: ['/healthz*']}
- {level: Metadata, resources: [{resources: [secrets]}], omitStages: [RequestReceived]}
- {level: RequestResponse, resources: [{resources: [configmaps]}], omitStages: [RequestReceived]}
- {level: Metadata}
";

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Value>>>);

impl AuditSink for Recorder {
    fn write(&self, event: Vec<u8>) {
        self.0.lock().unwrap().push(serde_json::from_slice(&event).unwrap());
    }

    fn lost(&self) -> u64 {
        7
    }
}

impl Recorder {
    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn one(&self) -> Value {
        let mut all = self.take();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
}

async fn start() -> (Server, Recorder) {
    let recorder = Recorder::default();
    let sink: Arc<dyn AuditSink> = Arc::new(recorder.clone());
    let policy = AuditPolicy::read(POLICY).unwrap();
    let server = start_with(|builder| builder.audit_events(policy, sink)).await;
    recorder.take();
    (server, recorder)
}

#[tokio::test(start_paused = true)]
async fn an_event_has_user_request_and_outcome_as_far_as_the_policy_wants() {
    let (server, recorder) = start().await;
    let client = server.admin();
    assert_eq!(
        post(
            &client,
            &format!("{CONFIG_MAPS}?fieldManager=me"),
            &config_map("m", &json!({"k": "v"}))
        )
        .await
        .0,
        201
    );
    let event = recorder.one();
    let who = json!({"username": "system:apiserver", "groups": ["system:masters", "system:authenticated"]});
    let object = json!({"resource": "configmaps", "namespace": "default", "name": "m", "apiVersion": "v1"});
    for (field, wanted) in [
        ("kind", json!("Event")),
        ("apiVersion", json!("audit.k8s.io/v1")),
        ("level", json!("RequestResponse")),
        ("stage", json!("ResponseComplete")),
        (
            "requestURI",
            json!("/api/v1/namespaces/default/configmaps?fieldManager=me"),
        ),
        ("verb", json!("create")),
        ("user", who),
        ("objectRef", object),
        ("responseStatus", json!({"metadata": {}, "code": 201})),
        ("requestReceivedTimestamp", json!("2026-01-01T00:00:00.000000Z")),
        ("requestObject", config_map("m", &json!({"k": "v"}))),
    ] {
        assert_eq!(event[field], wanted, "{field} of {event}");
    }
    assert_eq!(event["responseObject"]["data"], json!({"k": "v"}));
    assert_eq!(event["responseObject"]["metadata"].get("managedFields"), None);
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], json!("allow"));

    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hidden"}});
    assert_eq!(
        post(&client, "/api/v1/namespaces/default/secrets", &secret).await.0,
        201
    );
    let event = recorder.one();
    assert_eq!(
        (&event["level"], &event["objectRef"]["name"]),
        (&json!("Metadata"), &json!("s"))
    );
    assert!(
        !event.to_string().contains("hidden") && event.get("requestObject").is_none(),
        "{event}"
    );

    assert_eq!(delete(&client, &format!("{CONFIG_MAPS}/m")).await.0, 200);
    let status = &recorder.one()["responseStatus"];
    assert_eq!(
        (&status["status"], &status["details"]["name"]),
        (&json!("Success"), &json!("m"))
    );

    assert_eq!(get(&client, "/healthz").await.0, 200);
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn refused_impersonated_and_unauthenticated_requests_are_reported() {
    let (server, recorder) = start().await;
    let jane = server.user("jane", &["devs"]);
    let (code, status) = get(&jane, "/api/v1/nodes/n").await;
    assert_eq!(code, 403);
    let events = recorder.take();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(
        (&events[0]["stage"], events[0].get("responseStatus")),
        (&json!("RequestReceived"), None)
    );
    assert_eq!(events[0]["auditID"], events[1]["auditID"]);
    let refused = &events[1]["responseStatus"];
    assert_eq!(
        (&refused["code"], &refused["reason"], &refused["message"]),
        (&json!(403), &json!("Forbidden"), &status["message"])
    );
    assert_eq!(
        events[1]["annotations"]["authorization.k8s.io/decision"],
        json!("forbid")
    );

    let request = Request::get(CONFIG_MAPS)
        .header("impersonate-user", "joe")
        .header("user-agent", "test/1");
    let request = request
        .header("audit-id", "mine")
        .header("x-forwarded-for", "192.0.2.7, nobody");
    let response = server
        .admin()
        .send(request.body(kube::client::Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.headers()["audit-id"], "mine");
    let event = recorder.one();
    for (field, wanted) in [
        ("auditID", json!("mine")),
        ("userAgent", json!("test/1")),
        ("sourceIPs", json!(["192.0.2.7"])),
        (
            "impersonatedUser",
            json!({"username": "joe", "groups": ["system:authenticated"]}),
        ),
    ] {
        assert_eq!(event[field], wanted, "{event}");
    }
    assert_eq!(event["user"]["username"], json!("system:apiserver"));

    let stranger = server.api.client_for(Identity::Token("a.b.c".to_owned()));
    assert_eq!(get(&stranger, "/version").await.0, 401);
    let event = recorder.one();
    assert_eq!(
        (&event["stage"], &event["responseStatus"]["code"]),
        (&json!("ResponseStarted"), &json!(401))
    );
    assert_eq!(event["user"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_reported_when_it_begins_and_when_it_ends() {
    let (server, recorder) = start().await;
    let request = Request::get(format!("{CONFIG_MAPS}?watch=1"))
        .body(kube::client::Body::empty())
        .unwrap();
    let response = server.admin().send(request).await.unwrap();
    let event = recorder.one();
    assert_eq!(
        (&event["stage"], &event["verb"]),
        (&json!("ResponseStarted"), &json!("watch"))
    );
    drop(response);
    let event = recorder.one();
    assert_eq!(event["stage"], json!("ResponseComplete"));
    let (code, text) = call(&server.admin(), Method::GET, "/metrics", "", Vec::new()).await;
    let text = text.as_str().unwrap().to_owned();
    assert_eq!(code, 200);
    for line in [
        "apiserver_audit_error_total{plugin=\"log\"} 7",
        "apiserver_storage_objects{resource=\"namespaces\"} 4",
        "apiserver_storage_objects{resource=\"deployments.apps\"} 0",
        "apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4",
        "etcd_requests_total{operation=\"create\",group=\"\",resource=\"namespaces\"} 4",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    // The watch has ended.
    assert!(!text.contains("apiserver_longrunning_requests{"), "{text}");
}
