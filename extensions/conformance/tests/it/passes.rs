//! An extension that follows the rules passes all of them, and nothing is left of a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_extensions::{Extension, ExtensionKind, Infrastructure};
use extensions_conformance::{BadSpec, Fragments, Options, Report, Rule, Subject, Verdict, validate};
use kube::Api;
use tests_kit::until;

use crate::extension::TYPE;
use crate::hook::Hook;
use crate::seed::Seed;

/// Rules about webhooks, which are servers on sockets: virtual time has no use for them.
const WEBHOOKS: [Rule; 2] = [Rule::WebhooksAnswer, Rule::WebhooksSpareOtherProviders];

fn skipped(report: &Report) -> Vec<Rule> {
    report.skipped().map(|(rule, _)| rule).collect()
}

#[tokio::test(start_paused = true)]
async fn a_correct_infrastructure_passes_every_rule() {
    let seed = Seed::new().await;
    let report = seed.validate::<Infrastructure>(None).await;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
    assert_eq!(skipped(&report), WEBHOOKS, "{}", report.text());
    assert_eq!(report.left_behind, Vec::<String>::new());
    assert_eq!(seed.left::<Infrastructure>().await, Vec::<String>::new());
    assert_eq!(seed.cloud.list(), "");
}

#[tokio::test(start_paused = true)]
async fn a_correct_extension_passes_every_rule() {
    let seed = Seed::new().await;
    let report = seed.validate::<Extension>(None).await;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
    assert_eq!(skipped(&report), WEBHOOKS, "{}", report.text());
    assert_eq!(seed.left::<Extension>().await, Vec::<String>::new());
    assert_eq!(report.exit_code(), 0);
}

/// In real time, with short limits: the webhook is a server on a socket.
#[tokio::test]
async fn webhooks_that_allow_what_they_do_not_know_pass() {
    let seed = Seed::new().await;
    let hook = Hook::start().await;
    hook.register(&seed.client, hook.everywhere()).await;
    seed.start::<Extension>(None);
    let options = Options {
        patience: Duration::from_millis(100),
        settle: Duration::from_millis(50),
        namespace: None,
        ..seed.options::<Extension>()
    };
    let report = validate(seed.client.clone(), Seed::subject::<Extension>(), options).await;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
    for rule in WEBHOOKS {
        assert!(report.passed().any(|passed| passed == rule), "{}", report.text());
    }
    assert!(hook.requests() > 0, "it was called");
}

#[tokio::test(start_paused = true)]
async fn rules_that_need_what_was_not_given_are_skipped_with_the_reason() {
    let seed = Seed::new().await;
    seed.start::<Extension>(None);
    let options = Options {
        cloud_check: None,
        namespace: None,
        ..seed.options::<Extension>()
    };
    let mut subject = Subject::new(ExtensionKind::Extension, TYPE);
    subject.fragments.bad_spec = BadSpec::None;
    let report = validate(seed.client.clone(), subject, options).await;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
    let reason = |rule: Rule| {
        report
            .skipped()
            .find(|(skipped, _)| *skipped == rule)
            .map(|(_, reason)| reason)
    };
    for (rule, flag) in [
        (Rule::CrashInReconcileSurvived, "--kill"),
        (Rule::DeletionCleansUp, "--cloud-check"),
        (Rule::HeartbeatRenewed, "--heartbeat"),
        (Rule::SecondaryWritesConditionsOnly, "--secondary"),
        (Rule::BadConfigCode, "badSpec"),
    ] {
        assert!(reason(rule).unwrap().contains(flag), "{rule}: {:?}", reason(rule));
    }
    assert_eq!(reason(Rule::ReconcileIsIdempotent), None, "it needs none of these");
}

