//! The client: how it is set up, to which hosts it sends requests in which order, and how often.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_tls::{Unverified, machine_roots};
use http::HeaderValue;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;
use url::Url;

use crate::cache::Cache;
use crate::credentials::Keyring;
use crate::error::{Error, Kind};
use crate::exchange::{Answer, Want};
use crate::helper::Helper;
use crate::proxy::Proxies;
use crate::reference::{Digest, Reference, is_authority, is_repository};
use crate::transport::{Dial, Network, Transport};

/// The user agent.
pub(crate) const AGENT: &str = concat!("orangery/", env!("CARGO_PKG_VERSION"));
/// How long a pull may take with all its tries unless the caller sets another: a chart of the largest size over a slow line.
pub const PULL_TIMEOUT: Duration = Duration::from_secs(300);
/// How often a request to the registry is tried before a failure that may pass is returned: through a restart of some seconds.
const TRIES_MAX: u32 = 5;
/// The same for a mirror, after which another mirror or the registry is tried.
const MIRROR_TRIES_MAX: u32 = 2;
/// The pause before the second try; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest pause of these.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// The longest `Retry-After` of a registry that is waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// `ring` signs with no other keys.
const UNSUPPORTED_KEY: &str = "its private key is none of RSA (2048 to 4096 bits), ECDSA (P-256, P-384) and Ed25519";
/// Cached tokens: more repositories than are pulled from between two restarts; beyond it all are fetched again.
const TOKENS_MAX: usize = 4096;

/// How a client is set up.
#[derive(Clone)]
pub struct Settings {
    /// Its credentials, by registry
    pub keyring: Keyring,
    /// Authorities that it trusts beside those of the machine, in PEM
    pub ca_bundle: Option<String>,
    /// Runs credential helpers; without one they are not run
    pub helper: Option<Arc<dyn Helper>>,
    /// Its certificate for hosts that request one
    pub identity: Option<Identity>,
    /// Whether it accepts any server certificate
    pub insecure_skip_tls_verify: bool,
    /// Whether requests to registries go over plain HTTP; for mirrors their address decides
    pub plain_http: bool,
    /// The proxies through which hosts are reached
    pub proxies: Proxies,
    /// Hosts that are tried before the registry
    pub mirrors: Vec<Mirror>,
    /// The cache on disk
    pub cache: Option<Cache>,
    /// How long a pull may take with all its tries
    pub timeout: Duration,
    /// Is called with the progress of downloads
    pub watcher: Option<Watcher>,
    /// The clock
    pub clock: Clock,
    /// Randomness of pauses
    pub entropy: Entropy,
}

/// The client's own certificate.
#[derive(Clone)]
pub struct Identity {
    /// The certificate and its intermediates, in PEM
    pub certificates: String,
    /// Its key, in PEM
    pub key: SecretString,
}

/// Called with the bytes received so far, and with the total if it is known.
pub type Watcher = Arc<dyn Fn(u64, Option<u64>) + Send + Sync>;

impl Settings {
    /// Anonymous, over TLS with the machine's authorities, without proxies, mirrors and cache.
    #[must_use]
    pub fn new(clock: Clock, entropy: Entropy) -> Self {
        Self {
            keyring: Keyring::default(),
            helper: None,
            ca_bundle: None,
            identity: None,
            insecure_skip_tls_verify: false,
            plain_http: false,
            proxies: Proxies::default(),
            mirrors: Vec::new(),
            cache: None,
            timeout: PULL_TIMEOUT,
            watcher: None,
            clock,
            entropy,
        }
    }
}

/// Why a client cannot be set up with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The authorities
    #[error("the CA bundle has no certificate that can be read: it is PEM")]
    Bundle,
    /// The client's own certificate or its key
    #[error("the client's certificate cannot be shown: {0}")]
    Identity(String),
    /// TLS itself
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// A host that is tried before the registry: it has the same content, perhaps below a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror(Endpoint);

