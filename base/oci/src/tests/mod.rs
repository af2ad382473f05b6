//! The client with registries that misbehave.

mod misbehaving;
mod proxied;

use std::sync::Arc;
use std::time::Duration;

use api_meta::{Classified as _, FaultClass};
use base_clock::{Clock, Entropy};
use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use tokio::time::Instant;

use crate::{
    Artefact, Cache, Client, Digest, Error, Helper, Keyring, Kind, Login, Mirror, Missing, Pulled, Reference, Settings,
};
use misbehaving::{Chart, Hosts, Reply, Then, reply};

const ARCHIVE_BYTES_MAX: u64 = 1000;
const ARTEFACT: Artefact = Artefact::helm_chart(ARCHIVE_BYTES_MAX);
const NAME: &str = "oci://registry.example/charts/web:1.0.0";
const MANIFEST: &str = "/v2/charts/web/manifests/1.0.0";
const BEARER: &str = "Bearer realm=\"https://auth.example/token\",service=\"registry\"";

fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap()
}

async fn pull(client: &Client) -> Result<Pulled, Error> {
    client.pull(&reference(NAME), &ARTEFACT).await
}

async fn refused(hosts: &Arc<Hosts>) -> Kind {
    pull(&hosts.client(|_| {}))
        .await
        .expect_err("it must not be taken")
        .kind
}

fn user(password: &str) -> Keyring {
    Keyring::of_user("registry.example", "me", password.into(), "the test")
}