#[tokio::test(start_paused = true)]
async fn without_an_extension_nothing_passes_and_the_run_ends_at_the_first_request() {
    let seed = Seed::new().await;
    let report = validate(
        seed.client.clone(),
        Seed::subject::<Extension>(),
        seed.options::<Extension>(),
    )
    .await;
    let first = report.findings().next().map(|(rule, _)| rule);
    assert_eq!(first, Some(Rule::RequestAnswered), "{}", report.text());
    assert_eq!(report.exit_code(), 1);
    assert!(
        !report.passed().any(|rule| rule == Rule::WaitForStateIgnored),
        "{}",
        report.text()
    );
    assert_eq!(seed.left::<Extension>().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_without_the_kinds_is_undecided_and_reports_what_to_do() {
    let seed = Seed::new().await;
    let kind = ExtensionKind::Worker;
    let options = Options::new(kind, seed.embedded.clock.clone(), seed.embedded.entropy.clone());
    let report = validate(seed.client.clone(), Subject::new(kind, TYPE), options).await;
    assert_eq!(
        (report.verdict, report.exit_code()),
        (Verdict::Undecided, 2),
        "{}",
        report.text()
    );
    assert!(
        report
            .ended_early
            .as_ref()
            .unwrap()
            .contains("check that the kind is installed"),
        "{}",
        report.text()
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_fragments_end_the_run_with_their_place_in_the_file() {
    let seed = Seed::new().await;
    seed.start::<Infrastructure>(None);
    for (fragments, expected) in [
        (
            "spec: {providerconfig: {}}",
            "spec of --config: Infrastructure has no field spec.providerconfig",
        ),
        ("badSpec: {region: other}", "write badSpec of --config"),
        ("changedSpec: {region: other}", "write changedSpec of --config"),
    ] {
        let subject = Subject {
            fragments: Fragments::parse(fragments).unwrap(),
            ..Subject::new(ExtensionKind::Infrastructure, TYPE)
        };
        let report = validate(seed.client.clone(), subject, seed.options::<Infrastructure>()).await;
        let why = report.ended_early.clone().unwrap_or_default();
        assert!(why.starts_with(expected), "{fragments}: {}", report.text());
        assert_eq!(report.exit_code(), 2, "{fragments}");
        assert_eq!(seed.left::<Infrastructure>().await, Vec::<String>::new(), "{fragments}");
    }
}

/// Interrupts at the first words of this step.
async fn interrupted(step: &'static str) {
    let seed = Seed::new().await;
    let kill = seed.start::<Infrastructure>(None);
    let options = seed.options::<Infrastructure>();
    let stop = options.stop.clone();
    let steps: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = steps.clone();
    let options = Options {
        kill: Some(kill),
        on_step: Arc::new(move |now| {
            noted.lock().unwrap().push(now.to_owned());
            if now == step {
                let stop = stop.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(150)).await;
                    stop.cancel();
                });
            }
        }),
        ..options
    };
    let report = validate(seed.client.clone(), Seed::subject::<Infrastructure>(), options).await;
    assert_eq!(report.verdict, Verdict::Undecided, "{step}: {}", report.text());
    assert!(steps.lock().unwrap().contains(&step.to_owned()), "{step}");
    assert_eq!(seed.left::<Infrastructure>().await, Vec::<String>::new(), "{step}");
    assert_eq!(seed.cloud.list(), "", "{step}: the extension has deleted what it made");
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_removes_what_it_made_wherever_it_is() {
    for step in [
        "create objects of another type and class",
        "create",
        "reconcile while another writer writes the object",
        "request a reconcile while the Shoot is Failed",
        "delete the migrated object",
        "create with wait-for-state",
        "restore",
        "force the deletion",
        "end the process while it deletes",
    ] {
        interrupted(step).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_never_released_loses_its_finalizers_and_is_reported() {
    let seed = Seed::new().await;
    let report = seed
        .validate::<Infrastructure>(Some(Rule::FinalizerGoneAfterDeletion))
        .await;
    assert_eq!(seed.left::<Infrastructure>().await, Vec::<String>::new());
    assert!(
        report.left_behind[0].contains("lost its finalizers"),
        "{:?}",
        report.left_behind
    );
    assert!(
        report.text().contains("Left behind: Infrastructure"),
        "{}",
        report.text()
    );
}

#[tokio::test(start_paused = true)]
async fn the_clusters_shoot_is_seen_by_the_extension() {
    let seed = Seed::new().await;
    let run = validate(
        seed.client.clone(),
        Seed::subject::<Extension>(),
        seed.options::<Extension>(),
    );
    let running = tokio::spawn(run);
    let clusters: Api<api_extensions::Cluster> = Api::all(seed.client.clone());
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(seed.client.clone());
    let name = loop {
        let all = namespaces.list(&Default::default()).await.unwrap();
        let found = all.items.into_iter().filter_map(|namespace| namespace.metadata.name);
        match found.into_iter().find(|name| name.starts_with("shoot--conformance--")) {
            Some(name) => break name,
            None => tokio::task::yield_now().await,
        }
    };
    let cluster = until(&clusters, &name, "there", |_| true).await;
    let shoot = cluster.spec.shoot.value();
    assert_eq!(shoot["status"]["technicalID"], name);
    assert_eq!(shoot["kind"], "Shoot");
    running.abort();
}
