//! Credentials in, users out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, BootstrapToken, CertificateSpec, Issued, PrivateKey};
use cluster_access::*;
use http::HeaderMap;
use k8s_openapi::api::core::v1::Secret;
use rustls_pki_types::CertificateDer;

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Objects {
    live: Mutex<BTreeMap<String, Live>>,
    secrets: Mutex<BTreeMap<String, Secret>>,
}

#[async_trait]
impl Lookup for Objects {
    async fn live(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Live>, String> {
        Ok(self
            .live
            .lock()
            .unwrap()
            .get(&format!("{resource}/{namespace}/{name}"))
            .cloned())
    }
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, String> {
        Ok(self
            .secrets
            .lock()
            .unwrap()
            .get(&format!("{namespace}/{name}"))
            .cloned())
    }
}

impl Objects {
    fn put(&self, path: &str, uid: &str) {
        self.live.lock().unwrap().insert(
            path.to_owned(),
            Live {
                uid: uid.to_owned(),
                deletion: None,
            },
        );
    }
}

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
}

fn bearer(token: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
}

fn peer(issued: &Issued) -> PeerCertificates {
    PeerCertificates::new(vec![CertificateDer::from(issued.certificate.der().to_vec())])
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_gives_user_and_groups_until_it_expires() {
    let (clock, entropy) = (clock(), Entropy::seeded(1));
    let authority = Authority::generate("ca", &clock, &entropy).unwrap();
    let authenticator = Authenticator::new(clock.clone(), Arc::new(Objects::default()));
    authenticator.trust_clients_of(&authority.certificate_pem()).unwrap();
    let issued = authority
        .issue(&CertificateSpec::client("jane", &["a", "b"], HOUR), &clock, &entropy)
        .unwrap();
    let user = authenticator
        .authenticate(&HeaderMap::new(), Some(&peer(&issued)))
        .await
        .unwrap();
    assert_eq!(
        (user.name.as_str(), user.groups.as_slice()),
        ("jane", ["a", "b", "system:authenticated"].map(String::from).as_slice())
    );
    tokio::time::advance(HOUR + Duration::from_secs(1)).await;
    let error = authenticator
        .authenticate(&HeaderMap::new(), Some(&peer(&issued)))
        .await
        .unwrap_err();
    assert!(
        matches!(error, AuthenticationError::Certificate { .. }),
        "cached past its expiry: {error}"
    );
}

#[tokio::test(start_paused = true)]
async fn certificates_of_other_authorities_servers_and_replaced_authorities_are_refused() {
    let (clock, entropy) = (clock(), Entropy::seeded(1));
    let (ours, other) = (
        Authority::generate("ca", &clock, &entropy).unwrap(),
        Authority::generate("ca", &clock, &entropy).unwrap(),
    );
    let authenticator = Authenticator::new(clock.clone(), Arc::new(Objects::default()));
    authenticator.trust_clients_of(&ours.certificate_pem()).unwrap();
    let good = ours
        .issue(&CertificateSpec::client("jane", &[], HOUR), &clock, &entropy)
        .unwrap();
    let forged = other
        .issue(
            &CertificateSpec::client("jane", &["system:masters"], HOUR),
            &clock,
            &entropy,
        )
        .unwrap();
    let server = ours
        .issue(
            &CertificateSpec::server("jane", vec!["x".into()], vec![], HOUR),
            &clock,
            &entropy,
        )
        .unwrap();
    let nameless = ours
        .issue(&CertificateSpec::client("", &["a"], HOUR), &clock, &entropy)
        .unwrap();
    for refused in [&forged, &server, &nameless] {
        assert!(
            authenticator
                .authenticate(&HeaderMap::new(), Some(&peer(refused)))
                .await
                .is_err()
        );
    }
    assert!(
        authenticator
            .authenticate(&HeaderMap::new(), Some(&peer(&good)))
            .await
            .is_ok()
    );
    authenticator.trust_clients_of(&other.certificate_pem()).unwrap();
    assert!(
        authenticator
            .authenticate(&HeaderMap::new(), Some(&peer(&good)))
            .await
            .is_err(),
        "remembered across a change of authority"
    );
}

/// A service account `ns/robot`, a pod `ns/p`, and an API server that issues tokens for them.
struct Robot {
    clock: Clock,
    entropy: Entropy,
    objects: Arc<Objects>,
    tokens: Arc<ServiceAccountTokens>,
    authenticator: Authenticator,
    spec: TokenSpec,
}

fn tokens(signer: Option<PrivateKey>, clock: &Clock) -> Arc<ServiceAccountTokens> {
    let (issuer, audiences) = ("https://issuer".to_owned(), vec!["api".to_owned()]);
    Arc::new(ServiceAccountTokens::new(
        issuer,
        audiences,
        signer,
        vec![],
        clock.clone(),
    ))
}

impl Robot {
    fn new() -> Self {
        let (clock, entropy) = (clock(), Entropy::seeded(1));
        let objects = Arc::new(Objects::default());
        objects.put("serviceaccounts/ns/robot", "sa-1");
        objects.put("pods/ns/p", "pod-1");
        let tokens = tokens(Some(PrivateKey::generate(&entropy)), &clock);
        let authenticator = Authenticator::new(clock.clone(), objects.clone()).with_tokens(tokens.clone());
        let bound = BoundObject {
            kind: "Pod".into(),
            name: "p".into(),
            uid: "pod-1".into(),
        };
        let spec = TokenSpec {
            namespace: "ns".into(),
            name: "robot".into(),
            uid: "sa-1".into(),
            audiences: vec![],
            validity: HOUR,
            bound: Some(bound),
            node: None,
        };
        Self {
            clock,
            entropy,
            objects,
            tokens,
            authenticator,
            spec,
        }
    }

    fn issue(&self) -> String {
        self.tokens
            .issue(&self.spec, &self.entropy)
            .unwrap()
            .token
            .expose()
            .to_owned()
    }

    async fn fault(&self, token: &str) -> TokenFault {
        match self.authenticator.authenticate(&bearer(token), None).await {
            Err(AuthenticationError::Token(fault)) => fault,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_account_token_dies_with_its_account_its_pod_and_its_time() {
    let robot = Robot::new();
    let token = robot.issue();
    let user = robot.authenticator.authenticate(&bearer(&token), None).await.unwrap();
    assert_eq!(user.name, "system:serviceaccount:ns:robot");
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated"
        ]
    );
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    robot.objects.put("pods/ns/p", "pod-2");
    assert_eq!(robot.fault(&token).await, TokenFault::Bound("pod".into()));
    robot.objects.put("pods/ns/p", "pod-1");
    robot.objects.put("serviceaccounts/ns/robot", "sa-2");
    assert_eq!(robot.fault(&token).await, TokenFault::ServiceAccount);
    robot.objects.put("serviceaccounts/ns/robot", "sa-1");
    tokio::time::advance(HOUR).await;
    assert_eq!(robot.fault(&token).await, TokenFault::Expired);
}

#[tokio::test(start_paused = true)]
async fn tokens_for_others_by_other_keys_or_by_none_are_refused() {
    let mut robot = Robot::new();
    let token = robot.issue();
    let foreign = tokens(Some(PrivateKey::generate(&robot.entropy)), &robot.clock);
    let foreign = foreign.issue(&robot.spec, &robot.entropy).unwrap().token;
    assert_eq!(robot.fault(foreign.expose()).await, TokenFault::Signature);
    let (head, signature) = token.rsplit_once('.').unwrap();
    let unsigned = format!("eyJhbGciOiJub25lIn0.{}.{signature}", head.split_once('.').unwrap().1);
    assert_eq!(robot.fault(&unsigned).await, TokenFault::Signature);
    assert!(tokens(None, &robot.clock).issue(&robot.spec, &robot.entropy).is_none());

    robot.spec.audiences = vec!["vault".into()];
    let elsewhere = robot.issue();
    assert!(matches!(robot.fault(&elsewhere).await, TokenFault::Audience(_)));
    let review = robot
        .authenticator
        .authenticate_token(&elsewhere, &["vault".into(), "x".into()])
        .await
        .unwrap();
    assert_eq!(review.audiences, ["vault"]);
}

#[tokio::test(start_paused = true)]
async fn bootstrap_token_is_valid_only_while_its_secret_allows_it() {
    let (clock, entropy) = (clock(), Entropy::seeded(1));
    let objects = Arc::new(Objects::default());
    let token = BootstrapToken::generate(&entropy);
    let put = |change: &dyn Fn(&mut Secret)| {
        let mut secret = token.to_secret("node", clock.now() + HOUR, &["system:bootstrappers:pool"]);
        change(&mut secret);
        objects
            .secrets
            .lock()
            .unwrap()
            .insert(format!("kube-system/{}", token.secret_name()), secret);
    };
    let authenticator = Authenticator::new(clock.clone(), objects.clone()).with_bootstrap_tokens(true);
    let authenticate = async || authenticator.authenticate(&bearer(token.text().expose()), None).await;
    assert!(authenticate().await.is_err(), "no secret");
    put(&|_| {});
    let user = authenticate().await.unwrap();
    assert_eq!(user.name, format!("system:bootstrap:{}", token.id()));
    assert_eq!(
        user.groups,
        [
            "system:bootstrappers",
            "system:bootstrappers:pool",
            "system:authenticated"
        ]
    );
    let set = |key: &'static str, text: &'static str| {
        move |secret: &mut Secret| {
            secret
                .data
                .as_mut()
                .unwrap()
                .insert(key.into(), k8s_openapi::ByteString(text.as_bytes().to_vec()));
        }
    };
    let faults: [&dyn Fn(&mut Secret); 5] = [
        &set("usage-bootstrap-authentication", "false"),
        &set("token-secret", "0123456789abcdef"),
        &set("auth-extra-groups", "system:masters"),
        &set("expiration", "soon"),
        &|secret| secret.type_ = Some("Opaque".into()),
    ];
    for fault in faults {
        put(fault);
        assert!(authenticate().await.is_err());
    }
    put(&|_| {});
    let off = Authenticator::new(clock.clone(), objects.clone());
    assert!(
        off.authenticate(&bearer(token.text().expose()), None).await.is_err(),
        "switched off"
    );
    tokio::time::advance(HOUR + Duration::from_secs(1)).await;
    assert!(authenticate().await.is_err(), "expired");
}

#[tokio::test(start_paused = true)]
async fn only_a_request_without_any_credential_is_anonymous() {
    let authenticator = Authenticator::new(clock(), Arc::new(Objects::default()));
    assert_eq!(
        authenticator.authenticate(&HeaderMap::new(), None).await.unwrap(),
        User::anonymous()
    );
    assert!(authenticator.authenticate(&bearer("nonsense"), None).await.is_err());
    assert!(
        authenticator
            .with_anonymous(false)
            .authenticate(&HeaderMap::new(), None)
            .await
            .is_err()
    );
}

#[test]
fn impersonation_requests_each_part_and_becomes_the_requested_user() {
    let mut headers = HeaderMap::new();
    assert_eq!(Impersonation::from_headers(&headers), Ok(None));
    headers.append("Impersonate-Group", "dev".parse().unwrap());
    assert_eq!(
        Impersonation::from_headers(&headers),
        Err(ImpersonationError::WithoutUser("{Group  dev    }".to_owned()))
    );
    headers.append("Impersonate-User", "jane".parse().unwrap());
    headers.append("Impersonate-Group", "ops".parse().unwrap());
    headers.append("Impersonate-Extra-scopes%2Fa", "x".parse().unwrap());
    let requested = Impersonation::from_headers(&headers).unwrap().unwrap();
    let real = Arc::new(User::new("root", &[]));
    let texts: Vec<String> = requested
        .requests(&real)
        .iter()
        .map(|request| forbidden_message(request, ""))
        .collect();
    assert_eq!(
        texts,
        [
            r#"users "jane" is forbidden: User "root" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            r#"groups "dev" is forbidden: User "root" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
            r#"groups "ops" is forbidden: User "root" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
            r#"userextras.authentication.k8s.io "x" is forbidden: User "root" cannot impersonate resource "userextras/scopes/a" in API group "authentication.k8s.io" at the cluster scope"#,
        ]
    );
    assert_eq!(requested.user().groups, ["dev", "ops", "system:authenticated"]);
    let robot = HeaderMap::from_iter([(
        "impersonate-user".parse().unwrap(),
        "system:serviceaccount:ns:robot".parse().unwrap(),
    )]);
    let robot = Impersonation::from_headers(&robot).unwrap().unwrap();
    assert_eq!(
        robot.user().groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated"
        ]
    );
    assert!(forbidden_message(&robot.requests(&real)[0], "").contains(r#"serviceaccounts "robot""#));
}
