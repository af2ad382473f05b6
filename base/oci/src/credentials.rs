//! Credentials by registry, from pull secrets and the configuration files of Docker and Helm. Secrets leave this file in one
//! header, and never in a message.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::helper::Helper;
use crate::reference::split_authority;

/// Most bytes of a configuration: Kubernetes stores no larger Secrets.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;
/// The name of Docker's own registry in its configuration, and its other names.
const DOCKER: [&str; 3] = ["index.docker.io", "docker.io", "registry-1.docker.io"];
/// What a helper calls that registry.
const DOCKER_SERVER: &str = "https://index.docker.io/v1/";
/// The user that Docker writes beside an identity token.
const TOKEN_USER: &str = "<token>";

/// Credentials for registries, by precedence: a source is used only where those before it have nothing.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    sources: Vec<Source>,
}

/// A configuration, or a user that the caller has named.
#[derive(Clone, Debug, Default)]
struct Source {
    /// What messages call it
    name: String,
    entries: Vec<Entry>,
    /// Credential helpers by server
    helpers: BTreeMap<String, String>,
    /// The helper for all other servers
    store: String,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Lower case; a part `*` stands for any, as kubelet reads it
    host: String,
    port: Option<String>,
    /// What the repository begins with, without slashes at its ends
    path: String,
    credential: Credential,
}

/// What is sent to a registry.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    Anonymous,
    Basic {
        user: String,
        password: SecretString,
    },
    /// Exchanged for tokens at the registry's token service
    Identity(SecretString),
    /// Sent as it is
    Bearer(SecretString),
    /// A helper has it
    Helper {
        /// Its name
        name: String,
        /// Why it was not read
        why: String,
    },
    /// The entry of this registry is invalid
    Broken(String),
}

/// A credential and where it is from.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) credential: Credential,
    pub(crate) source: String,
}

/// Why a configuration is not read. It repeats nothing of the configuration but names of registries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// Too long
    #[error("{source_name} has {bytes} bytes, and at most {CONFIG_BYTES_MAX} are read")]
    Long {
        /// Which
        source_name: String,
        /// Its size
        bytes: usize,
    },
    /// Not the JSON that Docker writes
    #[error("{source_name} is no Docker configuration: line {line}, column {column}")]
    Form {
        /// Which
        source_name: String,
        /// Where
        line: usize,
        /// Where in the line
        column: usize,
    },
}

/// What Docker writes. Null is nothing, as Go reads it.
#[derive(Default, Deserialize)]
struct Config<'a> {
    /// Each is read by itself: one that is broken matters only to requests to that registry (oras 2.6,
    /// `registry/remote/credentials/internal/config`)
    #[serde(borrow, default, deserialize_with = "or_nothing")]
    auths: BTreeMap<String, &'a RawValue>,
    #[serde(rename = "credsStore", default, deserialize_with = "or_nothing")]
    store: String,
    #[serde(rename = "credHelpers", default, deserialize_with = "or_nothing")]
    helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Auth {
    #[serde(default, deserialize_with = "or_nothing")]
    auth: String,
    #[serde(default, deserialize_with = "or_nothing")]
    username: String,
    #[serde(default, deserialize_with = "or_nothing")]
    password: SecretText,
    #[serde(default, deserialize_with = "or_nothing")]
    identitytoken: SecretText,
    #[serde(default, deserialize_with = "or_nothing")]
    registrytoken: SecretText,
}

/// Reads an object, or null, which is an empty one. Into a struct serde alone would read a list as well, by the order of the
/// fields.
pub(crate) fn object<'a, T: Default + Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    let _: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_slice(json)?;
    serde_json::from_slice(json).map(Option::unwrap_or_default)
}

fn or_nothing<'de, T: Default + Deserialize<'de>, D: serde::Deserializer<'de>>(json: D) -> Result<T, D::Error> {
    Option::deserialize(json).map(Option::unwrap_or_default)
}

/// A secret in JSON, wiped when it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct SecretText(pub(crate) SecretString);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretString::from(text)))
    }
}

impl Default for SecretText {
    fn default() -> Self {
        Self(SecretString::from(""))
    }
}

impl SecretText {
    pub(crate) fn is_there(&self) -> bool {
        !self.0.expose_secret().is_empty()
    }
}

impl Keyring {
    /// User and password for one registry: a host, with a port if one is named.
    #[must_use]
    pub fn of_user(registry: &str, user: &str, password: SecretString, source: &str) -> Self {
        let user = user.to_owned();
        Self {
            sources: vec![Source {
                name: source.to_owned(),
                entries: vec![Entry::new(registry, Credential::Basic { user, password })],
                ..Source::default()
            }],
        }
    }

