//! The identities of a seed on a real kube-apiserver with `orangery admission-controller` behind it: what belongs to another
//! seed is closed to them, whatever the kind and the verb.

use std::time::Instant;

use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tests_conformance::real::Options;
use tests_parts::free_port;
use tests_production::confinement::Webhooks;
use tests_production::garden::{Garden, Replica, call, create, path_of};
use tests_production::landscape::{Health, Part, serving};
use tests_production::objects::{CORE, NAMESPACE, binding, profile, project, registration, secret, shoot};
use tests_production::{LOOK_PAUSE, PATIENCE};

use crate::garden::create_all;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../landscape/local/manifests");
/// The user of `orangery admission-controller`.
const CONTROLLER: &str = "gardener.cloud:system:admission-controller";
/// The seed whose credentials are stolen, and the one that they are used against. Every object of a seed has its name in it.
const OWN: &str = "alpha";
const OTHER: &str = "bravo";

/// A garden whose kube-apiserver asks an admission-controller.
struct Confined {
    garden: Garden,
    _replica: Replica,
    controller: Part,
}

impl Confined {
    async fn start() -> Self {
        let mut garden = Garden::start(Options::default()).await;
        let folder = garden.folder.path().to_owned();
        let webhooks = serving(&folder.join("webhooks"), "admission-controller", free_port().unwrap()).unwrap();
        let authorization = webhooks.authorization(&folder).unwrap();
        garden.real.authorize_by(&authorization).await.unwrap();
        for manifest in ["garden.yaml", "garden-processes.yaml"] {
            garden.kubectl("admin", &["apply", "-f", &format!("{MANIFESTS}/{manifest}")], "");
        }
        let replica = garden.replica("first", &["--cluster-identity=test"]).await;
        garden.publish(replica.port).await;
        let mut controller = controller(&garden, &webhooks);
        controller.until_ready().await.unwrap();
        let restriction = webhooks.restriction().unwrap();
        garden.kubectl("admin", &["apply", "-f", "-"], &restriction.to_string());
        Self {
            garden,
            _replica: replica,
            controller,
        }
    }

    /// The gardenlet of a seed.
    fn gardenlet(&self, seed: &str) -> Client {
        let user = format!("gardener.cloud:system:seed:{seed}");
        self.garden.user(&user, &["gardener.cloud:system:seeds"])
    }
}

/// Starts `orangery admission-controller`.
fn controller(garden: &Garden, webhooks: &Webhooks) -> Part {
    let health = free_port().unwrap();
    let configuration = garden.path("controller.yaml");
    std::fs::write(&configuration, webhooks.configuration(health, health).to_string()).unwrap();
    let _ = garden.user(CONTROLLER, &[]);
    let kubeconfig = garden.path(&format!("{CONTROLLER}.kubeconfig"));
    let arguments = vec![
        "admission-controller".to_owned(),
        format!("--config={}", configuration.display()),
        format!("--kubeconfig={}", kubeconfig.display()),
    ];
    Part::start(
        "admission-controller",
        garden.folder.path(),
        arguments,
        Health::Ready(health),
    )
    .unwrap()
}