#[tokio::test(start_paused = true)]
async fn redirect_to_a_store_carries_no_credentials() {
    let chart = Chart::new(b"chart");
    let digest = chart.digest();
    let hosts = Hosts::new(
        move |request, _| match (request.host.as_str(), request.authorization.as_deref()) {
            ("registry.example", None) => reply(401, &[("www-authenticate", "Basic realm=\"r\"")], b""),
            ("registry.example", Some("Basic bWU6aHVzaA==")) if request.target.contains("/blobs/") => reply(
                307,
                &[("location", &format!("https://store.example{}?signed", request.target))],
                b"",
            ),
            ("registry.example", Some("Basic bWU6aHVzaA==")) => chart.answer(&request.target),
            ("store.example", None) => chart.answer(request.target.trim_end_matches("?signed")),
            _ => reply(500, &[], b""),
        },
    );
    let client = hosts.client(|settings| settings.keyring = user("hush"));
    let pulled = pull(&client).await.unwrap();
    assert_eq!((pulled.bytes.as_ref(), pulled.digest), (b"chart".as_slice(), digest));
    assert_eq!(
        hosts.received().len(),
        4,
        "shown once more without a request for them: {:?}",
        hosts.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_service_gets_the_credentials_and_the_registry_the_token() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match (request.host.as_str(), request.authorization.as_deref()) {
            ("registry.example", Some("Bearer t0ken")) => chart.answer(&request.target),
            ("registry.example", _) => reply(401, &[("www-authenticate", BEARER)], b""),
            ("auth.example", Some("Basic bWU6aHVzaA==")) => reply(200, &[], br#"{"token":"t0ken"}"#),
            _ => reply(401, &[], b""),
        },
    );
    let client = hosts.client(|settings| settings.keyring = user("hush"));
    pull(&client).await.unwrap();
    let requests = hosts.requests();
    assert_eq!(
        requests[1],
        "auth /token?service=registry&scope=repository%3Acharts%2Fweb%3Apull"
    );
    assert_eq!(requests.len(), 4, "one token for all: {requests:?}");

    let anonymous = pull(&hosts.client(|_| {})).await.expect_err("no credentials");
    assert_eq!(anonymous.class(), FaultClass::Access);
    let error = anonymous.to_string();
    assert!(
        error.ends_with("refuses access (HTTP 401) to anonymous: no credentials are known for it"),
        "{error}"
    );
    let wrong = pull(&hosts.client(|settings| settings.keyring = user("wrong")))
        .await
        .expect_err("wrong");
    let error = format!("{wrong} {wrong:?}");
    assert!(
        error.contains("the user \"me\" of the test") && !error.contains("wrong"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn expired_token_is_fetched_again() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, count| match (request.host.as_str(), request.authorization.as_deref()) {
            ("auth.example", _) => reply(200, &[], format!(r#"{{"access_token":"t{count}"}}"#).as_bytes()),
            ("registry.example", Some("Bearer t1")) if count < 4 => chart.answer(&request.target),
            ("registry.example", Some("Bearer t5")) => chart.answer(&request.target),
            _ => reply(401, &[("www-authenticate", BEARER)], b""),
        },
    );
    let client = hosts.client(|_| {});
    pull(&client).await.unwrap();
    pull(&client).await.unwrap();
    assert_eq!(hosts.received().len(), 8, "{:?}", hosts.requests());
}

#[tokio::test(start_paused = true)]
async fn identity_token_is_sent_to_the_token_service_alone() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match (request.host.as_str(), request.authorization.as_deref()) {
            ("registry.example", Some("Bearer t")) => chart.answer(&request.target),
            ("registry.example", None) => reply(401, &[("www-authenticate", BEARER)], b""),
            ("auth.example", None) if request.method == "POST" => reply(200, &[], br#"{"access_token":"t"}"#),
            _ => reply(500, &[], b""),
        },
    );
    let config = br#"{"auths":{"registry.example":{"identitytoken":"i&d"}}}"#;
    let client = hosts.client(|settings| settings.keyring = Keyring::of_docker_config(config, "a file").unwrap());
    pull(&client).await.unwrap();
    let body = &hosts.received()[1].body;
    assert!(
        body.contains("grant_type=refresh_token&") && body.ends_with("&refresh_token=i%26d"),
        "{body}"
    );
}

#[tokio::test(start_paused = true)]
async fn token_service_without_tls_gets_no_credentials() {
    for realm in [
        "http://auth.example/token",
        "http://registry.example/token",
        "ftp://a",
        "me",
        "https://u:p@auth.example/",
    ] {
        let challenge = format!("Bearer realm=\"{realm}\"");
        let hosts = Hosts::new(move |_, _| reply(401, &[("www-authenticate", &challenge)], b""));
        let client = hosts.client(|settings| settings.keyring = user("hush"));
        let why = pull(&client).await.expect_err(realm);
        assert!(matches!(why.kind, Kind::Protocol(_)), "{realm}: {why}");
        assert_eq!(hosts.requests(), [format!("registry {MANIFEST}")], "{realm}");
    }
}

#[tokio::test(start_paused = true)]
async fn plain_http_is_used_only_if_configured() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match (request.is_plain, request.target.starts_with("/token")) {
            (true, true) => reply(200, &[], br#"{"token":"t"}"#),
            (true, false) if request.authorization.is_none() => {
                let challenge = "Bearer realm=\"http://registry.example/token\"";
                reply(401, &[("www-authenticate", challenge)], b"")
            }
            (true, false) => chart.answer(&request.target),
            (false, _) => reply(404, &[], b""),
        },
    );
    assert!(matches!(refused(&hosts).await, Kind::NotFound(Missing::Tag(_))));
    pull(&hosts.client(|settings| settings.plain_http = true))
        .await
        .unwrap();
    let mirror = Mirror::parse("http://registry.example").unwrap();
    pull(&hosts.client(|settings| settings.mirrors = vec![mirror]))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn host_without_tls_is_an_error_at_once() {
    let hosts = Hosts::new(|_, _| reply(500, &[], b""));
    let begun = Instant::now();
    let open = reference("oci://open.example/charts/web:1.0.0");
    let why = hosts.client(|_| {}).pull(&open, &ARTEFACT).await;
    assert_eq!(why.expect_err("no request can be sent").kind, Kind::NoTls);
    assert_eq!(begun.elapsed(), Duration::ZERO, "another try would not help");
}

#[tokio::test(start_paused = true)]
async fn error_names_the_helper_that_is_not_run() {
    let hosts = Hosts::new(|_, _| reply(401, &[("www-authenticate", "Basic")], b""));
    let why = pull(&hosts.client(with_helper_configured))
        .await
        .expect_err("it is not run");
    assert_eq!(why.kind, of_helper("is not run"));
}

fn with_helper_configured(settings: &mut Settings) {
    let config = br#"{"credHelpers":{"registry.example":"cloud"}}"#;
    settings.keyring = Keyring::of_docker_config(config, "a file").unwrap();
}

fn of_helper(why: &str) -> Kind {
    Kind::Helper {
        helper: "docker-credential-cloud".to_owned(),
        why: why.to_owned(),
        source_name: "a file".to_owned(),
    }
}

/// Answers in place of a helper.
struct Answering(Result<&'static [u8], &'static str>);

impl Helper for Answering {
    fn get(&self, name: &str, server: &str) -> BoxFuture<'static, Result<Option<Login>, String>> {
        assert_eq!((name, server), ("docker-credential-cloud", "registry.example"));
        let answer = self.0.map_err(str::to_owned);
        future::ready(answer.and_then(|json| Login::read(!json.is_empty(), json))).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn helper_is_run_when_the_registry_requires_credentials() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match (request.host.as_str(), request.authorization.as_deref()) {
            ("registry.example", Some("Bearer t")) => chart.answer(&request.target),
            ("registry.example", _) => reply(401, &[("www-authenticate", BEARER)], b""),
            (_, Some("Basic bWU6aHVzaA==")) => reply(200, &[], br#"{"token":"t"}"#),
            _ if request.body.ends_with("&refresh_token=hush") => reply(200, &[], br#"{"token":"t"}"#),
            _ => reply(401, &[], b""),
        },
    );
    let with = |answer| {
        hosts.client(|settings| {
            with_helper_configured(settings);
            settings.helper = Some(Arc::new(Answering(answer)));
        })
    };
    for json in [
        &br#"{"ServerURL":"registry.example","Username":"me","Secret":"hush"}"#[..],
        br#"{"ServerURL":"registry.example","Username":"<token>","Secret":"hush"}"#,
    ] {
        pull(&with(Ok(json))).await.unwrap();
    }
    let wrong = pull(&with(Ok(br#"{"Username":"you","Secret":"hush"}"#)))
        .await
        .unwrap_err();
    let error = wrong.to_string();
    let whom = "to the user \"you\" of docker-credential-cloud, which a file names";
    assert!(error.ends_with(whom) && !error.contains("hush"), "{error}");
    let failed = pull(&with(Err("is not there"))).await.unwrap_err();
    assert_eq!(
        (failed.class(), failed.kind),
        (FaultClass::Access, of_helper("is not there"))
    );
}

#[tokio::test(start_paused = true)]
async fn public_registry_needs_no_working_helper() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(
        move |request, _| match (request.host.as_str(), request.authorization.as_deref()) {
            ("registry.example", Some("Bearer t")) => chart.answer(&request.target),
            ("auth.example", None) => reply(200, &[], br#"{"token":"t"}"#),
            _ => reply(401, &[("www-authenticate", BEARER)], b""),
        },
    );
    for answer in [Err("is not there"), Ok(&b""[..])] {
        let client = hosts.client(|settings| {
            with_helper_configured(settings);
            settings.helper = Some(Arc::new(Answering(answer)));
        });
        pull(&client).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn broken_entry_is_an_error_only_where_credentials_are_needed() {
    let config = br#"{"auths":{"registry.example":{"auth":"!!!"}}}"#;
    let with_config = |hosts: &Arc<Hosts>| {
        hosts.client(|settings| settings.keyring = Keyring::of_docker_config(config, "a file").unwrap())
    };
    let closed = Hosts::new(|_, _| reply(401, &[("www-authenticate", "Basic")], b""));
    let why = pull(&with_config(&closed)).await.expect_err("it wants credentials");
    let registry = "registry.example".to_owned();
    let source_name = "a file".to_owned();
    assert_eq!(why.kind, Kind::Broken { registry, source_name });
    let chart = Chart::new(b"chart");
    let open = Hosts::new(move |request, _| chart.answer(&request.target));
    pull(&with_config(&open)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn refused_or_missing_content_is_requested_once() {
    for (status, body, wanted) in [
        (403, "{}", "refuses access (HTTP 403) to anonymous"),
        (
            404,
            "<html>",
            "the repository has no tag 1.0.0, or the registry no such repository",
        ),
        (
            404,
            r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#,
            "knows no such repository",
        ),
        (
            400,
            r#"{"errors":[{"code":"UNSUPPORTED"}]}"#,
            "refuses the request (HTTP 400, UNSUPPORTED)",
        ),
        (204, "", "refuses the request (HTTP 204)"),
        (401, "", "refuses access (HTTP 401) to anonymous"),
    ] {
        let hosts = Hosts::new(move |_, _| reply(status, &[], body.as_bytes()));
        let why = pull(&hosts.client(|_| {})).await.expect_err("it is refused");
        assert!(why.to_string().contains(wanted), "{why}");
        assert_eq!(hosts.received().len(), 1, "{why}");
        assert!(!why.hint().is_empty(), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn transient_failure_is_retried_for_a_while() {
    let chart = Arc::new(Chart::new(b"chart"));
    for wrong in [503, 500, 408] {
        let chart = chart.clone();
        let hosts = Hosts::new(move |request, count| match count {
            0..4 => reply(wrong, &[], b""),
            _ => chart.answer(&request.target),
        });
        pull(&hosts.client(|_| {})).await.unwrap();
        assert_eq!(hosts.received().len(), 6);
    }
    let hosts = Hosts::new(|_, _| reply(502, &[], b""));
    let begun = Instant::now();
    assert_eq!(refused(&hosts).await, Kind::Server(502));
    assert_eq!(hosts.received().len(), 5);
    assert!(begun.elapsed() > Duration::from_secs(3) && begun.elapsed() < Duration::from_secs(8));

    let client = hosts.client(|_| {});
    let why = client
        .pull(&reference("oci://absent.invalid/a:1"), &ARTEFACT)
        .await
        .expect_err("no server is there");
    assert!(
        matches!(&why.kind, Kind::Unreachable(cause) if cause.contains("connection refused")),
        "{why}"
    );
    assert_eq!(why.class(), FaultClass::Transient);
}

#[tokio::test(start_paused = true)]
async fn a_blob_that_breaks_off_is_fetched_again() {
    let chart = Chart::new(b"a chart of some length");
    let hosts = Hosts::new(move |request, count| {
        let mut whole = chart.answer(&request.target);
        if count == 1 {
            whole.bytes.truncate(whole.bytes.len() - 5);
        }
        whole
    });
    assert_eq!(
        pull(&hosts.client(|_| {})).await.unwrap().bytes.as_ref(),
        b"a chart of some length"
    );
    assert_eq!(hosts.received().len(), 3);

    let hosts = Hosts::new(|_, _| reply(200, &[("content-length", "5")], b"abc"));
    let error = refused(&hosts).await.to_string();
    assert!(
        error.starts_with("unreachable: the answer breaks off: ") && !error.contains("http"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_up_to_a_limit() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, count| match count {
        0 => reply(429, &[("retry-after", "17")], b""),
        _ => chart.answer(&request.target),
    });
    let begun = Instant::now();
    pull(&hosts.client(|_| {})).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 17);

    let hosts = Hosts::new(|_, _| reply(429, &[("retry-after", "3600")], b""));
    let why = refused(&hosts).await;
    assert_eq!(
        why.to_string(),
        "the registry limits the number of requests (HTTP 429), retry after 3600 s"
    );
    assert_eq!(hosts.received().len(), 1);

    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, count| match (request.host.as_str(), count) {
        ("auth.example", 1) => reply(429, &[("retry-after", "17")], b""),
        ("auth.example", _) => reply(200, &[], br#"{"token":"t"}"#),
        _ if request.authorization.is_none() => reply(401, &[("www-authenticate", BEARER)], b""),
        _ => chart.answer(&request.target),
    });
    let begun = Instant::now();
    pull(&hosts.client(|_| {})).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 17, "a token service is a registry, too");
}

#[tokio::test(start_paused = true)]
async fn silent_registry_is_given_up_within_the_time_out_of_a_pull() {
    for head in ["", "HTTP/1.1 200 x\r\ncontent-length: 5\r\n\r\nab"] {
        let hosts = Hosts::new(move |_, _| Reply {
            bytes: head.as_bytes().to_vec(),
            then: Then::Silence,
        });
        let client = hosts.client(|settings| settings.timeout = Duration::from_secs(50));
        let begun = Instant::now();
        let why = pull(&client).await.expect_err("nothing comes");
        assert!(matches!(why.kind, Kind::Unreachable(_)), "{why}");
        assert!(begun.elapsed() <= Duration::from_secs(50), "{:?}", begun.elapsed());
        assert_eq!(hosts.received().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_sizes_are_detected_before_memory_is_full() {
    let blob = |reply: fn(&[u8]) -> Reply, declared: usize| {
        let chart = Chart::declaring(b"chart", declared);
        Hosts::new(move |request, _| match request.target.contains("/blobs/") {
            true => reply(&chart.archive),
            false => chart.answer(&request.target),
        })
    };
    let plain: fn(&[u8]) -> Reply = |archive| reply(200, &[], archive);
    let chunked: fn(&[u8]) -> Reply = |_| reply(200, &[("transfer-encoding", "chunked")], b"5\r\nchart\r\n0\r\n\r\n");
    let endless: fn(&[u8]) -> Reply = |_| Reply {
        then: Then::Endless,
        ..reply(200, &[("transfer-encoding", "chunked")], b"")
    };
    let size = |declared, found| Kind::Size { declared, found };
    assert_eq!(refused(&blob(plain, 4)).await, size(4, 5));
    assert_eq!(refused(&blob(plain, 6)).await, size(6, 5));
    assert_eq!(refused(&blob(chunked, 4)).await, size(4, 5));
    assert_eq!(refused(&blob(chunked, 6)).await, size(6, 5));
    assert_eq!(refused(&blob(endless, 50)).await, size(50, 51));
    let bytes = Some(1001);
    let (what, bytes_max) = (ARTEFACT.name, ARCHIVE_BYTES_MAX);
    assert_eq!(
        refused(&blob(plain, 1001)).await,
        Kind::TooLarge { what, bytes, bytes_max }
    );

    let (what, bytes_max) = ("the manifest", 4 << 20);
    let hosts = Hosts::new(|_, _| reply(200, &[("content-length", "4194305")], b""));
    let bytes = Some(4_194_305);
    assert_eq!(refused(&hosts).await, Kind::TooLarge { what, bytes, bytes_max });
    let hosts = Hosts::new(move |_, _| endless(b""));
    assert_eq!(
        refused(&hosts).await,
        Kind::TooLarge {
            what,
            bytes: None,
            bytes_max
        }
    );
}

#[tokio::test(start_paused = true)]
async fn content_with_another_digest_is_refused() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| match request.target.contains("/blobs/") {
        true => reply(200, &[], b"chakt"),
        false => chart.answer(&request.target),
    });
    let (wanted, found) = (Digest::of(b"chart"), Digest::of(b"chakt"));
    assert_eq!(refused(&hosts).await, Kind::Digest { wanted, found });
    let by_digest = reference(&format!("{NAME}@{}", Digest::of(b"another manifest")));
    let why = hosts
        .client(|_| {})
        .pull(&by_digest, &ARTEFACT)
        .await
        .expect_err("another");
    assert!(matches!(why.kind, Kind::Digest { .. }), "{why}");

    let stated = Digest::of(b"what it says").to_string();
    let hosts = Hosts::new(move |_, _| reply(200, &[("docker-content-digest", &stated)], b"{}"));
    assert!(matches!(refused(&hosts).await, Kind::Digest { .. }));
}

#[tokio::test(start_paused = true)]
async fn redirects_end_and_stay_within_tls() {
    let hosts = Hosts::new(|request, _| reply(302, &[("location", &request.target)], b""));
    assert_eq!(
        refused(&hosts).await,
        Kind::Protocol("it leads elsewhere more than 5 times".to_owned())
    );
    assert_eq!(hosts.received().len(), 6);
    let hosts = Hosts::new(|_, _| reply(302, &[("location", "http://store.example/")], b""));
    assert!(matches!(refused(&hosts).await, Kind::Protocol(_)));
    assert_eq!(hosts.received().len(), 1);
    // A store that wants credentials gets none, and is not taken for the registry.
    let hosts = Hosts::new(|request, _| match request.host.as_str() {
        "store.example" => reply(401, &[("www-authenticate", "Basic")], b""),
        _ => reply(302, &[("location", "https://store.example/")], b""),
    });
    let why = pull(&hosts.client(|settings| settings.keyring = user("hush")))
        .await
        .expect_err("refused");
    assert!(matches!(why.kind, Kind::Refused { status: 401, .. }), "{why}");
    assert!(hosts.received().iter().all(|request| request.authorization.is_none()));
}

#[tokio::test(start_paused = true)]
async fn certificate_of_an_unknown_authority_is_refused() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| chart.answer(&request.target));
    let strange = hosts.client(|settings| settings.ca_bundle = None);
    let why = pull(&strange).await.expect_err("no known authority has issued it");
    assert!(matches!(why.kind, Kind::Untrusted { .. }), "{why}");
    let text = "the certificate of the registry is not trusted: no authority that is known here has issued it";
    assert!(why.to_string().ends_with(text), "{why}");
    assert!(hosts.received().is_empty());
    let blind = hosts.client(|settings| {
        settings.ca_bundle = None;
        settings.insecure_skip_tls_verify = true;
    });
    pull(&blind).await.unwrap();
    for bundle in [
        "",
        "no PEM",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        let mut settings = crate::Settings::new(Clock::real(), Entropy::seeded(1));
        settings.ca_bundle = Some(bundle.to_owned());
        assert!(Client::new(settings).is_err(), "{bundle}");
    }
}

#[tokio::test(start_paused = true)]
async fn mirrors_come_first_and_what_they_lack_comes_from_the_registry() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| match request.host.as_str() {
        "mirror.example" if request.target.contains("/blobs/") => reply(200, &[], b"chakt"),
        "other.example" => reply(503, &[], b""),
        _ => chart.answer(&request.target),
    });
    let mirrors = ["mirror.example/cache", "other.example"].map(|text| Mirror::parse(text).unwrap());
    let client = hosts.client(|settings| settings.mirrors = mirrors.to_vec());
    assert_eq!(pull(&client).await.unwrap().bytes.as_ref(), b"chart");
    let blob = format!("charts/web/blobs/{}", Digest::of(b"chart"));
    let wanted = [
        "mirror /v2/cache/charts/web/manifests/1.0.0".to_owned(),
        format!("mirror /v2/cache/{blob}"),
        format!("other /v2/{blob}"),
        format!("other /v2/{blob}"),
        format!("registry /v2/{blob}"),
    ];
    assert_eq!(hosts.requests(), wanted);

    let hosts = Hosts::new(|request, _| match request.host.as_str() {
        "mirror.example" => reply(500, &[], b""),
        _ => reply(404, &[], b""),
    });
    let mirrors = ["absent.invalid:5000", "mirror.example"].map(|text| Mirror::parse(text).unwrap());
    let why = pull(&hosts.client(|settings| settings.mirrors = mirrors.to_vec()))
        .await
        .expect_err("no host has it");
    let error = why.to_string();
    for part in [
        "absent.invalid:5000: unreachable",
        "mirror.example: the registry fails",
        "registry.example: not found",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(why.class(), FaultClass::Dependency, "the registry's own answer counts");
    for wrong in ["", "ftp://a", "a b", "a/B", "http://", "me@a"] {
        assert!(Mirror::parse(wrong).is_err(), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn cached_content_is_not_requested() {
    let chart = Chart::new(b"chart");
    let digest = chart.digest();
    let hosts = Hosts::new(move |request, _| chart.answer(&request.target));
    let folder = tempfile::tempdir().unwrap();
    let client = || {
        let cache = Cache::open(folder.path(), 1 << 20, Clock::real(), Entropy::os()).unwrap();
        hosts.client(|settings| settings.cache = Some(cache))
    };
    let first = client();
    let (one, two) = tokio::join!(pull(&first), pull(&first));
    assert_eq!(one.unwrap(), two.unwrap());
    let blobs = hosts
        .requests()
        .into_iter()
        .filter(|request| request.contains("/blobs/"))
        .count();
    assert_eq!(blobs, 1, "two at once fetch it once");
    hosts.forget();
    pull(&client()).await.unwrap();
    assert_eq!(hosts.requests(), [format!("registry {MANIFEST}")]);
    hosts.forget();
    let by_digest = reference(&format!("oci://registry.example/charts/web@{digest}"));
    assert_eq!(
        client().pull(&by_digest, &ARTEFACT).await.unwrap().bytes.as_ref(),
        b"chart"
    );
    assert!(hosts.received().is_empty(), "{:?}", hosts.requests());
    let path = folder.path().join("sha256").join(Digest::of(b"chart").hex());
    std::fs::write(path, "chakt").unwrap();
    assert_eq!(
        client().pull(&by_digest, &ARTEFACT).await.unwrap().bytes.as_ref(),
        b"chart"
    );
    assert_eq!(hosts.received().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn versions_are_chosen_from_all_pages_of_tags() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| match request.target.as_str() {
        "/v2/charts/web/tags/list?n=1000" => {
            let link = "<https://elsewhere.example/v2/x/tags/list?last=b>; rel=\"next\"";
            reply(
                200,
                &[("link", link)],
                br#"{"name":"charts/web","tags":["0.9.0","1.0.0","latest"]}"#,
            )
        }
        "/v2/charts/web/tags/list?last=b" => reply(200, &[], br#"{"tags":["1.2.0_b.1","2.0.0-rc.1","../x"]}"#),
        target => chart.answer(target),
    });
    let client = hosts.client(|_| {});
    for (name, version, wanted) in [
        ("web", None, "1.2.0_b.1"),
        ("web", Some("<1.2"), "1.0.0"),
        ("web:1.0.x", None, "1.0.0"),
        ("web", Some(">1-0"), "2.0.0-rc.1"),
        ("web", Some("1.5.0+x"), "1.5.0_x"),
        ("web:1.5.0_x", Some("1.5.0+x"), "1.5.0_x"),
        ("web:latest", None, "latest"),
    ] {
        hosts.forget();
        let name = reference(&format!("oci://registry.example/charts/{name}"));
        client.pull_chart(&name, version, ARCHIVE_BYTES_MAX).await.unwrap();
        let requests = hosts.requests();
        assert!(
            requests.contains(&format!("registry /v2/charts/web/manifests/{wanted}")),
            "{name} {version:?}: {requests:?}"
        );
    }
    let failed = async |name: &str, version| {
        let name = reference(&format!("oci://registry.example/charts/{name}"));
        let pulled = client.pull_chart(&name, version, ARCHIVE_BYTES_MAX).await;
        pulled.expect_err("none fits").to_string()
    };
    let error = failed("web", Some(">2")).await;
    assert!(
        error.ends_with("none of the 4 versions there is allowed by \">2\"; the highest is 2.0.0-rc.1"),
        "{error}"
    );
    let error = failed("web", Some("one")).await;
    assert!(
        error.ends_with("\"one\" is no version and no constraint: improper constraint: one"),
        "{error}"
    );
    let error = failed("web:1.0.0", Some("1.1.0")).await;
    assert!(
        error.ends_with("the version 1.1.0 was requested, and the reference has the tag 1.0.0"),
        "{error}"
    );

    let hosts = Hosts::new(|_, _| reply(200, &[("link", "<?last=b>; rel=next")], br#"{"tags":null}"#));
    let why = hosts
        .client(|_| {})
        .tags(&reference(NAME))
        .await
        .expect_err("it has no end");
    assert_eq!(
        (why.kind, hosts.received().len()),
        (Kind::Protocol("its list of tags has no end".to_owned()), 100)
    );
}

#[tokio::test(start_paused = true)]
async fn tag_beside_a_digest_must_resolve_to_it_or_be_unknown() {
    let (chart, other) = (Chart::new(b"chart"), Chart::new(b"other"));
    let digest = chart.digest();
    let found = other.digest();
    let hosts = Hosts::new(move |request, _| match request.target.rsplit('/').next() {
        Some("1.0.0") => chart.answer(&request.target),
        Some("2.0.0") => other.answer(&request.target),
        Some("3.0.0") => reply(503, &[], b""),
        Some(name) if name.starts_with("sha256:") => chart.answer(&request.target),
        _ => reply(404, &[], b""),
    });
    let pull = async |tag: &str| {
        let name = reference(&format!("oci://registry.example/charts/web:{tag}@{digest}"));
        let pulled = hosts.client(|_| {}).pull_chart(&name, None, ARCHIVE_BYTES_MAX).await;
        pulled.map(|pulled| pulled.digest).map_err(|why| why.kind)
    };
    for tag in ["1.0.0", "3.0.0", "4.0.0"] {
        assert_eq!(pull(tag).await, Ok(digest), "{tag}");
    }
    let tag = "2.0.0".to_owned();
    assert_eq!(
        pull("2.0.0").await,
        Err(Kind::TagDigest {
            tag,
            wanted: digest,
            found
        })
    );
    hosts.forget();
    pull("3.0.0").await.unwrap();
    assert_eq!(
        hosts.received().len(),
        3,
        "the tag is requested once: {:?}",
        hosts.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn watcher_is_called_with_the_progress_of_a_pull() {
    let chart = Chart::new(b"chart");
    let hosts = Hosts::new(move |request, _| chart.answer(&request.target));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let watched = seen.clone();
    let client = hosts.client(|settings| {
        settings.watcher = Some(Arc::new(move |bytes, of| watched.lock().unwrap().push((bytes, of))));
    });
    pull(&client).await.unwrap();
    assert_eq!(seen.lock().unwrap().last(), Some(&(5, Some(5))));
}
