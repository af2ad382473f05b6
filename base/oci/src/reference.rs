//! The name of an artefact in a registry, and the digest of its bytes. It sends no request.

use std::fmt;

use sha2::Digest as _;

/// What a reference of Helm's begins with.
pub const SCHEME: &str = "oci://";
/// Longest reference that is read: a host has 253 characters at most, a tag 128, and registries take repositories of 255.
const REFERENCE_BYTES_MAX: usize = 1024;
/// Longest tag (OCI distribution specification 1.1, "Pulling manifests").
const TAG_BYTES_MAX: usize = 128;

/// Where an artefact is: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:...]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It is longer than any reference
    #[error("a reference has at most {REFERENCE_BYTES_MAX} characters, this one {0}")]
    Long(usize),
    /// It contains a user, and perhaps a password; the text is not repeated
    #[error("a user stands before the registry; credentials are given apart, not in a reference")]
    Credentials,
    /// No slash
    #[error("{0:?} names no repository: a reference is oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]")]
    Repository(String),
    /// The part before the first slash
    #[error(
        "{text:?}: the registry {registry:?} is no host name or address, with a port from 1 to 65535 if there is one"
    )]
    Registry {
        /// The whole
        text: String,
        /// The part
        registry: String,
    },
    /// The part after it
    #[error(
        "{text:?}: the repository {repository:?} is none: it has words of a-z and 0-9, between them ., _, __ or dashes, \
         and / between its parts"
    )]
    Path {
        /// The whole
        text: String,
        /// The part
        repository: String,
    },
    /// What follows the colon
    #[error(
        "{text:?}: the tag {tag:?} is none: it has at most {TAG_BYTES_MAX} of A-Z, a-z, 0-9, _, . and -, and does not begin \
         with . or -"
    )]
    Tag {
        /// The whole
        text: String,
        /// The part
        tag: String,
    },
    /// What follows the @
    #[error("{text:?}: the digest {digest:?} is none: it is sha256: and 64 of 0-9 and a-f")]
    Digest {
        /// The whole
        text: String,
        /// The part
        digest: String,
    },
}

impl Reference {
    /// Reads a reference; `oci://` may be left out. A plus in the tag is read as an underscore, which is how Helm writes versions
    /// in tags (Helm 4.1, `pkg/registry/reference.go`).
    ///
    /// # Errors
    /// What is wrong, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        if text.len() > REFERENCE_BYTES_MAX {
            return Err(ReferenceError::Long(text.len()));
        }
        let bare = text.strip_prefix(SCHEME).unwrap_or(text);
        // Whatever precedes an @ that no digest follows may be a password, whose slashes cut it into parts.
        if bare.rsplit_once('@').is_some_and(|(_, rest)| !rest.starts_with("sha")) {
            return Err(ReferenceError::Credentials);
        }
        let Some((registry, path)) = bare.split_once('/') else {
            return Err(match bare.contains('@') {
                true => ReferenceError::Credentials,
                false => ReferenceError::Repository(text.to_owned()),
            });
        };
        if registry.contains('@') {
            return Err(ReferenceError::Credentials);
        }
        let whole = || text.to_owned();
        if !is_authority(registry) {
            let registry = registry.to_owned();
            return Err(ReferenceError::Registry {
                text: whole(),
                registry,
            });
        }
        let (path, digest) = match path.split_once('@') {
            None => (path, None),
            Some((path, digest)) => {
                let read = Digest::parse(digest).ok_or_else(|| ReferenceError::Digest {
                    text: whole(),
                    digest: digest.to_owned(),
                })?;
                (path, Some(read))
            }
        };
        let (repository, tag) = match path.split_once(':') {
            None => (path, None),
            Some((repository, tag)) => (repository, Some(tag_of_version(tag))),
        };
        if !is_repository(repository) {
            let repository = repository.to_owned();
            return Err(ReferenceError::Path {
                text: whole(),
                repository,
            });
        }
        if let Some(tag) = tag.as_ref().filter(|tag| !is_tag(tag)) {
            let tag = tag.clone();
            return Err(ReferenceError::Tag { text: whole(), tag });
        }
        Ok(Self {
            registry: registry.to_ascii_lowercase(),
            repository: repository.to_owned(),
            tag,
            digest,
        })
    }

    /// Host, and port if one is named.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The same artefact's repository with this tag and no digest.
    ///
    /// # Errors
    /// It is no tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self, ReferenceError> {
        let tag = tag_of_version(tag);
        if !is_tag(&tag) {
            let text = self.to_string();
            return Err(ReferenceError::Tag { text, tag });
        }
        Ok(Self {
            tag: Some(tag),
            digest: None,
            ..self.clone()
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// A version as a tag, in which no plus is allowed.
#[must_use]
pub fn tag_of_version(version: &str) -> String {
    version.replace('+', "_")
}

/// The version that a tag stands for.
#[must_use]
pub fn version_of_tag(tag: &str) -> String {
    tag.replace('_', "+")
}

/// The digest of content: its SHA-256. Registries have others, which are not supported here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of what a hasher has read.
    pub(crate) fn of_hasher(hasher: sha2::Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// Reads `sha256:` and 64 digits of base 16 in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                let value = match digit {
                    b'0'..=b'9' => digit - b'0',
                    b'a'..=b'f' => digit - b'a' + 10,
                    _ => return None,
                };
                *byte = *byte << 4 | value;
            }
        }
        Some(Self(bytes))
    }

    /// The digits without `sha256:`.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            for half in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(u32::from(half), 16));
            }
            text
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Host and port of an authority; an address of IPv6 keeps its brackets.
pub(crate) fn split_authority(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// Whether `text` is a host with or without a port.
pub(crate) fn is_authority(text: &str) -> bool {
    let (host, port) = split_authority(text);
    let is_port =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.len() <= 253 && host.split('.').all(is_label),
    };
    is_host && port.is_none_or(is_port)
}

