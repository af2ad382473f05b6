//! One request to one registry or mirror: credentials where they are required, redirects, and the validation of what is
//! received. It never retries a failure.

use std::time::Duration;

use base_clock::Clock;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Deserialize;
use sha2::Digest as _;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::challenge;
use crate::client::{AGENT, Client, Endpoint};
use crate::error::{Kind, Missing};
use crate::reference::Digest;
use crate::token::Authority;
use crate::transport::{BodyError, read_body};

/// How often a registry may send us elsewhere: to a store, and from there to another.
const REDIRECTS_MAX: usize = 5;
/// How much of a refusal is read for its code.
const REFUSAL_BYTES_MAX: u64 = 8 << 10;
/// Longest code of an error that is repeated; those of the specification have 21 characters.
const CODE_BYTES_MAX: usize = 40;

/// What is requested.
pub(crate) struct Want {
    /// Below the repository, as in `manifests/1.2.3`
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    /// Its name in messages
    pub(crate) what: &'static str,
    pub(crate) bytes_max: u64,
    /// What is missing if the answer is 404
    pub(crate) missing: Missing,
    /// The digest that it must have
    pub(crate) digest: Option<Digest>,
    /// How many bytes it must have
    pub(crate) bytes: Option<u64>,
    /// Whether its progress is reported
    pub(crate) is_watched: bool,
    /// Whether it is requested again after a failure that may pass
    pub(crate) is_retried: bool,
}

/// What was received, and is what was requested.
pub(crate) struct Answer {
    pub(crate) bytes: Bytes,
    pub(crate) headers: HeaderMap,
    pub(crate) digest: Digest,
}

impl Client {
    /// Sends one request.
    pub(crate) async fn attempt(
        &self,
        endpoint: &Endpoint,
        repository: &str,
        want: &Want,
        until: Instant,
    ) -> Result<Answer, Kind> {
        let repository = endpoint.repository(repository);
        let url = endpoint.url(&repository, &want.path)?;
        let key = format!("{}{repository}", endpoint.url);
        let known = self.authorisation(&key);
        let (mut response, mut is_own) = self.follow(&url, known.as_ref(), want.accept, until).await?;
        let mut found = self.keyring.find(endpoint.authority(), &repository);
        let is_challenged = is_own && response.status() == StatusCode::UNAUTHORIZED;
        if let (true, Some(helper)) = (is_challenged, self.helper.as_deref()) {
            let search = self.keyring.find_with(endpoint.authority(), &repository, helper);
            let late = |_| Kind::Unreachable("the program that keeps its credentials does not answer".to_owned());
            found = timeout_at(until, search).await.map_err(late)?;
        }
        let authority = Authority {
            transport: &self.transport,
            found: &found,
            registry: &endpoint.url,
            repository: &repository,
            clock: &self.clock,
            until,
        };
        if is_challenged {
            let Some(challenge) = challenge::read(response.headers()) else {
                return Err(match response.headers().contains_key(WWW_AUTHENTICATE) {
                    true => {
                        Kind::Protocol("it wants credentials of a kind that is neither Basic nor Bearer".to_owned())
                    }
                    false => authority.refused(StatusCode::UNAUTHORIZED),
                });
            };
            let fresh = authority.meet(&challenge).await?;
            self.remember_authorisation(&key, &fresh);
            (response, is_own) = self.follow(&url, Some(&fresh), want.accept, until).await?;
        }
        let status = response.status();
        if status == StatusCode::OK {
            return self.take(response, want, until).await;
        }
        if is_own && matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(authority.refused(status));
        }
        Err(refusal(response, want, &self.clock, until).await)
    }

    /// Sends the request and follows redirects. Authorisation is for the first host alone. Returns the answer, and whether it is
    /// from that host.
    async fn follow(
        &self,
        url: &Url,
        authorisation: Option<&HeaderValue>,
        accept: &'static str,
        until: Instant,
    ) -> Result<(Response<Incoming>, bool), Kind> {
        let mut at = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let is_own = at.origin() == url.origin();
            let mut request = Request::builder()
                .uri(at.as_str())
                .header(USER_AGENT, AGENT)
                .header(ACCEPT, accept);
            if let (true, Some(value)) = (is_own, authorisation) {
                request = request.header(AUTHORIZATION, value);
            }
            let request = request
                .body(Full::default())
                .map_err(|_| Kind::Protocol("it leads to an address that no request can be sent to".to_owned()))?;
            let response = self.transport.send(request, until).await?;
            if !is_redirect(response.status()) {
                return Ok((response, is_own));
            }
            at = redirect_target(&at, response.headers())?;
        }
        Err(Kind::Protocol(format!(
            "it leads elsewhere more than {REDIRECTS_MAX} times"
        )))
    }

    /// Reads the requested content.
    async fn take(&self, response: Response<Incoming>, want: &Want, until: Instant) -> Result<Answer, Kind> {
        let (head, body) = response.into_parts();
        let bytes_max = want.bytes.unwrap_or(want.bytes_max).min(want.bytes_max);
        let too_much = |found: Option<u64>| match want.bytes {
            Some(declared) => Kind::Size {
                declared,
                found: found.unwrap_or(declared + 1),
            },
            None => Kind::TooLarge {
                what: want.what,
                bytes: found,
                bytes_max,
            },
        };
        let length = hyper::body::Body::size_hint(&body).exact();
        if length.is_some_and(|length| length > bytes_max || want.bytes.is_some_and(|declared| length != declared)) {
            return Err(too_much(length));
        }
        let mut hasher = sha2::Sha256::new();
        let mut seen = 0;
        let read = read_body(body, bytes_max, until, |piece| {
            hasher.update(piece);
            seen += piece.len() as u64;
            if want.is_watched {
                self.report_progress(seen, want.bytes.or(length));
            }
        });
        let bytes = read.await.map_err(|error| match error {
            BodyError::TooLarge => too_much(None),
            BodyError::Broken(kind) => kind,
        })?;
        let found = bytes.len() as u64;
        if let Some(declared) = want.bytes.filter(|declared| *declared != found) {
            return Err(Kind::Size { declared, found });
        }
        let digest = Digest::of_hasher(hasher);
        match want.digest {
            Some(wanted) if wanted != digest => Err(Kind::Digest { wanted, found: digest }),
            _ => Ok(Answer {
                bytes: Bytes::from(bytes),
                headers: head.headers,
                digest,
            }),
        }
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The target of a redirect.
fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url, Kind> {
    let refuse = |why: &str| Kind::Protocol(format!("it leads elsewhere, {why}"));
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| refuse("and does not say where"))?;
    let mut to = from.join(location).map_err(|_| refuse("and names no URL"))?;
    to.set_fragment(None);
    let is_plain = to.scheme() == "http" && from.scheme() == "http";
    if to.scheme() != "https" && !is_plain {
        return Err(refuse("but no longer over https"));
    }
    if !to.username().is_empty() || to.password().is_some() {
        return Err(refuse("and puts a user into the address"));
    }
    Ok(to)
}

