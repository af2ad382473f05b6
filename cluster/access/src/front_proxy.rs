//! Users that another API server has authenticated: it says in headers who they are, and is believed for the client
//! certificate that it shows, never for the headers alone.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/authentication/request/headerrequest)

use std::collections::BTreeMap;

use base_clock::Clock;
use base_secrets::SecretError;
use http::{HeaderMap, HeaderValue};

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

/// Who may say in headers who the user is.
pub(crate) struct FrontProxies {
    certificates: Certificates,
    /// Common names; empty: all that the authorities vouch for.
    names: Vec<String>,
}

impl FrontProxies {
    pub(crate) fn new(bundle: &str, names: Vec<String>, clock: Clock) -> Result<Self, SecretError> {
        let certificates = Certificates::new(clock);
        certificates.trust(bundle)?;
        Ok(Self { certificates, names })
    }

    /// The user that a front proxy names. None: it is no request of one. Errors: it names a user and is not believed.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &PeerCertificates,
    ) -> Result<Option<User>, AuthenticationError> {
        let proxy = self.certificates.authenticate(peer)?;
        if !self.names.is_empty() && !self.names.contains(&proxy.name) {
            return Err(AuthenticationError::Certificate {
                user: proxy.name,
                reason: "its common name is not among the allowed names of front proxies".to_owned(),
            });
        }
        Ok(user(headers))
    }
}

fn user(headers: &HeaderMap) -> Option<User> {
    let texts = |name: &str| {
        let all = headers.get_all(name).into_iter().filter_map(text);
        all.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        let key = name.as_str().strip_prefix(EXTRA_PREFIX).map(unescape);
        if let (Some(key), Some(value)) = (key, text(value)) {
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    let user = User {
        name: texts(USER).next()?,
        uid: texts(UID).next().unwrap_or_default(),
        groups: texts(GROUP).collect(),
        extra,
    };
    Some(user.authenticated())
}

/// Names may have any letters.
fn text(value: &HeaderValue) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()).ok()
}

/// Whether a header tells who the user is: nobody but a front proxy may send it on.
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
        let name = format!("{EXTRA_PREFIX}{}", escape(key));
        headers.extend(values.iter().map(|value| (name.clone(), value.clone())));
    }
    headers
}

/// Keys may hold what names of headers may not.
fn escape(key: &str) -> String {
    const LEGAL: &str = "!#$&'*+-.^_`|~";
    let mut escaped = String::new();
    for byte in key.bytes() {
        let character = char::from(byte);
        if byte.is_ascii_alphanumeric() || LEGAL.contains(character) {
            escaped.push(character);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn who_is_named_in_headers_is_read_from_them_again() {
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
        assert_eq!(user(&headers), Some(sent));
        headers.remove(USER);
        assert_eq!(user(&headers), None);
    }
}
