//! Charts that real Helm pushes to a real registry with TLS and a password, pulled by our client: by tag, digest and version,
//! with wrong credentials, from damaged storage, from a registry that is killed during a pull, through mirrors and from the
//! cache. Run by `cargo xtask test registry`, which prepares both programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use base_clock::{Clock, Entropy};
use base_helm::Chart;
use base_helm::chart::CHART_BYTES_MAX;
use base_oci::{Cache, Client, Digest, Error, Keyring, Kind, Mirror, Missing, Pulled, Reference, Settings};
use tests_parts::{Helm, Registry};

const TEMPLATE: (&str, &[u8]) = (
    "templates/map.yaml",
    b"kind: ConfigMap\nmetadata: {name: {{ .Chart.Version }}}\n",
);
/// Much more than a loopback connection buffers.
const LARGE_BYTES: usize = 4 << 20;
const LARGE_FILES: usize = 8;

/// A client that knows the registry's authority and user.
fn client(registry: &Registry, change: impl FnOnce(&mut Settings)) -> Client {
    let mut settings = Settings::new(Clock::real(), Entropy::os());
    settings.ca_bundle = Some(registry.authority());
    settings.keyring = user(registry, Registry::PASSWORD);
    change(&mut settings);
    Client::new(settings).unwrap()
}

fn user(registry: &Registry, password: &str) -> Keyring {
    Keyring::of_user(&registry.host(), Registry::USER, password.into(), "the test")
}

fn name(registry: &Registry, rest: &str) -> Reference {
    Reference::parse(&format!("oci://{}/charts/{rest}", registry.host())).unwrap()
}

async fn pull(client: &Client, name: &Reference, version: Option<&str>) -> Result<Pulled, Error> {
    client.pull_chart(name, version, CHART_BYTES_MAX).await
}

fn version_of(pulled: &Pulled) -> String {
    Chart::from_archive(&pulled.bytes).unwrap().metadata.version
}

/// Incompressible files of a chart.
fn large() -> Vec<(String, Vec<u8>)> {
    let entropy = Entropy::seeded(3);
    let file = |number| {
        let mut bytes = vec![0; LARGE_BYTES];
        entropy.fill(&mut bytes);
        (format!("files/{number}"), bytes)
    };
    (0..LARGE_FILES).map(file).collect()
}

fn push_large(helm: &Helm, registry: &Registry) -> String {
    let files = large();
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    helm.push(registry, "large", "1.0.0", &files).unwrap()
}

#[tokio::test]
async fn charts_are_pulled_by_tag_digest_and_version_constraint() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    let mut digests = Vec::new();
    for version in ["1.2.3", "1.10.0", "1.9.0+build.5", "2.0.0-rc.1"] {
        digests.push(helm.push(&registry, "web", version, &[TEMPLATE]).unwrap());
    }
    let client = client(&registry, |_| {});
    let by_digest = format!("web@{}", digests[0]);
    let beside = format!("web:1.2.3@{}", digests[0]);
    for (rest, version, wanted) in [
        ("web:1.2.3", None, "1.2.3"),
        ("web", Some("1.2.3"), "1.2.3"),
        ("web:1.9.0+build.5", None, "1.9.0+build.5"),
        ("web:1.9.0_build.5", Some("1.9.0+build.5"), "1.9.0+build.5"),
        ("web", None, "1.10.0"),
        ("web", Some("~1.9"), "1.9.0+build.5"),
        ("web", Some(">1-0"), "2.0.0-rc.1"),
        (&by_digest, None, "1.2.3"),
        (&beside, None, "1.2.3"),
    ] {
        let pulled = pull(&client, &name(&registry, rest), version).await.unwrap();
        assert_eq!(version_of(&pulled), wanted, "{rest} {version:?}");
    }
    let pulled = pull(&client, &name(&registry, "web:1.2.3"), None).await.unwrap();
    assert_eq!(
        pulled.digest.to_string(),
        digests[0],
        "the digest is the one that Helm reports"
    );

    let kind = async |rest: &str, version| pull(&client, &name(&registry, rest), version).await.unwrap_err().kind;
    let tag = "9.9.9".to_owned();
    assert_eq!(kind("web:9.9.9", None).await, Kind::NotFound(Missing::Tag(tag)));
    assert_eq!(kind("none", None).await, Kind::NotFound(Missing::Repository));
    let absent = Digest::of(b"absent");
    assert_eq!(
        kind(&format!("web@{absent}"), None).await,
        Kind::NotFound(Missing::Content(absent))
    );
    assert!(matches!(
        kind("web", Some(">9")).await,
        Kind::NoVersion { versions: 4, .. }
    ));
    let beside = format!("web:1.10.0@{}", digests[0]);
    assert!(matches!(kind(&beside, None).await, Kind::TagDigest { .. }));
}

