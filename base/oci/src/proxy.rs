//! Proxies that hosts are reached through, as `golang.org/x/net/http/httpproxy` 0.37 reads them from the environment for Helm
//! and Docker. An invalid proxy, which it ignores, is an error here.

use std::fmt;
use std::io;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::Kind;
use crate::transport::{HEAD_BYTES_MAX, Stream};

/// Why a variable names no proxy. Nothing is repeated of its value, which may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is no URL of a proxy
    #[error("{0} names no proxy: it is [http://|https://][USER:PASSWORD@]HOST[:PORT]")]
    Form(&'static str),
    /// Its protocol is not supported
    #[error("{variable} names no proxy that is used here: it has the scheme {scheme:?}, and http and https are known")]
    Scheme {
        /// Which variable
        variable: &'static str,
        /// The scheme
        scheme: String,
    },
    /// It may come from a visitor (<https://golang.org/s/cgihttpproxy>)
    #[error("HTTP_PROXY is not used by what a web server runs: it may be a visitor's header")]
    Served,
}

/// Through which proxy a host is reached; without a setting, directly.
#[derive(Clone, Debug)]
pub struct Proxies {
    of_http: Result<Option<Proxy>, ProxyError>,
    of_https: Result<Option<Proxy>, ProxyError>,
    direct: Vec<Direct>,
}

impl Default for Proxies {
    fn default() -> Self {
        Self {
            of_http: Ok(None),
            of_https: Ok(None),
            direct: Vec::new(),
        }
    }
}

/// A proxy that connects us to hosts.
#[derive(Clone)]
pub(crate) struct Proxy {
    /// Scheme, host and port
    pub(crate) uri: Uri,
    pub(crate) authorisation: Option<HeaderValue>,
}

/// Which hosts are reached without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Direct {
    All,
    Network(IpNet),
    Address(IpAddr, Port),
    /// What is below a name
    Domain {
        name: String,
        /// Whether the name itself is meant, too
        is_itself: bool,
        port: Port,
    },
}

/// A port as it is written; none is any.
type Port = Option<String>;

/// Why a proxy does not connect us.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the proxy {proxy} refuses (HTTP {status})")]
    Status { proxy: String, status: u16 },
    #[error("the certificate of the proxy {proxy} is not trusted: {why}")]
    Untrusted { proxy: String, why: String },
    #[error("the proxy {proxy}: {why}")]
    Lost { proxy: String, why: String },
}

impl Refusal {
    /// Its kind, unless it is a connection that was lost.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Status { proxy, status } => Some(Kind::Proxy {
                proxy: proxy.clone(),
                status: *status,
            }),
            Self::Untrusted { proxy, why } => Some(Kind::Untrusted {
                whose: format!("the proxy {proxy}"),
                why: why.clone(),
            }),
            Self::Lost { .. } => None,
        }
    }
}

impl Proxies {
    /// Reads the variables `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same in lower case. One that names no proxy is
    /// an error where it would be used.
    pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let any = |names: [&'static str; 2]| {
            let mut found = names.into_iter().map(|name| (name, variable(name).unwrap_or_default()));
            found.find(|(_, value)| !value.is_empty())
        };
        let proxy = |names| any(names).map(|(name, value)| Proxy::read(name, &value)).transpose();
        let is_served = variable("REQUEST_METHOD").is_some_and(|method| !method.is_empty());
        let no = any(["NO_PROXY", "no_proxy"])
            .map(|(_, value)| value)
            .unwrap_or_default();
        let of_http = proxy(["HTTP_PROXY", "http_proxy"]);
        let is_refused = is_served && !matches!(of_http, Ok(None));
        Self {
            of_http: if is_refused { Err(ProxyError::Served) } else { of_http },
            of_https: proxy(["HTTPS_PROXY", "https_proxy"]),
            direct: no.split(',').filter_map(Direct::read).collect(),
        }
    }

    /// The proxy through which that address is reached.
    ///
    /// # Errors
    /// The variable for it names no proxy.
    pub(crate) fn of(&self, uri: &Uri) -> Result<Option<&Proxy>, &ProxyError> {
        let (proxy, usual_port) = match uri.scheme_str() {
            Some("http") => (&self.of_http, 80),
            _ => (&self.of_https, 443),
        };
        let host = bare(uri.host().unwrap_or_default()).to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_here = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        let port = uri.port_u16().unwrap_or(usual_port).to_string();
        match is_here || self.direct.iter().any(|direct| direct.is(&host, address, &port)) {
            true => Ok(None),
            false => proxy.as_ref().map(Option::as_ref),
        }
    }
}