impl Mirror {
    /// Reads `[http://|https://]HOST[:PORT][/PATH]`; over plain HTTP only with that scheme.
    ///
    /// # Errors
    /// It is no such text; it is repeated in the error.
    pub fn parse(text: &str) -> Result<Self, Kind> {
        let (scheme, bare) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), bare)) => (scheme, bare),
            Some(_) => ("", text),
            None => ("https", text),
        };
        let (authority, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_end_matches('/');
        let fits = !scheme.is_empty() && is_authority(authority) && (path.is_empty() || is_repository(path));
        let endpoint = fits.then(|| Endpoint::new(scheme, authority, path)).flatten();
        endpoint.map(Self).ok_or_else(|| {
            Kind::Protocol(format!(
                "the mirror {text:?} is none: it is [http://|https://]HOST[:PORT][/PATH]"
            ))
        })
    }
}

/// The host of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    authority: String,
    prefix: String,
}

impl Endpoint {
    fn new(scheme: &str, authority: &str, prefix: &str) -> Option<Self> {
        // Docker's registry answers at another host than its usual name.
        let host = match authority {
            "docker.io" | "index.docker.io" => "registry-1.docker.io",
            authority => authority,
        };
        Some(Self {
            url: Url::parse(&format!("{scheme}://{host}/")).ok()?,
            authority: authority.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// Host, and port if one is named.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The name of a repository there.
    pub(crate) fn repository(&self, repository: &str) -> String {
        match self.prefix.as_str() {
            "" => repository.to_owned(),
            prefix => format!("{prefix}/{repository}"),
        }
    }

    /// The URL of a path in a repository.
    pub(crate) fn url(&self, repository: &str, path: &str) -> Result<Url, Kind> {
        let url = self.url.join(&format!("/v2/{repository}/{path}"));
        url.map_err(|_| Kind::Protocol("it has no address".to_owned()))
    }
}

/// Pulls artefacts. It may be shared, and pull several at once.
pub struct Client {
    pub(crate) transport: Transport,
    pub(crate) keyring: Keyring,
    pub(crate) helper: Option<Arc<dyn Helper>>,
    pub(crate) cache: Option<Cache>,
    pub(crate) clock: Clock,
    mirrors: Vec<Mirror>,
    scheme: &'static str,
    timeout: Duration,
    watcher: Option<Watcher>,
    entropy: Entropy,
    /// By registry and repository
    tokens: Mutex<HashMap<String, HeaderValue>>,
    /// Locks of the downloads that are running, so that no content is fetched twice at once
    downloads: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Client");
        shown.field("mirrors", &self.mirrors).finish_non_exhaustive()
    }
}

impl Client {
    /// A client with these settings.
    ///
    /// # Errors
    /// The CA bundle or the client's certificate is invalid.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Self::with_dial(settings, Arc::new(Network))
    }

    pub(crate) fn with_dial(settings: Settings, dial: Arc<dyn Dial>) -> Result<Self, SettingsError> {
        let tls = Arc::new(tls(&settings)?);
        Ok(Self {
            transport: Transport::new(tls, dial, settings.proxies),
            keyring: settings.keyring,
            helper: settings.helper,
            cache: settings.cache,
            clock: settings.clock,
            mirrors: settings.mirrors,
            scheme: if settings.plain_http { "http" } else { "https" },
            timeout: settings.timeout,
            watcher: settings.watcher,
            entropy: settings.entropy,
            tokens: Mutex::default(),
            downloads: Mutex::default(),
        })
    }

    /// The deadline of an operation that begins now.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Sends the request to the mirrors in their order, then to the registry.
    pub(crate) async fn fetch(&self, reference: &Reference, want: &Want, until: Instant) -> Result<Answer, Error> {
        let failed = |host: &str, kind| Error {
            reference: reference.to_string(),
            host: host.to_owned(),
            kind,
        };
        let own = Endpoint::new(self.scheme, reference.registry(), "");
        let own = own.ok_or_else(|| failed("", Kind::Protocol("the registry has no address".to_owned())))?;
        let mut failures = Vec::new();
        let mirrors = self.mirrors.iter().map(|Mirror(endpoint)| (endpoint, MIRROR_TRIES_MAX));
        for (endpoint, tries_max) in mirrors.chain([(&own, TRIES_MAX)]) {
            match self.fetch_from(endpoint, reference, want, until, tries_max).await {
                Ok(answer) => return Ok(answer),
                Err(kind) => {
                    tracing::debug!(%reference, host = endpoint.authority(), %kind, "not pulled from there");
                    failures.push((endpoint.authority().to_owned(), kind));
                }
            }
        }
        let alone = if failures.len() == 1 { failures.pop() } else { None };
        Err(match alone {
            Some((host, kind)) => failed(&host, kind),
            None => failed("", Kind::All(failures)),
        })
    }

    async fn fetch_from(
        &self,
        endpoint: &Endpoint,
        reference: &Reference,
        want: &Want,
        until: Instant,
        tries_max: u32,
    ) -> Result<Answer, Kind> {
        let mut tries = 1;
        loop {
            let kind = match self.attempt(endpoint, reference.repository(), want, until).await {
                Ok(answer) => return Ok(answer),
                Err(kind) => kind,
            };
            let pause = self
                .pause(tries, &kind)
                .filter(|_| want.is_retried && tries < tries_max);
            let Some(pause) = pause.filter(|pause| Instant::now() + *pause < until) else {
                return Err(kind);
            };
            tokio::time::sleep(pause).await;
            tries += 1;
        }
    }

    /// How long to wait before the next try, if there is to be one. Half of it is random, so that clients that failed at the same
    /// time do not retry at the same time.
    fn pause(&self, tries: u32, kind: &Kind) -> Option<Duration> {
        if let Kind::RateLimited { after: Some(after) } = kind {
            // A retry sooner than `Retry-After` only makes it worse.
            return (*after <= RETRY_AFTER_MAX).then_some(*after);
        }
        let whole = PAUSE.saturating_mul(1 << (tries - 1).min(16)).min(PAUSE_MAX);
        let half = u64::try_from(whole.as_millis() / 2).unwrap_or(1).max(1);
        let drawn = Duration::from_millis(half + self.entropy.below(half));
        kind.is_transient().then_some(drawn)
    }

    /// The authorisation that was sent for that repository the last time.
    pub(crate) fn authorisation(&self, key: &str) -> Option<HeaderValue> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.get(key).cloned()
    }

