//! A layer around a process's clients: it counts API requests, and knows which kinds have been listed, so that `/readyz` can
//! name the one that is missing. It changes neither requests nor answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_client::{Call, Verb};
use base_telemetry::Metrics;
use http::Request;
use kube::Client;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

type Labels = Vec<(String, String)>;

/// What the API requests of a process have shown. Clones share it.
#[derive(Clone)]
pub struct ApiRequests {
    /// Kinds that were listed or watched, with why they have not been answered yet; none once they were.
    kinds: Arc<Mutex<BTreeMap<String, Option<String>>>>,
    counters: Family<Labels, Counter>,
}

impl ApiRequests {
    /// None so far; they are counted in `metrics`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let counters = metrics.register(
            "api_requests",
            "Requests to API servers, by verb and code; code 0 for those without an answer",
            Family::default,
        );
        Self {
            kinds: Arc::default(),
            counters,
        }
    }

    /// The client, whose requests are counted. Must be called within a tokio runtime.
    #[must_use]
    pub fn around(&self, client: Client) -> Client {
        let (requests, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, client) = (requests.clone(), client.clone());
            let call = Call::of(&request);
            requests.begun(&call);
            async move {
                let answer = client.send(request).await;
                match &answer {
                    Ok(response) => requests.ended(&call, response.status().as_u16(), ""),
                    Err(error) => requests.ended(&call, 0, &error.to_string()),
                }
                answer
            }
        });
        Client::new(service, namespace)
    }

    /// Why not all kinds that were requested have been listed; none once they have, and at least one was requested.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let kinds = self.kinds();
        if kinds.is_empty() {
            return Some("no API server was called yet".to_owned());
        }
        kinds
            .iter()
            .find_map(|(kind, why)| Some(format!("{kind} not listed: {}", why.as_ref()?)))
    }

    fn begun(&self, call: &Call) {
        if let Some(kind) = kind(call) {
            let waits = || Some("no answer yet".to_owned());
            self.kinds().entry(kind).or_insert_with(waits);
        }
    }

    fn ended(&self, call: &Call, code: u16, error: &str) {
        let labels = vec![
            ("verb".to_owned(), call.verb.to_string()),
            ("code".to_owned(), code.to_string()),
        ];
        self.counters.get_or_create(&labels).inc();
        let Some(kind) = kind(call) else { return };
        let mut kinds = self.kinds();
        let known = kinds.entry(kind).or_insert_with(|| Some(String::new()));
        if known.is_some() {
            *known = match code {
                200..300 => None,
                0 => Some(error.to_owned()),
                code => Some(format!("the API server answers {code}")),
            };
        }
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of a list or watch, with its namespace.
fn kind(call: &Call) -> Option<String> {
    if !matches!(call.verb, Verb::List | Verb::Watch) {
        return None;
    }
    let group = match call.group.as_str() {
        "" => String::new(),
        group => format!(".{group}"),
    };
    let place = match &call.namespace {
        Some(namespace) => format!(" of namespace {namespace}"),
        None => String::new(),
    };
    Some(format!("{}{group}{place}", call.resource))
}

#[cfg(test)]
mod tests {
    use base_client::{HttpService, full_body, in_process};
    use http::Response;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::Api;
    use kube::api::ListParams;

    use super::*;

    /// Answers lists of Secrets with 403 and all else with an empty list.
    fn server() -> Client {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let refused = request.uri().path().ends_with("secrets");
            let (code, text) = match refused {
                true => (
                    403,
                    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}"#,
                ),
                false => (
                    200,
                    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#,
                ),
            };
            let mut response = Response::new(full_body(text));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, std::convert::Infallible>(response)
        });
        in_process(HttpService::new(service), |_| {})
    }

    #[tokio::test]
    async fn a_kind_that_was_refused_is_named_until_it_is_listed() {
        let metrics = Metrics::new();
        let requests = ApiRequests::new(&metrics);
        assert!(requests.missing().is_some(), "nothing was requested yet");
        let client = requests.around(server());
        let maps: Api<ConfigMap> = Api::all(client.clone());
        maps.list(&ListParams::default()).await.unwrap();
        assert_eq!(requests.missing(), None);
        let secrets: Api<Secret> = Api::namespaced(client, "a");
        secrets.list(&ListParams::default()).await.unwrap_err();
        let missing = requests.missing().unwrap();
        assert_eq!(missing, "secrets of namespace a not listed: the API server answers 403");
        let text = metrics.encode();
        assert!(
            text.contains(r#"orangery_api_requests_total{verb="list",code="403"} 1"#),
            "{text}"
        );
    }
}
