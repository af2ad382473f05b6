//! Checks whether the server behind an APIService is available: requests the resources of its version, and writes the outcome
//! into the condition `Available`. Its documents are cached for discovery. Where requests go is not decided here.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kube-aggregator/pkg/controllers/status)

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cluster_access::User;
use cluster_access::front_proxy::identity_headers;
use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::{Entry, Key, Object, Page, Range, StoreError};
use http::{Request, StatusCode, header};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::configuration::backend::{Backend, Documents, condition};
use crate::discovery::documents;
use crate::kinds::metadata;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::resource_names::{API_REGISTRATION, API_SERVICES};
use crate::wire::status::Status;

/// How long a server may take to answer a check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often servers are probed when nothing changes.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The pause after failures, which is doubled for each of them, up to [`CHECK_EVERY`].
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often a status is written again when others write in between.
const TRIES_MAX: usize = 5;
/// The user of the requests of checks.
const CHECKER: &str = "system:kube-aggregator";
/// The field manager of the condition.
pub(crate) const MANAGER: &str = "kube-apiserver";

/// What a check has found: status, reason and message of the condition.
type Found = (&'static str, &'static str, String);

/// Checks servers until this one stops.
pub(crate) fn start(server: &Arc<ServerState>) {
    let server = server.clone();
    server.clone().tasks.spawn(async move {
        let stop = server.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = run(&server) => {}
        }
    });
}

async fn run(server: &Arc<ServerState>) {
    let mut pause = AGAIN_AFTER;
    loop {
        let all_available = match check_all(server).await {
            Ok(all_available) => all_available,
            Err(error) => {
                tracing::warn!(server = %server.name, %error, "APIServices were not checked");
                false
            }
        };
        let delay = match all_available {
            true => CHECK_EVERY,
            false => (pause * 2).min(CHECK_EVERY),
        };
        pause = if all_available { AGAIN_AFTER } else { delay };
        let timer = async {
            match server.aggregation.is_used() || !all_available {
                true => sleep(delay).await,
                // Without other servers nothing changes by itself.
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = server.aggregation.changed.notified() => {}
            () = timer => {}
        }
    }
}

/// Checks all of them. True: all are available.
async fn check_all(server: &Arc<ServerState>) -> Result<bool, StoreError> {
    let listing = server.store.list(&Range::all(API_SERVICES), Page::default()).await?;
    let mut all_available = true;
    // A server that does not answer delays no other check.
    let checks = listing.entries.iter().map(|entry| check(server, entry));
    for outcome in futures::future::join_all(checks).await {
        all_available &= outcome?;
    }
    Ok(all_available)
}

async fn check(server: &Arc<ServerState>, entry: &Entry) -> Result<bool, StoreError> {
    let object = entry.object.value(entry.revision);
    let service = &object["spec"]["service"];
    if !service.is_object() {
        let message = "Local APIServices are always available".to_owned();
        set(server, &entry.key, &object, ("True", "Local", message)).await?;
        return Ok(true);
    }
    let text = |field: &str| object["spec"][field].as_str().unwrap_or_default().to_owned();
    let route = server
        .aggregation
        .routes()
        .get(&(text("group"), text("version")))
        .cloned();
    let Some(route) = route else { return Ok(true) };
    let found = match of_service(server, service).await? {
        Some(found) => found,
        None => discovery_check(server, &route.backend).await,
    };
    let available = found.0 == "True";
    set(server, &entry.key, &object, found).await?;
    Ok(available)
}

/// What is wrong with the Service, before any request is sent.
async fn of_service(server: &ServerState, service: &Value) -> Result<Option<Found>, StoreError> {
    let text = |field: &str| service[field].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = service["port"].as_i64().unwrap_or(443);
    let shown = format!("service/{name} in {namespace:?}");
    let key = Key::new("services", Some(namespace), name);
    let Some(found) = server.store.get(&key).await? else {
        return Ok(Some(("False", "ServiceNotFound", format!("{shown} is not present"))));
    };
    let found = found.object.value(found.revision);
    if found["spec"]["type"] != "ClusterIP" {
        return Ok(None);
    }
    let ports = found["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let Some(own) = ports.iter().find(|own| own["port"].as_i64() == Some(port)) else {
        let message = format!("{shown} is not listening on port {port}");
        return Ok(Some(("False", "ServicePortError", message)));
    };
    let port_name = own["name"].as_str().unwrap_or_default();
    let range = Range::namespaced("discovery.k8s.io/endpointslices", namespace);
    let mut slices = server.store.list(&range, Page::default()).await?.entries;
    let label = "kubernetes.io/service-name";
    slices.retain(|slice| slice.object.meta().labels.get(label).is_some_and(|of| of == name));
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for {shown}");
        return Ok(Some(("False", "EndpointsNotFound", message)));
    }
    let active = slices.iter().any(|slice| {
        let slice = slice.object.value(slice.revision);
        let list = |field: &str| slice[field].as_array().cloned().unwrap_or_default();
        let ready = |endpoint: &Value| endpoint["conditions"]["ready"] != false;
        let named = |port: &Value| port["name"].as_str() == Some(port_name) && port["port"].is_number();
        list("endpoints").iter().any(ready) && list("ports").iter().any(named)
    });
    if !active {
        let message = format!("endpointslices for {shown} have no addresses with port name {port_name:?}");
        return Ok(Some(("False", "MissingEndpoints", message)));
    }
    Ok(None)
}