/// The error of an answer without the requested content.
async fn refusal(response: Response<Incoming>, want: &Want, clock: &Clock, until: Instant) -> Kind {
    let status = response.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        return Kind::RateLimited {
            after: retry_after(response.headers(), clock),
        };
    }
    if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
        return Kind::Server(status.as_u16());
    }
    let body = read_body(response.into_body(), REFUSAL_BYTES_MAX, until, |_| {}).await;
    let code = body.ok().and_then(|body| code_of(&body)).unwrap_or_default();
    match status {
        StatusCode::NOT_FOUND if code == "NAME_UNKNOWN" => Kind::NotFound(Missing::Repository),
        StatusCode::NOT_FOUND => Kind::NotFound(want.missing.clone()),
        status => Kind::Refused {
            status: status.as_u16(),
            code,
        },
    }
}

#[derive(Deserialize)]
struct Refusal {
    errors: Vec<RefusalError>,
}

#[derive(Deserialize)]
struct RefusalError {
    code: String,
}

/// The code of a refusal (OCI distribution specification 1.1, "Error codes"); its message is not repeated.
fn code_of(body: &[u8]) -> Option<String> {
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    let code = refusal.errors.into_iter().next()?.code;
    let fits = code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    fits.then_some(code)
}

/// In seconds, or as a date.
pub(crate) fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let when = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(clock.until(when.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_read_in_seconds_and_as_a_date() {
        let (clock, _) = Clock::settable("2026-01-01T00:00:00Z".parse().unwrap());
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, &clock).map(|after| after.as_secs())
        };
        assert_eq!(of("7"), Some(7));
        assert_eq!(of("Thu, 01 Jan 2026 00:01:00 GMT"), Some(60));
        assert_eq!(of("Wed, 31 Dec 2025 00:01:00 GMT"), Some(0));
        assert_eq!(of("soon"), None);
        assert_eq!(of("-1"), None);
    }

    #[test]
    fn only_codes_are_repeated_of_a_refusal() {
        let of = |body: &str| code_of(body.as_bytes());
        assert_eq!(
            of(r#"{"errors":[{"code":"NAME_UNKNOWN","message":"x"}]}"#).as_deref(),
            Some("NAME_UNKNOWN")
        );
        assert_eq!(of(r#"{"errors":[{"code":"see http://a"}]}"#), None);
        assert_eq!(of(r#"{"errors":[]}"#), None);
        assert_eq!(of("<html>"), None);
    }

    #[test]
    fn a_redirect_never_leaves_tls() {
        let from = Url::parse("https://r.example/v2/a/blobs/x").unwrap();
        let to = |location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().unwrap());
            redirect_target(&from, &headers).map(|url| url.to_string())
        };
        assert_eq!(to("/b?c#d").as_deref(), Ok("https://r.example/b?c"));
        assert_eq!(to("https://s.example/x").as_deref(), Ok("https://s.example/x"));
        for wrong in [
            "http://r.example/b",
            "file:///etc/passwd",
            "https://me:p@s.example/x",
            "https://",
        ] {
            assert!(matches!(to(wrong), Err(Kind::Protocol(_))), "{wrong}");
        }
        assert!(matches!(
            redirect_target(&from, &HeaderMap::new()),
            Err(Kind::Protocol(_))
        ));
    }
}
