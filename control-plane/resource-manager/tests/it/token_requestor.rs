//! The token requestor between a source and a target API server, in virtual time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{Call, Injected, Verb, inject_faults};
use base_token_requestor::{Options, run};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_kit::{Embedded, embedded_with, until, until_gone};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

const ACCOUNTS: &str = "kube-system";
const ACCOUNT_NAME: &str = "serviceaccount.resources.gardener.cloud/name";

struct Pair {
    source: Embedded,
    target: Embedded,
    stop: CancellationToken,
}

impl Pair {
    async fn start(namespace: Option<&str>) -> Self {
        Self::start_with(namespace, |_| Injected::Pass).await
    }

    /// As [`Self::start`]; `decide` is called for each request to the target.
    async fn start_with(namespace: Option<&str>, decide: impl Fn(&Call) -> Injected + Send + Sync + 'static) -> Self {
        let source = embedded_with("source", Vec::new(), |builder| builder).await;
        let target = embedded_with("target", Vec::new(), |builder| builder).await;
        let pair = Self {
            source,
            target,
            stop: CancellationToken::new(),
        };
        pair.run(namespace, inject_faults(pair.target.admin(), decide));
        pair
    }

    fn run(&self, namespace: Option<&str>, target: Client) {
        let options = Options {
            namespace: namespace.map(str::to_owned),
            class: "shoot".to_owned(),
            ..Options::default()
        };
        let (source, clock) = (self.source.admin(), self.source.clock.clone());
        tokio::spawn(run(source, target, options, clock, self.stop.clone()));
    }

    async fn patch(&self, name: &str, patch: Value) {
        let (name, params) = (format!("shoot-access-{name}"), PatchParams::default());
        self.secrets()
            .patch(&name, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn released(&self, name: &str) {
        let (api, name) = (self.secrets(), format!("shoot-access-{name}"));
        until(&api, &name, "released", |secret: &Secret| {
            secret.finalizers().is_empty()
        })
        .await;
    }

    fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.source.admin())
    }

    fn accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.target.admin(), ACCOUNTS)
    }

    async fn request_token(&self, name: &str, class: &str, annotations: Value, data: Value) {
        let mut all = json!({
            ACCOUNT_NAME: name,
            "serviceaccount.resources.gardener.cloud/namespace": ACCOUNTS,
        });
        all.as_object_mut()
            .unwrap()
            .extend(annotations.as_object().unwrap().clone());
        let labels =
            json!({"resources.gardener.cloud/purpose": "token-requestor", "resources.gardener.cloud/class": class});
        let metadata = json!({"name": format!("shoot-access-{name}"), "labels": labels, "annotations": all});
        let secret = serde_json::from_value(json!({"metadata": metadata, "stringData": data})).unwrap();
        self.secrets().create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn filled(&self, name: &str, not: &str) -> String {
        let (api, name) = (self.secrets(), format!("shoot-access-{name}"));
        let secret = until(&api, &name, "filled again", |secret: &Secret| {
            token(secret).is_some_and(|token| token != not)
        });
        token(&secret.await).unwrap()
    }

    /// Name of the user that a token proves; none if the target refuses it.
    async fn user(&self, token: &str) -> Option<String> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.target.admin());
        let status = api
            .create(&PostParams::default(), &review)
            .await
            .unwrap()
            .status
            .unwrap();
        status.user.and_then(|user| user.username)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    Some(String::from_utf8(bytes.0.clone()).unwrap())
}

fn token(secret: &Secret) -> Option<String> {
    text(secret, "token")
}