/// Objects that belong to a seed, each with the seed's name in its own.
fn of_seed(seed: &str) -> Vec<Value> {
    let core = |kind: &str, namespace: Option<&str>, name: &str, spec: Value| {
        let mut object = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    };
    let plain = |kind: &str, namespace: &str, name: String| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": format!("{seed}-dns"), "namespace": "garden"});
    let mut of_shoot = shoot(seed);
    of_shoot["spec"]["seedName"] = seed.into();
    of_shoot["spec"]["credentialsBindingName"] = seed.into();
    let own_namespace = format!("seed-{seed}");
    vec![
        plain("Secret", "garden", format!("{seed}-dns")),
        core(
            "Seed",
            None,
            seed,
            json!({
                "provider": {"type": "prov", "region": "r"},
                "networks": {"pods": "10.1.0.0/16", "services": "10.2.0.0/16", "nodes": "10.3.0.0/16"},
                "dns": {"internal": {"domain": "internal.example", "type": "names", "credentialsRef": reference},
                    "provider": {"type": "names", "credentialsRef": reference}},
            }),
        ),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own_namespace}}),
        plain("Secret", &own_namespace, format!("{seed}-access")),
        plain("ServiceAccount", &own_namespace, format!("extension-{seed}")),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": seed, "namespace": "gardener-system-seed-lease"}}),
        secret(seed),
        binding(seed, seed),
        of_shoot,
        plain("ConfigMap", NAMESPACE, format!("{seed}.ca-cluster")),
        plain("Secret", NAMESPACE, format!("{seed}.ssh-keypair")),
        json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "InternalSecret",
            "metadata": {"name": format!("{seed}.ca-client"), "namespace": NAMESPACE}}),
        core("ShootState", Some(NAMESPACE), seed, json!({})),
        core(
            "BackupBucket",
            None,
            seed,
            json!({"provider": {"type": "prov", "region": "r"}, "seedName": seed,
            "credentialsRef": reference}),
        ),
        core(
            "BackupEntry",
            Some(NAMESPACE),
            seed,
            json!({"bucketName": seed, "seedName": seed}),
        ),
        core(
            "ControllerInstallation",
            None,
            seed,
            json!({"registrationRef": {"name": "prov"}, "seedRef": {"name": seed},
            "deploymentRef": {"name": "prov"}}),
        ),
    ]
}

async fn populate(confined: &Confined) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"project.gardener.cloud/name": "p"}}});
    let deployment = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment",
        "metadata": {"name": "prov"}, "type": "custom"});
    let admin = &confined.garden.admin;
    let mut registration = registration();
    for kind in ["BackupBucket", "BackupEntry"] {
        let resources = registration["spec"]["resources"].as_array_mut().unwrap();
        resources.push(json!({"kind": kind, "type": "prov"}));
    }
    create_all(admin, [deployment, registration, namespace, project(), profile()]).await;
    for seed in [OWN, OTHER] {
        create_all(admin, of_seed(seed)).await;
    }
}

/// Everything that can be listed, as path of the collection and resource.
async fn collections(admin: &Client) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let (_, groups) = call(admin, Method::GET, "/apis", &Value::Null).await;
    let versions = groups["groups"].as_array().unwrap().iter().flat_map(|group| {
        let versions = group["versions"].as_array().unwrap().iter();
        versions.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap()))
    });
    for root in std::iter::once("/api/v1".to_owned()).chain(versions) {
        let (code, list) = call(admin, Method::GET, &root, &Value::Null).await;
        assert_eq!(code, 200, "{root}: {list}");
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let verbs = resource["verbs"].as_array().unwrap();
            if !name.contains('/') && verbs.iter().any(|verb| verb == "list") {
                found.push((format!("{root}/{name}"), resource.clone()));
            }
        }
    }
    found
}

