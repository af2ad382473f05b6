//! What can go wrong between us and a registry, with a thing to do. No message has a secret in it, and none repeats
//! the message of a registry.

use std::fmt;
use std::time::Duration;

use api_meta::{Classified, FaultClass};

use crate::proxy::ProxyError;
use crate::reference::{Digest, ReferenceError};

/// Why an artefact was not pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What was requested
    pub reference: String,
    /// The host of the request: the registry's, or a mirror's; empty if there was no request
    pub host: String,
    /// What went wrong
    pub kind: Kind,
}

/// What a registry does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The repository
    Repository,
    /// This tag of it
    Tag(String),
    /// Content with this digest
    Content(Digest),
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Kind {
    /// The credentials are refused, or there are none
    #[error("the registry refuses access (HTTP {status}) to {used}")]
    Unauthorised {
        /// 401 or 403
        status: u16,
        /// Which user it refused and where the credentials are from: never the secret
        used: String,
    },
    /// The credentials are in a helper that was not run, or has failed
    #[error("the registry wants credentials, and {source_name} leaves them to the helper {helper}, which {why}")]
    Helper {
        /// The program's name
        helper: String,
        /// Why it has returned none
        why: String,
        /// Which configuration names it
        source_name: String,
    },
    /// The credentials cannot be read
    #[error(
        "the registry wants credentials, and the entry {registry:?} of {source_name} is broken: its auth is base64 of \
         user:password, and all its fields are texts"
    )]
    Broken {
        /// The entry's name
        registry: String,
        /// Which configuration has it
        source_name: String,
    },
    /// It is not there
    #[error("{0}")]
    NotFound(Missing),
    /// The content is another than was requested
    #[error("wrong digest: requested {wanted}, received {found}")]
    Digest {
        /// The digest of what was requested
        wanted: Digest,
        /// The digest of what was received
        found: Digest,
    },
    /// The tag beside a digest resolves to another one
    #[error("the tag {tag} is {found}, and the reference has {wanted}")]
    TagDigest {
        /// The tag
        tag: String,
        /// The digest of the reference
        wanted: Digest,
        /// The digest that the registry has for the tag
        found: Digest,
    },
    /// It is something else than what was requested
    #[error("wrong media type: this is {found}, not {wanted}")]
    MediaType {
        /// What was requested, in words
        wanted: &'static str,
        /// What it is
        found: String,
    },
    /// An index does not identify the manifest that is meant
    #[error("this is an index of {manifests} manifests, {fit} of which say that they are {wanted}; one must")]
    Index {
        /// How many it has
        manifests: usize,
        /// How many of them fit
        fit: usize,
        /// What was requested, in words
        wanted: &'static str,
    },
    /// It is too big
    #[error("too large: {what} has {}, and at most {bytes_max} bytes are taken", bytes_text(*.bytes))]
    TooLarge {
        /// What is too large
        what: &'static str,
        /// How many it has; none if it was not read to its end
        bytes: Option<u64>,
        /// How many are accepted
        bytes_max: u64,
    },
    /// Its size is not the one that its manifest declares
    #[error("wrong size: the manifest declares {declared} bytes, and {} came", at_least(*.found, *.declared))]
    Size {
        /// The size in the manifest
        declared: u64,
        /// What was received, up to the first byte too many
        found: u64,
    },
    /// There is no answer, or only part of one
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The proxy does not connect to the host
    #[error("the proxy {proxy} refuses to connect to it (HTTP {status})")]
    Proxy {
        /// Its host and port
        proxy: String,
        /// Its answer
        status: u16,
    },
    /// The proxy is not usable
    #[error(transparent)]
    NoProxy(ProxyError),
    /// The certificate is not trusted
    #[error("the certificate of {whose} is not trusted: {why}")]
    Untrusted {
        /// The registry, or a proxy
        whose: String,
        /// What is wrong with it
        why: String,
    },
    /// The host requires a client certificate, or another one
    #[error("the host wants a client certificate that it trusts ({0})")]
    WantsCertificate(String),
    /// The host answers without TLS
    #[error("the host speaks no TLS")]
    NoTls,
    /// Too many requests
    #[error("the registry limits the number of requests (HTTP 429){}", after_text(*.after))]
    RateLimited {
        /// When it accepts requests again
        after: Option<Duration>,
    },
    /// It fails
    #[error("the registry fails (HTTP {0})")]
    Server(u16),
    /// It refuses for another reason
    #[error("the registry refuses the request (HTTP {status}{})", code_text(.code))]
    Refused {
        /// The status
        status: u16,
        /// The code of the registry's error, if it has one
        code: String,
    },
    /// It does not follow the protocol of registries
    #[error("the answer is not a registry's: {0}")]
    Protocol(String),
    /// No version fits
    #[error("none of the {versions} versions there is allowed by {constraint:?}{}", highest_text(.highest))]
    NoVersion {
        /// What was requested
        constraint: String,
        /// How many versions there are
        versions: usize,
        /// The highest of them
        highest: Option<String>,
    },
    /// What was requested is neither a version nor a constraint
    #[error("{text:?} is no version and no constraint: {why}")]
    Constraint {
        /// What was requested
        text: String,
        /// What is wrong
        why: String,
    },
    /// A version was requested beside another one's tag
    #[error("the version {version} was requested, and the reference has the tag {tag}")]
    TagVersion {
        /// What was requested
        version: String,
        /// The tag of the reference
        tag: String,
    },
    /// The reference has neither tag nor digest
    #[error("the reference names neither a tag nor a digest")]
    Unnamed,
    /// The reference is invalid
    #[error(transparent)]
    Reference(ReferenceError),
    /// All mirrors and the registry have failed: the error of each, in the order in which they were tried
    #[error("{}", all_text(.0))]
    All(Vec<(String, Kind)>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, host, kind } = self;
        let is_named = host.is_empty() || reference.contains(host.as_str());
        match is_named {
            true => write!(f, "{reference}: {kind}"),
            false => write!(f, "{reference}: {host}: {kind}"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository => f.write_str("not found: the registry knows no such repository"),
            Self::Tag(tag) => write!(
                f,
                "not found: the repository has no tag {tag}, or the registry no such repository"
            ),
            Self::Content(digest) => write!(f, "not found: the repository has nothing with the digest {digest}"),
        }
    }
}