    /// Reads what Docker writes: `.dockerconfigjson` of a Secret, `~/.docker/config.json`, Helm's `registry/config.json`.
    /// `source` is what messages call it. A broken entry is an error once its registry requires credentials.
    ///
    /// # Errors
    /// It is no such configuration; the error names the place.
    pub fn of_docker_config(json: &[u8], source: &str) -> Result<Self, KeyringError> {
        let source_name = source.to_owned();
        if json.len() > CONFIG_BYTES_MAX {
            let bytes = json.len();
            return Err(KeyringError::Long { source_name, bytes });
        }
        if json.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        // An error of serde may repeat a password.
        let config: Config<'_> = object(json).map_err(|error| KeyringError::Form {
            source_name,
            line: error.line(),
            column: error.column(),
        })?;
        let mut entries = Vec::new();
        for (registry, auth) in &config.auths {
            let auth = object(auth.get().as_bytes());
            let credential = match auth.map(|auth: Auth| auth.credential()) {
                // Docker leaves an empty entry where a helper has the rest.
                Ok(Some(None)) => continue,
                Ok(Some(Some(credential))) => credential,
                Ok(None) | Err(_) => Credential::Broken(registry.clone()),
            };
            entries.push(Entry::new(registry, credential));
        }
        Ok(Self {
            sources: vec![Source {
                name: source.to_owned(),
                entries,
                helpers: config.helpers,
                store: config.store,
            }],
        })
    }

    /// Adds what another keyring has, behind what is here: it is used only where nothing here fits.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.sources.extend(other.sources);
        self
    }

    /// The credentials for that repository of that registry (host, and port if one is named), if no helper is run: helpers are
    /// skipped as long as another source has some.
    pub(crate) fn find(&self, registry: &str, repository: &str) -> Found {
        let all = || {
            self.sources
                .iter()
                .filter_map(|source| source.find(registry, repository))
        };
        let is_known = |found: &Found| !matches!(found.credential, Credential::Helper { .. });
        let entry = |source: &Source| source.entry(registry, repository);
        let known = all().find(is_known).or_else(|| self.sources.iter().find_map(entry));
        known.or_else(|| all().next()).unwrap_or(Found::NOTHING)
    }

    /// The same, if helpers are run: the first source that has credentials counts. The error of a helper that fails is reported
    /// if the registry refuses requests without credentials.
    pub(crate) async fn find_with(&self, registry: &str, repository: &str, helper: &dyn Helper) -> Found {
        let (mut failed, mut nothing) = (None, None);
        for source in &self.sources {
            let Some(found) = source.find(registry, repository) else {
                continue;
            };
            let Credential::Helper { name, .. } = &found.credential else {
                return found;
            };
            let described = format!("{name}, which {} names", found.source);
            match helper.get(name, server(registry)).await {
                Ok(Some(login)) => {
                    return Found {
                        credential: basic(&login.user, login.secret().expose_secret()),
                        source: described,
                    };
                }
                Ok(None) => {
                    nothing.get_or_insert(Found {
                        source: described,
                        ..Found::NOTHING
                    });
                }
                Err(why) => {
                    let name = name.clone();
                    failed.get_or_insert(Found {
                        credential: Credential::Helper { name, why },
                        source: found.source,
                    });
                }
            }
        }
        failed.or(nothing).unwrap_or(Found::NOTHING)
    }
}

impl Source {
    /// A helper of this server takes precedence, then one for all servers, and only where there is none the entries
    /// (`getHelperSuffix` of oras 2.6 `registry/remote/credentials/store.go`).
    fn find(&self, registry: &str, repository: &str) -> Option<Found> {
        let is_it = |name: &str| name == server(registry) || is_docker(name) && is_docker(registry);
        let own = self
            .helpers
            .iter()
            .find(|(name, helper)| is_it(name) && !helper.is_empty());
        let helper = own.map_or(self.store.as_str(), |(_, helper)| helper);
        if helper.is_empty() {
            return self.entry(registry, repository);
        }
        Some(Found {
            credential: helper_named(helper),
            source: self.name.clone(),
        })
    }

    /// The entry that fits. Of several the one with the longest path counts, of these the first.
    fn entry(&self, registry: &str, repository: &str) -> Option<Found> {
        let (host, port) = normal(registry);
        let fitting = self
            .entries
            .iter()
            .filter(|entry| entry.fits(&host, port.as_deref(), repository));
        let best = fitting.reduce(|best, entry| {
            if entry.path.len() > best.path.len() {
                entry
            } else {
                best
            }
        })?;
        Some(Found {
            credential: best.credential.clone(),
            source: self.name.clone(),
        })
    }
}

