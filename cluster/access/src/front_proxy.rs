//! Users that another API server has authenticated: headers name them, and are trusted only with that server's client
//! certificate.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/authentication/request/headerrequest)

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use base_clock::Clock;
use base_secrets::SecretError;
use http::{HeaderMap, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::certificates::Certificates;
use crate::impersonate::unescape;
use crate::{AuthenticationError, PeerCertificates, User};

/// The header that names the user.
pub const USER: &str = "x-remote-user";
/// The header with the user's uid.
pub const UID: &str = "x-remote-uid";
/// The header with the groups, once for each.
pub const GROUP: &str = "x-remote-group";
/// What the names of headers with more about the user begin with; then comes the key, percent-encoded.
pub const EXTRA_PREFIX: &str = "x-remote-extra-";

/// What is encoded in the key of a header's name: all but the characters of RFC 9110's tokens, and `%` itself.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The headers in which front proxies name the user, in lower case (`--requestheader-username-headers` and its siblings). Of
/// several names the first that has a value counts; groups and extra keys are collected from all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Headers that name the user.
    pub user: Vec<String>,
    /// Headers with the user's uid.
    pub uid: Vec<String>,
    /// Headers with the user's groups.
    pub group: Vec<String>,
    /// Prefixes of the headers with more about the user.
    pub extra_prefixes: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            user: one(USER),
            uid: one(UID),
            group: one(GROUP),
            extra_prefixes: one(EXTRA_PREFIX),
        }
    }
}

impl RequestHeaders {
    /// The user that the headers name; none where they name no user.
    fn user(&self, headers: &HeaderMap) -> Option<User> {
        let texts = |names: &[String]| -> Vec<String> {
            let all = names.iter().flat_map(|name| headers.get_all(name.to_ascii_lowercase()));
            let all = all.filter_map(text).map(str::trim).filter(|text| !text.is_empty());
            all.map(str::to_owned).collect()
        };
        let name = texts(&self.user).into_iter().next()?;
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            let mut prefixes = self.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase());
            let key = prefixes.find_map(|prefix| name.as_str().strip_prefix(&prefix).map(unescape));
            if let (Some(key), Some(value)) = (key, text(value)) {
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        let user = User {
            name,
            uid: texts(&self.uid).into_iter().next().unwrap_or_default(),
            groups: texts(&self.group),
            extra,
        };
        Some(user.authenticated())
    }
}

/// The clients that may name the user in headers.
pub(crate) struct FrontProxies {
    certificates: Certificates,
    accepted: RwLock<Accepted>,
}

/// What is accepted from clients with a certificate of the authorities.
#[derive(Default)]
struct Accepted {
    /// Whether there is any authority; without one no certificate is verified.
    any: bool,
    /// Accepted common names; empty: all.
    names: Vec<String>,
    headers: RequestHeaders,
}

impl FrontProxies {
    /// Trusts no front proxy yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            certificates: Certificates::new(clock),
            accepted: RwLock::default(),
        }
    }

    /// Replaces the trusted front proxies. Errors: the bundle does not parse; then all stays as it was.
    pub(crate) fn trust(&self, bundle: &str, names: Vec<String>, headers: RequestHeaders) -> Result<(), SecretError> {
        // The lock spans both changes: no request is checked with the old authorities and the new names, or the reverse.
        let mut accepted = self.accepted.write().unwrap_or_else(PoisonError::into_inner);
        self.certificates.trust(bundle)?;
        let any = !bundle.trim().is_empty();
        *accepted = Accepted { any, names, headers };
        Ok(())
    }

    /// The user that a front proxy names; none if no front proxy is trusted or the headers name no user, whatever the
    /// client's certificate.
    /// Errors: the certificate is not that of a trusted front proxy.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &PeerCertificates,
    ) -> Result<Option<User>, AuthenticationError> {
        let accepted = self.accepted.read().unwrap_or_else(PoisonError::into_inner);
        if !accepted.any {
            return Ok(None);
        }
        // Most clients are no front proxies: their certificates are not verified for nothing.
        let Some(user) = accepted.headers.user(headers) else {
            return Ok(None);
        };
        let proxy = self.certificates.authenticate(peer)?;
        if !accepted.names.is_empty() && !accepted.names.contains(&proxy.name) {
            return Err(AuthenticationError::Certificate {
                user: proxy.name,
                reason: "its common name is not among the allowed names of front proxies".to_owned(),
            });
        }
        Ok(Some(user))
    }
}

/// Not `to_str`: names may have characters beyond ASCII.
fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

/// Whether a header names the user: only a front proxy may forward it.
pub fn is_identity(name: &str) -> bool {
    [USER, UID, GROUP].contains(&name) || name.starts_with(EXTRA_PREFIX)
}

/// The headers that name a user to a server behind this one, each with its value.
pub fn identity_headers(user: &User) -> Vec<(String, String)> {
    let mut headers = vec![(USER.to_owned(), user.name.clone())];
    if !user.uid.is_empty() {
        headers.push((UID.to_owned(), user.uid.clone()));
    }
    headers.extend(user.groups.iter().map(|group| (GROUP.to_owned(), group.clone())));
    for (key, values) in &user.extra {
        let name = format!("{EXTRA_PREFIX}{}", utf8_percent_encode(key, ENCODED));
        headers.extend(values.iter().map(|value| (name.clone(), value.clone())));
    }
    headers
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use base_secrets::Authority;
    use http::HeaderName;

    use super::*;

    #[test]
    fn user_written_into_headers_is_read_back() {
        let mut sent = User::new("Zoë", &["ops", "system:authenticated"]);
        sent.uid = "7".to_owned();
        sent.extra
            .insert("example.com/a%b c".to_owned(), vec!["one".to_owned(), "two".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in identity_headers(&sent) {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            assert!(is_identity(name.as_str()), "{name}");
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        assert_eq!(RequestHeaders::default().user(&headers), Some(sent));
        headers.remove(USER);
        assert_eq!(RequestHeaders::default().user(&headers), None);
    }

    #[test]
    fn certificates_are_verified_only_where_a_header_names_a_user() {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let authority = Authority::generate("front-proxy", &clock, &entropy).unwrap();
        let proxies = FrontProxies::new(clock);
        let bundle = authority.certificate_pem();
        proxies.trust(&bundle, Vec::new(), RequestHeaders::default()).unwrap();
        let foreign = PeerCertificates::new(vec![vec![0].into()]);
        let mut headers = HeaderMap::new();
        assert_eq!(proxies.authenticate(&headers, &foreign).unwrap(), None);
        headers.insert(USER, HeaderValue::from_static("jane"));
        assert!(proxies.authenticate(&headers, &foreign).is_err());
    }

    #[test]
    fn headers_of_other_names_are_read_and_the_first_with_a_value_counts() {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let headers_of = RequestHeaders {
            user: own(&["X-First-User", "X-Second-User"]),
            group: own(&["X-First-Group", "X-Second-Group"]),
            extra_prefixes: own(&["X-First-Extra-"]),
            ..RequestHeaders::default()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-second-user", "jane"),
            ("x-first-group", "a"),
            ("x-second-group", "b"),
            ("x-first-extra-scope", "all"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let user = headers_of.user(&headers).unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["scope"], ["all"]);
    }
}
