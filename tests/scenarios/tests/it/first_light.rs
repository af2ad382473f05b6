//! The loop of the product: a Shoot comes up, works, and goes without leaving anything.

use api_core::v1beta1::Shoot;
use api_extensions::{Cluster, ControlPlane, DNSRecord, Infrastructure, Worker};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

#[tokio::test(start_paused = true)]
async fn the_example_shoot_succeeds_and_its_nodes_are_ready() {
    let world = World::with_example_shoot().await;
    let shoot = world.shoots(NAMESPACE).get(NAME).await.unwrap();
    let status = shoot.status.unwrap();
    assert_eq!(status.technical_id, TECHNICAL_ID);
    assert!(status.last_errors.is_empty(), "{:?}", status.last_errors);
    for condition in &status.conditions {
        assert_eq!(condition.status.to_string(), "True", "{condition:?}");
    }
    let nodes: Api<Node> = Api::all(world.shoot_client(NAMESPACE, NAME).await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.len(), 1);
    assert!(nodes.iter().all(is_ready), "{nodes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_and_a_service_in_the_shoot_come_up() {
    let world = World::with_example_shoot().await;
    let client = world.shoot_client(NAMESPACE, NAME).await;
    let labels = json!({"app": "hello"});
    landscape_local::apply_all(
        &client,
        vec![
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "hello", "namespace": "default"},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "web", "image": "registry.example/hello:1", "ports": [{"containerPort": 8080}]}]},
                    },
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "hello", "namespace": "default"},
                "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
            }),
        ],
    )
    .await
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    wait(&deployments, "hello", |deployment| {
        let status = deployment?.status.as_ref()?;
        (status.available_replicas == Some(2) && status.ready_replicas == Some(2)).then_some(())
    })
    .await;
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let address = services.get("hello").await.unwrap().spec.unwrap().cluster_ip.unwrap();
    assert!(address.parse::<std::net::IpAddr>().is_ok(), "{address}");
    let endpoints: Api<k8s_openapi::api::core::v1::Endpoints> = Api::namespaced(client, "default");
    wait(&endpoints, "hello", |endpoints| {
        let subsets = endpoints?.subsets.as_ref()?;
        let addresses: usize = subsets
            .iter()
            .map(|subset| subset.addresses.as_ref().map_or(0, Vec::len))
            .sum();
        (addresses == 2).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn provider_status_travels_byte_for_byte() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    world.scale_provider(0).await;
    world.apply(&[SHOOT]).await;
    // The scenario is the Infrastructure's extension: what it reports is what JSON can be at its strangest.
    let infrastructures: Api<Infrastructure> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let generation = wait(&infrastructures, NAME, |object| object?.metadata.generation).await;
    let picked_up = json!({"metadata": {"annotations": {"gardener.cloud/operation": null}}});
    merge(&infrastructures, NAME, &picked_up).await;
    let reported = json!({"status": {
        "observedGeneration": generation,
        "lastOperation": {
            "type": "Create", "state": "Succeeded", "progress": 100, "description": "done",
            "lastUpdateTime": "2027-01-01T00:00:00Z",
        },
        "nodesCIDR": "10.68.0.0/16",
        "providerStatus": strange_status(),
    }});
    infrastructures
        .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&reported))
        .await
        .unwrap();
    world.scale_provider(1).await;
    world.succeeded(NAMESPACE, NAME).await;
    let read = infrastructures
        .get(NAME)
        .await
        .unwrap()
        .status
        .unwrap()
        .provider_status
        .unwrap();
    assert!(
        read.get().contains("9007199254740993") && read.get().contains("-9223372036854775808"),
        "{}",
        read.get()
    );
    let control_plane = Api::<ControlPlane>::namespaced(world.seed.clone(), TECHNICAL_ID)
        .get(NAME)
        .await
        .unwrap();
    let worker = Api::<Worker>::namespaced(world.seed.clone(), TECHNICAL_ID)
        .get(NAME)
        .await
        .unwrap();
    assert_eq!(
        control_plane.spec.infrastructure_provider_status.unwrap().get(),
        read.get()
    );
    assert_eq!(worker.spec.infrastructure_provider_status.unwrap().get(), read.get());
}