impl Proxy {
    fn read(variable: &'static str, value: &str) -> Result<Self, ProxyError> {
        let wrong = || ProxyError::Form(variable);
        let whole = match value.contains("://") {
            true => Url::parse(value),
            false => Url::parse(&format!("http://{value}")),
        };
        let url = whole.map_err(|_| wrong())?;
        let (scheme, host) = (url.scheme(), url.host_str().unwrap_or_default());
        if !matches!(scheme, "http" | "https") {
            let scheme = scheme.to_owned();
            return Err(ProxyError::Scheme { variable, scheme });
        }
        if host.is_empty() {
            return Err(wrong());
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let uri = format!("{scheme}://{host}:{port}").parse().map_err(|_| wrong())?;
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let user = [decoded(url.username()), decoded(url.password().unwrap_or_default())].join(&b':');
        let shown = format!("Basic {}", STANDARD.encode(&user));
        let mut authorisation = HeaderValue::try_from(shown).map_err(|_| wrong())?;
        authorisation.set_sensitive(true);
        let has_user = !url.username().is_empty() || url.password().is_some();
        Ok(Self {
            uri,
            authorisation: has_user.then_some(authorisation),
        })
    }

    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        self.uri.authority().map(ToString::to_string).unwrap_or_default()
    }

    /// The error of a connection to it that could not be made.
    pub(crate) fn unreached(&self, error: &io::Error) -> io::Error {
        let tls = error.get_ref().and_then(|held| held.downcast_ref::<rustls::Error>());
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => io::Error::other(Refusal::Untrusted {
                proxy: self.authority(),
                why: why.to_string(),
            }),
            _ => self.lost(error),
        }
    }

    /// The error of a connection to it that was lost.
    fn lost(&self, why: impl fmt::Display) -> io::Error {
        io::Error::other(Refusal::Lost {
            proxy: self.authority(),
            why: why.to_string(),
        })
    }

    /// Requests a tunnel to a host from the proxy at the other end.
    pub(crate) async fn tunnel(&self, stream: Box<dyn Stream>, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let lost = |error: hyper::Error| self.lost(error);
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(lost)?;
        // It lives as long as the tunnel; its errors reach whatever uses the tunnel.
        tokio::spawn(connection.with_upgrades());
        let target = format!("{host}:{port}");
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(&target)
            .header(HOST, &target);
        if let Some(value) = &self.authorisation {
            request = request.header(PROXY_AUTHORIZATION, value);
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.lost(error))?;
        let answer = sender.send_request(request).await.map_err(lost)?;
        if !answer.status().is_success() {
            return Err(io::Error::other(Refusal::Status {
                proxy: self.authority(),
                status: answer.status().as_u16(),
            }));
        }
        let tunnel = hyper::upgrade::on(answer).await.map_err(lost)?;
        Ok(Box::new(TokioIo::new(tunnel)))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uri)
    }
}

impl Direct {
    /// An entry of `NO_PROXY`; nothing for one that fits no host.
    fn read(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" {
            return Some(Self::All);
        }
        if let Ok(network) = entry.parse() {
            return Some(Self::Network(network));
        }
        if let Ok(address) = entry.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical(), None));
        }
        let (host, port) = match entry.rsplit_once(':') {
            Some((host, port)) => (bare(host), Some(port.to_owned()).filter(|port| !port.is_empty())),
            None => (entry.as_str(), None),
        };
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical(), port));
        }
        let host = host
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(host);
        let below = host.strip_prefix('.');
        (!host.is_empty()).then(|| Self::Domain {
            name: below.unwrap_or(host).to_owned(),
            is_itself: below.is_none(),
            port,
        })
    }

    fn is(&self, host: &str, address: Option<IpAddr>, port: &str) -> bool {
        let fits = |wanted: &Port| wanted.as_ref().is_none_or(|wanted| wanted == port);
        match self {
            Self::All => true,
            Self::Network(network) => address.is_some_and(|address| network.contains(&address)),
            Self::Address(wanted, at) => address == Some(*wanted) && fits(at),
            Self::Domain {
                name,
                is_itself,
                port: at,
            } => {
                let before = host.strip_suffix(name.as_str());
                let is_below = before.is_some_and(|before| before.ends_with('.'));
                address.is_none() && (is_below || *is_itself && before == Some("")) && fits(at)
            }
        }
    }
}