impl Kind {
    /// Whether the same request may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::RateLimited { .. } | Self::Server(_) => true,
            Self::Proxy { status, .. } => *status >= 500,
            _ => false,
        }
    }

    /// The one that decides who can act: of several, the registry's own.
    pub fn decisive(&self) -> &Self {
        match self {
            Self::All(all) => all.last().map_or(self, |(_, kind)| kind.decisive()),
            kind => kind,
        }
    }

    fn thing_to_do(&self) -> &'static str {
        match self.decisive() {
            Self::Unauthorised { .. } => {
                "check the credentials for this registry and that they may pull; many registries say the same of a \
                 repository that is not there"
            }
            Self::Helper { .. } => "give user and password, or fix the helper",
            Self::Broken { .. } => "fix the entry, or log in again",
            Self::NotFound(_) => "check the name of the repository, and the tag or digest",
            Self::Digest { .. } | Self::Size { .. } => {
                "trust neither: ask who runs the registry or mirror whether its storage is damaged"
            }
            Self::TagDigest { .. } => "leave the tag out, or name the digest that it has now",
            Self::MediaType { .. } | Self::Index { .. } => "check the reference: it names something else",
            Self::TooLarge { .. } => "publish it smaller; the limit is fixed",
            Self::Unreachable(_) => "check host, port and network, and whether the registry runs",
            Self::Proxy { status: 407, .. } => "name it with user and password, as in http://USER:PASSWORD@HOST:PORT",
            Self::Proxy { .. } => "ask who runs the proxy, or ask the host directly: NO_PROXY names those",
            Self::NoProxy(_) => "correct the variable, or unset it",
            Self::Untrusted { .. } => "give the certificate of its authority",
            Self::WantsCertificate(_) => "show one that the host's owner has issued",
            Self::NoTls => "check the port, or use plain HTTP if the network is trusted",
            Self::RateLimited { .. } => "wait, log in, or use a mirror",
            Self::Server(_) => "try again later, or ask who runs the registry",
            Self::Refused { .. } | Self::Protocol(_) => "check that the host is a registry, and its address",
            Self::NoVersion { .. } | Self::Constraint { .. } => {
                "name a version that is there, or a constraint as in ^1.2 or >=1.2-0 for those before a release too"
            }
            Self::TagVersion { .. } => "name the version once",
            Self::Reference(_) | Self::Unnamed => "write it as oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]",
            Self::All(_) => "",
        }
    }
}

impl Classified for Error {
    fn class(&self) -> FaultClass {
        match self.kind.decisive() {
            Kind::Unauthorised { .. } | Kind::Helper { .. } | Kind::Broken { .. } => FaultClass::Access,
            Kind::Proxy { status: 407, .. } | Kind::WantsCertificate(_) => FaultClass::Access,
            Kind::Proxy { .. } | Kind::Unreachable(_) | Kind::RateLimited { .. } | Kind::Server(_) => {
                FaultClass::Transient
            }
            Kind::Untrusted { .. } | Kind::Digest { .. } | Kind::Size { .. } => FaultClass::Dependency,
            // What is not there yet may be pushed in a moment.
            Kind::NotFound(_) | Kind::NoVersion { .. } | Kind::Protocol(_) | Kind::Refused { .. } => {
                FaultClass::Dependency
            }
            _ => FaultClass::User,
        }
    }

    fn hint(&self) -> String {
        self.kind.thing_to_do().to_owned()
    }
}

fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "more".to_owned(), |bytes| format!("{bytes} bytes"))
}

fn at_least(found: u64, declared: u64) -> String {
    match found > declared {
        true => "more".to_owned(),
        false => found.to_string(),
    }
}

fn after_text(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(", retry after {} s", after.as_secs()))
}

fn code_text(code: &str) -> String {
    match code {
        "" => String::new(),
        code => format!(", {code}"),
    }
}

fn highest_text(highest: &Option<String>) -> String {
    highest
        .as_ref()
        .map_or_else(String::new, |highest| format!("; the highest is {highest}"))
}

fn all_text(all: &[(String, Kind)]) -> String {
    let outcomes: Vec<String> = all.iter().map(|(host, kind)| format!("{host}: {kind}")).collect();
    outcomes.join("; ")
}
