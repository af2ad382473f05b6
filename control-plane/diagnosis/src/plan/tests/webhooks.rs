//! Webhooks that refuse, or do not answer.

use super::*;

#[test]
fn a_webhook_that_refuses_an_extensions_writes_is_named_instead_of_silence() {
    let mut facts = with(|_| {}, vec![object("Infrastructure", requested)]);
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
    let refusal = |at_: &str| Refusal {
        object: ObjectName::new("Infrastructure", Some(NAMESPACE), "s"),
        webhook: WebhookFailure::in_message(REFUSED).unwrap(),
        message: REFUSED.to_owned(),
        at: Some(at(at_)),
    };
    in_seed(&mut facts).refusals = Seen::Present(vec![refusal("2026-01-01T00:06:00Z")]);
    let blocker = only(&facts, Cause::WebhookRefused);
    assert_mentions(
        &blocker,
        &["no craters", "correct what webhook guard.moon.example objects to"],
    );
    assert_eq!(blocker.who, "webhook guard.moon.example");
    in_seed(&mut facts).refusals = Seen::Present(vec![refusal("2026-01-01T00:01:00Z")]);
    assert_eq!(
        causes(&plan(&facts)),
        [Cause::ExtensionSilent],
        "that was before the request"
    );
}

#[test]
fn a_webhook_that_refuses_gardenlet_is_named_with_the_task() {
    let task = "Deploying Shoot infrastructure";
    let problem = Problem {
        webhook: WebhookFailure::in_message(REFUSED),
        ..problem(task, REFUSED)
    };
    let facts = facts(|shoot| failing(shoot, "Error", problem));
    let blocker = only(&facts, Cause::WebhookRefused);
    assert_mentions(&blocker, &["no craters", task, "webhook guard.moon.example"]);
}

/// A webhook of the installation that is asked about all objects of extensions, and that nothing serves.
fn unserved_webhook() -> Webhook {
    let rule = json!({
        "apiGroups": ["extensions.gardener.cloud"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"],
    });
    Webhook {
        name: "guard.moon.example".to_owned(),
        configuration: "MutatingWebhookConfiguration moon".to_owned(),
        service: Some("extension-provider-moon-abcde/moon".to_owned()),
        owner: Some("ControllerInstallation provider-moon-abcde".to_owned()),
        is_served: Some(false),
        fails_closed: true,
        rules: vec![serde_json::from_value(rule).unwrap()],
        ..Webhook::default()
    }
}

const UNSERVED: [&str; 4] = [
    "webhook guard.moon.example of MutatingWebhookConfiguration moon",
    "Service extension-provider-moon-abcde/moon",
    "installed by ControllerInstallation provider-moon-abcde",
    "let a pod behind Service extension-provider-moon-abcde/moon become ready",
];

#[test]
fn webhook_that_does_not_answer_is_named_with_configuration_service_and_installation() {
    let text = "update Infrastructure: Internal error occurred: failed calling webhook \"guard.moon.example\": failed to \
                call webhook: Post \"https://moon.extension-provider-moon-abcde.svc:443/?timeout=10s\": no endpoints \
                available for service \"moon\"";
    let problem = Problem {
        webhook: WebhookFailure::in_message(text),
        ..problem("Deploying Shoot infrastructure", text)
    };
    let mut facts = facts(|shoot| failing(shoot, "Error", problem));
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    let blocker = only(&facts, Cause::WebhookRefused);
    assert_mentions(&blocker, &UNSERVED);
}

#[test]
fn an_extension_whose_webhook_has_no_endpoints_is_not_called_silent() {
    let mut facts = with(|_| {}, vec![object("Infrastructure", requested)]);
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    let blocker = only(&facts, Cause::WebhookRefused);
    assert_mentions(&blocker, &UNSERVED);
    assert_mentions(&blocker, &["every update of Infrastructure objects fails"]);
    let served = Webhook {
        is_served: Some(true),
        ..unserved_webhook()
    };
    in_seed(&mut facts).webhooks = Seen::Present(vec![served]);
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
    // One that does not run is to be started first.
    in_seed(&mut facts).webhooks = Seen::Present(vec![unserved_webhook()]);
    in_seed(&mut facts).controllers[0].heartbeat = Seen::Absent;
    assert_eq!(causes(&plan(&facts)), [Cause::ExtensionSilent]);
}
