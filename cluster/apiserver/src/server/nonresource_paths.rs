//! Paths that are no resources: version, health, metrics, discovery, OpenAPI.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cluster_access::{CONFIGURATION_PATH, KEYS_PATH};
use cluster_store::{Page, Range};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;

use crate::discovery::{documents, openapi};
use crate::state::metrics::Now;
use crate::state::readiness;
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::metrics_text::describe;
use crate::wire::negotiation;
use crate::wire::path::RequestInfo;
use crate::wire::query::Query;
use crate::wire::status::{self, Status};

const KEY_SET: &str = "application/jwk-set+json";
/// `Cache-Control` of keys that never change while the server runs (kubernetes/kubernetes v1.35
/// pkg/serviceaccount/openidmetadata.go).
const KEYS_CACHING: &str = "public, max-age=3600";

pub(crate) async fn answer(
    server: &Arc<ServerState>,
    info: &RequestInfo,
    parts: &Parts,
    query: &Query,
) -> Result<Answer, Status> {
    let segments: Vec<&str> = info.path.split('/').filter(|part| !part.is_empty()).collect();
    // CONNECT is refused: a success would open a tunnel.
    if info.has_gap || parts.method == Method::CONNECT {
        return Err(Status::no_such_page());
    }
    // The other paths do not look at the method.
    if info.verb != "get" && matches!(segments.as_slice(), ["api", ..] | ["apis", _, _] | ["version"]) {
        return Err(Status::method_not_allowed());
    }
    match segments.as_slice() {
        [] => Ok(paths(server)),
        ["version"] => negotiation::check_json(&parts.headers).map(|()| version(server)),
        ["metrics"] => Ok(metrics(server).await),
        ["healthz" | "livez" | "readyz", rest @ ..] => health(server, segments[0], rest, query),
        ["api" | "apis", ..] => documents::answer(server, &segments, &parts.headers),
        ["openapi", "v3", rest @ ..] => openapi::answer(server, rest),
        ["openapi", "v2"] => Ok(openapi::v2_document(&parts.headers)),
        ["openid", "v1", "jwks", rest @ ..] => issuer(server, true, rest, parts),
        [".well-known", "openid-configuration", rest @ ..] => issuer(server, false, rest, parts),
        _ => Err(Status::no_such_page()),
    }
}

async fn metrics(server: &ServerState) -> Answer {
    let mut text = server.metrics.show(now(server));
    server.store_metrics.show(&mut text);
    show_objects(server, &mut text).await;
    Answer::typed(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}

/// How many objects there are of each kind, from the store: a page of one has the number of those that follow.
async fn show_objects(server: &ServerState, text: &mut String) {
    let kinds = server.registry.snapshot();
    let mut counts: Vec<(String, String, i64)> = Vec::new();
    for served in kinds.groups().flat_map(|(_, kinds)| kinds.values()) {
        let page = Page {
            limit: NonZeroUsize::new(1),
            ..Page::default()
        };
        // Counts the newest state, which is cheap enough for a scrape every few seconds.
        let listed = server.store.list(&Range::all(&*served.store_name), page).await;
        let count = listed.map(|listing| listing.entries.len() + listing.remaining);
        let count = count.ok().and_then(|count| i64::try_from(count).ok()).unwrap_or(-1);
        counts.push((served.group().to_owned(), served.plural().to_owned(), count));
    }
    counts.sort();
    counts.dedup();
    let name = "apiserver_storage_objects";
    describe(
        text,
        (name, "gauge"),
        "Number of stored objects split by kind; -1 where the store did not say.",
    );
    for (group, plural, count) in &counts {
        let _ = writeln!(
            text,
            "{name}{{resource=\"{}\"}} {count}",
            status::qualified(group, plural)
        );
    }
    let name = "apiserver_resource_objects";
    describe(
        text,
        (name, "gauge"),
        "Number of stored objects split by kind; -1 where the store did not say.",
    );
    for (group, plural, count) in &counts {
        let _ = writeln!(text, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {count}");
    }
}

fn now(server: &ServerState) -> Now {
    let (reading, changing) = server.fairness.in_flight();
    Now {
        reading,
        changing,
        audit: server.auditing.as_ref().map(|auditing| auditing.counts()),
    }
}

fn paths(server: &ServerState) -> Answer {
    let kinds = server.registry.snapshot();
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.retain(|path| kinds.has_core() || !path.starts_with("/api/") && path != "/api");
    if server.access.issuer.is_some() {
        paths.extend([CONFIGURATION_PATH, KEYS_PATH].map(|path| format!("{path}/")));
    }
    for group in documents::group_names(&kinds).iter().filter(|group| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        let versions = documents::version_names(&kinds, group);
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    let checks = server.readiness.run();
    paths.extend(checks.iter().map(|(check, _)| format!("/readyz/{check}")));
    paths.sort();
    Answer::value(StatusCode::OK, &json!({"paths": paths}))
}

fn version(server: &ServerState) -> Answer {
    let git_version = server.git_version.as_str();
    let mut numbers = git_version.trim_start_matches('v').split(['.', '-', '+']);
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    // It behaves as that version alone; storage may be shared with the one before.
    let before = minor.parse::<u32>().unwrap_or_default().saturating_sub(1).to_string();
    let body = json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": before, "gitVersion": git_version,
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    });
    Answer::value(StatusCode::OK, &body)
}

/// What the issuer of service account tokens publishes
/// (kubernetes/kubernetes v1.35 pkg/routes/openidmetadata.go).
fn issuer(server: &ServerState, wants_keys: bool, below: &[&str], parts: &Parts) -> Result<Answer, Status> {
    let documents = server.access.issuer.as_ref().ok_or_else(Status::no_such_page)?;
    if !below.is_empty() {
        return Err(Status::no_such_resource());
    }
    if parts.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let (media_type, document) = match wants_keys {
        true => (KEY_SET, &documents.keys),
        false => (negotiation::JSON, &documents.configuration),
    };
    negotiation::check(&parts.headers, media_type)?;
    Ok(Answer::typed(StatusCode::OK, media_type, document.clone()).with_caching(KEYS_CACHING))
}

/// A check that is requested by name.
fn single(checks: &[(String, Result<(), String>)]) -> Answer {
    match checks.iter().find_map(|(_, outcome)| outcome.as_ref().err()) {
        None => Answer::text(StatusCode::OK, "ok".to_owned()),
        Some(why) => {
            let text = format!("internal server error: {why}\n");
            Answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

fn health(server: &ServerState, endpoint: &str, rest: &[&str], query: &Query) -> Result<Answer, Status> {
    let mut checks = if endpoint == "readyz" {
        server.readiness.run()
    } else {
        vec![("ping".to_owned(), Ok(()))]
    };
    match rest {
        [] => {}
        [name] => {
            checks.retain(|(check, _)| check == name);
            if checks.is_empty() {
                return Err(Status::no_such_page());
            }
            return Ok(single(&checks));
        }
        _ => return Err(Status::no_such_page()),
    }
    // As in kube-apiserver, the value of `verbose` does not matter.
    let (code, text) = readiness::show(
        endpoint,
        &checks,
        &query.all("exclude").collect::<Vec<_>>(),
        query.get("verbose").is_some(),
    );
    Ok(Answer::text(code, text))
}
