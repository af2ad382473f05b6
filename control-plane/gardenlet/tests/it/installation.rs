//! Installations with a chart: what a gardenlet makes of it in the seed, how that follows every change, and how it goes.
//! The seed's resource manager is played by the test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use api_meta::{Condition, ConditionStatus, conditions::installation as reason};
use base_client::{Call, Injected, Verb};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};

use crate::installing::{Installing, NAME, NAMESPACE, chart, config_map, data_of};

/// A chart with a definition, a hook, a ConfigMap and a Deployment.
fn whole_chart() -> String {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: run\n  namespace: {{ .Release.Namespace }}\n\
        spec:\n  template:\n    spec:\n      initContainers: [{name: i}]\n      containers:\n      - name: c\n        env:\n        - {name: SEED_NAME, value: old}\n";
    chart(&[
        (
            "templates/map.yaml",
            &config_map("  greeting: {{ .Values.greeting }} of {{ .Release.Name }}"),
        ),
        ("templates/run.yaml", deployment),
        (
            "templates/hook.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n",
        ),
        (
            "crds/one.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n",
        ),
        ("values.yaml", "greeting: hello\n"),
    ])
}

#[tokio::test(start_paused = true)]
async fn a_chart_becomes_a_managed_resource_and_a_namespace() {
    let world = Installing::start().await;
    world.install(json!({"helm": {"rawChart": whole_chart()}})).await;
    let valid = world.condition("Valid", reason::REGISTRATION_VALID).await;
    assert_eq!(
        (valid.status, valid.message.as_str()),
        (ConditionStatus::True, "chart could be rendered successfully.")
    );
    let resource = until(&world.resources(), NAME, "written", |_| true).await;
    assert_eq!(resource.spec.class.as_deref(), Some("seed"));
    let labels = BTreeMap::from([
        ("controllerinstallation-name", NAME),
        ("controllerregistration-name", NAME),
    ]);
    let labels = labels
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(resource.labels(), &labels);
    let objects = world.objects_of(&resource).await;
    let names: Vec<_> = objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["things.example.org", "made", "run"], "without the hook");
    assert_eq!(data_of(&objects, "greeting"), Some("hello of ext"));
    let pods = &objects[2]["spec"]["template"]["spec"];
    let variable = json!([{"name": "SEED_NAME", "value": "south"}]);
    assert_eq!(
        (&pods["containers"][0]["env"], &pods["initContainers"][0]["env"]),
        (&variable, &variable)
    );
    let namespace = world.namespaces().get(NAMESPACE).await.unwrap();
    for (label, value) in [
        ("gardener.cloud/role", "extension"),
        ("controllerregistration.core.gardener.cloud/name", NAME),
        ("high-availability-config.resources.gardener.cloud/consider", "true"),
    ] {
        assert_eq!(namespace.labels()[label], value, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_follow_the_managed_resource_until_nothing_is_left() {
    let world = Installing::start().await;
    world.install(json!({"helm": {"rawChart": whole_chart()}})).await;
    world.condition("Installed", reason::INSTALLATION_PENDING).await;
    let resource = Some("ManagedResource garden/ext".to_owned());
    assert_eq!(world.awaited().await, resource);
    let no = "Deployment \"run\": image \"x\" is not in the catalogue";
    world.report(("True", ""), ("False", no), ("False", "")).await;
    world.condition("Installed", reason::INSTALLATION_SUCCESSFUL).await;
    assert_eq!(world.awaited().await, None);
    let healthy = world.condition("Healthy", reason::CONTROLLER_NOT_HEALTHY).await;
    assert!(healthy.message.contains(no), "{}", healthy.message);
    world.condition("Progressing", reason::CONTROLLER_ROLLED_OUT).await;
    world.report(("True", ""), ("True", ""), ("True", "rolling")).await;
    world.condition("Healthy", reason::CONTROLLER_HEALTHY).await;
    world.condition("Progressing", reason::CONTROLLER_NOT_ROLLED_OUT).await;

    // A ManagedResource that its manager still holds delays the removal.
    let patch = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let (resources, params) = (world.resources(), PatchParams::default());
    let held = patch(json!(["test/held"]));
    resources.patch(NAME, &params, &held).await.unwrap();
    world.delete().await;
    let pending = world.condition("Installed", reason::DELETION_PENDING).await;
    assert_eq!(pending.message, "Deletion of ManagedResource \"ext\" is still pending.");
    assert_eq!(world.awaited().await, resource);
    let namespace = world.namespaces().get(NAMESPACE).await.unwrap();
    assert!(namespace.metadata.deletion_timestamp.is_none());
    let left = json!({"status": {"conditions": [{"type": "ResourcesApplied", "status": "Progressing",
        "reason": "DeletionPending", "message": "ConfigMap \"x/made\" has finalizers",
        "lastTransitionTime": tests_kit::EPOCH, "lastUpdateTime": tests_kit::EPOCH}]}});
    resources
        .patch_status(NAME, &params, &Patch::Merge(left))
        .await
        .unwrap();
    until(&world.installations(), NAME, "names what is left", |one| {
        let conditions = one.status.as_ref().map(|status| status.conditions.as_slice());
        Condition::find(conditions.unwrap_or_default(), "Installed")
            .is_some_and(|installed| installed.message.ends_with("ConfigMap \"x/made\" has finalizers"))
    })
    .await;
    resources.patch(NAME, &params, &patch(Value::Null)).await.unwrap();
    until_gone(&world.installations(), NAME).await;
    assert!(resources.get_opt(NAME).await.unwrap().is_none());
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
    let left = ListParams::default().labels("controllerinstallation-name=ext");
    assert_eq!(world.secrets().list(&left).await.unwrap().items.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_change_of_what_a_chart_is_made_from_is_rolled_out() {
    let world = Installing::start().await;
    let of = |text: &str| chart(&[("templates/map.yaml", &config_map(text))]);
    let seen = "  v: {{ .Values.v }}\n  label: {{ .Values.gardener.seed.labels.zone | default \"none\" }}";
    world
        .install(json!({"helm": {"rawChart": of(seen), "values": {"v": "one"}}}))
        .await;
    let has = |key: &'static str, value: &'static str| move |objects: &[Value]| data_of(objects, key) == Some(value);
    world.objects("first", has("v", "one")).await;
    world.report(("True", ""), ("True", ""), ("False", "")).await;
    world.condition("Installed", reason::INSTALLATION_SUCCESSFUL).await;

    world.change_deployment(json!({"helm": {"values": {"v": "two"}}})).await;
    world.objects("of other values", has("v", "two")).await;
    world.condition("Installed", reason::INSTALLATION_PENDING).await;
    world
        .change_seed(json!({"metadata": {"labels": {"zone": "far"}}}))
        .await;
    world.objects("of another seed", has("label", "far")).await;
    world
        .change_deployment(json!({"helm": {"rawChart": of("  other: chart")}}))
        .await;
    world.objects("of another chart", has("other", "chart")).await;

    // What others delete is restored.
    world.resources().delete(NAME, &DeleteParams::default()).await.unwrap();
    world.objects("back", has("other", "chart")).await;
}

#[tokio::test(start_paused = true)]
async fn a_chart_with_random_values_is_rendered_again_only_for_a_reason() {
    let world = Installing::start().await;
    let random = config_map("  random: {{ randAlphaNum 20 }}\n  v: {{ .Values.v | default \"none\" }}");
    world
        .install(json!({"helm": {"rawChart": chart(&[("templates/map.yaml", &random)])}}))
        .await;
    let first = until(&world.resources(), NAME, "written", |_| true).await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    world
        .change_deployment(json!({"metadata": {"labels": {"some": "label"}}}))
        .await;
    world.change_seed(json!({"metadata": {"annotations": null}})).await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let later = world.resources().get(NAME).await.unwrap();
    assert_eq!(first.spec.secret_refs, later.spec.secret_refs);
    world.change_deployment(json!({"helm": {"values": {"v": "one"}}})).await;
    world
        .objects("another", |objects| data_of(objects, "v") == Some("one"))
        .await;
}

/// ControllerDeployments that cannot be installed, with reason and a part of the message of condition Valid.
fn bad_deployments() -> Vec<(Value, &'static str, &'static str)> {
    let template = |text: &str| json!({"helm": {"rawChart": chart(&[("templates/a.yaml", text)])}});
    let head = "apiVersion: v2\nname: ext\nversion: 1.0.0\nkubeVersion: '>=1.99'\n";
    let rendered = [
        (
            json!({"helm": {"rawChart": STANDARD.encode("no archive")}}),
            "cannot be read",
        ),
        (template("{{ .Values.a.b.c }}"), "templates/a.yaml"),
        (template("{{ fail \"no way\" }}"), "no way"),
        (template("just a text"), "templates/a.yaml"),
        (template("apiVersion: v1\nmetadata: {name: a}"), "kind is missing"),
        (template("kind: [1]"), "templates/a.yaml"),
        (
            template(&format!("{map}---\n{map}", map = config_map("  a: b\n"))),
            "ConfigMap \"made\" twice",
        ),
        (json!({"helm": {"rawChart": chart(&[("Chart.yaml", head)])}}), ">=1.99"),
    ];
    let read = [
        (
            json!({"helm": {"rawChart": chart(&[]), "values": [1]}}),
            "is array, not an object",
        ),
        (
            json!({"helm": {"rawChart": chart(&[])}, "injectGardenKubeconfig": true}),
            "injectGardenKubeconfig",
        ),
    ];
    let rendered = rendered.map(|(deployment, part)| (deployment, reason::CHART_CANNOT_BE_RENDERED, part));
    let read = read.map(|(deployment, part)| (deployment, reason::CHART_INFORMATION_INVALID, part));
    rendered.into_iter().chain(read).collect()
}

/// A patch that leaves nothing of the deployment before.
fn whole_patch(mut deployment: Value) -> Value {
    deployment["injectGardenKubeconfig"] = deployment["injectGardenKubeconfig"].take();
    for field in ["values", "rawChart"] {
        deployment["helm"][field] = deployment["helm"][field].take();
    }
    deployment
}

#[tokio::test(start_paused = true)]
async fn a_bad_chart_is_reported_in_a_condition_until_it_is_good() {
    let world = Installing::start().await;
    let cases = bad_deployments();
    world.install(cases[0].0.clone()).await;
    for (deployment, reason, part) in cases {
        world.change_deployment(whole_patch(deployment)).await;
        let found = until(&world.installations(), NAME, part, |one| {
            let conditions = one.status.as_ref().map(|status| status.conditions.as_slice());
            Condition::find(conditions.unwrap_or_default(), "Valid").is_some_and(|valid| valid.message.contains(part))
        })
        .await;
        let found = found.status.unwrap().conditions;
        let valid = Condition::find(&found, "Valid").unwrap();
        assert_eq!(
            (&valid.status, valid.reason.as_str()),
            (&ConditionStatus::False, reason),
            "{}",
            valid.message
        );
        assert!(valid.message.ends_with(')'), "one thing to do: {}", valid.message);
    }
    assert!(world.resources().get_opt(NAME).await.unwrap().is_none());
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
    let good = json!({"helm": {"rawChart": chart(&[("templates/map.yaml", &config_map("  a: b"))])}});
    world.change_deployment(whole_patch(good)).await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    world
        .objects("made", |objects| data_of(objects, "a") == Some("b"))
        .await;
}

#[tokio::test(start_paused = true)]
async fn objects_larger_than_a_secret_are_not_installed_and_what_was_before_stays() {
    let world = Installing::start().await;
    // What does not compress.
    let large = config_map(
        "  a: {{ randAlphaNum 100 }}\n{{ if .Values.large }}  b: {{ range until 25 }}{{ randAlphaNum 65000 }}{{ end }}{{ end }}",
    );
    world
        .install(json!({"helm": {"rawChart": chart(&[("templates/map.yaml", &large)])}}))
        .await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    let first = until(&world.resources(), NAME, "written", |_| true).await;
    world
        .change_deployment(json!({"helm": {"values": {"large": true}}}))
        .await;
    let failed = world.condition("Installed", reason::INSTALLATION_FAILED).await;
    assert!(failed.message.contains("a Secret holds 1048576"), "{}", failed.message);
    world.report(("True", ""), ("True", ""), ("False", "")).await;
    world.condition("Healthy", reason::CONTROLLER_HEALTHY).await;
    world.condition("Installed", reason::INSTALLATION_FAILED).await;
    let later = world.resources().get(NAME).await.unwrap();
    assert_eq!(first.spec.secret_refs, later.spec.secret_refs);
    world.change_deployment(json!({"helm": {"values": null}})).await;
    world.condition("Installed", reason::INSTALLATION_SUCCESSFUL).await;
}

#[tokio::test(start_paused = true)]
async fn an_installation_of_another_type_is_its_operators() {
    let world = Installing::start().await;
    let annotations = json!({"migration.controllerdeployment.gardener.cloud/type": "mine"});
    world.install(json!({"metadata": {"annotations": annotations}})).await;
    let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["core.gardener.cloud/controllerinstallation"]}}));
    world
        .installations()
        .patch(NAME, &PatchParams::default(), &finalizer)
        .await
        .unwrap();
    world.condition("Required", reason::NO_EXTENSION_OBJECTS).await;
    world.delete().await;
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    let one = world.installations().get(NAME).await.unwrap();
    assert_eq!(
        one.finalizers(),
        ["core.gardener.cloud/controllerinstallation"],
        "it is not ours"
    );
    assert_eq!(one.status.unwrap().conditions.len(), 1);
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_leaves_its_objects_until_the_installation_is_deleted() {
    let world = Installing::start().await;
    let raw = chart(&[("templates/map.yaml", &config_map("  a: b"))]);
    world.install(json!({"helm": {"rawChart": raw}})).await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    until(&world.resources(), NAME, "written", |_| true).await;
    world
        .deployments()
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert!(
        world
            .resources()
            .get(NAME)
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_none()
    );
    let gone = world.condition("Valid", reason::DEPLOYMENT_GONE).await;
    assert!(
        gone.message.starts_with("there is no ControllerDeployment ext"),
        "{}",
        gone.message
    );
    let raw = chart(&[("templates/map.yaml", &config_map("  a: c"))]);
    world.deploy(json!({"helm": {"rawChart": raw}})).await;
    world
        .objects("followed again", |objects| data_of(objects, "a") == Some("c"))
        .await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    world.delete().await;
    until_gone(&world.installations(), NAME).await;
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn every_write_that_fails_once_is_made_up_for() {
    let (failed, writes) = (
        Arc::new(Mutex::new(BTreeSet::new())),
        [Verb::Create, Verb::Patch, Verb::Update, Verb::Delete],
    );
    let seen = failed.clone();
    let faults = move |call: &Call| {
        let ours = [
            "/extension-ext",
            "/namespaces/garden/managedresources",
            "managedresource-ext-",
            "/controllerinstallations/ext",
            "/serviceaccounts",
        ];
        let concerns = writes.contains(&call.verb)
            && (ours.iter().any(|part| call.path.contains(part)) || call.path.ends_with("/namespaces/garden/secrets"));
        let first = concerns && seen.lock().unwrap().insert((call.verb, call.path.clone()));
        if first { Injected::DropAfter } else { Injected::Pass }
    };
    let world = Installing::start_with(faults).await;
    let raw = chart(&[("templates/map.yaml", &config_map("  a: b"))]);
    world.install(json!({"helm": {"rawChart": raw}})).await;
    world
        .objects("made", |objects| data_of(objects, "a") == Some("b"))
        .await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
    world.delete().await;
    until_gone(&world.installations(), NAME).await;
    assert!(world.resources().get_opt(NAME).await.unwrap().is_none());
    assert!(world.namespaces().get_opt(NAMESPACE).await.unwrap().is_none());
    let left = ListParams::default().labels("controllerinstallation-name=ext");
    assert_eq!(world.secrets().list(&left).await.unwrap().items.len(), 0);
    let failed = failed.lock().unwrap();
    assert!(failed.len() >= 8, "{failed:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_installation_reports_a_missing_registration_until_it_exists() {
    let world = Installing::start().await;
    let raw = chart(&[("templates/map.yaml", &config_map("  a: b"))]);
    world.deploy(json!({"helm": {"rawChart": raw}})).await;
    world.create_installation().await;
    let missing = world.condition("Valid", reason::REGISTRATION_NOT_FOUND).await;
    assert!(
        missing.message.starts_with("there is no ControllerRegistration ext"),
        "{}",
        missing.message
    );
    world.create_registration().await;
    world.condition("Valid", reason::REGISTRATION_VALID).await;
}