/// What a helper calls a registry.
fn server(registry: &str) -> &str {
    if is_docker(registry) { DOCKER_SERVER } else { registry }
}

fn is_docker(registry: &str) -> bool {
    let bare = registry.trim_start_matches("https://");
    normal(bare.split('/').next().unwrap_or_default()).0 == DOCKER[0]
}

impl Found {
    const NOTHING: Self = Self {
        credential: Credential::Anonymous,
        source: String::new(),
    };
}

impl Auth {
    /// `None` if its `auth` is broken, `Some(None)` if it is empty. `auth` wins over user and password, as in Docker.
    fn credential(&self) -> Option<Option<Credential>> {
        if self.identitytoken.is_there() {
            return Some(Some(Credential::Identity(self.identitytoken.0.clone())));
        }
        if self.registrytoken.is_there() {
            return Some(Some(Credential::Bearer(self.registrytoken.0.clone())));
        }
        if !self.auth.is_empty() {
            let bytes = STANDARD.decode(&self.auth).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            let (user, password) = text.split_once(':')?;
            return Some(Some(basic(user, password.trim_end_matches('\0'))));
        }
        let is_empty = self.username.is_empty() && !self.password.is_there();
        Some((!is_empty).then(|| basic(&self.username, self.password.0.expose_secret())))
    }
}

fn basic(user: &str, password: &str) -> Credential {
    let password = SecretString::from(password);
    match user {
        TOKEN_USER => Credential::Identity(password),
        user => Credential::Basic {
            user: user.to_owned(),
            password,
        },
    }
}

fn helper_named(helper: &str) -> Credential {
    Credential::Helper {
        name: format!("docker-credential-{helper}"),
        why: "is not run".to_owned(),
    }
}

impl Entry {
    /// `registry` as configurations have it: a host, or a URL, with a path or without.
    fn new(registry: &str, credential: Credential) -> Self {
        let bare = registry.trim_start_matches("https://").trim_start_matches("http://");
        let (authority, path) = bare.split_once('/').unwrap_or((bare, ""));
        let (host, port) = normal(authority);
        // Docker's own registry is written as https://index.docker.io/v1/, others now and then with such an end.
        let path = path.trim_matches('/');
        let path = if matches!(path, "v1" | "v2") { "" } else { path };
        Self {
            host,
            port,
            path: path.to_owned(),
            credential,
        }
    }

    /// Kubelet's rule (Kubernetes 1.35, `pkg/credentialprovider/keyring.go`): as many parts in the host, each equal or matched by
    /// `*`; the same port; a repository below the path.
    fn fits(&self, host: &str, port: Option<&str>, repository: &str) -> bool {
        let is_port = self.port.as_deref() == port;
        let (mut wanted, mut parts) = (self.host.split('.'), host.split('.'));
        let is_host = loop {
            match (wanted.next(), parts.next()) {
                (None, None) => break true,
                (Some(wanted), Some(part)) if matches(wanted, part) => {}
                _ => break false,
            }
        };
        let below = repository.strip_prefix(self.path.as_str());
        is_port && is_host && below.is_some_and(|rest| self.path.is_empty() || rest.is_empty() || rest.starts_with('/'))
    }
}

/// Whether a part of a host matches a pattern with one `*` at most.
fn matches(wanted: &str, part: &str) -> bool {
    match wanted.split_once('*') {
        None => wanted == part,
        Some((begin, end)) => part.len() >= begin.len() + end.len() && part.starts_with(begin) && part.ends_with(end),
    }
}

/// Host in lower case, one name for Docker's own registry, and the port unless it is that of https.
fn normal(authority: &str) -> (String, Option<String>) {
    let (host, port) = split_authority(authority);
    let host = host.to_ascii_lowercase();
    let host = match DOCKER.contains(&host.as_str()) {
        true => DOCKER[0].to_owned(),
        false => host,
    };
    (host, port.filter(|port| *port != "443").map(str::to_owned))
}

