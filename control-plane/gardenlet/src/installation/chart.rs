//! Charts of ControllerDeployments: read from their bytes or pulled from a registry, and cached in compiled form by
//! their digest. It renders nothing and writes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_core::v1::OCIRepository;
use api_meta::{Classified as _, Fault, FaultClass, conditions::installation as reason};
use base_clock::{Clock, Entropy};
use base_helm::chart::CHART_BYTES_MAX;
use base_helm::{Chart, Engine};
use base_oci::{Artefact, Client, Keyring, Kind, Reference, ReferenceError, Settings};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::problem::Problem;

/// Bytes of charts that are cached, as estimated by [`weight`]: some dozens of the largest that real extensions have.
const CACHED_BYTES_MAX: usize = 64 << 20;
/// A chart's templates lie in memory as text and compiled.
const COMPILED_FACTOR: usize = 3;
/// How long the registry's word on a tag is believed: our own writes call for the installation again, and a tag that
/// moves is no way to roll out.
const TAG_AGE_MAX: Duration = Duration::from_secs(60);
/// Tags that are remembered; there is one for each ControllerDeployment, seldom two.
const TAGS_MAX: usize = 1024;
/// How long a pull may hold up a worker, with all its tries.
const PULL_TIMEOUT: Duration = Duration::from_secs(30);

/// A chart that is ready to be rendered.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The chart.
    pub chart: Chart,
    /// Renders it, and keeps its templates compiled.
    pub engine: Engine,
    /// The digest of its archive, or of its manifest in a registry.
    pub digest: String,
}

/// A chart as it was found.
#[derive(Debug)]
pub(crate) struct Source {
    /// Digest of what is to be installed.
    pub digest: String,
    /// Its address in a registry.
    pub address: Option<String>,
    /// The chart; why it is not to be had, where its digest is known all the same.
    pub chart: Result<Arc<Loaded>, Problem>,
    /// Whether the registry has to be queried again.
    pub is_old: bool,
}

impl Source {
    fn pulled(chart: Arc<Loaded>, address: String) -> Self {
        Self {
            digest: chart.digest.clone(),
            address: Some(address),
            chart: Ok(chart),
            is_old: false,
        }
    }

    /// What is remembered of it in the seed, for a gardenlet that cannot reach the registry.
    pub(crate) fn note(&self) -> Option<String> {
        Some(format!("{} {}", self.address.as_ref()?, self.digest))
    }
}

/// The digest in a note of [`Source::note`], if it is of that address.
fn digest_in(note: &str, address: &str) -> Option<String> {
    let (of, digest) = note.split_once(' ')?;
    (of == address).then(|| digest.to_owned())
}

/// What is needed to pull a chart, beside its address.
#[derive(Default)]
pub(crate) struct Access {
    /// Credentials of registries.
    pub keyring: Keyring,
    /// Authorities of the registry in PEM.
    pub ca_bundle: Option<String>,
}

/// The cached charts, the least recently used ones first.
pub(crate) struct Charts {
    clock: Clock,
    entropy: Entropy,
    cached: Mutex<Cached>,
}

#[derive(Default)]
struct Cached {
    charts: VecDeque<(usize, Arc<Loaded>)>,
    /// What a reference with a tag meant, and when that was read.
    tags: BTreeMap<String, (String, Timestamp)>,
}

impl Charts {
    /// None yet. Charts take time and randomness from these.
    pub(crate) fn new(clock: Clock, entropy: Entropy) -> Self {
        Self {
            clock,
            entropy,
            cached: Mutex::default(),
        }
    }

    /// The chart in an archive.
    ///
    /// # Errors
    /// It is no chart.
    pub(crate) fn of_archive(&self, archive: &[u8]) -> Result<Source, Problem> {
        let digest = digest_of(archive);
        let chart = match self.find(&digest) {
            Some(found) => found,
            None => self.load(digest, archive)?,
        };
        Ok(Source {
            digest: chart.digest.clone(),
            address: None,
            chart: Ok(chart),
            is_old: false,
        })
    }

