//! The authorisation for a registry: user and password, or a token of its token service (distribution's
//! `docs/spec/auth/token`). Credentials go to the registry they are for and to the token service it names, over plain HTTP
//! only where the registry itself is used so.

use base_clock::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::challenge::Challenge;
use crate::client::AGENT;
use crate::credentials::{Credential, Found, SecretText};
use crate::error::Kind;
use crate::exchange::retry_after;
use crate::transport::{BodyError, Transport, read_body};

/// Most bytes of a token service's answer; tokens have some thousand.
const TOKEN_BYTES_MAX: u64 = 256 << 10;

/// Meets challenges for one repository.
pub(crate) struct Authority<'a> {
    pub(crate) transport: &'a Transport,
    pub(crate) found: &'a Found,
    /// The registry's or mirror's own URL
    pub(crate) registry: &'a Url,
    pub(crate) repository: &'a str,
    pub(crate) clock: &'a Clock,
    pub(crate) until: Instant,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<SecretText>,
    access_token: Option<SecretText>,
}

impl Authority<'_> {
    /// The header that meets this challenge.
    pub(crate) async fn meet(&self, challenge: &Challenge) -> Result<HeaderValue, Kind> {
        match (challenge, &self.found.credential) {
            (Challenge::Basic, Credential::Basic { user, password }) => basic(user, password),
            (Challenge::Basic, _) => Err(self.refused(StatusCode::UNAUTHORIZED)),
            (Challenge::Bearer { .. }, Credential::Bearer(token)) => header("Bearer", token.expose_secret()),
            (Challenge::Bearer { realm, service, scope }, _) => {
                self.token(realm, service.as_deref(), scope.as_deref()).await
            }
        }
    }

    /// The error of credentials that are refused.
    pub(crate) fn refused(&self, status: StatusCode) -> Kind {
        match &self.found.credential {
            Credential::Helper { name, why } => Kind::Helper {
                helper: name.clone(),
                why: why.clone(),
                source_name: self.found.source.clone(),
            },
            Credential::Broken(registry) => Kind::Broken {
                registry: registry.clone(),
                source_name: self.found.source.clone(),
            },
            _ => Kind::Unauthorised {
                status: status.as_u16(),
                used: self.found.to_string(),
            },
        }
    }

    async fn token(&self, realm: &str, service: Option<&str>, scope: Option<&str>) -> Result<HeaderValue, Kind> {
        let realm = self.trusted(realm)?;
        let scope = scope.map_or_else(|| format!("repository:{}:pull", self.repository), str::to_owned);
        let request = self.request(realm, service, &scope)?;
        let response = self.transport.send(request, self.until).await?;
        let status = response.status();
        match status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused(status)),
            StatusCode::TOO_MANY_REQUESTS => {
                let after = retry_after(response.headers(), self.clock);
                return Err(Kind::RateLimited { after });
            }
            status if status.is_server_error() => return Err(Kind::Server(status.as_u16())),
            status => {
                let why = format!("its token service answers with HTTP {}", status.as_u16());
                return Err(Kind::Protocol(why));
            }
        }
        let none = || Kind::Protocol("its token service gives no token".to_owned());
        let body = read_body(response.into_body(), TOKEN_BYTES_MAX, self.until, |_| {}).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => none(),
            BodyError::Broken(kind) => kind,
        })?;
        // An error of serde may repeat a token.
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| none())?;
        let token = answer.token.or(answer.access_token).ok_or_else(none)?;
        header("Bearer", token.0.expose_secret())
    }

    /// A realm that may receive credentials: over TLS, or on the registry's own host if that is used over plain HTTP itself.
    fn trusted(&self, realm: &str) -> Result<Url, Kind> {
        let refuse = |why: &str| {
            Err(Kind::Protocol(format!(
                "it names a token service that is refused: {why}"
            )))
        };
        let Ok(realm) = Url::parse(realm) else {
            return refuse("its address is no URL");
        };
        let is_own = realm.scheme() == self.registry.scheme() && realm.host() == self.registry.host();
        if realm.scheme() != "https" && !is_own {
            return refuse("it is neither https nor the registry's own host");
        }
        if !realm.username().is_empty() || realm.password().is_some() {
            return refuse("its address has a user in it");
        }
        Ok(realm)
    }

    fn request(&self, mut realm: Url, service: Option<&str>, scope: &str) -> Result<Request<Full<Bytes>>, Kind> {
        realm.set_fragment(None);
        let builder = Request::builder()
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json");
        let made = if let Credential::Identity(token) = &self.found.credential {
            let mut form = Serializer::new(String::new());
            form.append_pair("grant_type", "refresh_token")
                .append_pair("client_id", AGENT)
                .append_pair("service", service.unwrap_or_default())
                .append_pair("scope", scope)
                .append_pair("refresh_token", token.expose_secret());
            let builder = builder.method(Method::POST).uri(realm.as_str());
            builder
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::from(form.finish()))
        } else {
            if let Some(service) = service {
                realm.query_pairs_mut().append_pair("service", service);
            }
            realm.query_pairs_mut().append_pair("scope", scope);
            let builder = match &self.found.credential {
                Credential::Basic { user, password } => builder.header(AUTHORIZATION, basic(user, password)?),
                _ => builder,
            };
            builder.uri(realm.as_str()).body(Full::default())
        };
        made.map_err(|_| Kind::Protocol("it names a token service to whose address no request can be sent".to_owned()))
    }
}

fn basic(user: &str, password: &SecretString) -> Result<HeaderValue, Kind> {
    header(
        "Basic",
        &STANDARD.encode(format!("{user}:{}", password.expose_secret())),
    )
}

/// A header that is never printed.
fn header(scheme: &str, secret: &str) -> Result<HeaderValue, Kind> {
    let text = format!("{scheme} {secret}");
    let mut value = HeaderValue::from_str(&text)
        .map_err(|_| Kind::Protocol("the token for it has characters that no header takes".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
