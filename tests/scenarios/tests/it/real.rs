//! It is real: what happens when the parts that stand behind a Shoot are taken away, and who acted as whom.

use api_machine::Machine;
use api_meta::{Condition, ConditionStatus};
use api_resources::ManagedResource;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tests_scenarios::{NAME, NAMESPACE, PATIENCE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

async fn scale(world: &World, replicas: i32) {
    let deployments: Api<Deployment> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    merge(&deployments, "kube-apiserver", &json!({"spec": {"replicas": replicas}})).await;
    wait(&deployments, "kube-apiserver", |deployment| {
        let status = deployment?.status.as_ref()?;
        (status.ready_replicas.unwrap_or(0) == replicas && status.replicas.unwrap_or(0) == replicas).then_some(())
    })
    .await;
}

fn is_refused(error: &kube::Error) -> bool {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = source {
        if error.to_string().contains("connection refused") {
            return true;
        }
        source = error.source();
    }
    false
}

async fn keep_something(client: &Client) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"answer": "42"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps
}

#[tokio::test(start_paused = true)]
async fn a_shoot_refuses_connections_without_its_api_server_and_loses_no_data() {
    let world = World::with_example_shoot().await;
    let client = world.shoot_client(NAMESPACE, NAME).await;
    let maps = keep_something(&client).await;
    scale(&world, 0).await;
    let error = maps.get("kept").await.unwrap_err();
    assert!(is_refused(&error), "{error:?}");
    scale(&world, 1).await;
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["answer"], "42");
}

#[tokio::test(start_paused = true)]
async fn with_its_etcd_volume_a_shoot_loses_its_data() {
    let world = World::with_example_shoot().await;
    let client = world.shoot_client(NAMESPACE, NAME).await;
    let maps = keep_something(&client).await;
    let resources: Api<ManagedResource> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    // All this takes less than a second, which is as far as times in a status go: so the change itself is watched for.
    let lost = tokio::spawn({
        let resources = resources.clone();
        async move {
            wait(&resources, SYSTEM_RESOURCE, |resource| {
                (!is_applied(resource?)).then_some(())
            })
            .await
        }
    });
    let sets: Api<StatefulSet> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    scale(&world, 0).await;
    merge(&sets, "etcd-main", &json!({"spec": {"replicas": 0}})).await;
    wait(&sets, "etcd-main", |set| {
        (set?.status.as_ref()?.replicas == 0).then_some(())
    })
    .await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    base_client::delete_and_wait(&claims, "etcd-main-etcd-main-0", PATIENCE)
        .await
        .unwrap();
    merge(&sets, "etcd-main", &json!({"spec": {"replicas": 1}})).await;
    scale(&world, 1).await;
    // With the data went everybody's roles; the next reconcile makes the cluster usable again, and empty.
    assert!(maps.get("kept").await.is_err());
    let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    merge(&world.shoots(NAMESPACE), NAME, &patch).await;
    world.succeeded(NAMESPACE, NAME).await;
    // Roles of people come with a ManagedResource that did not change, and is applied again all the same.
    lost.await.unwrap();
    wait(&resources, SYSTEM_RESOURCE, |resource| {
        is_applied(resource?).then_some(())
    })
    .await;
    assert!(maps.get_opt("kept").await.unwrap().is_none());
}

/// The ManagedResource with the roles of a shoot's people.
const SYSTEM_RESOURCE: &str = "shoot-core-system";