/// An address of IPv6 without its brackets.
pub(crate) fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::of_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    fn through(proxies: &Proxies, uri: &str) -> Option<String> {
        Some(proxies.of(&uri.parse().unwrap()).unwrap()?.uri.to_string())
    }

    #[test]
    fn each_scheme_has_its_proxy_and_hosts_of_this_machine_have_none() {
        let all = proxies(&[
            ("HTTPS_PROXY", ""),
            ("https_proxy", "https://a.example"),
            ("HTTP_PROXY", "b.example:3128"),
        ]);
        assert_eq!(
            through(&all, "https://r.example/v2").as_deref(),
            Some("https://a.example:443/")
        );
        assert_eq!(
            through(&all, "http://r.example:5000").as_deref(),
            Some("http://b.example:3128/")
        );
        for here in [
            "https://localhost:5000",
            "https://LOCALHOST",
            "https://127.1.2.3",
            "https://[::1]:5000",
        ] {
            assert_eq!(through(&all, here), None, "{here}");
        }
        assert_eq!(through(&Proxies::default(), "https://r.example"), None);
        let served = proxies(&[("HTTP_PROXY", "b.example"), ("REQUEST_METHOD", "GET")]);
        let http = "http://r.example".parse().unwrap();
        assert_eq!(served.of(&http).unwrap_err(), &ProxyError::Served);
    }

    #[test]
    fn no_proxy_matches_hosts_as_go_does() {
        let cases = [
            ("*", "a.example", true),
            ("a.example", "a.example", true),
            (" x , A.Example ", "b.a.example", true),
            ("a.example", "ba.example", false),
            (".a.example", "a.example", false),
            ("*.a.example", "b.A.example", true),
            ("a.example:5000", "a.example:5000", true),
            ("a.example:5000", "a.example", false),
            ("a.example:443", "a.example", true),
            ("a.example:many", "a.example", false),
            ("a.example:", "a.example:5000", true),
            ("a.example:0443", "a.example", false),
            ("[a.example]:443", "a.example", true),
            ("10.1.2.3:", "10.1.2.3:5000", true),
            ("[fd00::1]", "[fd00::1]", false),
            ("10.0.0.0/8", "10.1.2.3:5000", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3:80", "10.1.2.3", false),
            ("fd00::/8", "[fd00::1]", true),
            ("[fd00::1]:5000", "[fd00::1]:5000", true),
            ("fd00::1", "[fd00::1]", true),
            ("[fd00::1]:5000", "[fd00::1]", false),
            ("0.0.3", "10.0.0.3", false),
            (",,:80,.", "a.example", false),
        ];
        for (no, host, is_direct) in cases {
            let all = proxies(&[("HTTPS_PROXY", "p.example"), ("NO_PROXY", no)]);
            assert_eq!(
                through(&all, &format!("https://{host}")).is_none(),
                is_direct,
                "{no} {host}"
            );
        }
    }

    #[test]
    fn credentials_of_a_proxy_are_for_it_alone_and_in_no_message() {
        let all = proxies(&[("HTTPS_PROXY", "http://me:h%75sh%40@p.example:3128")]);
        let https = "https://r.example".parse().unwrap();
        let proxy = all.of(&https).unwrap().unwrap();
        // "me:hush@"
        assert_eq!(proxy.authorisation.as_ref().unwrap(), "Basic bWU6aHVzaEA=");
        assert_eq!(format!("{all:?} {:?}", proxy.authorisation).matches("hush").count(), 0);
        for (wrong, wanted) in [
            ("http://", "HTTPS_PROXY names no proxy: it is [http://"),
            ("me:hush@", "HTTPS_PROXY names no proxy: it is"),
            ("me:hush", "HTTPS_PROXY names no proxy: it is"),
            ("http://me:hush@p.example:many", "HTTPS_PROXY names no proxy: it is"),
            ("socks5://me:hush@p.example", "it has the scheme \"socks5\""),
        ] {
            let error = proxies(&[("HTTPS_PROXY", wrong)]).of(&https).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("hush"), "{wrong}: {error}");
        }
        // An invalid variable that is not used is no error.
        let unused = proxies(&[
            ("HTTP_PROXY", "socks5://p"),
            ("HTTPS_PROXY", "x:y"),
            ("NO_PROXY", "r.example"),
        ]);
        assert_eq!(through(&unused, "https://r.example"), None);
    }
}