/// The credentials that a registry refused, for a message.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { credential, source } = self;
        match credential {
            Credential::Anonymous if source.is_empty() => f.write_str("anonymous: no credentials are known for it"),
            Credential::Anonymous => write!(f, "anonymous: {source} has no credentials for it"),
            Credential::Basic { user, .. } => write!(f, "the user {user:?} of {source}"),
            Credential::Identity(_) => write!(f, "the identity token of {source}"),
            Credential::Bearer(_) => write!(f, "the registry token of {source}"),
            Credential::Helper { name, .. } => write!(f, "anonymous: {source} leaves credentials to {name}"),
            Credential::Broken(registry) => write!(f, "anonymous: the entry {registry:?} of {source} is broken"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::{self, BoxFuture};

    use super::{Credential, Found, Keyring, KeyringError};
    use crate::helper::{Helper, Login};
    use secrecy::ExposeSecret as _;

    fn described(found: &Found) -> String {
        match &found.credential {
            Credential::Anonymous => "anonymous".to_owned(),
            Credential::Basic { user, password } => format!("{user}/{}", password.expose_secret()),
            Credential::Identity(token) => format!("identity {}", token.expose_secret()),
            Credential::Bearer(token) => format!("bearer {}", token.expose_secret()),
            Credential::Helper { name, .. } => name.clone(),
            Credential::Broken(registry) => format!("broken {registry}"),
        }
    }

    #[test]
    fn each_form_of_an_entry_is_read() {
        // bWU6c2U6Y3JldA== is me:se:cret, PHRva2VuPjppZA== is <token>:id.
        let config = br#"{"auths": {
            "a.example": {"auth": "bWU6c2U6Y3JldA=="},
            "https://b.example/v2/": {"username": "you", "password": "p"},
            "c.example:5000": {"identitytoken": "id", "auth": "bWU6c2U6Y3JldA=="},
            "d.example": {"registrytoken": "reg"},
            "e.example": {"auth": "PHRva2VuPjppZA=="},
            "f.example": {},
            "https://index.docker.io/v1/": {"auth": "bWU6c2U6Y3JldA=="},
            "*.many.example": {"username": "all", "password": "p"},
            "g.example/team": {"username": "team", "password": "p"},
            "g.example": {"username": "g", "password": "p"}
        }, "credHelpers": {"gcr.example": "gcloud"}, "HttpHeaders": {"a": "b"}}"#;
        let keyring = Keyring::of_docker_config(config, "the pull secret").unwrap();
        for (registry, repository, wanted) in [
            ("a.example", "x", "me/se:cret"),
            ("A.example:443", "x", "me/se:cret"),
            ("a.example:5000", "x", "anonymous"),
            ("b.example", "x", "you/p"),
            ("c.example:5000", "x", "identity id"),
            ("d.example", "x", "bearer reg"),
            ("e.example", "x", "identity id"),
            ("f.example", "x", "anonymous"),
            ("registry-1.docker.io", "x", "me/se:cret"),
            ("docker.io", "x", "me/se:cret"),
            ("eu.many.example", "x", "all/p"),
            ("a.eu.many.example", "x", "anonymous"),
            ("many.example", "x", "anonymous"),
            ("g.example", "team/x", "team/p"),
            ("g.example", "team", "team/p"),
            ("g.example", "teams/x", "g/p"),
            ("gcr.example", "x", "docker-credential-gcloud"),
        ] {
            assert_eq!(
                described(&keyring.find(registry, repository)),
                wanted,
                "{registry}/{repository}"
            );
        }
    }

    #[test]
    fn broken_entry_affects_its_registry_alone_and_null_is_no_entry() {
        let config = br#"{"auths": {
            "a.example": {"auth": "!!!"}, "b.example": {"auth": "bm9ib2R5"}, "c.example": {"password": ["p"]}, "d.example": 1,
            "e.example": null, "f.example": {"auth": null, "username": "f", "password": "p"}, "g.example": {"password": null}
        }, "credsStore": null, "credHelpers": null}"#;
        let keyring = Keyring::of_docker_config(config, "a file").unwrap();
        for (registry, wanted) in [
            ("a.example", "broken a.example"),
            ("b.example", "broken b.example"),
            ("c.example", "broken c.example"),
            ("d.example", "broken d.example"),
            ("e.example", "anonymous"),
            ("f.example", "f/p"),
            ("g.example", "anonymous"),
        ] {
            assert_eq!(described(&keyring.find(registry, "x")), wanted, "{registry}");
        }
        for config in ["", " \n", "null", "{}", r#"{"auths": null}"#] {
            let keyring = Keyring::of_docker_config(config.as_bytes(), "a file").expect(config);
            assert_eq!(described(&keyring.find("a.example", "x")), "anonymous", "{config}");
        }
    }

    #[test]
    fn a_list_is_no_configuration_and_no_entry() {
        for config in ["[]", " [{}]", "[{},\"\",{}]"] {
            let error = Keyring::of_docker_config(config.as_bytes(), "a file").unwrap_err();
            assert!(matches!(error, KeyringError::Form { line: 1, .. }), "{config}: {error}");
        }
        let keyring = Keyring::of_docker_config(br#"{"auths": {"a.example": ["YTpi"]}}"#, "a file").unwrap();
        let found = keyring.find("a.example", "x").credential;
        assert!(matches!(found, Credential::Broken(_)), "{found:?}");
    }

    #[test]
    fn first_source_wins_and_a_helper_for_all_comes_last() {
        let first = Keyring::of_user("r.example", "flag", "p".into(), "the command line");
        let second = Keyring::of_docker_config(
            br#"{"auths":{"r.example":{"username":"file","password":"p"}}}"#,
            "a file",
        );
        let third = Keyring::of_docker_config(br#"{"credsStore":"desktop"}"#, "another").unwrap();
        let keyring = first.and(second.unwrap()).and(third);
        assert_eq!(described(&keyring.find("r.example", "a")), "flag/p");
        let path = br#"{"auths":{"r.example/a":{"username":"path","password":"p"}}}"#;
        let keyring = keyring.and(Keyring::of_docker_config(path, "with a path").unwrap());
        assert_eq!(
            described(&keyring.find("r.example", "a")),
            "flag/p",
            "what a person says goes first"
        );
        assert_eq!(
            described(&keyring.find("else.example", "a")),
            "docker-credential-desktop"
        );
    }

    /// One helper that has something for every server; the others have nothing.
    struct Having(&'static str);

    impl Helper for Having {
        fn get(&self, name: &str, _: &str) -> BoxFuture<'static, Result<Option<Login>, String>> {
            let json = format!(r#"{{"Username":"{name}","Secret":"p"}}"#);
            let json = if name.ends_with(self.0) { json.as_str() } else { "{}" };
            future::ready(Login::read(true, json.as_bytes())).boxed()
        }
    }

    /// As in oras 2.6, which Helm uses.
    #[tokio::test]
    async fn helpers_precede_written_credentials_and_then_the_next_file_is_read() {
        const AUTHS: &str = r#""auths":{"r.example":{"username":"stale","password":"p"}}"#;
        const K: &str = "docker-credential-k/p";
        let (k, l) = ("credential-k", "credential-l");
        for (helm, docker, having, wanted) in [
            (r#"{AUTHS,"credHelpers":{"r.example":"k"}}"#, "{}", k, K),
            (r#"{AUTHS,"credsStore":"k"}"#, "{}", k, K),
            (r#"{"credHelpers":{"r.example":"k"}}"#, "{AUTHS}", l, "stale/p"),
            (
                r#"{"credsStore":"k"}"#,
                r#"{"credsStore":"l"}"#,
                l,
                "docker-credential-l/p",
            ),
            (r#"{"credHelpers":{"r.example":""},"credsStore":"k"}"#, "{}", k, K),
            (
                r#"{"credHelpers":{"*.example":"k","https://r.example":"k"}}"#,
                "{}",
                k,
                "anonymous",
            ),
            (r#"{AUTHS,"credHelpers":{"other.example":"k"}}"#, "{}", k, "stale/p"),
        ] {
            let of = |text: &str| Keyring::of_docker_config(text.replace("AUTHS", AUTHS).as_bytes(), "a file").unwrap();
            let keyring = of(helm).and(of(docker));
            let found = keyring.find_with("r.example", "a", &Having(having)).await;
            assert_eq!(described(&found), wanted, "{helm} {docker}");
        }
        let docker = Keyring::of_docker_config(br#"{"credHelpers":{"docker.io":"k"}}"#, "a file").unwrap();
        assert_eq!(described(&docker.find_with("docker.io", "a", &Having(k)).await), K);
    }

    #[test]
    fn no_message_repeats_a_secret() {
        let form = Keyring::of_docker_config(br#"{"auths":["hush"]}"#, "f").unwrap_err();
        assert!(matches!(form, KeyringError::Form { line: 1, .. }), "{form}");
        let broken = Keyring::of_docker_config(br#"{"auths":{"a":{"auth":"hush"}}}"#, "f").unwrap();
        let keyring = Keyring::of_user("r.example", "me", "hush".into(), "the command line");
        let found = keyring.find("r.example", "a");
        for text in [
            form.to_string(),
            format!("{broken:?}"),
            broken.find("a", "x").to_string(),
            format!("{keyring:?}"),
            format!("{found:?}"),
            found.to_string(),
        ] {
            assert!(!text.contains("hush"), "{text}");
        }
        let long = Keyring::of_docker_config(&vec![b' '; 2 << 20], "f").unwrap_err();
        assert!(long.to_string().contains("at most 1048576"), "{long}");
    }
}