fn is_label(label: &str) -> bool {
    // Some networks have hosts with underscores in their names.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed) && !label.starts_with('-')
}

/// Whether `text` is the name of a repository (OCI distribution specification 1.1, "Pulling manifests").
pub(crate) fn is_repository(text: &str) -> bool {
    let is_part = |part: &str| {
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends_with_words = part.bytes().next().is_some_and(word) && part.bytes().next_back().is_some_and(word);
        let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        let allowed = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
        ends_with_words && separators.into_iter().all(allowed)
    };
    text.split('/').all(is_part)
}

/// Whether `text` is a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=TAG_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed) && !text.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::{Digest, Reference, ReferenceError};

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn reference_is_parsed_into_registry_repository_tag_and_digest() {
        let whole = format!("oci://Registry.example:5000/charts/web:1.2.3_build.1@{DIGEST}");
        let read = Reference::parse(&whole).unwrap();
        assert_eq!(read.registry(), "registry.example:5000");
        assert_eq!(read.repository(), "charts/web");
        assert_eq!(read.tag(), Some("1.2.3_build.1"));
        assert_eq!(read.digest(), Some(Digest::of(b"")));
        assert_eq!(read.to_string(), whole.replace("Registry", "registry"));
        let read = Reference::parse("localhost/a").unwrap();
        assert_eq!((read.tag(), read.digest()), (None, None));
        let read = Reference::parse("oci://[::1]:5000/a__b/c-d.e:v1").unwrap();
        assert_eq!((read.registry(), read.tag()), ("[::1]:5000", Some("v1")));
    }

    #[test]
    fn a_plus_of_a_version_is_an_underscore_only_in_its_tag() {
        let read = Reference::parse("oci://r.example/web:1.0.0+a.b").unwrap();
        assert_eq!(read.tag(), Some("1.0.0_a.b"));
        assert_eq!(
            read.with_tag("2.0.0+c").unwrap().to_string(),
            "oci://r.example/web:2.0.0_c"
        );
        assert!(Reference::parse("oci://r.example/w+b:1.0.0").is_err());
    }

    #[test]
    fn invalid_reference_is_refused_with_what_is_allowed() {
        let long = format!("oci://r/{}", "a".repeat(2000));
        for (text, expected) in [
            ("oci://host", "names no repository"),
            ("", "names no repository"),
            ("oci://ho st/a", "the registry \"ho st\" is no host name"),
            ("oci://host:0/a", "a port from 1 to 65535"),
            ("oci://host:+80/a", "the registry"),
            ("oci:///a", "the registry \"\""),
            ("oci://[::zz]/a", "the registry"),
            ("oci://host/A", "the repository \"A\" is none"),
            ("oci://host/a//b", "the repository"),
            ("oci://host/a..b", "the repository"),
            ("oci://host/../b", "the repository"),
            ("oci://host/a/", "the repository"),
            ("oci://host/", "the repository \"\""),
            ("oci://host/a:", "the tag \"\" is none"),
            ("oci://host/a:.b", "the tag"),
            ("oci://host/a:b?c", "the tag"),
            ("oci://host/a@sha512:00", "the digest \"sha512:00\" is none"),
            ("oci://host/a@sha256:E3", "the digest"),
            (&long, "at most 1024 characters"),
        ] {
            let why = Reference::parse(text).expect_err(text).to_string();
            assert!(why.contains(expected), "{text}: {why}");
        }
    }

    #[test]
    fn a_password_in_a_reference_is_not_repeated() {
        for text in [
            "oci://me:secret@host/a",
            "oci://me:secret@host",
            "oci://me:se/cret@host/a",
            "oci://me:12/secret@host/a:1",
            "oci://me:secret@host/a@sha256:00",
        ] {
            let why = Reference::parse(text).expect_err(text);
            assert_eq!(why, ReferenceError::Credentials);
            assert!(!why.to_string().contains("secret"), "{why}");
        }
    }
}
