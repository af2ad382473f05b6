//! Time limits, error codes by their table, and credentials of an operation.

use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::LastOperationState::Succeeded;
use api_meta::{ErrorCode, Fault, LastError, ObjectName};
use extensions_sdk::{CodeTable, Context, Credentials, FieldProblem, Outcome, Registration, SecretData};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tests_kit::until;
use tokio::time::Instant;

use crate::landscape::{NAMESPACE, Seed, state_of};
use crate::script::{Result, Script};

async fn last_error(seed: &Seed) -> LastError {
    let failed = |object: &Infrastructure| state_of(object) == "Create Error 50";
    let object = until(&seed.infrastructures(), "b", "failed", failed).await;
    object.status.unwrap().last_error.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_cut_off_at_the_time_limit_of_its_registration() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default().reconcile(|_, _| std::future::pending());
    let registration = Registration::of_type("example").timeout(Duration::from_secs(90));
    script.start(seed.extension(), registration);
    seed.create("example", json!({})).await;
    let began = Instant::now();
    let text = last_error(&seed).await.description;
    assert!(
        text.contains("the operation did not end within 90 seconds (to do: "),
        "{text}"
    );
    assert!(began.elapsed() < Duration::from_secs(100));
    until(&seed.infrastructures(), "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn codes_of_the_table_reach_status_and_event_but_no_seeds_refusal() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let table = CodeTable::new([
        ("(?i)quota exceeded", ErrorCode::InfraQuotaExceeded),
        ("(?i)forbidden", ErrorCode::InfraUnauthorized),
    ]);
    let script = Script::default()
        .reconcile(|_, _| async {
            let refused = Fault::access("pods is forbidden").about(ObjectName::new("Pod", Some("n"), "p"));
            Err(refused)
        })
        .reconcile(|_, _| async { Err(Fault::dependency("Quota exceeded for cores").doing("create vm")) })
        .reconcile(|_, _| async { Err(Fault::bug("forbidden").code(ErrorCode::InfraDependencies)) });
    // The table counts wherever it is set.
    let extension = seed.extension();
    let extension = extension.actuator(Registration::of_type("example"), std::sync::Arc::new(script.clone()));
    tokio::spawn(extension.codes(table.unwrap()).run());
    seed.create("example", json!({})).await;

    let codes = |error: LastError| (error.description, error.codes);
    let (text, of_kubernetes) = codes(last_error(&seed).await);
    assert!(
        text.contains("pods is forbidden") && of_kubernetes.is_empty(),
        "{text} {of_kubernetes:?}"
    );
    let api = seed.infrastructures();
    let describes = |object: &Infrastructure, part: &str| {
        let error = object.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.description.contains(part))
    };
    let object = until(&api, "b", "refused", |object| describes(object, "Quota")).await;
    assert_eq!(
        object.status.unwrap().last_error.unwrap().codes,
        [ErrorCode::InfraQuotaExceeded]
    );
    let object = until(&api, "b", "refused again", |object| {
        describes(object, "forbidden") && !describes(object, "pods")
    })
    .await;
    assert_eq!(
        object.status.unwrap().last_error.unwrap().codes,
        [ErrorCode::InfraDependencies]
    );

    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    let events: Api<Event> = Api::namespaced(seed.client.clone(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let mut messages: Vec<&str> = events.iter().filter_map(|event| event.message.as_deref()).collect();
    messages.sort_unstable();
    assert_eq!(
        messages,
        [
            "create vm: Quota exceeded for cores [ERR_INFRA_QUOTA_EXCEEDED]",
            "forbidden [ERR_INFRA_DEPENDENCIES]",
            "pods is forbidden",
        ]
    );
}

struct Password;

impl Credentials for Password {
    fn read(data: &SecretData<'_>) -> std::result::Result<Self, FieldProblem> {
        data.text("password").map(|_| Self)
    }
}

async fn reads_twice(context: Context, object: Infrastructure) -> Result {
    for _ in 0..2 {
        context.credentials::<Password>(&object.spec.secret_ref).await?;
    }
    Ok(Outcome::default())
}

#[tokio::test(start_paused = true)]
async fn missing_and_unusable_credentials_are_reported_and_usable_ones_read_once() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(reads_twice)
        .reconcile(reads_twice)
        .reconcile(reads_twice);
    script.start(seed.extension(), Registration::of_type("example").watches_secret_ref());
    seed.create("example", json!({})).await;
    let LastError { description, codes, .. } = last_error(&seed).await;
    let missing = "the credentials are missing: there is no Secret shoot--a--b/cloudprovider (to do: ";
    assert!(
        description.contains(missing) && codes.is_empty(),
        "{description} {codes:?}"
    );

    let api = seed.infrastructures();
    let secrets: Api<Secret> = Api::namespaced(seed.client.clone(), NAMESPACE);
    let mut secret = Secret::default();
    secret.metadata.name = Some("cloudprovider".to_owned());
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let coded = |object: &Infrastructure| {
        let error = object.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.codes == [ErrorCode::ConfigurationProblem])
    };
    let object = until(&api, "b", "refused", coded).await;
    let text = object.status.unwrap().last_error.unwrap().description;
    assert!(
        text.contains("Secret shoot--a--b/cloudprovider cannot be used: password is missing"),
        "{text}"
    );

    seed.calls();
    let data = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloudprovider"},
        "data": {"password": "aHVudGVyMg=="}});
    let secret: Secret = serde_json::from_value(data).unwrap();
    base_client::apply(&secrets, &secret, "gardenlet").await.unwrap();
    until(&api, "b", "created", |object| {
        state_of(object) == "Create Succeeded 100"
    })
    .await;
    let reads = seed.calls().into_iter().filter(|call| call == "get secrets").count();
    assert_eq!(reads, 1);
}
