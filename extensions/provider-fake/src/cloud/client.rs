//! The cloud behind HTTP. No call is tried twice: whether the first one had its effect is for the caller to find out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::api::{Answer, Call, CloudApi, CloudConnector};
use super::error::{CloudError, Reason};
use super::memory::Keys;
use super::path::line_of;

/// How long one call may take: the cloud answers at once or never.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of one answer: a list of some ten thousand things.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

type Http = Client<HttpConnector, Full<Bytes>>;

/// A cloud behind HTTP. Clones share connections.
#[derive(Clone)]
pub struct HttpCloud {
    /// Scheme, host and port.
    base: Arc<str>,
    http: Http,
}

impl fmt::Debug for HttpCloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCloud")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl HttpCloud {
    /// The cloud at an address such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// It is no such address.
    pub fn new(endpoint: &str) -> Result<Self, Fault> {
        let base = endpoint.trim_end_matches('/');
        let is_fine = |uri: &Uri| uri.scheme_str() == Some("http") && uri.host().is_some() && uri.path() == "/";
        if !base
            .parse::<Uri>()
            .is_ok_and(|uri| is_fine(&uri) && uri.query().is_none())
        {
            return Err(Fault::user(format!("the cloud's address {endpoint:?} cannot be used"))
                .hint("give an address such as http://127.0.0.1:8080"));
        }
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build_http();
        Ok(Self {
            base: base.into(),
            http,
        })
    }
}

impl CloudConnector for HttpCloud {
    fn connect(&self, keys: &Keys, region: &str) -> Arc<dyn CloudApi> {
        let pair = format!("{}:{}", keys.access_key_id, keys.secret_access_key);
        Arc::new(HttpApi {
            cloud: self.clone(),
            region: region.to_owned(),
            authorization: format!("Basic {}", STANDARD.encode(pair)),
        })
    }
}

struct HttpApi {
    cloud: HttpCloud,
    region: String,
    authorization: String,
}

fn unanswered(what: impl fmt::Display) -> CloudError {
    CloudError::new(Reason::Unanswered, what.to_string())
}

impl HttpApi {
    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, CloudError> {
        let line = line_of(&self.region, call)?;
        let bad = |error: &dyn fmt::Display| CloudError::new(Reason::InvalidParameter, error.to_string());
        let mut authorization = HeaderValue::from_str(&self.authorization).map_err(|error| bad(&error))?;
        authorization.set_sensitive(true);
        Request::builder()
            .method(line.method)
            .uri(format!("{}{}", self.cloud.base, line.target))
            .header(header::AUTHORIZATION, authorization)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(line.body))
            .map_err(|error| bad(&error))
    }

    async fn send(&self, call: &Call) -> Result<(bool, Bytes), CloudError> {
        let response: Response<Incoming> = self.cloud.http.request(self.request(call)?).await.map_err(unanswered)?;
        let succeeded = response.status().is_success();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((succeeded, body.map_err(unanswered)?.to_bytes()))
    }
}

#[async_trait]
impl CloudApi for HttpApi {
    async fn call(&self, call: Call) -> Result<Answer, CloudError> {
        let sent = tokio::time::timeout(CALL_TIMEOUT, self.send(&call)).await;
        let late = |_| unanswered(format!("no answer within {} s", CALL_TIMEOUT.as_secs()));
        let (succeeded, body) = sent.map_err(late)??;
        // An answer that is no answer of the cloud says nothing about the effect of the call.
        let unread = |error: serde_json::Error| unanswered(format!("the answer cannot be read: {error}"));
        if !succeeded {
            return Err(serde_json::from_slice(&body).map_err(unread)?);
        }
        match call {
            Call::Delete { .. } => Ok(Answer::Done),
            Call::List { .. } => serde_json::from_slice(&body).map(Answer::Items).map_err(unread),
            _ => serde_json::from_slice(&body).map(Answer::Item).map_err(unread),
        }
    }
}
