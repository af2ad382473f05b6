//! What a registry requires before it answers: the header `WWW-Authenticate` (RFC 9110, section 11). It sends no request.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// Most bytes of one header that are read; real ones have some hundred.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// The credentials that are required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

/// The challenge to meet: of a registry that accepts both, Bearer, since Basic sends the password with each request.
pub(crate) fn read(headers: &HeaderMap) -> Option<Challenge> {
    let mut basic = None;
    for header in headers.get_all(WWW_AUTHENTICATE) {
        let Some(text) = header.to_str().ok().filter(|text| text.len() <= HEADER_BYTES_MAX) else {
            continue;
        };
        for (scheme, parameters) in challenges(text) {
            let find = |name: &str| {
                let mut found = parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
                found.next().map(|(_, value)| value.clone())
            };
            if scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Challenge::Basic);
            } else if let (true, Some(realm)) = (scheme.eq_ignore_ascii_case("bearer"), find("realm")) {
                return Some(Challenge::Bearer {
                    realm,
                    service: find("service"),
                    scope: find("scope"),
                });
            }
        }
    }
    basic
}

type Parameters = Vec<(String, String)>;

/// Schemes with their parameters. A part with a space before any `=` begins a scheme.
fn challenges(text: &str) -> Vec<(String, Parameters)> {
    let mut all: Vec<(String, Parameters)> = Vec::new();
    for part in split_unquoted(text) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let parameter = match name.trim().split_once(char::is_whitespace) {
            Some((scheme, name)) => {
                all.push((scheme.to_owned(), Vec::new()));
                name.trim()
            }
            None if !part.contains('=') => {
                all.push((part.trim().to_owned(), Vec::new()));
                continue;
            }
            None => name.trim(),
        };
        if let Some((_, parameters)) = all.last_mut() {
            parameters.push((parameter.to_owned(), unquoted(value.trim())));
        }
    }
    all
}

/// The parts between commas outside of quotes.
fn split_unquoted(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        text.extend(match character {
            '\\' => characters.next(),
            other => Some(other),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Challenge, read};
    use http::HeaderMap;
    use http::header::WWW_AUTHENTICATE;

    fn of(lines: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, line.parse().unwrap());
        }
        read(&headers)
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        })
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let hub = "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"";
        let wanted = bearer(
            "https://auth.docker.io/token",
            Some("registry.docker.io"),
            Some("repository:a/b:pull,push"),
        );
        assert_eq!(of(&[hub]), wanted);
        assert_eq!(of(&["Basic realm=\"a, Bearer realm=b\""]), Some(Challenge::Basic));
        assert_eq!(
            of(&["Basic realm=x, bearer Realm = \"r\\\"s\""]),
            bearer("r\"s", None, None)
        );
        assert_eq!(of(&["Negotiate", "Basic"]), Some(Challenge::Basic));
        assert_eq!(of(&["Bearer service=x"]), None);
        assert_eq!(of(&["Digest realm=x, nonce=y"]), None);
        assert_eq!(
            of(&["", ",,=,", "\"", "Bearer realm=\"unended"]),
            bearer("\"unended", None, None)
        );
        assert_eq!(of(&[]), None);
    }
}