#[tokio::test(start_paused = true)]
async fn a_token_is_written_and_renewed_at_four_fifths_of_its_life() {
    let pair = Pair::start(None).await;
    let annotations = json!({
        "serviceaccount.resources.gardener.cloud/token-expiration-duration": "1h",
        "serviceaccount.resources.gardener.cloud/labels": r#"{"a":"b"}"#,
    });
    pair.request_token("csi", "shoot", annotations, json!({})).await;
    let first = pair.filled("csi", "").await;
    assert_eq!(
        pair.user(&first).await.unwrap(),
        "system:serviceaccount:kube-system:csi"
    );
    let account = pair.accounts().get("csi").await.unwrap();
    assert_eq!(
        (account.labels()["a"].as_str(), account.automount_service_account_token),
        ("b", Some(false))
    );
    let secret = pair.secrets().get("shoot-access-csi").await.unwrap();
    let renewal = &secret.annotations()["serviceaccount.resources.gardener.cloud/token-renew-timestamp"];
    assert!(renewal.starts_with("2026-01-01T00:4"), "{renewal}");
    tokio::time::sleep(Duration::from_secs(47 * 60)).await;
    assert_eq!(pair.filled("csi", "").await, first, "not before its time");
    let began = tokio::time::Instant::now();
    let second = pair.filled("csi", &first).await;
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
    // The previous token is valid until it expires: a late reader is not locked out.
    assert!(pair.user(&first).await.is_some() && pair.user(&second).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_gets_token_and_authorities() {
    let pair = Pair::start(None).await;
    let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "PEM"}});
    let maps: Api<ConfigMap> = Api::namespaced(pair.target.admin(), ACCOUNTS);
    maps.create(&PostParams::default(), &serde_json::from_value(root).unwrap())
        .await
        .unwrap();
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: c}}]\nclusters: [{name: c, cluster: {server: 'https://s'}}]\nusers: [{name: c, user: {}}]\n";
    let annotations = json!({"serviceaccount.resources.gardener.cloud/inject-ca-bundle": "true"});
    pair.request_token("k", "shoot", annotations, json!({"kubeconfig": kubeconfig}))
        .await;
    let secret = until(&pair.secrets(), "shoot-access-k", "filled", |secret: &Secret| {
        text(secret, "kubeconfig").is_some_and(|text| text.contains("token"))
    })
    .await;
    let config = kube::config::Kubeconfig::from_yaml(&text(&secret, "kubeconfig").unwrap()).unwrap();
    let cluster = config.clusters[0].cluster.as_ref().unwrap();
    assert_eq!(cluster.certificate_authority_data.as_deref(), Some("UEVN"));
    assert!(token(&secret).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_changed_service_account_is_restored_with_a_new_token() {
    let pair = Pair::start(None).await;
    let labels = json!({"serviceaccount.resources.gardener.cloud/labels": r#"{"a":"b"}"#});
    pair.request_token("csi", "shoot", labels, json!({})).await;
    let first = pair.filled("csi", "").await;
    let edit = json!({"metadata": {"labels": {"a": "theirs"}}, "automountServiceAccountToken": true});
    pair.accounts()
        .patch("csi", &PatchParams::default(), &Patch::Merge(edit))
        .await
        .unwrap();
    until(&pair.accounts(), "csi", "mended", |account: &ServiceAccount| {
        account.labels()["a"] == "b" && account.automount_service_account_token == Some(false)
    })
    .await;
    assert_eq!(
        token(&pair.secrets().get("shoot-access-csi").await.unwrap()),
        Some(first.clone())
    );
    pair.accounts().delete("csi", &DeleteParams::default()).await.unwrap();
    let began = tokio::time::Instant::now();
    let second = pair.filled("csi", &first).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(pair.user(&first).await.is_none() && pair.user(&second).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_service_account_goes_with_its_last_secret_unless_it_is_to_stay() {
    for namespace in [None, Some("default")] {
        let pair = Pair::start(namespace).await;
        pair.request_token("goes", "shoot", json!({}), json!({})).await;
        let keep = json!({"serviceaccount.resources.gardener.cloud/skip-deletion": "true"});
        pair.request_token("stays", "shoot", keep, json!({})).await;
        let same = json!({"serviceaccount.resources.gardener.cloud/name": "goes"});
        pair.request_token("second", "shoot", same, json!({})).await;
        for name in ["goes", "stays", "second"] {
            pair.filled(name, "").await;
        }
        for name in ["shoot-access-goes", "shoot-access-stays"] {
            pair.secrets().delete(name, &DeleteParams::default()).await.unwrap();
            until_gone(&pair.secrets(), name).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(
            pair.accounts().get_opt("goes").await.unwrap().is_some(),
            "another Secret needs it"
        );
        pair.secrets()
            .delete("shoot-access-second", &DeleteParams::default())
            .await
            .unwrap();
        until_gone(&pair.accounts(), "goes").await;
        assert!(pair.accounts().get_opt("stays").await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_for_a_target_secret_is_not_stored_in_the_source() {
    let pair = Pair::start(None).await;
    let annotations = json!({
        "token-requestor.resources.gardener.cloud/target-secret-name": "there",
        "token-requestor.resources.gardener.cloud/target-secret-namespace": "default",
    });
    pair.request_token("t", "shoot", annotations, json!({"token": "old"}))
        .await;
    let there: Api<Secret> = Api::default_namespaced(pair.target.admin());
    let filled = until(&there, "there", "filled", |secret: &Secret| token(secret).is_some()).await;
    assert!(pair.user(&token(&filled).unwrap()).await.is_some());
    until(&pair.secrets(), "shoot-access-t", "emptied", |secret: &Secret| {
        token(secret).is_none()
    })
    .await;
    // One that is lost is written again at the next reconcile.
    there.delete("there", &DeleteParams::default()).await.unwrap();
    pair.accounts().delete("t", &DeleteParams::default()).await.unwrap();
    until(&there, "there", "filled again", |secret: &Secret| {
        token(secret).is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn other_classes_are_ignored_and_a_wrong_annotation_gets_an_event() {
    let pair = Pair::start(None).await;
    pair.request_token("garden", "garden", json!({}), json!({})).await;
    let soon = json!({"serviceaccount.resources.gardener.cloud/token-expiration-duration": "soon"});
    pair.request_token("wrong", "shoot", soon, json!({})).await;
    pair.request_token("right", "shoot", json!({}), json!({})).await;
    pair.filled("right", "").await;
    let events: Api<Event> = Api::default_namespaced(pair.source.admin());
    let about = "involvedObject.name=shoot-access-wrong";
    let reported = events
        .list(&kube::api::ListParams::default().fields(about))
        .await
        .unwrap()
        .items;
    let message = reported[0].message.clone().unwrap();
    assert!(
        message.contains("is no duration such as 12h: correct the named annotation"),
        "{message}"
    );
    for name in ["shoot-access-garden", "shoot-access-wrong"] {
        let secret = pair.secrets().get(name).await.unwrap();
        assert!(token(&secret).is_none() && secret.finalizers().is_empty());
    }
    assert!(pair.accounts().get_opt("garden").await.unwrap().is_none());
}

const NO_CLASS: &str = r#"{"metadata": {"labels": {"resources.gardener.cloud/class": null}}}"#;

#[tokio::test(start_paused = true)]
async fn a_secret_without_a_request_is_released_with_its_account_once_that_succeeds() {
    let failures = Mutex::new(2);
    let pair = Pair::start_with(None, move |call| match call.verb {
        Verb::Delete if *failures.lock().unwrap() > 0 => {
            *failures.lock().unwrap() -= 1;
            Injected::Answer(500)
        }
        _ => Injected::Pass,
    })
    .await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    pair.filled("csi", "").await;
    pair.patch("csi", serde_json::from_str(NO_CLASS).unwrap()).await;
    pair.released("csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_secret_deleted_after_a_change_of_class_goes_with_its_account() {
    let (pair, failing, refused) = pair_with_refused_deletions().await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    pair.filled("csi", "").await;
    let other = json!({"metadata": {"labels": {"resources.gardener.cloud/class": "none"}}});
    pair.patch("csi", other).await;
    refused.notified().await;
    let params = DeleteParams::default();
    pair.secrets().delete("shoot-access-csi", &params).await.unwrap();
    failing.store(false, Ordering::Relaxed);
    until_gone(&pair.secrets(), "shoot-access-csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_account_stays_if_its_secret_begins_to_skip_its_deletion() {
    const SKIP: &str = "serviceaccount.resources.gardener.cloud/skip-deletion";
    let pair = Pair::start(None).await;
    for name in ["unnamed", "unlabelled", "goes"] {
        pair.request_token(name, "shoot", json!({}), json!({})).await;
        pair.filled(name, "").await;
    }
    let unnamed = json!({"metadata": {"annotations": {ACCOUNT_NAME: null, SKIP: "true"}}});
    pair.patch("unnamed", unnamed).await;
    let mut unlabelled: Value = serde_json::from_str(NO_CLASS).unwrap();
    unlabelled["metadata"]["annotations"] = json!({SKIP: "true"});
    pair.patch("unlabelled", unlabelled).await;
    pair.released("unlabelled").await;
    // A later change has been acted on.
    pair.patch("goes", serde_json::from_str(NO_CLASS).unwrap()).await;
    pair.released("goes").await;
    assert!(pair.accounts().get_opt("goes").await.unwrap().is_none());
    for name in ["unnamed", "unlabelled"] {
        assert!(pair.accounts().get_opt(name).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_lost_its_request_unseen_is_released_at_the_next_start() {
    let mut pair = Pair::start(None).await;
    for name in ["csi", "other", "stays"] {
        pair.request_token(name, "shoot", json!({}), json!({})).await;
        pair.filled(name, "").await;
    }
    pair.stop.cancel();
    pair.stop = CancellationToken::new();
    pair.patch("csi", serde_json::from_str(NO_CLASS).unwrap()).await;
    let other = json!({"metadata": {"labels": {"resources.gardener.cloud/class": "seed"}}});
    pair.patch("other", other).await;
    pair.run(None, pair.target.admin());
    pair.released("csi").await;
    // One of another class is its requestor's, and one that still requests a token is kept.
    for name in ["shoot-access-other", "shoot-access-stays"] {
        assert!(!pair.secrets().get(name).await.unwrap().finalizers().is_empty());
    }
    // But for a deletion, which would wait for ever if there is no such requestor.
    pair.stop.cancel();
    pair.stop = CancellationToken::new();
    let params = DeleteParams::default();
    pair.secrets().delete("shoot-access-other", &params).await.unwrap();
    pair.run(None, pair.target.admin());
    until_gone(&pair.secrets(), "shoot-access-other").await;
}

/// A pair whose target refuses deletions until the flag is cleared, and the report of a refusal.
async fn pair_with_refused_deletions() -> (Pair, Arc<AtomicBool>, Arc<Notify>) {
    let (failing, refused) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
    let (fails, refusing) = (failing.clone(), refused.clone());
    let pair = Pair::start_with(None, move |call| match call.verb {
        Verb::Delete if fails.load(Ordering::Relaxed) => {
            refusing.notify_one();
            Injected::Answer(500)
        }
        _ => Injected::Pass,
    });
    (pair.await, failing, refused)
}

#[tokio::test(start_paused = true)]
async fn an_account_goes_although_another_requestor_took_the_finalizer_off() {
    let (pair, failing, refused) = pair_with_refused_deletions().await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    pair.filled("csi", "").await;
    let params = DeleteParams::default();
    pair.secrets().delete("shoot-access-csi", &params).await.unwrap();
    refused.notified().await;
    pair.patch("csi", json!({"metadata": {"finalizers": null}})).await;
    until_gone(&pair.secrets(), "shoot-access-csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_some());
    failing.store(false, Ordering::Relaxed);
    until_gone(&pair.accounts(), "csi").await;
}

#[tokio::test(start_paused = true)]
async fn a_service_account_goes_when_its_secret_names_another() {
    for namespace in [None, Some("default")] {
        let pair = Pair::start(namespace).await;
        pair.request_token("old", "shoot", json!({}), json!({})).await;
        let first = pair.filled("old", "").await;
        pair.patch("old", json!({"metadata": {"annotations": {ACCOUNT_NAME: "new"}}}))
            .await;
        until_gone(&pair.accounts(), "old").await;
        let second = pair.filled("old", &first).await;
        assert_eq!(
            pair.user(&second).await.unwrap(),
            "system:serviceaccount:kube-system:new"
        );
        assert!(pair.user(&first).await.is_none());
    }
}

/// A pair whose next apply of a ServiceAccount after `armed` takes 5 s, and the report that it has begun.
async fn pair_with_delayed_apply(armed: &Arc<AtomicBool>) -> (Pair, oneshot::Receiver<()>) {
    let (late, begun) = oneshot::channel();
    let (late, armed) = (Mutex::new(Some(late)), armed.clone());
    let pair = Pair::start_with(None, move |call| {
        let is_apply = call.verb == Verb::Patch && call.resource == "serviceaccounts";
        match late
            .lock()
            .unwrap()
            .take_if(|_| is_apply && armed.load(Ordering::Relaxed))
        {
            Some(late) => {
                late.send(()).unwrap();
                Injected::Delay(Duration::from_secs(5))
            }
            None => Injected::Pass,
        }
    });
    (pair.await, begun)
}

#[tokio::test(start_paused = true)]
async fn a_service_account_created_after_its_request_was_withdrawn_is_deleted() {
    let armed = Arc::new(AtomicBool::new(true));
    let (pair, begun) = pair_with_delayed_apply(&armed).await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    begun.await.unwrap();
    pair.patch("csi", serde_json::from_str(NO_CLASS).unwrap()).await;
    pair.released("csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_none());
    until(&pair.accounts(), "csi", "made", |_: &ServiceAccount| true).await;
    until_gone(&pair.accounts(), "csi").await;

    let (pair, begun) = pair_with_delayed_apply(&armed).await;
    pair.request_token("old", "shoot", json!({}), json!({})).await;
    begun.await.unwrap();
    pair.patch("old", json!({"metadata": {"annotations": {ACCOUNT_NAME: "new"}}}))
        .await;
    until(&pair.accounts(), "old", "made", |_: &ServiceAccount| true).await;
    until_gone(&pair.accounts(), "old").await;
    until(&pair.accounts(), "new", "made", |_: &ServiceAccount| true).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_account_created_after_its_secret_was_deleted_is_deleted() {
    let armed = Arc::new(AtomicBool::new(false));
    let (pair, begun) = pair_with_delayed_apply(&armed).await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    pair.filled("csi", "").await;
    // Another turn, of a version with the finalizer.
    armed.store(true, Ordering::Relaxed);
    pair.patch("csi", json!({"metadata": {"labels": {"by": "another"}}}))
        .await;
    begun.await.unwrap();
    pair.patch("csi", serde_json::from_str(NO_CLASS).unwrap()).await;
    pair.released("csi").await;
    let params = DeleteParams::default();
    pair.secrets().delete("shoot-access-csi", &params).await.unwrap();
    until_gone(&pair.secrets(), "shoot-access-csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_none());
    until(&pair.accounts(), "csi", "made", |_: &ServiceAccount| true).await;
    until_gone(&pair.accounts(), "csi").await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_a_class_without_a_requestor_can_be_deleted() {
    let pair = Pair::start(None).await;
    pair.request_token("csi", "shoot", json!({}), json!({})).await;
    pair.filled("csi", "").await;
    let other = json!({"metadata": {"labels": {"resources.gardener.cloud/class": "none"}}});
    pair.patch("csi", other).await;
    pair.released("csi").await;
    assert!(pair.accounts().get_opt("csi").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_service_account_goes_though_the_request_was_wrong_in_between() {
    let pair = Pair::start(None).await;
    let wrong = json!({"metadata": {"annotations": {
        "serviceaccount.resources.gardener.cloud/token-expiration-duration": "soon",
    }}});
    for name in ["renamed", "deleted"] {
        pair.request_token(name, "shoot", json!({}), json!({})).await;
        pair.filled(name, "").await;
        pair.patch(name, wrong.clone()).await;
    }
    pair.patch("renamed", json!({"metadata": {"annotations": {ACCOUNT_NAME: "new"}}}))
        .await;
    let params = DeleteParams::default();
    pair.secrets().delete("shoot-access-deleted", &params).await.unwrap();
    until_gone(&pair.accounts(), "renamed").await;
    until_gone(&pair.accounts(), "deleted").await;
    until_gone(&pair.secrets(), "shoot-access-deleted").await;
}