/// The paths of objects with the seed's name in their own, in every version of their kind.
async fn objects_of(admin: &Client, seed: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (collection, _) in collections(admin).await {
        let (code, list) = call(admin, Method::GET, &collection, &Value::Null).await;
        assert_eq!(code, 200, "{collection}: {list}");
        let (root, plural) = collection.rsplit_once('/').unwrap();
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            let namespace = item["metadata"]["namespace"].as_str();
            if name.contains(seed) || namespace.is_some_and(|namespace| namespace.contains(seed)) {
                paths.push(match namespace {
                    Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
                    None => format!("{root}/{plural}/{name}"),
                });
            }
        }
    }
    paths
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stolen_credential_of_a_seed_reaches_nothing_of_another() {
    let confined = Confined::start().await;
    populate(&confined).await;
    let admin = &confined.garden.admin;
    let thief = confined.gardenlet(OWN);
    let account = format!("system:serviceaccount:seed-{OWN}:extension-{OWN}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:seed-{OWN}"),
    ];
    let extension = confined.garden.user(&account, &groups.each_ref().map(String::as_str));

    let paths = objects_of(admin, OTHER).await;
    assert!(paths.len() >= of_seed(OTHER).len(), "{paths:#?}");
    let mut open = Vec::new();
    for (who, client) in [("gardenlet", &thief), ("extension", &extension)] {
        for path in &paths {
            for (method, body) in [
                (Method::GET, Value::Null),
                (Method::PATCH, json!({"metadata": {"labels": {"a": "b"}}})),
                (Method::PUT, json!({"metadata": {"name": "x"}})),
                (Method::DELETE, Value::Null),
            ] {
                let (code, answer) = call(client, method.clone(), path, &body).await;
                if code != 403 {
                    open.push(format!("{who} {method} {path}: {code} {}", answer["message"]));
                }
            }
            let (code, _) = call(client, Method::PATCH, &format!("{path}/status"), &json!({"status": {}})).await;
            if !matches!(code, 403..=405) {
                open.push(format!("{who} PATCH {path}/status: {code}"));
            }
        }
    }
    assert!(open.is_empty(), "{open:#?}");

    // Nothing was changed meanwhile.
    assert_eq!(objects_of(admin, OTHER).await, paths);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gardenlet_works_on_its_own_seed_and_lists_nothing_else() {
    let mut confined = Confined::start().await;
    populate(&confined).await;
    let gardenlet = confined.gardenlet(OWN);
    let get = |path: String| {
        let client = gardenlet.clone();
        async move { call(&client, Method::GET, &path, &Value::Null).await }
    };
    let own = format!("{CORE}/namespaces/{NAMESPACE}/shoots/{OWN}");
    assert_eq!(get(own.clone()).await.0, 200);
    let by_label = format!("{CORE}/shoots?labelSelector=name.seed.gardener.cloud/{OWN}%3Dtrue");
    let (code, list) = get(by_label).await;
    assert_eq!(code, 200, "{list}");
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    // All that it may not see at once.
    let mut listed = Vec::new();
    for (collection, _) in collections(&confined.garden.admin).await {
        if get(collection.clone()).await.0 == 200 {
            listed.push(collection);
        }
    }
    let readable = [
        "cloudprofiles",
        "exposureclasses",
        "namespacedcloudprofiles",
        "controllerregistrations",
        "controllerdeployments",
    ];
    listed.retain(|collection| !readable.iter().any(|plural| collection.ends_with(plural)));
    assert_eq!(listed, Vec::<String>::new());
    // Its own status; a Shoot of another seed; a Secret that is opened by a reference of its own making.
    let status = json!({"status": {"gardener": {"name": "x"}}});
    assert_eq!(
        call(&gardenlet, Method::PATCH, &format!("{own}/status"), &status)
            .await
            .0,
        200
    );
    let moved = json!({"spec": {"seedName": OTHER}});
    let (code, refusal) = call(&gardenlet, Method::PATCH, &own, &moved).await;
    assert!(matches!(code, 403 | 422), "{code} {refusal}");
    let opened = json!({"spec": {"dns": {"provider": {"credentialsRef": {"name": format!("{OTHER}-dns")}}}}});
    let (code, refusal) = call(&gardenlet, Method::PATCH, &format!("{CORE}/seeds/{OWN}"), &opened).await;
    assert_eq!(code, 403, "{refusal}");
    let made = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new", "namespace": NAMESPACE}});
    assert_eq!(create(&gardenlet, &made).await.0, 403, "{}", path_of(&made));

    // Without an answer kube-apiserver does not go on (500); people are not affected; the credential works again afterwards.
    confined.controller.kill();
    let (code, refusal) = get(own.clone()).await;
    assert_eq!(code, 500, "{refusal}");
    assert_eq!(
        call(&confined.garden.admin, Method::GET, &own, &Value::Null).await.0,
        200
    );
    confined.controller.start_again().unwrap();
    confined.controller.until_ready().await.unwrap();
    let begun = Instant::now();
    while get(own.clone()).await.0 != 200 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}
