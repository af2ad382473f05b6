//! The garden's kinds behind a real API server, through a client with a certificate. Each test has a server of its own.

#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

mod answers;
mod bastions;
mod garden;
mod gardenlets;
mod plugins;
mod races;
mod refusals;
mod workload_tokens;

use garden::{Garden, profile, registration, shoot};
use http::Method;
use serde_json::{Value, json};

const SHOOTS: &str = "/apis/core.gardener.cloud/v1beta1/namespaces/garden-p/shoots";

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_shoot_is_taken_completed_and_shown() {
    let garden = Garden::with_landscape().await;
    let made = garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    assert_eq!(text(&made, "/spec/kubernetes/version"), "1.35.0", "{made}");
    assert_eq!(text(&made, "/spec/cloudProfileName"), "", "only older versions have it");
    assert_eq!(made["spec"]["provider"]["workers"][0]["maxSurge"], 1);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(
        made["metadata"]["labels"]["provider.extensions.gardener.cloud/prov"],
        "true"
    );
    assert!(text(&made, "/metadata/annotations/shoot.gardener.cloud~1tasks").contains("deployInfrastructure"));
    let table = garden.table(SHOOTS).await;
    let headings: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|column| column["priority"] == 0)
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(
        headings,
        [
            "Name",
            "CloudProfile",
            "Provider",
            "Region",
            "K8S Version",
            "Hibernation",
            "Last Operation",
            "Status",
            "Age"
        ]
    );
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[1], &cells[6], &cells[7]),
        (&json!("cloud"), &json!("Awake"), &json!("<pending>"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_extension_type_is_refused_naming_field_kind_and_type() {
    let garden = Garden::with_landscape().await;
    let mut requested = shoot("s");
    requested["spec"]["extensions"] = json!([{"type": "nobody"}]);
    let (code, status) = garden.call(Method::POST, SHOOTS, &requested).await;
    assert_eq!(code, 403, "{status}");
    let message = text(&status, "/message");
    assert!(
        message.contains("spec.extensions[0].type")
            && message.contains("Extension/nobody")
            && message.contains("create a ControllerRegistration"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_goes_away_later_blocks_no_other_change() {
    let garden = Garden::with_landscape().await;
    garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let registration = "/apis/core.gardener.cloud/v1beta1/controllerregistrations/prov";
    garden.ok(Method::DELETE, registration, &Value::Null).await;
    let path = format!("{SHOOTS}/s");
    let patched = garden
        .ok(Method::PATCH, &path, &json!({"spec": {"purpose": "development"}}))
        .await;
    assert_eq!(text(&patched, "/spec/purpose"), "development");
    assert_eq!(garden.call(Method::POST, SHOOTS, &shoot("t")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn old_spellings_are_taken_under_strict_validation() {
    let garden = Garden::with_landscape().await;
    let mut old = registration("old", &[("Extension", "auto")]);
    old["spec"]["resources"][0]["globallyEnabled"] = json!(true);
    let path = "/apis/core.gardener.cloud/v1beta1/controllerregistrations?fieldValidation=Strict";
    let made = garden.ok(Method::POST, path, &old).await;
    assert_eq!(made["spec"]["resources"][0]["autoEnable"], json!(["shoot"]));
    assert!(made["spec"]["resources"][0].get("globallyEnabled").is_none());
    let mut unknown = registration("unknown", &[("Extension", "other")]);
    unknown["spec"]["resources"][0]["bogus"] = json!(1);
    let (code, status) = garden.call(Method::POST, path, &unknown).await;
    assert_eq!(code, 400);
    assert!(
        text(&status, "/message").contains("unknown field \"spec.resources[0].bogus\""),
        "{status}"
    );
}

#[tokio::test(start_paused = true)]
async fn operations_raise_the_generation_and_status_is_written_apart() {
    let garden = Garden::with_landscape().await;
    let path = format!("{SHOOTS}/s");
    garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let requested = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let after = garden.ok(Method::PATCH, &path, &requested).await;
    assert_eq!(after["metadata"]["generation"], 1, "it has not been reconciled yet");
    let operation = json!({"status": {"lastOperation": {"type": "Create", "state": "Succeeded", "progress": 100}}});
    garden.ok(Method::PATCH, &format!("{path}/status"), &operation).await;
    let after = garden.ok(Method::PATCH, &path, &requested).await;
    assert_eq!(after["metadata"]["generation"], 2);
    assert!(
        after["metadata"]["annotations"]
            .get("gardener.cloud/operation")
            .is_none(),
        "{after}"
    );
    let status = json!({"spec": {"purpose": "production"}, "status": {"technicalID": "shoot--p--s"}});
    let after = garden.ok(Method::PATCH, &format!("{path}/status"), &status).await;
    assert_eq!(text(&after, "/status/technicalID"), "shoot--p--s");
    assert_eq!(text(&after, "/spec/purpose"), "evaluation");
    assert_eq!(after["metadata"]["generation"], 2);
    let after = garden
        .ok(Method::PATCH, &path, &json!({"status": {"technicalID": "other"}}))
        .await;
    assert_eq!(text(&after, "/status/technicalID"), "shoot--p--s");
}

#[tokio::test(start_paused = true)]
async fn a_status_update_changes_annotations_of_the_status_and_no_other_metadata() {
    let garden = Garden::with_landscape().await;
    let (path, own) = (format!("{SHOOTS}/s"), "status.orangery.dev/operation-report");
    let before = garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let status = json!({
        "metadata": {
            "annotations": {own: "{}", "shoot.gardener.cloud/ignore": "true", "shoot.gardener.cloud/tasks": null},
            "labels": {"a": "b"}, "finalizers": ["example.com/mine"],
        },
        "status": {"technicalID": "shoot--p--s"},
    });
    let after = garden.ok(Method::PATCH, &format!("{path}/status"), &status).await;
    let mut expected = before["metadata"]["annotations"].clone();
    assert!(expected.get("shoot.gardener.cloud/tasks").is_some(), "{before}");
    expected[own] = json!("{}");
    assert_eq!(after["metadata"]["annotations"], expected);
    for retained in ["labels", "finalizers", "generation"] {
        assert_eq!(after["metadata"][retained], before["metadata"][retained], "{retained}");
    }
    let other = garden
        .ok(Method::PATCH, &path, &json!({"metadata": {"annotations": {"a": "b"}}}))
        .await;
    assert_eq!(
        text(&other, "/metadata/annotations/status.orangery.dev~1operation-report"),
        "{}"
    );
    let taken = json!({"metadata": {"annotations": {own: null}}});
    let after = garden.ok(Method::PATCH, &format!("{path}/status"), &taken).await;
    assert!(after["metadata"]["annotations"].get(own).is_none(), "{after}");
    assert_eq!(text(&after, "/metadata/annotations/a"), "b");
}

#[tokio::test(start_paused = true)]
async fn the_seed_is_set_by_binding_alone() {
    let garden = Garden::with_landscape().await;
    let path = format!("{SHOOTS}/s");
    let mut bound = garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let named = json!({"spec": {"seedName": "seed"}});
    assert_eq!(garden.call(Method::PATCH, &path, &named).await.0, 403);
    bound["spec"]["seedName"] = json!("seed");
    bound["spec"]["purpose"] = json!("production");
    let after = garden.ok(Method::PUT, &format!("{path}/binding"), &bound).await;
    assert_eq!(text(&after, "/spec/seedName"), "seed");
    assert_eq!(text(&after, "/spec/purpose"), "evaluation");
    assert!(!text(&after, "/spec/networking/pods").is_empty(), "{after}");
    bound["metadata"]["resourceVersion"] = after["metadata"]["resourceVersion"].clone();
    bound["spec"]["seedName"] = json!("nowhere");
    assert_eq!(
        garden.call(Method::PUT, &format!("{path}/binding"), &bound).await.0,
        500
    );
}

#[tokio::test(start_paused = true)]
async fn a_shoot_goes_only_when_its_deletion_is_confirmed() {
    let garden = Garden::with_landscape().await;
    let path = format!("{SHOOTS}/s");
    garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let (code, status) = garden.call(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(code, 403);
    assert!(
        text(&status, "/message").contains("kubectl annotate -n garden-p shoots s"),
        "{status}"
    );
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    garden.ok(Method::PATCH, &path, &confirmed).await;
    garden.ok(Method::DELETE, &path, &Value::Null).await;
    assert_eq!(garden.call(Method::GET, &path, &Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_admin_kubeconfig_carries_a_certificate_and_the_way() {
    let garden = Garden::with_landscape().await;
    let path = format!("{SHOOTS}/s");
    garden.ok(Method::POST, SHOOTS, &shoot("s")).await;
    let request = json!({"apiVersion": "authentication.gardener.cloud/v1alpha1", "kind": "AdminKubeconfigRequest",
        "spec": {"expirationSeconds": 900}});
    let post = format!("{path}/adminkubeconfig");
    let (code, status) = garden.call(Method::POST, &post, &request).await;
    assert!(
        code == 422 && text(&status, "/message").contains("advertises no address"),
        "{code} {status}"
    );
    let addresses =
        json!({"status": {"advertisedAddresses": [{"name": "external", "url": "https://api.s.p.example"}]}});
    garden.ok(Method::PATCH, &format!("{path}/status"), &addresses).await;
    assert_eq!(garden.call(Method::POST, &post, &request).await.0, 409);
    garden.leave_authorities("s").await;
    let answer = garden.ok(Method::POST, &post, &request).await;
    assert_eq!(answer["kind"], "AdminKubeconfigRequest");
    assert_eq!(text(&answer, "/status/expirationTimestamp"), "2026-01-01T00:15:00Z");
    let kubeconfig = garden.read_kubeconfig(text(&answer, "/status/kubeconfig"));
    assert_eq!(kubeconfig.server, "https://127.0.0.1:6443/clusters/api.s.p.example");
    assert_eq!(kubeconfig.server_name.as_deref(), Some("api.s.p.example"));
    assert_eq!(kubeconfig.user, "garden-user");
    assert_eq!(kubeconfig.groups, ["gardener.cloud:system:admins"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_the_same_in_both_versions() {
    let garden = Garden::with_landscape().await;
    let beta = "/apis/core.gardener.cloud/v1beta1/controllerdeployments";
    let made = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": {"name": "d"},
        "type": "builtin", "providerConfig": {"image": "x", "big": 9_007_199_254_740_993_i64}});
    garden.ok(Method::POST, beta, &made).await;
    let v1 = garden
        .ok(
            Method::GET,
            "/apis/core.gardener.cloud/v1/controllerdeployments/d",
            &Value::Null,
        )
        .await;
    assert_eq!(v1["apiVersion"], "core.gardener.cloud/v1");
    let back = garden.ok(Method::GET, &format!("{beta}/d"), &Value::Null).await;
    assert_eq!(
        (&back["type"], &back["providerConfig"]),
        (&made["type"], &made["providerConfig"])
    );
}

/// Who owns fields of an object: manager, version, and the fields beside metadata.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let of_one = |entry: &Value| {
        let mut fields = entry["fieldsV1"].clone();
        fields.as_object_mut().unwrap().remove("f:metadata");
        let version = text(entry, "/apiVersion").trim_start_matches("core.gardener.cloud/");
        (text(entry, "/manager").to_owned(), version.to_owned(), fields)
    };
    entries.iter().map(of_one).collect()
}

#[tokio::test(start_paused = true)]
async fn apply_sees_conflicts_with_fields_written_in_the_other_version() {
    let garden = Garden::with_landscape().await;
    let (v1, beta) = ("/apis/core.gardener.cloud/v1", "/apis/core.gardener.cloud/v1beta1");
    let of = |root: &str, query: &str| format!("{root}/controllerdeployments/d?{query}");
    let in_beta = |replicas: u8| {
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment", "metadata": {"name": "d"},
            "type": "helm", "providerConfig": {"chart": "Y2hhcnQ=", "values": {"a": 1, "replicas": replicas}}})
    };
    let in_v1 = |replicas: u8| {
        json!({"apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": "d"},
            "helm": {"values": {"replicas": replicas}}})
    };
    let replicas = |object: &Value| object["providerConfig"]["values"]["replicas"].clone();
    garden.apply(&of(beta, "fieldManager=up"), &in_beta(1)).await;

    // By an update, which takes the field from the manager that applied it.
    let change = json!({"helm": {"values": {"replicas": 2}}});
    let changed = garden.ok(Method::PATCH, &of(v1, "fieldManager=user"), &change).await;
    let all = owners(&changed);
    let of_user = all.iter().find(|(manager, ..)| manager == "user").unwrap();
    assert_eq!(
        (&*of_user.1, &of_user.2),
        ("v1", &json!({"f:helm": {"f:values": {"f:replicas": {}}}}))
    );
    let of_up = all.iter().find(|(manager, ..)| manager == "up").unwrap();
    let values = &of_up.2["f:providerConfig"]["f:values"];
    assert!(
        values.get("f:a").is_some() && values.get("f:replicas").is_none(),
        "{all:?}"
    );
    let (code, status) = garden.try_apply(&of(beta, "fieldManager=up"), &in_beta(1)).await;
    assert_eq!(code, 409, "{status}");
    let conflict = &status["details"]["causes"][0];
    assert_eq!(conflict["field"], ".helm.values.replicas", "{status}");
    assert!(
        text(conflict, "/message").contains("\"user\" using core.gardener.cloud/v1"),
        "{status}"
    );
    let same = garden.apply(&of(beta, "fieldManager=up"), &in_beta(2)).await;
    assert_eq!(replicas(&same), 2, "the same value is no conflict");

    // By an apply, which is refused in the one version as in the other.
    let (code, status) = garden.try_apply(&of(v1, "fieldManager=other"), &in_v1(3)).await;
    assert_eq!(code, 409, "{status}");
    let fields: Vec<&Value> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &cause["field"])
        .collect();
    assert_eq!(
        fields,
        [".providerConfig.values.replicas", ".helm.values.replicas"],
        "{status}"
    );
    garden.apply(&of(v1, "fieldManager=other&force=true"), &in_v1(3)).await;
    let back = garden.ok(Method::GET, &of(beta, ""), &Value::Null).await;
    assert_eq!(replicas(&back), 3);
    assert!(owners(&back).iter().all(|(manager, ..)| manager != "user"), "{back}");
    let left_out =
        json!({"apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": "d"}});
    garden.apply(&of(v1, "fieldManager=other"), &left_out).await;
    let back = garden.ok(Method::GET, &of(beta, ""), &Value::Null).await;
    assert_eq!(
        back["providerConfig"],
        json!({"chart": "Y2hhcnQ=", "values": {"a": 1}}),
        "{back}"
    );
}

#[tokio::test(start_paused = true)]
async fn two_primaries_for_one_type_are_refused() {
    let garden = Garden::with_landscape().await;
    let path = "/apis/core.gardener.cloud/v1beta1/controllerregistrations";
    let (code, status) = garden
        .call(Method::POST, path, &registration("second", &[("Worker", "PROV")]))
        .await;
    assert_eq!(code, 403);
    assert!(
        text(&status, "/message").contains("controls resource Worker/PROV primarily: prov"),
        "{status}"
    );
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_owns_what_was_applied_and_no_default() {
    let garden = Garden::with_landscape().await;
    let path = format!("{SHOOTS}/s?fieldManager=me");
    let applied = garden.apply(&path, &shoot("s")).await;
    let fields = applied["metadata"]["managedFields"][0]["fieldsV1"].to_string();
    assert!(
        fields.contains("f:region") && !fields.contains("f:schedulerName"),
        "{fields}"
    );
    assert_eq!(text(&applied, "/spec/schedulerName"), "default-scheduler");
    let again = garden.apply(&path, &shoot("s")).await;
    assert_eq!(again, applied);
}

#[tokio::test(start_paused = true)]
async fn every_kind_has_a_schema_and_is_served() {
    let garden = Garden::with_landscape().await;
    for group in [
        "core.gardener.cloud/v1beta1",
        "security.gardener.cloud/v1alpha1",
        "operations.gardener.cloud/v1alpha1",
    ] {
        let document = garden
            .ok(Method::GET, &format!("/openapi/v3/apis/{group}"), &Value::Null)
            .await;
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        // Those of Kubernetes may be smaller.
        for (name, schema) in schemas.iter().filter(|(name, _)| !name.starts_with("io.k8s.")) {
            assert!(
                schema["properties"].as_object().is_some_and(|fields| fields.len() > 2),
                "{name}: {schema}"
            );
        }
    }
    let twice = garden
        .call(
            Method::POST,
            "/apis/core.gardener.cloud/v1beta1/cloudprofiles",
            &profile(),
        )
        .await;
    assert_eq!(twice.0, 409);
}

#[tokio::test(start_paused = true)]
async fn every_authenticated_user_reads_cloud_profiles() {
    const READERS: &str = "gardener.cloud:system:read-global-resources";
    let garden = Garden::with_landscape().await;
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../landscape/local/manifests/garden.yaml"
    );
    let objects = serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap();
    for object in objects.iter().filter(|object| object["metadata"]["name"] == READERS) {
        garden.create(object).await;
    }
    for resource in ["cloudprofiles", "exposureclasses"] {
        assert_eq!(
            garden
                .code_for("ann", &format!("/apis/core.gardener.cloud/v1beta1/{resource}"))
                .await,
            200
        );
    }
    assert_eq!(
        garden.code_for("ann", "/apis/core.gardener.cloud/v1beta1/seeds").await,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn the_examples_are_taken_under_strict_validation() {
    let garden = Garden::with_landscape().await;
    let all = [
        "Infrastructure",
        "ControlPlane",
        "Worker",
        "Network",
        "OperatingSystemConfig",
    ]
    .map(|kind| (kind, "local"));
    let path = "/apis/core.gardener.cloud/v1beta1/controllerregistrations";
    garden
        .ok(Method::POST, path, &registration("provider-local", &all))
        .await;
    garden
        .ok(
            Method::POST,
            "/api/v1/namespaces",
            &json!({"metadata": {"name": "garden-local"}}),
        )
        .await;
    for name in [
        "10-project",
        "20-cloudprofile",
        "30-credentials",
        "40-shoot",
        "41-shoot-workerless",
        "50-extension",
    ] {
        let file = format!("{}/../../examples/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            garden.create(&object).await;
        }
    }
}