    pub(crate) fn remember_authorisation(&self, key: &str, value: &HeaderValue) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(key.to_owned(), value.clone());
    }

    /// Held by the task that fetches that content.
    pub(crate) fn download_lock(&self, digest: Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut downloads = self.downloads.lock().unwrap_or_else(PoisonError::into_inner);
        downloads.retain(|_, lock| lock.strong_count() > 0);
        let known = downloads.get(&digest).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::new(tokio::sync::Mutex::new(()));
            downloads.insert(digest, Arc::downgrade(&lock));
            lock
        })
    }

    /// Calls the watcher with the progress of a download.
    pub(crate) fn report_progress(&self, bytes: u64, of: Option<u64>) {
        if let Some(watcher) = &self.watcher {
            watcher(bytes, of);
        }
    }
}

impl Identity {
    fn certified(&self, provider: &CryptoProvider) -> Result<CertifiedKey, SettingsError> {
        let wrong = |what: &str| SettingsError::Identity(what.to_owned());
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificates.as_bytes()).collect();
        let certificates = certificates.ok().filter(|all| !all.is_empty());
        let certificates = certificates.ok_or_else(|| wrong("there is no certificate in PEM"))?;
        let text = self.key.expose_secret();
        if text.contains("ENCRYPTED") {
            return Err(wrong("its private key is encrypted; decrypt it first"));
        }
        // What is wrong in a key is not reported: it might show some of it.
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = key.map_err(|_| wrong("there is no private key in PEM"))?;
        let signer = provider.key_provider.load_private_key(key);
        let signer = signer.map_err(|_| wrong(UNSUPPORTED_KEY))?;
        let certified = CertifiedKey::new(certificates, signer);
        // Certificates of the first version, as openssl makes them by default, cannot be parsed.
        match certified.keys_match() {
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(wrong("the private key is another's"))
            }
            _ => Ok(certified),
        }
    }
}

