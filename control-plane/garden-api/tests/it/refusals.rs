//! Texts of refusals: each text names the field, its value, what is allowed and one thing to
//! do. All texts stand in `tests/golden/refusals.txt`; here stands what each must not leave out.

use http::Method;
use serde_json::{Value, json};
use tests_kit::assert_golden;

use crate::garden::{Garden, registration, shoot};
use crate::{SHOOTS, text};

const CORE: &str = "/apis/core.gardener.cloud/v1beta1";
const PROFILE: &str = "/apis/core.gardener.cloud/v1beta1/cloudprofiles/cloud";
const NODES_POOL: &str = "/spec/provider/workers/0";

/// One request that must be refused, and what its answer must contain.
struct Row {
    what: &'static str,
    request: Request,
    expected: &'static [&'static str],
}

enum Request {
    /// A new Shoot `t` in which the value stands at the pointer; null removes the field.
    Create(String, Value),
    /// The stored object with the value at the pointer.
    Update(&'static str, String, Value),
    /// Any new object.
    Post(String, Value),
    Delete(String),
}

fn create(what: &'static str, pointer: &str, value: Value, expected: &'static [&'static str]) -> Row {
    let request = Request::Create(pointer.to_owned(), value);
    Row {
        what,
        request,
        expected,
    }
}

fn pool(what: &'static str, field: &str, value: Value, expected: &'static [&'static str]) -> Row {
    create(what, &format!("{NODES_POOL}/{field}"), value, expected)
}

fn update(
    what: &'static str,
    object: &'static str,
    pointer: &str,
    value: Value,
    expected: &'static [&'static str],
) -> Row {
    let request = Request::Update(object, pointer.to_owned(), value);
    Row {
        what,
        request,
        expected,
    }
}

fn post(what: &'static str, path: &str, body: Value, expected: &'static [&'static str]) -> Row {
    let request = Request::Post(path.to_owned(), body);
    Row {
        what,
        request,
        expected,
    }
}

fn delete(what: &'static str, path: &str, expected: &'static [&'static str]) -> Row {
    let request = Request::Delete(path.to_owned());
    Row {
        what,
        request,
        expected,
    }
}

fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    match (field.parse::<usize>(), value) {
        (Ok(index), _) => parent[index] = value.clone(),
        (_, Value::Null) => drop(parent.as_object_mut().unwrap().remove(field)),
        _ => parent[field] = value.clone(),
    }
}

async fn send(garden: &Garden, request: &Request) -> (u16, Value) {
    const STRICT: &str = "?fieldValidation=Strict";
    match request {
        Request::Create(pointer, value) => {
            let mut new = shoot("t");
            put(&mut new, pointer, value);
            garden.call(Method::POST, &format!("{SHOOTS}{STRICT}"), &new).await
        }
        Request::Update(path, pointer, value) => {
            let mut stored = garden.ok(Method::GET, path, &Value::Null).await;
            put(&mut stored, pointer, value);
            garden.call(Method::PUT, &format!("{path}{STRICT}"), &stored).await
        }
        Request::Post(path, body) => garden.call(Method::POST, &format!("{path}{STRICT}"), body).await,
        Request::Delete(path) => garden.call(Method::DELETE, path, &Value::Null).await,
    }
}

/// The landscape with zones, and a Shoot to change.
async fn garden() -> Garden {
    let garden = Garden::with_landscape().await;
    let regions = json!({"spec": {
        "regions": [{"name": "r", "zones": [{"name": "r-a"}, {"name": "r-b"}]}, {"name": "bare"}],
        "volumeTypes": [{"name": "ssd", "class": "fast"}],
        "machineImages": [{"name": "linux", "versions": [{"version": "1.0.0", "architectures": ["amd64"],
            "cri": [{"name": "containerd", "containerRuntimes": [{"type": "kata"}]}]}]}]}});
    garden.ok(Method::PATCH, PROFILE, &regions).await;
    let mut stored = shoot("s");
    stored["spec"]["networking"]["pods"] = json!("10.100.0.0/16");
    stored["spec"]["dns"] = json!({"domain": "s.example.com"});
    garden.ok(Method::POST, SHOOTS, &stored).await;
    garden
}

fn fields() -> Vec<Row> {
    vec![
        create("unknown field", "/spec/colour", json!("red"), &["\"spec.colour\""]),
        pool(
            "misspelled field",
            "minimun",
            json!(1),
            &["spec.provider.workers[0].minimun"],
        ),
        create(
            "wrong type: text for a list",
            "/spec/provider/workers",
            json!("two"),
            &["spec.provider.workers", "array"],
        ),
        pool(
            "wrong type: text for a number",
            "minimum",
            json!("two"),
            &["spec.provider.workers[0].minimum", "integer"],
        ),
        create(
            "wrong type: number for a text",
            "/spec/region",
            json!(7),
            &["spec.region", "string"],
        ),
        create(
            "wrong type: text for an object",
            "/spec/kubernetes",
            json!("1.35"),
            &["spec.kubernetes", "object"],
        ),
    ]
}

/// Older spellings that contradict today's, and what stands in a field of a form of its own.
fn spellings() -> Vec<Row> {
    let chart = |version: &str, fields: Value| {
        let mut body = json!({"apiVersion": format!("core.gardener.cloud/{version}"), "kind": "ControllerDeployment",
            "metadata": {"name": "d"}});
        body.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        (
            format!("/apis/core.gardener.cloud/{version}/controllerdeployments"),
            body,
        )
    };
    let old = chart(
        "v1beta1",
        json!({"type": "helm", "providerConfig": {"chart": "H4sI/yk...", "values": {}}}),
    );
    let new = chart("v1", json!({"helm": {"rawChart": "H4sI/yk..."}}));
    let elsewhere = {
        let mut body = registration("auto", &[("Extension", "auto")]);
        body["spec"]["resources"][0]["globallyEnabled"] = json!(true);
        body["spec"]["resources"][0]["autoEnable"] = json!(["seed"]);
        body
    };
    vec![
        create(
            "an extension that is off and on",
            "/spec/extensions",
            json!([{"type": "x", "enabled": false, "disabled": false}]),
            &["spec.extensions[0].enabled", "false", "disabled: false", "remove one"],
        ),
        create(
            "an extension that is on and off",
            "/spec/extensions",
            json!([{"type": "x", "enabled": true, "disabled": true}]),
            &["spec.extensions[0].enabled", "true", "disabled: true", "remove one"],
        ),
        create(
            "wrong type: text for an older switch",
            "/spec/extensions",
            json!([{"type": "x", "enabled": "yes"}]),
            &["spec.extensions[0].enabled", "boolean"],
        ),
        post(
            "an extension that is on by itself for others",
            &format!("{CORE}/controllerregistrations"),
            elsewhere,
            &[
                "spec.resources[0].globallyEnabled",
                "autoEnable: [\"seed\"]",
                "remove one",
            ],
        ),
        post(
            "a chart that is cut short",
            &old.0,
            old.1,
            &["providerConfig.chart", "\"H4sI/yk...\"", "base64"],
        ),
        post(
            "the same in v1",
            &new.0,
            new.1,
            &["helm.rawChart", "\"H4sI/yk...\"", "byte"],
        ),
    ]
}

fn missing() -> Vec<Row> {
    vec![
        create(
            "region missing",
            "/spec/region",
            Value::Null,
            &["spec.region", "cloud profile"],
        ),
        create(
            "provider type missing",
            "/spec/provider/type",
            Value::Null,
            &["spec.provider.type", "cloud profile"],
        ),
        create(
            "cloud profile missing",
            "/spec/cloudProfile",
            Value::Null,
            &["spec.cloudProfile.name", "cloud profile"],
        ),
        create(
            "network type missing",
            "/spec/networking/type",
            Value::Null,
            &["spec.networking.type", "extension"],
        ),
        create(
            "credentials missing",
            "/spec/credentialsBindingName",
            Value::Null,
            &["spec.secretBindingName", "credentialsBindingName"],
        ),
        pool(
            "pool name missing",
            "name",
            Value::Null,
            &["spec.provider.workers[0].name"],
        ),
        pool(
            "machine type missing",
            "machine/type",
            Value::Null,
            &["spec.provider.workers[0].machine.type", "cloud profile"],
        ),
    ]
}

fn landscape() -> Vec<Row> {
    vec![
        create(
            "unknown cloud profile",
            "/spec/cloudProfile/name",
            json!("nowhere"),
            &["spec.cloudProfile.name", "\"nowhere\"", "cloud"],
        ),
        create(
            "unknown region",
            "/spec/region",
            json!("mars"),
            &["spec.region", "\"mars\"", "\"bare\", \"r\""],
        ),
        create(
            "unknown version",
            "/spec/kubernetes/version",
            json!("1.20.0"),
            &["spec.kubernetes.version", "\"1.20.0\"", "\"1.35.0\""],
        ),
        create(
            "version with no patch in the profile",
            "/spec/kubernetes/version",
            json!("1.20"),
            &["spec.kubernetes.version", "\"1.20\"", "\"1.35.0\""],
        ),
    ]
}

fn pools_and_types() -> Vec<Row> {
    vec![
        pool(
            "unknown machine type",
            "machine/type",
            json!("huge"),
            &["spec.provider.workers[0].machine.type", "\"huge\"", "\"small\""],
        ),
        pool(
            "unknown image",
            "machine/image",
            json!({"name": "bsd"}),
            &["spec.provider.workers[0].machine.image.name", "\"bsd\"", "\"linux\""],
        ),
        pool(
            "unknown image version",
            "machine/image",
            json!({"name": "linux", "version": "9.9.9"}),
            &[
                "spec.provider.workers[0].machine.image.version",
                "\"9.9.9\"",
                "\"1.0.0\"",
            ],
        ),
        pool(
            "unknown zone",
            "zones",
            json!(["r-z"]),
            &["spec.provider.workers[0].zones[0]", "\"r-z\"", "\"r-a\", \"r-b\""],
        ),
        pool(
            "a zone twice",
            "zones",
            json!(["r-a", "r-a"]),
            &["spec.provider.workers[0].zones[1]", "\"r-a\"", "remove"],
        ),
        pool(
            "unknown volume type",
            "volume",
            json!({"type": "tape", "size": "10Gi"}),
            &["spec.provider.workers[0].volume.type", "\"tape\"", "\"ssd\""],
        ),
    ]
}

/// The landscape's machine image offers `kata`, which is not registered.
fn container_runtimes() -> Vec<Row> {
    const TYPE: &str = "spec.provider.workers[0].cri.containerRuntimes[0].type";
    let runtime = |type_: &str| json!({"name": "containerd", "containerRuntimes": [{"type": type_}]});
    vec![
        pool(
            "a container runtime that the machine image does not have",
            "cri",
            runtime("runq"),
            &[TYPE, "\"runq\"", "machine image \"linux\" 1.0.0", "\"kata\""],
        ),
        pool(
            "a container runtime without a registration",
            "cri",
            runtime("kata"),
            &[
                TYPE,
                "\"kata\"",
                "create a ControllerRegistration for ContainerRuntime/kata",
            ],
        ),
    ]
}

fn references_and_operations() -> Vec<Row> {
    vec![
        create(
            "unknown binding",
            "/spec/credentialsBindingName",
            json!("nosuch"),
            &["spec.credentialsBindingName", "\"nosuch\"", "garden-p"],
        ),
        create(
            "resource that is not there",
            "/spec/resources",
            json!([{"name": "a", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "absent"}}]),
            &["spec.resources[0].resourceRef.name", "\"absent\"", "garden-p"],
        ),
        create(
            "unknown extension",
            "/spec/extensions",
            json!([{"type": "nobody"}]),
            &["spec.extensions[0].type", "nobody", "create a ControllerRegistration"],
        ),
        create(
            "unknown purpose",
            "/spec/purpose",
            json!("fun"),
            &["spec.purpose", "\"fun\"", "\"evaluation\""],
        ),
        create(
            "rotation asked for",
            "/metadata/annotations",
            json!({"gardener.cloud/operation": "rotate-ca-start"}),
            &[
                "metadata.annotations[gardener.cloud/operation]",
                "rotate-ca-start",
                "cannot be rotated yet",
            ],
        ),
        create(
            "unknown operation",
            "/metadata/annotations",
            json!({"gardener.cloud/operation": "nonsense"}),
            &[
                "metadata.annotations[gardener.cloud/operation]",
                "\"nonsense\"",
                "\"reconcile\"",
            ],
        ),
        post(
            "two primaries for one kind and type",
            &format!("{CORE}/controllerregistrations"),
            registration("second", &[("Worker", "PROV")]),
            &["Worker/PROV", "prov"],
        ),
    ]
}

/// On a seed, whose networks it may share, a Shoot's own must still differ.
fn over_its_nodes() -> Row {
    let mut body = shoot("t");
    body["spec"]["seedName"] = json!("seed");
    body["spec"]["networking"]["pods"] = json!("10.250.128.0/17");
    post(
        "network of its own nodes, on a seed",
        SHOOTS,
        body,
        &[
            "spec.networking.pods",
            "10.250.128.0/17",
            "10.250.0.0/16",
            "choose another",
        ],
    )
}

fn networks() -> Vec<Row> {
    let in_region_without_zones = {
        let mut body = shoot("t");
        body["spec"]["region"] = json!("bare");
        body["spec"]["provider"]["workers"][0]["zones"] = json!(["r-a"]);
        post(
            "a zone where the region has none",
            SHOOTS,
            body,
            &["spec.provider.workers[0].zones[0]", "\"r-a\"", "\"bare\""],
        )
    };
    let mask_of_its_own = {
        let mut body = shoot("t");
        body["spec"]["networking"]["pods"] = json!("10.100.0.0/25");
        body["spec"]["kubernetes"]["kubeControllerManager"] = json!({"nodeCIDRMaskSize": 25});
        post(
            "pods for one node, two wanted",
            SHOOTS,
            body,
            &["spec.networking.pods", "\"10.100.0.0/25\"", "1 node", "/24"],
        )
    };
    vec![
        create(
            "pods over nodes",
            "/spec/networking/pods",
            json!("10.250.128.0/17"),
            &[
                "spec.networking.pods",
                "10.250.128.0/17",
                "spec.networking.nodes",
                "10.250.0.0/16",
            ],
        ),
        create(
            "no network",
            "/spec/networking/pods",
            json!("ten"),
            &["spec.networking.pods", "\"ten\"", "10."],
        ),
        create(
            "host bits",
            "/spec/networking/nodes",
            json!("10.250.0.1/16"),
            &["spec.networking.nodes", "10.250.0.1/16", "10.250.0.0/16"],
        ),
        create(
            "pods smaller than one node's share",
            "/spec/networking/pods",
            json!("10.100.0.0/25"),
            &["spec.networking.pods", "\"10.100.0.0/25\"", "/24", "/23"],
        ),
        mask_of_its_own,
        in_region_without_zones,
        over_its_nodes(),
    ]
}

fn changes() -> Vec<Row> {
    const S: &str = "/apis/core.gardener.cloud/v1beta1/namespaces/garden-p/shoots/s";
    vec![
        update(
            "region changed",
            S,
            "/spec/region",
            json!("bare"),
            &["spec.region", "\"bare\"", "immutable", "\"r\""],
        ),
        update(
            "provider type changed",
            S,
            "/spec/provider/type",
            json!("other"),
            &["spec.provider.type", "\"other\"", "immutable", "\"prov\""],
        ),
        update(
            "pod network changed",
            S,
            "/spec/networking/pods",
            json!("10.200.0.0/16"),
            &["spec.networking.pods", "immutable", "\"10.100.0.0/16\""],
        ),
        update(
            "domain changed",
            S,
            "/spec/dns/domain",
            json!("t.example.com"),
            &["spec.dns.domain", "immutable", "\"s.example.com\""],
        ),
        update(
            "seed named past the binding",
            S,
            "/spec/seedName",
            json!("seed"),
            &["spec.seedName", "\"seed\"", "binding"],
        ),
        update(
            "version put back",
            S,
            "/spec/kubernetes/version",
            json!("1.34.0"),
            &["spec.kubernetes.version", "1.34.0", "1.35.0"],
        ),
        update(
            "versions skipped",
            S,
            "/spec/kubernetes/version",
            json!("1.37.0"),
            &["spec.kubernetes.version", "1.37.0", "1.36"],
        ),
        update(
            "last worker removed",
            S,
            "/spec/provider/workers",
            json!([]),
            &["spec.provider.workers", "at least one", "delete the Shoot"],
        ),
    ]
}

fn changes_of_others() -> Vec<Row> {
    const REGISTRATION: &str = "/apis/core.gardener.cloud/v1beta1/controllerregistrations/prov";
    const BINDING: &str = "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/credentialsbindings/b";
    const PROJECT: &str = "/apis/core.gardener.cloud/v1beta1/projects/p";
    const SEED: &str = "/apis/core.gardener.cloud/v1beta1/seeds/seed";
    vec![
        update(
            "seed's network changed",
            SEED,
            "/spec/networks/pods",
            json!("10.9.0.0/16"),
            &["spec.networks.pods", "immutable", "\"10.1.0.0/16\""],
        ),
        update(
            "project's namespace changed",
            PROJECT,
            "/spec/namespace",
            json!("garden-q"),
            &["spec.namespace", "\"garden-q\"", "\"garden-p\""],
        ),
        update(
            "credentials changed",
            BINDING,
            "/credentialsRef/name",
            json!("other"),
            &["credentialsRef", "immutable"],
        ),
        update(
            "primary given up",
            REGISTRATION,
            "/spec/resources/0/primary",
            json!(false),
            &["spec.resources[0].primary", "false", "true"],
        ),
    ]
}

fn names() -> Vec<Row> {
    let long = |letters: usize| json!("x".repeat(letters));
    vec![
        create(
            "shoot name beyond the project's share",
            "/metadata/name",
            long(21),
            &["name", "22 characters", "21", "shorter"],
        ),
        create(
            "shoot name longer than any label",
            "/metadata/name",
            long(64),
            &["metadata.name", "63"],
        ),
        create(
            "shoot name with two hyphens",
            "/metadata/name",
            json!("a--b"),
            &["metadata.name", "\"a--b\"", "hyphen"],
        ),
        create(
            "shoot name in capitals",
            "/metadata/name",
            json!("Web"),
            &["metadata.name", "\"Web\"", "lower"],
        ),
        pool(
            "pool name too long",
            "name",
            long(16),
            &["spec.provider.workers[0].name", "15", "has 16", "shorter"],
        ),
        post(
            "project name too long",
            &format!("{CORE}/projects"),
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": "eleven-long"}, "spec": {}}),
            &["metadata.name", "eleven-long", "10"],
        ),
        post(
            "project for a namespace that is no project's",
            &format!("{CORE}/projects"),
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project", "metadata": {"name": "q"}, "spec": {"namespace": "default"}}),
            &["spec.namespace", "\"default\"", "garden-"],
        ),
    ]
}

fn places_and_deletions() -> Vec<Row> {
    let in_namespace = |namespace: &str| {
        let mut body = shoot("t");
        body["metadata"]["namespace"] = json!(namespace);
        body
    };
    vec![
        post(
            "a Shoot in a namespace of no project",
            &format!("{CORE}/namespaces/default/shoots"),
            in_namespace("default"),
            &["namespace default", "garden-p"],
        ),
        delete(
            "a Shoot without confirmation",
            &format!("{SHOOTS}/s"),
            &[
                "confirmation.gardener.cloud/deletion",
                "kubectl annotate -n garden-p shoots s",
            ],
        ),
        delete(
            "a Project without confirmation",
            &format!("{CORE}/projects/p"),
            &["confirmation.gardener.cloud/deletion", "kubectl annotate projects p"],
        ),
        delete("a cloud profile in use", PROFILE, &["\"cloud\"", "garden-p/s"]),
        delete(
            "a binding in use",
            "/apis/security.gardener.cloud/v1alpha1/namespaces/garden-p/credentialsbindings/b",
            &["\"b\"", "garden-p/s"],
        ),
        delete(
            "a project's namespace",
            "/api/v1/namespaces/garden-p",
            &["\"garden-p\"", "project p", "kubectl delete project p"],
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_refusal_names_field_value_allowed_values_and_what_to_do() {
    let garden = garden().await;
    let (mut page, mut wrong) = (String::new(), Vec::new());
    let sections = [
        ("Fields", fields()),
        ("Spellings and forms", spellings()),
        ("Missing fields", missing()),
        ("What the landscape has", landscape()),
        (
            "What the landscape has for pools and types",
            pools_and_types()
                .into_iter()
                .chain(container_runtimes())
                .chain(references_and_operations())
                .collect(),
        ),
        ("Networks and zones", networks()),
        ("Changes of Shoots", changes()),
        ("Changes of others", changes_of_others()),
        ("Names", names()),
        ("Places and deletions", places_and_deletions()),
    ];
    for (section, rows) in sections {
        page.push_str(&format!("== {section}\n"));
        for Row {
            what,
            request,
            expected,
        } in rows
        {
            let (code, status) = send(&garden, &request).await;
            let message = text(&status, "/message");
            page.push_str(&format!("{what} -> {code}\n    {message}\n"));
            let lacking: Vec<_> = expected.iter().filter(|part| !message.contains(**part)).collect();
            if !matches!(code, 400 | 403 | 422 | 500) || !lacking.is_empty() {
                wrong.push(format!("{what}: {code} {message}\n    lacks {lacking:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/refusals.txt"), &page);
}
