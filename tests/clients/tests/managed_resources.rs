//! The cases of gardener-resource-manager on real kube-apiserver. Run by `cargo xtask test managed-resources`, which
//! prepares the real parts. There are no controllers beside it: what they would do is part of the cases.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where its set-up fails, and says why"
)]

#[path = "../../../control-plane/resource-manager/tests/it/cases.rs"]
mod cases;

use std::time::Duration;

use base_client::{Connector, Https};
use base_clock::Clock;
use control_plane_resource_manager::{Options, run};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_conformance::real::Real;
use tokio_util::sync::CancellationToken;

use cases::{Case, FILES, Ground, Step, cases, run_case};

/// The namespace of ManagedResources that the cases name.
const NAMESPACE: &str = "shoot--a--b";
/// Addresses of services in the cases, and addresses of the real server's range.
const ADDRESSES: [(&str, &str); 2] = [("10.96.7.7", "10.0.0.77"), ("10.96.9.9", "10.0.0.99")];
/// How long a case may take to be swept away.
const SWEEP_MAX: Duration = Duration::from_secs(30);

async fn ground(real: &Real) -> Ground {
    let kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
    let client = Https::new("tests").client(&kubeconfig).unwrap();
    let ground = Ground {
        source: client.clone(),
        target: client.clone(),
        namespace: NAMESPACE.to_owned(),
    };
    for definition in api_resources::crds() {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        api.create(&PostParams::default(), &definition).await.unwrap();
        await_condition(api, &definition.name_any(), is_crd_established())
            .await
            .unwrap();
    }
    // Pods need an account, which no controller makes here.
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}),
    ] {
        let (api, _) = ground.api(&object);
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }
    ground
}

/// All objects that a case may have made.
fn objects(case: &Case) -> Vec<&Value> {
    let mut all = Vec::new();
    for step in &case.steps {
        match step {
            Step::Create(objects) => all.extend(objects),
            Step::Apply(apply) => all.extend(&apply.objects),
            _ => {}
        }
    }
    all
}

/// Takes away all that a case has made, whoever holds it.
async fn sweep(case: &Case, ground: &Ground) {
    let (none, now) = (
        json!({"metadata": {"finalizers": null}}),
        DeleteParams::background().grace_period(0),
    );
    for resource in ground.resources().list(&ListParams::default()).await.unwrap() {
        let name = resource.name_any();
        let _ = ground.resources().delete(&name, &now).await;
        let _ = ground
            .resources()
            .patch(&name, &PatchParams::default(), &Patch::Merge(&none))
            .await;
    }
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(ground.source.clone(), NAMESPACE);
    secrets.delete_collection(&now, &ListParams::default()).await.unwrap();
    // What lives in a namespace, or is of a kind, that the case has made goes first.
    for object in objects(case).into_iter().rev() {
        sweep_object(object, ground, &now, &none).await;
    }
}

async fn sweep_object(object: &Value, ground: &Ground, now: &DeleteParams, none: &Value) {
    let (api, name) = ground.api(object);
    if name.is_empty() {
        return;
    }
    let _ = api.delete(&name, now).await;
    let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(none)).await;
    if object["kind"] == "Namespace"
        && let Ok(Some(mut left)) = api.get_opt(&name).await
    {
        left.data["spec"]["finalizers"] = json!([]);
        let _ = api
            .replace_subresource("finalize", &name, &PostParams::default(), &left)
            .await;
    }
    let began = tokio::time::Instant::now();
    while matches!(api.get_opt(&name).await, Ok(Some(_))) {
        assert!(began.elapsed() < SWEEP_MAX, "{} {name} does not go", object["kind"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn cases_of_plain_objects_end_as_written_on_real_kubernetes() {
    let real = Real::start(tests_conformance::real::Options::default()).await.unwrap();
    let ground = ground(&real).await;
    let (mut run_through, mut failed) = (0, Vec::new());
    for (file, text) in FILES {
        let text = ADDRESSES
            .iter()
            .fold(text.to_owned(), |text, (ours, theirs)| text.replace(ours, theirs));
        for case in cases(&text).iter().filter(|case| !case.needs_virtual_time) {
            let stop = CancellationToken::new();
            let options = Options {
                namespace: Some(NAMESPACE.to_owned()),
                ..Options::default()
            };
            let (source, target) = (ground.source.clone(), ground.target.clone());
            let manager = tokio::spawn(run(source, target, options, Clock::real(), stop.clone()));
            let ended = run_case(case, &ground).await;
            stop.cancel();
            manager.await.unwrap();
            sweep(case, &ground).await;
            run_through += 1;
            match ended {
                Ok(()) => eprintln!("{file}: {}", case.name),
                Err(problem) => failed.push(format!("{file}: {}: {problem}", case.name)),
            }
        }
    }
    eprintln!("{run_through} cases on real Kubernetes");
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}