fn tls(settings: &Settings) -> Result<ClientConfig, SettingsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| SettingsError::Tls(error.to_string()))?;
    let config = if settings.insecure_skip_tls_verify {
        let unverified = Arc::new(Unverified(Arc::clone(&provider)));
        config.dangerous().with_custom_certificate_verifier(unverified)
    } else {
        let mut roots = machine_roots().clone();
        if let Some(bundle) = &settings.ca_bundle {
            let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle.as_bytes()).collect();
            let certificates = certificates.map_err(|_| SettingsError::Bundle)?;
            let (added, _) = roots.add_parsable_certificates(certificates);
            if added == 0 {
                return Err(SettingsError::Bundle);
            }
        }
        config.with_root_certificates(roots)
    };
    let mut config = match &settings.identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let certified = identity.certified(&provider)?;
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use base_clock::{Clock, Entropy};

    use super::{Client, Identity, Settings, SettingsError, UNSUPPORTED_KEY};

    /// A certificate of version 1, as `openssl x509 -req` makes them, for a hundred years from 2026 on; made for this test.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBHjCBxQIUF5DNc+RSEFsBFJ7awFF+oKD0WVAwCgYIKoZIzj0EAwIwETEPMA0G\n\
    A1UEAwwGY2xpZW50MCAXDTI2MTEyMzA1MjMyNloYDzIxMjYxMDMwMDUyMzI2WjAR\n\
    MQ8wDQYDVQQDDAZjbGllbnQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQheLaf\n\
    K8G8dGxR+azJTX2D57WHKnjiCZIumXsepi8cOliHbC/XmdTTChHdEHqOS0crqG8S\n\
    MG0ticRVYnKAT6NwMAoGCCqGSM49BAMCA0gAMEUCIDZBupH05N3t9mn82VauSXi+\n\
    bQQQ+osNjqq6UH76FtRbAiEAxC+ebkTbmr0Rd2P1yRsRV00x/S/V+LD5m92KRXn0\n\
    goE=\n\
    -----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgI1kzNvVA3qaedN2B\n\
    75DG3/mZvU4My+EJFVei2buWykGhRANCAAQheLafK8G8dGxR+azJTX2D57WHKnji\n\
    CZIumXsepi8cOliHbC/XmdTTChHdEHqOS0crqG8SMG0ticRVYnKAT6Nw\n\
    -----END PRIVATE KEY-----\n";

    fn accepted(certificates: &str, key: &str) -> Result<(), String> {
        let mut settings = Settings::new(Clock::real(), Entropy::seeded(1));
        settings.identity = Some(Identity {
            certificates: certificates.to_owned(),
            key: key.into(),
        });
        match Client::new(settings) {
            Ok(_) => Ok(()),
            Err(SettingsError::Identity(why)) => Err(why),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn certificate_of_any_version_is_accepted_if_the_key_is_its_own() {
        accepted(CERTIFICATE, KEY).unwrap();
        let authority = |name| base_secrets::Authority::generate(name, &Clock::real(), &Entropy::seeded(2)).unwrap();
        let other = authority("other").certificate_pem();
        let unreadable = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        for (certificates, key, wanted) in [
            (other.as_str(), KEY, "the private key is another's"),
            ("", KEY, "there is no certificate in PEM"),
            (CERTIFICATE, CERTIFICATE, "there is no private key in PEM"),
            (
                CERTIFICATE,
                &KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"),
                "its private key is encrypted; decrypt it first",
            ),
            (CERTIFICATE, unreadable, UNSUPPORTED_KEY),
        ] {
            assert_eq!(accepted(certificates, key).unwrap_err(), wanted);
        }
    }
}
