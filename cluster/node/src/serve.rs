//! What a node answers to callers of the node rather than of the API server, as a kubelet's port does: its pods, logs of
//! containers, commands in them, ports of pods. It opens no socket; its owner serves it, or calls it in the same process. It does
//! not authenticate callers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base_client::{HttpService, ResponseBody, full_body, stream_body};
use base_clock::Clock;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use kube::client::Body;
use serde_json::Value;

use crate::Network;
use crate::exec;
use crate::forward;
use crate::log::{Reading, read};
use crate::shown::{NoLog, Shown};

/// What is refused, and what to do instead. Without a colon: kube-apiserver would read it as YAML, and show nothing of it
/// (k8s.io/apimachinery v0.35 pkg/util/httpstream/spdy/roundtripper.go NewConnection).
const NO_ATTACH: &str = "this node attaches to no container. kubectl logs -f shows what one prints, and kubectl exec runs a further \
                         command in one that is a program";

/// The services of the nodes in this process, by name. Clones are the same.
#[derive(Clone, Default)]
pub struct NodeServices(Arc<Mutex<Services>>);

#[derive(Default)]
struct Services {
    by_node: BTreeMap<String, (u64, HttpService)>,
    /// The number of the newest one.
    last_id: u64,
}

impl NodeServices {
    /// The service of a node that runs now.
    pub fn find(&self, node: &str) -> Option<HttpService> {
        let services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        services.by_node.get(node).map(|(_, service)| service.clone())
    }

    /// Adds a node's, until the returned value is dropped. It replaces that of a node of the same name, which may still be
    /// stopping.
    pub(crate) fn add(&self, node: &str, service: HttpService) -> Added {
        let mut services = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        services.last_id += 1;
        let id = services.last_id;
        services.by_node.insert(node.to_owned(), (id, service));
        Added {
            services: self.clone(),
            node: node.to_owned(),
            id,
        }
    }
}

/// A node among the services.
pub(crate) struct Added {
    services: NodeServices,
    node: String,
    id: u64,
}

impl Drop for Added {
    fn drop(&mut self) {
        let mut services = self.services.0.lock().unwrap_or_else(PoisonError::into_inner);
        if services.by_node.get(&self.node).is_some_and(|(id, _)| *id == self.id) {
            services.by_node.remove(&self.node);
        }
    }
}

/// The service of a node.
pub(crate) fn service(shown: Shown, network: Network, clock: Clock) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let answer = answer(&shown, &network, &clock, &request);
        async move { Ok::<_, Infallible>(answer) }
    }))
}

fn answer(shown: &Shown, network: &Network, clock: &Clock, request: &Request<Body>) -> Response<ResponseBody> {
    let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
    let query = request.uri().query().unwrap_or_default();
    match (request.method(), path.as_slice()) {
        (&Method::GET, ["healthz"]) => text(StatusCode::OK, "ok"),
        (&Method::GET, ["pods"] | ["pods", ""]) => json(&shown.pods()),
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            let Some((reading, previous)) = reading(query, clock) else {
                return text(StatusCode::UNPROCESSABLE_ENTITY, "{\"message\": \"Invalid request.\"}");
            };
            match shown.log(namespace, pod, container, previous) {
                Ok(log) => plain(StatusCode::OK, stream_body(read(log, reading))),
                Err(NoLog::Missing(why)) => text(StatusCode::NOT_FOUND, &why),
                Err(NoLog::NotNow(why)) => text(StatusCode::BAD_REQUEST, &why),
            }
        }
        (&Method::GET | &Method::POST, ["exec", namespace, pod, container]) => {
            exec::answer(shown, request, (namespace, pod, container)).unwrap_or_else(|(code, why)| text(code, &why))
        }
        (_, ["attach", ..]) => text(StatusCode::NOT_IMPLEMENTED, NO_ATTACH),
        (&Method::GET | &Method::POST, ["portForward", namespace, pod]) => {
            forward::answer(shown, network, request, (namespace, pod)).unwrap_or_else(|(code, why)| text(code, &why))
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

/// The parameters as kube-apiserver sends them, and whether the run before is requested. `None`: a value is malformed.
fn reading(query: &str, clock: &Clock) -> Option<(Reading, bool)> {
    let (mut reading, mut previous) = (Reading::default(), false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace("%3A", ":").replace("%2B", "+");
        match key {
            "follow" => reading.follow = value == "true",
            "previous" => previous = value == "true",
            "timestamps" => reading.timestamps = value == "true",
            "sinceSeconds" => {
                let ago = Duration::from_secs(value.parse().ok()?);
                reading.since = Some(clock.now().checked_sub(ago).ok()?);
            }
            "sinceTime" => reading.since = Some(value.parse().ok()?),
            "tailLines" => reading.tail = Some(value.parse().ok()?),
            "limitBytes" => reading.limit = Some(value.parse().ok()?),
            _ => {}
        }
    }
    Some((reading, previous))
}

fn json(value: &Value) -> Response<ResponseBody> {
    let mut response = plain(StatusCode::OK, full_body(value.to_string()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn text(code: StatusCode, text: &str) -> Response<ResponseBody> {
    plain(code, full_body(text.to_owned()))
}

fn plain(code: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_of_the_same_name_stays_when_the_node_before_it_ends() {
        let services = NodeServices::default();
        let service = || {
            HttpService::new(tower::service_fn(|_: Request<Body>| async {
                Ok::<_, Infallible>(text(StatusCode::OK, ""))
            }))
        };
        let old = services.add("a", service());
        let new = services.add("a", service());
        drop(old);
        assert!(services.find("a").is_some());
        drop(new);
        assert!(services.find("a").is_none());
    }
}
