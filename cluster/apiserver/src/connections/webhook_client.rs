//! How webhooks are reached: HTTP/1.1 over pooled TLS connections, by URL or by a Service of this server. What goes wrong is
//! reported as Go's client reports it, because people search for those words. It knows nothing of reviews.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/util/webhook/client.go)

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::Instant;

use crate::connections::https_target::HttpsTarget;
use crate::connections::network::Network;
use crate::connections::tls::{Trust, broken, text, tls};

/// Largest answer that is read: a patch of the largest object in base64, and then some.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Idle connections to one webhook that are retained.
const IDLE_MAX: usize = 16;
/// How long an idle connection is retained, as in Go's client.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
const USER_AGENT: &str = "kube-apiserver-admission";

/// One client for each way in which webhooks are reached.
#[derive(Default)]
pub(crate) struct Clients(Mutex<HashMap<String, Arc<Client>>>);

impl Clients {
    /// The client of a `clientConfig`. Errors: why there can be none.
    pub(crate) fn client(&self, config: &Value) -> Result<Arc<Client>, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = config.to_string();
        if let Some(client) = all.get(&key) {
            return Ok(client.clone());
        }
        let client = Arc::new(Client::of(config)?);
        all.insert(key, client.clone());
        Ok(client)
    }

    /// Drops clients, with their connections, that no configuration uses any more.
    pub(crate) fn forget_unused(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, client| Arc::strong_count(client) > 1);
    }
}

/// What came back.
pub(crate) struct Reply {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// How one webhook is reached.
pub(crate) struct Client {
    reach: HttpsTarget,
    path: String,
    idle: Mutex<Vec<(SendRequest<Full<Bytes>>, Instant)>>,
}

impl Client {
    fn of(config: &Value) -> Result<Self, String> {
        let tls = tls(Trust::Bundle(&text(config, "caBundle")), None)?;
        let idle = Mutex::default();
        if let Some(service) = config.get("service").filter(|service| service.is_object()) {
            let (path, reach) = (clean(&text(service, "path")), HttpsTarget::service(service, tls));
            return Ok(Self { reach, path, idle });
        }
        let url = text(config, "url");
        let rest = url
            .strip_prefix("https://")
            .ok_or("webhook configuration must have either service or URL")?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let reach = HttpsTarget::host(host, tls);
        let path = clean(path);
        Ok(Self { reach, path, idle })
    }

    /// Posts a review and reads the answer. Errors: why nothing came back.
    pub(crate) async fn post(&self, network: &Network, timeout: Duration, body: Bytes) -> Result<Reply, String> {
        let query = format!("?timeout={}", whole_seconds(timeout));
        let target = format!("{}{query}", self.path);
        let url = format!("https://{}{target}", self.reach.name());
        let failed = |why: String| format!("Post {url:?}: {why}");
        match tokio::time::timeout(timeout, self.exchange(network, &target, body)).await {
            Ok(outcome) => outcome.map_err(failed),
            Err(_) => Err(failed("context deadline exceeded".to_owned())),
        }
    }

    async fn exchange(&self, network: &Network, target: &str, body: Bytes) -> Result<Reply, String> {
        let request = || {
            Request::post(target)
                .header(header::HOST, self.reach.name())
                .header(header::USER_AGENT, USER_AGENT)
                .header(header::ACCEPT, "application/json, */*")
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()))
                .map_err(|error| error.to_string())
        };
        // A pooled connection may have been closed just now; what was not sent on it goes to the next one.
        while let Some(mut connection) = self.pooled() {
            if connection.ready().await.is_err() {
                continue;
            }
            match connection.try_send_request(request()?).await {
                Ok(response) => return self.read(response, connection).await,
                Err(mut error) => {
                    if error.take_message().is_none() {
                        return Err(broken(error.error()));
                    }
                }
            }
        }
        let mut opened = self.open(network).await?;
        match opened.send_request(request()?).await {
            Ok(response) => self.read(response, opened).await,
            Err(error) => Err(broken(&error)),
        }
    }

    async fn read(
        &self,
        response: http::Response<hyper::body::Incoming>,
        sender: SendRequest<Full<Bytes>>,
    ) -> Result<Reply, String> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            }
            error.downcast_ref().map_or_else(|| error.to_string(), broken)
        })?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push((sender, Instant::now()));
        }
        drop(idle);
        Ok(Reply {
            code: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    fn pooled(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(sender, since)| !sender.is_closed() && since.elapsed() < IDLE_TIMEOUT);
        idle.pop().map(|(sender, _)| sender)
    }

    async fn open(&self, network: &Network) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = self.reach.connect(network).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        // It ends with its sender or the other side; what breaks it is seen by the request that needs it.
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// A path without a slash at its end and without empty parts.
fn clean(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// `10s`: what Go prints for whole seconds, rounded up.
fn whole_seconds(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_and_services_lead_to_their_places() {
        let of = |config: Value| {
            let client = Client::of(&config).unwrap();
            format!("{} {}", client.reach, client.path)
        };
        for (url, place) in [
            ("https://a.b", "a.b a.b:443 /"),
            ("https://127.0.0.1:9/x//y/", "127.0.0.1:9 127.0.0.1:9 /x/y"),
            ("https://[::1]:9", "[::1]:9 ::1:9 /"),
            ("https://[::1]/z", "[::1] ::1:443 /z"),
        ] {
            assert_eq!(of(json!({"url": url})), place);
        }
        assert_eq!(
            of(json!({"service": {"namespace": "n", "name": "s", "path": "p"}})),
            "s.n.svc:443 s.n.svc:443 /p"
        );
        assert!(Client::of(&json!({})).is_err());
        assert!(Client::of(&json!({"url": "https://a", "caBundle": "bm8="})).is_err());
    }

    #[test]
    fn certificate_without_the_name_is_refused_in_the_words_of_go() {
        let dns = ["DnsName(\"a.b\")".to_owned(), "IpAddress(10.0.0.1)".to_owned()];
        for (presented, name, expected) in [
            (&dns[..], "c", "certificate is valid for a.b, not c"),
            (&dns[..], "10.0.0.2", "certificate is valid for 10.0.0.1, not 10.0.0.2"),
            (
                &dns[..1],
                "10.0.0.2",
                "cannot validate certificate for 10.0.0.2 because it doesn't contain any IP SANs",
            ),
            (
                &dns[1..],
                "c",
                "certificate is not valid for any names, but wanted to match c",
            ),
        ] {
            assert_eq!(
                crate::connections::tls::misnamed(presented, name),
                format!("x509: {expected}")
            );
        }
    }

    #[test]
    fn webhooks_with_equal_configurations_share_a_client_until_the_last_is_gone() {
        let clients = Clients::default();
        let config = json!({"url": "https://a.b/c"});
        let first = clients.client(&config).unwrap();
        assert!(Arc::ptr_eq(&first, &clients.client(&config).unwrap()));
        clients.forget_unused();
        assert!(Arc::ptr_eq(&first, &clients.client(&config).unwrap()));
        drop(first);
        clients.forget_unused();
        assert!(clients.0.lock().unwrap().is_empty());
    }

    #[test]
    fn timeouts_are_whole_seconds() {
        for (millis, shown) in [(1, "1s"), (1000, "1s"), (29_001, "30s"), (60_000, "1m0s")] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), shown);
        }
    }
}