#[tokio::test]
async fn unknown_user_is_refused_and_unknown_certificate_gets_no_request() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &[TEMPLATE]).unwrap();
    let web = name(&registry, "web:1.0.0");
    let kind = async |change: fn(&Registry, &mut Settings)| {
        let client = client(&registry, |settings| change(&registry, settings));
        pull(&client, &web, None)
            .await
            .map(|_| ())
            .map_err(|error| (error.to_string(), error.kind))
    };
    let (error, wrong) = kind(|registry, settings| settings.keyring = user(registry, "wr0ng"))
        .await
        .unwrap_err();
    assert!(matches!(wrong, Kind::Unauthorised { status: 401, .. }), "{error}");
    assert!(
        error.contains("the user \"puller\" of the test") && !error.contains("wr0ng"),
        "{error}"
    );
    let (error, anonymous) = kind(|_, settings| settings.keyring = Keyring::default())
        .await
        .unwrap_err();
    assert!(matches!(anonymous, Kind::Unauthorised { status: 401, .. }), "{error}");
    let (error, strange) = kind(|_, settings| settings.ca_bundle = None).await.unwrap_err();
    assert!(matches!(strange, Kind::Untrusted { .. }), "{error}");
    let (error, open) = kind(|_, settings| settings.plain_http = true).await.unwrap_err();
    assert!(matches!(open, Kind::Refused { status: 400, .. }), "{error}");
    let blind = kind(|_, settings| {
        settings.ca_bundle = None;
        settings.insecure_skip_tls_verify = true;
    });
    assert_eq!(blind.await, Ok(()));

    // What `helm registry login` has stored, and a pull secret of that form.
    let access = Helm::access(&registry);
    let mut login = vec!["registry", "login"];
    let host = registry.host();
    login.push(&host);
    login.extend(access.iter().map(String::as_str));
    helm.prints(&login).unwrap();
    let stored = fs::read(helm.home().join(".config/helm/registry/config.json")).unwrap();
    let keyring = Keyring::of_docker_config(&stored, "what Helm has stored").unwrap();
    pull(&client(&registry, |settings| settings.keyring = keyring), &web, None)
        .await
        .unwrap();
}

#[tokio::test]
async fn damaged_content_and_images_are_refused() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &[TEMPLATE]).unwrap();
    let client = client(&registry, |_| {});
    let web = name(&registry, "web:1.0.0");
    let whole = pull(&client, &web, None).await.unwrap();

    let image = br#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
        "config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},
        "layers":[]}"#;
    store_manifest(&registry.storage(), "charts/image", "1.0.0", image);
    let why = pull(&client, &name(&registry, "image:1.0.0"), None).await.unwrap_err();
    assert!(
        why.to_string()
            .contains("wrong media type: this is a container image, not a Helm chart"),
        "{why}"
    );

    let hex = Digest::of(&whole.bytes).hex();
    let blob = registry
        .storage()
        .join(format!("blobs/sha256/{}/{hex}/data", &hex[..2]));
    let mut bytes = fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let (wanted, found) = (Digest::of(&whole.bytes), Digest::of(&bytes));
    assert_eq!(
        pull(&client, &web, None).await.unwrap_err().kind,
        Kind::Digest { wanted, found }
    );
    bytes.truncate(middle);
    fs::write(&blob, &bytes).unwrap();
    let why = pull(&client, &web, None).await.unwrap_err();
    assert!(matches!(why.kind, Kind::Size { .. }), "{why}");
}