    /// The chart in a registry. A cached one is not pulled again by digest, nor by tag within [`TAG_AGE_MAX`]; if
    /// the registry cannot be reached, what a tag meant last will do: in this process, or when the chart was `installed`.
    ///
    /// # Errors
    /// The address is none, the registry does not give the chart, or it is none.
    pub(crate) async fn of_repository(
        &self,
        repository: &OCIRepository,
        access: Access,
        installed: Option<&str>,
    ) -> Result<Source, Problem> {
        let reference = reference(repository).map_err(|why| {
            let fault = Fault::user(why).hint("correct helm.ociRepository of the ControllerDeployment");
            Problem::invalid(reason::CHART_INFORMATION_INVALID, fault)
        })?;
        let address = reference.to_string();
        let (known, is_fresh) = self.known(&reference);
        if let Some(known) = known.clone().filter(|_| is_fresh) {
            return Ok(Source::pulled(known, address));
        }
        let mut settings = Settings::new(self.clock.clone(), self.entropy.clone());
        settings.keyring = access.keyring;
        settings.ca_bundle = access.ca_bundle;
        settings.timeout = PULL_TIMEOUT;
        let client = Client::new(settings).map_err(|why| {
            let fault = Fault::user(why).hint("put PEM into bundle.crt of the Secret in caBundleSecretRef");
            Problem::invalid(reason::CHART_INFORMATION_INVALID, fault)
        })?;
        let pulled = client.pull(&reference, &Artefact::helm_chart(CHART_BYTES_MAX)).await;
        let pulled = match (pulled, known) {
            (Ok(pulled), _) => pulled,
            (Err(error), known) if error.class() == FaultClass::Transient => {
                let digest = known.as_ref().map(|known| known.digest.clone());
                let of_reference = || reference.digest().map(|digest| digest.to_string());
                let digest = digest.or_else(of_reference).or_else(|| digest_in(installed?, &address));
                let problem = not_pulled(error);
                let Some(digest) = digest else { return Err(problem) };
                tracing::warn!(%reference, digest, "the chart is taken as it was pulled last: {}", problem.message());
                return Ok(Source {
                    digest,
                    address: Some(address),
                    chart: known.ok_or(problem),
                    is_old: true,
                });
            }
            (Err(error), _) => return Err(not_pulled(error)),
        };
        let digest = pulled.digest.to_string();
        let chart = match self.find(&digest) {
            Some(found) => found,
            None => self.load(digest, &pulled.bytes)?,
        };
        self.remember(&reference, &chart.digest);
        Ok(Source::pulled(chart, address))
    }

    /// What a reference is known to mean, and whether the registry need not be queried.
    fn known(&self, reference: &Reference) -> (Option<Arc<Loaded>>, bool) {
        if let Some(digest) = reference.digest() {
            return (self.find(&digest.to_string()), true);
        }
        let known = self.lock().tags.get(&reference.to_string()).cloned();
        let Some((digest, read)) = known else {
            return (None, false);
        };
        let is_fresh = self.clock.since(read) < TAG_AGE_MAX;
        (self.find(&digest), is_fresh)
    }

    fn remember(&self, reference: &Reference, digest: &str) {
        if reference.digest().is_some() {
            return;
        }
        let now = self.clock.now();
        let mut cached = self.lock();
        if cached.tags.len() >= TAGS_MAX {
            cached.tags.clear();
        }
        cached.tags.insert(reference.to_string(), (digest.to_owned(), now));
    }

    fn find(&self, digest: &str) -> Option<Arc<Loaded>> {
        let mut cached = self.lock();
        let place = cached.charts.iter().position(|(_, chart)| chart.digest == digest)?;
        let found = cached.charts.remove(place)?;
        let chart = Arc::clone(&found.1);
        cached.charts.push_back(found);
        Some(chart)
    }