fn is_applied(resource: &ManagedResource) -> bool {
    let conditions = resource.status.as_ref().map(|status| status.conditions.as_slice());
    let applied = Condition::find(conditions.unwrap_or_default(), "ResourcesApplied");
    applied.is_some_and(|condition| condition.status == ConditionStatus::True)
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_pod_is_gone_is_replaced_and_its_node_with_it() {
    let world = World::with_example_shoot().await;
    let nodes: Api<Node> = Api::all(world.shoot_client(NAMESPACE, NAME).await);
    let lost = nodes
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0)
        .name_any();
    let pods: Api<Pod> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let machine_pod = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .find(|pod| pod.name_any().starts_with("machine-shoot--"))
        .expect("a machine is a pod");
    let not_ready = tokio::spawn({
        let (nodes, lost) = (nodes.clone(), lost.clone());
        async move {
            wait(&nodes, &lost, |node| {
                if node.is_none_or(|node| !is_ready(node)) {
                    Some(())
                } else {
                    None
                }
            })
            .await
        }
    });
    pods.delete(&machine_pod.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    not_ready.await.unwrap();
    wait(&nodes, &lost, |node| node.is_none().then_some(())).await;
    let machines: Api<Machine> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    wait(&machines, &lost, |machine| machine.is_none().then_some(())).await;
    let fresh = machines
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .remove(0)
        .name_any();
    assert_ne!(fresh, lost);
    wait(&nodes, &fresh, |node| node.filter(|node| is_ready(node)).map(|_| ())).await;
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_bootstrap_token_never_joins_and_the_worker_reports_why() {
    let world = World::with_example_shoot().await;
    let client = world.shoot_client(NAMESPACE, NAME).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    // Hold the gardenlet off, so that the token is not recreated, and let a second machine start without one.
    let ignore = json!({"metadata": {"annotations": {"shoot.gardener.cloud/ignore": "true"}}});
    merge(&world.shoots(NAMESPACE), NAME, &ignore).await;
    for secret in secrets.list(&ListParams::default()).await.unwrap() {
        if secret.name_any().starts_with("bootstrap-token-") {
            secrets
                .delete(&secret.name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
    }
    let workers: Api<api_extensions::Worker> = Api::namespaced(world.seed.clone(), TECHNICAL_ID);
    let worker = workers.get(NAME).await.unwrap();
    let mut pools = serde_json::to_value(&worker.spec.pools).unwrap();
    pools[0]["minimum"] = json!(2);
    pools[0]["maximum"] = json!(2);
    let change = json!({
        "metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}},
        "spec": {"pools": pools},
    });
    merge(&workers, NAME, &change).await;
    let why = wait(&workers, NAME, |worker| {
        let error = worker?.status.as_ref()?.last_error.as_ref()?;
        Some(error.description.clone())
    })
    .await;
    assert!(
        why.contains("has not joined") && why.to_lowercase().contains("token"),
        "{why}"
    );
    let nodes: Api<Node> = Api::all(client);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_bootstrap_no_request_acts_as_system_masters() {
    let world = World::start().await;
    for api in [&world.landscape.garden, &world.landscape.seeds[0].api] {
        api.server().audit().clear();
    }
    world.apply(&SURROUNDINGS).await;
    world.apply(&[SHOOT]).await;
    world.succeeded(NAMESPACE, NAME).await;
    let shoot = world
        .landscape
        .audit_of(TECHNICAL_ID)
        .expect("the shoot's API server runs in this process");
    world
        .shoot_client(NAMESPACE, NAME)
        .await
        .list_core_api_versions()
        .await
        .unwrap();
    let masters = |records: Vec<std::sync::Arc<cluster_apiserver::AuditRecord>>| -> Vec<String> {
        records
            .iter()
            .filter(|record| record.groups.iter().any(|group| group == "system:masters"))
            .map(|record| format!("{} {} {}", record.user, record.verb, record.path))
            .collect()
    };
    assert!(masters(world.landscape.garden.server().audit().records()).is_empty());
    assert!(masters(world.landscape.seeds[0].api.server().audit().records()).is_empty());
    // In the shoot, bootstrap is the moment in which gardenlet's and resource-manager's bindings are made.
    let of_shoot = masters(shoot.records());
    assert!(
        of_shoot.iter().all(|line| line.contains("clusterrolebindings")),
        "{of_shoot:?}"
    );
    shoot.clear();
    let patch = json!({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}});
    merge(&world.shoots(NAMESPACE), NAME, &patch).await;
    world.succeeded(NAMESPACE, NAME).await;
    assert!(masters(shoot.records()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_idle_landscape_sends_no_get_and_no_list() {
    let world = World::with_example_shoot().await;
    let shoot = world
        .landscape
        .audit_of(TECHNICAL_ID)
        .expect("the shoot's API server runs in this process");
    let logs = [
        ("garden", world.landscape.garden.server().audit().clone()),
        ("seed", world.landscape.seeds[0].api.server().audit().clone()),
        ("shoot", shoot),
    ];
    // What the success itself set off is allowed to settle.
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    for (_, log) in &logs {
        log.clear();
    }
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    for (name, log) in &logs {
        let reads: Vec<String> = log
            .records()
            .iter()
            .filter(|record| record.verb == "get" || record.verb == "list")
            .map(|record| format!("{}: {} {}", record.user, record.verb, record.path))
            .collect();
        assert!(reads.is_empty(), "{name}: {reads:#?}");
    }
}