async fn discovery_check(server: &ServerState, backend: &Arc<Backend>) -> Found {
    let failed = |message: String| ("False", "FailedDiscoveryCheck", message);
    let address = match backend.address(&server.network).await {
        Ok(address) => address,
        Err(why) => return failed(why),
    };
    let url = format!("{address}{}", backend.root());
    let outcome = fetch(server, backend, &backend.root(), "application/json").await;
    match outcome {
        Err(why) => failed(format!("failing or missing response from {url}: Get {url:?}: {why}")),
        Ok((code, _)) if !code.is_success() => failed(format!(
            "failing or missing response from {url}: bad status from {url}: {}",
            code.as_u16()
        )),
        Ok((_, body)) => {
            let documents = published(server, backend, &body).await;
            *backend.documents.lock().unwrap_or_else(PoisonError::into_inner) = documents;
            ("True", "Passed", "all checks passed".to_owned())
        }
    }
}

async fn fetch(
    server: &ServerState,
    backend: &Backend,
    path: &str,
    accept: &str,
) -> Result<(StatusCode, bytes::Bytes), String> {
    let mut request = Request::get(path)
        .header(header::ACCEPT, accept)
        .header(header::USER_AGENT, "Go-http-client/1.1");
    for (name, value) in identity_headers(&User::new(CHECKER, &["system:masters"])) {
        request = request.header(name, value);
    }
    let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
    let late = |_| Err("context deadline exceeded".to_owned());
    timeout(CHECK_TIMEOUT, backend.fetch(&server.network, request))
        .await
        .unwrap_or_else(late)
}

/// What the server publishes about its version, for the documents that list all versions.
async fn published(server: &ServerState, backend: &Backend, list: &[u8]) -> Documents {
    let list: Value = serde_json::from_slice(list).unwrap_or_default();
    let resources = list["resources"].as_array().cloned().unwrap_or_default();
    let resources = documents::of_list(&backend.group, &backend.version, &resources);
    let index = fetch(server, backend, "/openapi/v3", "application/json").await;
    let index: Value = match index {
        Ok((code, body)) if code.is_success() => serde_json::from_slice(&body).unwrap_or_default(),
        _ => Value::Null,
    };
    let path = backend.root();
    let openapi = index["paths"].get(path.trim_start_matches('/')).cloned();
    Documents {
        resources: Some(resources),
        openapi,
    }
}

/// The condition of an APIService that this server serves itself.
pub(crate) fn local_condition(now: jiff::Timestamp) -> Value {
    json!({
        "type": "Available", "status": "True", "lastTransitionTime": metadata::timestamp(now), "reason": "Local",
        "message": "Local APIServices are always available",
    })
}

/// The condition that an object is to have, if it differs from its own.
fn changed(object: &Value, (is, reason, message): &Found, now: jiff::Timestamp) -> Option<Value> {
    let before = condition(object);
    let since = before.filter(|before| before["status"] == *is);
    let since = since.and_then(|before| before.get("lastTransitionTime").cloned());
    let since = since.unwrap_or_else(|| Value::String(metadata::timestamp(now)));
    let condition =
        json!({"type": "Available", "status": is, "lastTransitionTime": since, "reason": reason, "message": message});
    (before != Some(&condition)).then_some(condition)
}

/// Writes the condition if it differs.
async fn set(server: &Arc<ServerState>, key: &Key, checked: &Value, found: Found) -> Result<(), StoreError> {
    if changed(checked, &found, server.clock.now()).is_none() {
        return Ok(());
    }
    let kinds = server.registry.snapshot();
    let Some(served) = kinds.find(API_REGISTRATION, "apiservices") else {
        return Ok(());
    };
    for _ in 0..TRIES_MAX {
        let Some(entry) = server.store.get(key).await? else {
            return Ok(());
        };
        let old = entry.object.value(entry.revision);
        // It has changed since: the next check reports on what it is now.
        if old["spec"] != checked["spec"] {
            return Ok(());
        }
        let (mut new, now) = (old.clone(), server.clock.now());
        let Some(condition) = changed(&old, &found, now) else {
            return Ok(());
        };
        let conditions = old.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions: Vec<Value> = conditions.cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "Available");
        conditions.push(condition);
        new["status"] = json!({"conditions": conditions});
        let options = UpdateOptions {
            manager: MANAGER,
            subresource: "status",
            time: now,
            api_version: "apiregistration.k8s.io/v1",
        };
        let schema = served.kind.schema("v1").unwrap_or_else(Schema::any);
        track_update(Some(&old), &mut new, options, &schema);
        match server.store.update(key, entry.revision, Object::from_value(new)?).await {
            Ok(entry) => {
                server.observe_own_write(served, &entry, false);
                return Ok(());
            }
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Loads the APIServices that are stored when the server starts.
pub(crate) async fn load(server: &ServerState) -> Result<(), Status> {
    let listing = server.store.list(&Range::all(API_SERVICES), Page::default()).await;
    for entry in &listing.map_err(store_status)?.entries {
        server.aggregation.update_routes(entry, false);
    }
    Ok(())
}