    fn load(&self, digest: String, archive: &[u8]) -> Result<Arc<Loaded>, Problem> {
        let chart = Chart::from_archive(archive).map_err(|why| {
            let fault = Fault::user(format!("the chart cannot be read: {why}"))
                .hint("package it with `helm package`, and look at it with `orangery chart lint`");
            Problem::invalid(reason::CHART_CANNOT_BE_RENDERED, fault)
        })?;
        let engine = Engine::default()
            .with_clock(self.clock.clone())
            .with_entropy(self.entropy.clone());
        let weight = weight(&chart);
        let loaded = Arc::new(Loaded { chart, engine, digest });
        self.cache((weight, Arc::clone(&loaded)));
        Ok(loaded)
    }

    fn cache(&self, chart: (usize, Arc<Loaded>)) {
        let mut cached = self.lock();
        cached.charts.push_back(chart);
        let mut bytes: usize = cached.charts.iter().map(|(weight, _)| weight).sum();
        while bytes > CACHED_BYTES_MAX {
            let Some((weight, _)) = cached.charts.pop_front() else {
                break;
            };
            bytes -= weight;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a registry did not give the chart, with what is to be changed in the ControllerDeployment.
fn not_pulled(error: base_oci::Error) -> Problem {
    let fault = match error.kind.decisive() {
        Kind::Untrusted { .. } => Fault::new(error.class(), error).hint(
            "write the certificate of its authority, a self-signed one itself, as bundle.crt into a Secret of namespace garden \
             with label gardener.cloud/role=oci-ca-bundle, and name the Secret in caBundleSecretRef of helm.ociRepository",
        ),
        _ => Fault::from(error),
    };
    Problem::invalid(reason::OCI_CHART_CANNOT_BE_PULLED, fault)
}

/// About how many bytes a chart takes with its templates compiled.
fn weight(chart: &Chart) -> usize {
    let bytes = |files: &[base_helm::chart::File]| files.iter().map(|file| file.data.len()).sum::<usize>();
    let inner: usize = chart.dependencies.iter().map(weight).sum();
    COMPILED_FACTOR * bytes(&chart.templates) + bytes(&chart.files) + inner
}

fn digest_of(archive: &[u8]) -> String {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(archive) {
        // Writing to a String does not fail.
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

/// Where a chart is. A digest goes before a tag, which then is not looked at.
fn reference(repository: &OCIRepository) -> Result<Reference, ReferenceError> {
    let OCIRepository {
        reference: whole,
        repository: base,
        tag,
        digest,
        pull_secret_ref: _,
        ca_bundle_secret_ref: _,
    } = repository;
    let base = base.as_deref().unwrap_or_default();
    let reference = match (whole, digest, tag) {
        (Some(whole), ..) => Reference::parse(whole)?,
        (None, Some(digest), _) => Reference::parse(&format!("{base}@{digest}"))?,
        (None, None, Some(tag)) => Reference::parse(&format!("{base}:{tag}"))?,
        (None, None, None) => Reference::parse(base)?,
    };
    match reference.digest() {
        Some(digest) => Reference::parse(&format!("{}/{}@{digest}", reference.registry(), reference.repository())),
        None => Ok(reference),
    }
}

#[cfg(test)]
mod tests {
    use base_helm::chart::File;

    use super::*;

    #[test]
    fn a_digest_goes_before_a_tag() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let of = |whole: Option<&str>, base: &str, tag: Option<&str>, digest: Option<&str>| {
            let repository = OCIRepository {
                reference: whole.map(str::to_owned),
                repository: Some(base.to_owned()),
                tag: tag.map(str::to_owned),
                digest: digest.map(str::to_owned),
                ..OCIRepository::default()
            };
            reference(&repository).map(|reference| reference.to_string())
        };
        let known = |text: String| Reference::parse(&text).map(|reference| reference.to_string());
        assert_eq!(
            of(None, "r.example/a/b", Some("1.0"), None),
            known("r.example/a/b:1.0".into())
        );
        let pinned = known(format!("r.example/a/b@{digest}"));
        assert_eq!(of(None, "oci://r.example/a/b", Some("1.0"), Some(&digest)), pinned);
        assert_eq!(of(Some(&format!("r.example/a/b:1.0@{digest}")), "", None, None), pinned);
        assert!(of(None, "r.example/a/b", None, Some("sha256:short")).is_err());
    }

    fn charts() -> Charts {
        Charts::new(Clock::settable(Timestamp::UNIX_EPOCH).0, Entropy::seeded(1))
    }

    fn cached(bytes: usize, digest: &str) -> (usize, Arc<Loaded>) {
        let loaded = Loaded {
            chart: Chart::default(),
            engine: Engine::default(),
            digest: digest.to_owned(),
        };
        (bytes, Arc::new(loaded))
    }

    #[test]
    fn the_least_recently_used_charts_go_when_they_are_too_many_bytes() {
        let charts = charts();
        for digest in ["a", "b", "c"] {
            charts.cache(cached(CACHED_BYTES_MAX / 3, digest));
        }
        assert!(charts.find("a").is_some(), "it is used");
        charts.cache(cached(CACHED_BYTES_MAX / 3, "d"));
        let is_there = |digest: &str| charts.find(digest).is_some();
        assert_eq!(["a", "b", "c", "d"].map(is_there), [true, false, true, true]);
        charts.cache(cached(CACHED_BYTES_MAX, "large"));
        assert_eq!(["a", "c", "d", "large"].map(is_there), [false, false, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_tag_meant_last_will_do_while_its_registry_is_down() {
        let (clock, hand) = Clock::settable(Timestamp::UNIX_EPOCH);
        let charts = Charts::new(clock, Entropy::seeded(1));
        // Nothing listens on port 1.
        let repository = OCIRepository {
            reference: Some("127.0.0.1:1/a/b:1.0".to_owned()),
            ..OCIRepository::default()
        };
        let down = charts
            .of_repository(&repository, Access::default(), None)
            .await
            .unwrap_err();
        assert_eq!(down.reason, reason::OCI_CHART_CANNOT_BE_PULLED);
        assert!(!down.waits_for_change(), "it is tried again: {}", down.message());
        let note = "oci://127.0.0.1:1/a/b:1.0 sha256:installed";
        let installed = charts
            .of_repository(&repository, Access::default(), Some(note))
            .await
            .unwrap();
        assert_eq!(
            (installed.digest.as_str(), installed.note().as_deref()),
            ("sha256:installed", Some(note))
        );
        assert!(installed.chart.is_err() && installed.is_old, "only its digest is known");
        let other = charts
            .of_repository(
                &repository,
                Access::default(),
                Some("oci://127.0.0.1:1/a/b:2.0 sha256:other"),
            )
            .await;
        assert!(other.is_err(), "that was another tag");
        let (weight, chart) = cached(1, "sha256:known");
        charts.cache((weight, chart));
        let named = reference(&repository).unwrap();
        charts.remember(&named, "sha256:known");
        assert!(charts.known(&named).1, "it has just been read");
        hand.jump(jiff::SignedDuration::from_mins(10));
        assert!(!charts.known(&named).1, "it is requested again");
        let known = charts
            .of_repository(&repository, Access::default(), Some(note))
            .await
            .unwrap();
        assert_eq!(known.digest, "sha256:known");
        assert!(known.chart.is_ok() && known.is_old);
    }

    #[test]
    fn an_untrusted_registry_is_named_with_the_field_for_its_authority() {
        let problem = not_pulled(base_oci::Error {
            reference: "registry.example:5000/charts/moon:1.0".to_owned(),
            host: "registry.example:5000".to_owned(),
            kind: Kind::Untrusted {
                whose: "the registry".to_owned(),
                why: "it has expired".to_owned(),
            },
        });
        let message = problem.message();
        for part in [
            "registry.example:5000/charts/moon:1.0: the certificate of the registry is not trusted: it has expired",
            "caBundleSecretRef",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn templates_weigh_more_than_files() {
        let file = |bytes: usize| File {
            name: "f".to_owned(),
            data: vec![b'x'; bytes].into(),
        };
        let (mut chart, mut inner) = (Chart::default(), Chart::default());
        inner.files = Arc::new(vec![file(10)]);
        chart.templates = Arc::new(vec![file(100)]);
        chart.dependencies = vec![inner];
        assert_eq!(weight(&chart), 310);
    }
}
