//! Rewrites a URL that a server behind this one returns into the URL that callers of this server use.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/util/proxy/transport.go, rewriteURL)

use crate::relay::forwarded_request::Forwarded;
use crate::relay::headers::host;
use crate::relay::proxy_target::Place;

/// Rewrites the URLs of one target.
pub(crate) struct UrlRewriter {
    /// The hosts of the target's URLs: its address, and the client's `Host`.
    hosts: [String; 2],
    /// The path of the request without the part that goes to the target.
    prefix: String,
}

impl UrlRewriter {
    pub(crate) fn new(place: &Place, forwarded: Forwarded<'_>) -> Self {
        let host = host(forwarded.parts).and_then(|host| host.to_str().ok().map(str::to_owned));
        let prefix = forwarded
            .path
            .strip_suffix(forwarded.target_path)
            .unwrap_or(forwarded.path);
        Self {
            hosts: [place.authority(), host.unwrap_or_default()],
            prefix: prefix.to_owned(),
        }
    }

    /// The path of the client's request.
    pub(crate) fn forwarded_uri(&self, behind: &str) -> String {
        self.joined(behind)
    }

    fn joined(&self, path: &str) -> String {
        clean(&format!("{}/{path}", self.prefix))
    }

    /// A URL of the target as a URL of this server. Relative ones and those of other servers are unchanged.
    pub(crate) fn rewritten(&self, place: &str) -> String {
        if place.chars().any(char::is_control) {
            return place.to_owned();
        }
        let (scheme, rest) = scheme(place);
        let (host, rest) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
            None if scheme.is_some() => return place.to_owned(),
            None => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let (path, behind) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        let of_another = !host.is_empty() && !self.hosts.iter().any(|own| own == host);
        if of_another || !path.starts_with('/') {
            return place.to_owned();
        }
        // A URL with the host that the client has requested is on this server already.
        let origin = match host == self.hosts[1] && !host.is_empty() {
            true => &place[..place.len() - rest.len()],
            false => "",
        };
        let path = match path.starts_with(&self.prefix) {
            true => path.to_owned(),
            false => self.joined(path),
        };
        format!("{origin}{path}{behind}")
    }
}

/// `https` of `https://...`, and what follows its colon.
fn scheme(place: &str) -> (Option<&str>, &str) {
    let Some((scheme, rest)) = place.split_once(':') else {
        return (None, place);
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(legal) {
        true => (Some(scheme), rest),
        false => (None, place),
    }
}

/// A path without `.`, `..` and empty segments; a slash at its end stays.
pub(crate) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if path.is_empty() {
        return String::new();
    }
    let end = if path.ends_with('/') && !parts.is_empty() {
        "/"
    } else {
        ""
    };
    format!("/{}{end}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_paths_of_the_same_server_are_rewritten() {
        let rewriter = UrlRewriter {
            hosts: ["10.0.0.1:80".to_owned(), "api.example.com".to_owned()],
            prefix: "/api/v1/namespaces/n/pods/p/proxy".to_owned(),
        };
        let prefix = &rewriter.prefix;
        for (place, wanted) in [
            ("/x/?a=/b#c", format!("{prefix}/x/?a=/b#c")),
            ("/", format!("{prefix}/")),
            ("x", "x".to_owned()),
            ("?a", "?a".to_owned()),
            ("http://10.0.0.1:80/x", format!("{prefix}/x")),
            ("//10.0.0.1:80/x", format!("{prefix}/x")),
            (
                "https://api.example.com/x",
                format!("https://api.example.com{prefix}/x"),
            ),
            ("http://10.0.0.1:81/x", "http://10.0.0.1:81/x".to_owned()),
            ("http://10.0.0.1:80", "http://10.0.0.1:80".to_owned()),
            ("mailto:a@b", "mailto:a@b".to_owned()),
            ("/api/v1/namespaces/n/pods/p/proxy/x", format!("{prefix}/x")),
        ] {
            assert_eq!(rewriter.rewritten(place), wanted, "{place}");
        }
    }

    #[test]
    fn paths_are_cleaned_and_keep_the_slash_at_their_end() {
        for (given, wanted) in [
            ("", ""),
            ("/", "/"),
            ("/a//b/", "/a/b/"),
            ("/a/../../b", "/b"),
            ("/..", "/"),
            ("/./", "/"),
        ] {
            assert_eq!(clean(given), wanted, "{given}");
        }
    }
}