/// Puts a manifest into the registry's storage.
fn store_manifest(storage: &Path, repository: &str, tag: &str, manifest: &[u8]) {
    let digest = Digest::of(manifest);
    let hex = digest.hex();
    let manifests = format!("repositories/{repository}/_manifests");
    let link = digest.to_string();
    for (path, bytes) in [
        (format!("blobs/sha256/{}/{hex}/data", &hex[..2]), manifest),
        (format!("{manifests}/revisions/sha256/{hex}/link"), link.as_bytes()),
        (format!("{manifests}/tags/{tag}/current/link"), link.as_bytes()),
        (
            format!("{manifests}/tags/{tag}/index/sha256/{hex}/link"),
            link.as_bytes(),
        ),
    ] {
        let path = storage.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_resumes_when_a_killed_registry_is_back_and_fails_otherwise() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    push_large(&helm, &registry);
    let large = name(&registry, "large:1.0.0");
    let whole = pull(&client(&registry, |_| {}), &large, None).await.unwrap();
    let registry = Arc::new(Mutex::new(registry));
    for comes_back in [true, false] {
        let cut = Arc::new(Mutex::new(Vec::new()));
        let (killed, cuts) = (registry.clone(), cut.clone());
        let watching = {
            let registry = registry.lock().unwrap();
            client(&registry, |settings| {
                settings.watcher = Some(Arc::new(move |bytes, of| {
                    let mut cuts = cuts.lock().unwrap_or_else(PoisonError::into_inner);
                    if cuts.is_empty() {
                        cuts.push((bytes, of));
                        let mut killed = killed.lock().unwrap_or_else(PoisonError::into_inner);
                        killed.kill();
                        if comes_back {
                            killed.start_again().unwrap();
                        }
                    }
                }));
            })
        };
        let outcome = pull(&watching, &large, None).await;
        let (bytes, of) = cut.lock().unwrap()[0];
        assert!(
            of.is_some_and(|of| bytes * 4 < of),
            "it was killed at {bytes} of {of:?}"
        );
        match comes_back {
            true => assert_eq!(outcome.as_ref(), Ok(&whole)),
            false => {
                let why = outcome.unwrap_err();
                assert!(matches!(why.kind, Kind::Unreachable(_)), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn mirror_is_used_first_and_the_registry_for_what_it_lacks() {
    let (mirror, mut registry, helm) = (
        Registry::start().unwrap(),
        Registry::start().unwrap(),
        Helm::find().unwrap(),
    );
    helm.push(&registry, "web", "1.0.0", &[TEMPLATE]).unwrap();
    let both = |settings: &mut Settings| {
        settings.ca_bundle = Some(registry.authority() + &mirror.authority());
        settings.keyring = user(&registry, Registry::PASSWORD).and(user(&mirror, Registry::PASSWORD));
        settings.mirrors = vec![Mirror::parse(&mirror.host()).unwrap()];
    };
    let client = client(&registry, both);
    let web = name(&registry, "web:1.0.0");
    let whole = pull(&client, &web, None).await.unwrap();
    let archive = helm.home().join("web-1.0.0.tgz").display().to_string();
    let target = format!("oci://{}/charts", mirror.host());
    let access = Helm::access(&mirror);
    let mut words = vec!["push", &archive, &target];
    words.extend(access.iter().map(String::as_str));
    helm.prints(&words).unwrap();
    registry.kill();
    assert_eq!(pull(&client, &web, None).await.unwrap().bytes, whole.bytes);
    let why = pull(&client, &name(&registry, "none:1.0.0"), None).await.unwrap_err();
    let Kind::All(all) = &why.kind else { panic!("{why}") };
    assert!(
        matches!(all.as_slice(), [(_, Kind::NotFound(_)), (_, Kind::Unreachable(_))]),
        "{why}"
    );
}

#[tokio::test]
async fn a_cached_chart_is_pulled_by_digest_without_its_registry() {
    let (mut registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    let digest = push_large(&helm, &registry);
    let folder = tempfile::tempdir().unwrap();
    let caching = || {
        let cache = Cache::open(folder.path(), 1 << 30, Clock::real(), Entropy::os()).unwrap();
        client(&registry, |settings| settings.cache = Some(cache))
    };
    let (one, two, large) = (caching(), caching(), name(&registry, "large:1.0.0"));
    // Two clients, as two processes: neither knows of the other.
    let (one, two) = tokio::join!(pull(&one, &large, None), pull(&two, &large, None));
    let whole = one.unwrap();
    assert_eq!(whole, two.unwrap());
    let later = caching();
    let by_digest = name(&registry, &format!("large@{digest}"));
    let beside = name(&registry, &format!("large:1.0.0@{digest}"));
    registry.kill();
    assert_eq!(pull(&later, &by_digest, None).await.unwrap(), whole);
    assert_eq!(pull(&later, &beside, None).await.unwrap(), whole);
    let entries = fs::read_dir(folder.path().join("sha256")).unwrap().count();
    assert_eq!(entries, 2, "a manifest and an archive");
}