/// What the local provider reports, and beside it numbers beyond 2^53, nesting and everything that needs escapes.
fn strange_status() -> Value {
    json!({
        "apiVersion": "local.provider.extensions.gardener.cloud/v1alpha1",
        "kind": "InfrastructureStatus",
        "description": "quote \" backslash \\ newline \n tab \t nul \u{0} snowman \u{2603} astral \u{1F34A} </script>",
        "network": {
            "id": 9_007_199_254_740_993_u64,
            "cidr": "10.68.0.0/16",
            "egressCidrs": ["203.0.113.133/32"],
            "subnets": [{"zone": "", "cidr": "10.68.0.0/20"}],
        },
        "beyond": {"largest": i64::MAX, "negative": i64::MIN, "nested": {"z": [1, {"a": null}], "a": {"": "empty key"}}},
    })
}

#[tokio::test(start_paused = true)]
async fn a_deleted_shoot_leaves_nothing_behind() {
    let world = World::with_example_shoot().await;
    world.delete_shoot(NAMESPACE, NAME).await;
    let namespaces: Api<Namespace> = Api::all(world.seed.clone());
    assert!(namespaces.get_opt(TECHNICAL_ID).await.unwrap().is_none());
    let clusters: Api<Cluster> = Api::all(world.seed.clone());
    assert!(clusters.get_opt(TECHNICAL_ID).await.unwrap().is_none());
    let records: Api<DNSRecord> = Api::all(world.seed.clone());
    assert!(records.list(&ListParams::default()).await.unwrap().items.is_empty());
    for leftover in ["secrets", "internalsecrets", "configmaps"] {
        assert!(
            leftovers(&world, leftover).await.is_empty(),
            "{leftover}: {:?}",
            leftovers(&world, leftover).await
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_shoot_is_deleted_though_an_extension_keeps_a_claim_in_it() {
    let world = World::with_example_shoot().await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.shoot_client(NAMESPACE, NAME).await, "kube-system");
    let label = json!({"shoot.gardener.cloud/no-cleanup": "true"});
    for (name, labels) in [("cache", label), ("of-a-user", json!({}))] {
        let claim = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }));
        claims.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
        wait(&claims, name, |claim| {
            (claim?.status.as_ref()?.phase.as_deref()? == "Bound").then_some(())
        })
        .await;
    }
    world.delete_shoot(NAMESPACE, NAME).await;
}

/// Names of objects in the project namespace that carry the Shoot's name as a prefix.
async fn leftovers(world: &World, plural: &str) -> Vec<String> {
    let resource = match plural {
        "internalsecrets" => api_resource("core.gardener.cloud", "v1beta1", "InternalSecret"),
        "secrets" => api_resource("", "v1", "Secret"),
        _ => api_resource("", "v1", "ConfigMap"),
    };
    let api: Api<kube::api::DynamicObject> = Api::namespaced_with(world.garden.clone(), NAMESPACE, &resource);
    let objects = api.list(&ListParams::default()).await.unwrap();
    objects
        .items
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with(&format!("{NAME}.")))
        .collect()
}

fn api_resource(group: &str, version: &str, kind: &str) -> kube::api::ApiResource {
    kube::api::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, kind))
}

#[tokio::test(start_paused = true)]
async fn a_shoot_without_workers_is_an_api_server_and_no_machines() {
    let world = World::start().await;
    world.apply(&SURROUNDINGS).await;
    world
        .apply(&[include_str!("../../../../examples/41-shoot-workerless.yaml")])
        .await;
    world.succeeded(NAMESPACE, "workerless").await;
    let workers: Api<Worker> = Api::all(world.seed.clone());
    assert!(workers.list(&ListParams::default()).await.unwrap().items.is_empty());
    let namespaces: Api<Namespace> = Api::all(world.shoot_client(NAMESPACE, "workerless").await);
    namespaces.get("kube-system").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_second_reconcile_changes_nothing_and_succeeds() {
    let world = World::with_example_shoot().await;
    let shoots = world.shoots(NAMESPACE);
    let before: Shoot = shoots.get(NAME).await.unwrap();
    let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    let after = merge(&shoots, NAME, &patch).await;
    assert!(after.metadata.generation > before.metadata.generation);
    let done = world.succeeded(NAMESPACE, NAME).await;
    assert_eq!(done.metadata.generation, after.metadata.generation);
    assert!(done.annotations().get("gardener.cloud/operation").is_none());
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}
