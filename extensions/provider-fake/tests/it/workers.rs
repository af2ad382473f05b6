//! Workers whose machines are instances: what the cloud holds of them, what it refuses, and lives in which the process ends.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use api_extensions::{Infrastructure, Worker};
use api_machine::{Machine, MachineClass, MachineDeployment};
use api_meta::ErrorCode;
use api_meta::LastOperationState::Succeeded;
use base_client::{apply, watch};
use extensions_provider_fake::cloud::{Calls, CloudConnector, InstanceSpec, Item, Kind, Moment, Settings, Spec};
use extensions_provider_fake::{DEFAULT_TYPE, SLOT_TAG};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tests_kit::until;
use tokio::time::Instant;

use crate::crashes::Forgetful;
use crate::story::{in_virtual_time, succeed_one_another, sweep};
use crate::world::{NAME, NAMESPACE, REGION, World, answered, config, gone};

const KEY: &str = "ssh-ed25519 AAAA first";
const ZONES: [(&str, &str); 2] = [("fake-1a", "10.250.0.0/20"), ("fake-1b", "10.250.16.0/20")];

pub(crate) fn pool(name: &str, machines: i32, image: &str, zones: &[&str]) -> Value {
    json!({
        "name": name, "machineType": "small", "minimum": machines, "maximum": machines, "maxSurge": 1, "maxUnavailable": 0,
        "nodeAgentSecretName": format!("gardener-node-agent-{name}-{image}"), "zones": zones,
        "machineImage": {"name": "linux", "version": image},
        "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
    })
}

/// Writes a Secret of gardenlet's.
async fn secret(world: &World, name: &str, key: &str, value: &str) {
    let object = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "stringData": {key: value}});
    let object: Secret = serde_json::from_value(object).unwrap();
    apply(&world.all(), &object, "gardenlet").await.unwrap();
}

/// Lets each machine join once it is made, as what runs on it would. It runs until the test ends.
fn let_machines_join(world: &World) {
    let_machines_join_but(world.all::<Machine>(), world.client.clone(), "");
}

/// Lets each of these machines join `shoot` once it is made, but for one of this name. It runs until the test ends.
pub(crate) fn let_machines_join_but(machines: Api<Machine>, shoot: Client, not: &str) {
    let (not, nodes) = (not.to_owned(), Api::<Node>::all(shoot));
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watch(machines, Config::default()));
        while let Some(event) = events.next().await {
            let (Event::Apply(machine) | Event::InitApply(machine)) = event.unwrap() else {
                continue;
            };
            let is_up = machine.spec.provider_id.is_some() && machine.metadata.deletion_timestamp.is_none();
            let joins = is_up && machine.name_any() != not;
            if let (Some(node), true) = (machine.labels().get("node"), joins) {
                let node = json!({"metadata": {"name": node}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
                let node: Node = serde_json::from_value(node).unwrap();
                // It has joined before.
                drop(nodes.create(&PostParams::default(), &node).await);
            }
        }
    });
}

/// A shoot with an Infrastructure, made by a process that has ended. What it has reported.
async fn prepared(settings: Settings) -> (World, Value) {
    let (world, infrastructure) = prepared_alone(settings).await;
    let_machines_join(&world);
    (world, infrastructure)
}

/// As [`prepared`], and no machine joins.
pub(crate) async fn prepared_alone(settings: Settings) -> (World, Value) {
    let world = World::new(settings).await;
    secret(&world, "shoot-access-machine-controller-manager", "kubeconfig", "{}").await;
    secret(&world, "user-data", "cloud_config", "boot").await;
    let first = world.start(Calls::new(None));
    world.create(config(&ZONES, &[]), KEY).await;
    let status = world.succeeds().await.status.unwrap().provider_status.unwrap();
    first.kill();
    (world, status.value())
}

/// Writes the Worker as gardenlet does.
async fn write(world: &World, infrastructure: &Value, pools: &[Value]) {
    let now = world.embedded.clock.now().to_string();
    let worker = json!({
        "apiVersion": Worker::api_version(&()), "kind": "Worker",
        "metadata": {"name": NAME,
            "annotations": {"gardener.cloud/operation": "reconcile", "gardener.cloud/timestamp": now}},
        "spec": {"type": DEFAULT_TYPE, "region": REGION, "infrastructureProviderStatus": infrastructure, "pools": pools,
            "secretRef": {"name": "cloudprovider", "namespace": NAMESPACE}},
    });
    let params = PatchParams::apply("gardenlet").force();
    let written = world.all::<Worker>().patch(NAME, &params, &Patch::Apply(worker)).await;
    written.unwrap();
}

async fn succeeds(world: &World) {
    answered(&world.all::<Worker>(), Succeeded).await;
}

/// Waits until an error is reported, and returns its codes and text.
async fn fails(world: &World) -> (Vec<ErrorCode>, String) {
    let has_error = |worker: &Worker| worker.status.as_ref().is_some_and(|status| status.last_error.is_some());
    let worker = until(&world.all::<Worker>(), NAME, "refused", has_error).await;
    let error = worker.status.unwrap().last_error.unwrap();
    (error.codes, error.description)
}

async fn delete(world: &World) {
    let workers = world.all::<Worker>();
    workers.delete(NAME, &DeleteParams::default()).await.unwrap();
    gone(&workers).await;
}

fn instances(world: &World) -> Vec<(Item, InstanceSpec)> {
    let held = world.cloud.held().0.into_iter();
    held.filter_map(|item| match item.spec.clone() {
        Spec::Instance(spec) => Some((item, spec)),
        _ => None,
    })
    .collect()
}

/// The instances are the machines.
async fn check(world: &World, machines: usize) {
    let named: BTreeSet<String> = instances(world)
        .iter()
        .map(|(item, _)| item.tags[SLOT_TAG].trim_start_matches("machine/").to_owned())
        .collect();
    assert_eq!(named, world.names_of::<Machine>().await.into_iter().collect());
    assert_eq!((instances(world).len(), named.len()), (machines, machines));
}

#[tokio::test(start_paused = true)]
async fn machines_are_instances_in_the_subnets_of_their_zones() {
    let (world, infrastructure) = prepared(Settings::default()).await;
    let _runs_on = world.start(Calls::new(None));
    let pools = |image| [pool("p", 3, image, &["fake-1a", "fake-1b"]), pool("q", 1, "1", &[])];
    write(&world, &infrastructure, &pools("1")).await;
    succeeds(&world).await;
    check(&world, 4).await;
    let subnets = |number: usize| infrastructure["zones"][number]["subnet"].as_str().unwrap().to_owned();
    let first = instances(&world);
    let placed = |subnet: &str| first.iter().filter(|(_, spec)| spec.subnet == subnet).count();
    assert_eq!((placed(&subnets(0)), placed(&subnets(1))), (3, 1));
    let (_, spec) = &first[0];
    assert_eq!((spec.image.as_str(), spec.user_data.0.as_str()), ("linux-1", "boot"));
    assert_eq!(spec.key_pair.as_deref(), infrastructure["keyPair"].as_str());
    assert_eq!(
        spec.security_groups,
        [infrastructure["nodesSecurityGroup"].as_str().unwrap()]
    );

    write(&world, &infrastructure, &pools("2")).await;
    succeeds(&world).await;
    check(&world, 4).await;
    let stayed = instances(&world).iter().filter(|one| first.contains(one)).count();
    assert_eq!(stayed, 1, "the pool q has not changed");

    delete(&world).await;
    check(&world, 0).await;
    assert_eq!(world.names_of::<MachineClass>().await, [""; 0]);
    assert_eq!(world.names_of::<MachineDeployment>().await, [""; 0]);
    world.delete().await;
    world.goes().await;
    assert!(world.cloud.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_refuses_is_reported_with_its_code_and_tried_again() {
    let (world, infrastructure) = prepared(Settings::default()).await;
    let _runs_on = world.start(Calls::new(None));
    world
        .cloud
        .configure(|settings| settings.quotas.extend([(Kind::Instance, 1)]));
    write(&world, &infrastructure, &[pool("p", 2, "1", &["fake-1a"])]).await;
    let (codes, text) = fails(&world).await;
    assert_eq!(codes, [ErrorCode::InfraQuotaExceeded], "{text}");
    assert!(
        text.contains("QuotaExceeded: the account has 1 of 1 instances"),
        "{text}"
    );
    world.cloud.configure(|settings| settings.quotas.clear());
    write(&world, &infrastructure, &[pool("p", 2, "1", &["fake-1a"])]).await;
    succeeds(&world).await;
    check(&world, 2).await;

    let mut unknown = pool("p", 2, "2", &["fake-1a"]);
    unknown["machineType"] = json!("huge");
    write(&world, &infrastructure, &[unknown]).await;
    let (codes, text) = fails(&world).await;
    assert_eq!(codes, [ErrorCode::ConfigurationProblem], "{text}");
    assert!(text.contains("there is no machine type \"huge\""), "{text}");
    check_is_up(&world).await;
    delete(&world).await;
    check(&world, 0).await;
}

/// The former machines stand while the new ones cannot be made.
async fn check_is_up(world: &World) {
    let up = instances(world)
        .iter()
        .filter(|(_, spec)| spec.image == "linux-1")
        .count();
    assert_eq!(up, 2);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_before_it_has_joined_is_replaced() {
    for get_lag in [0, u32::MAX] {
        let settings = Settings {
            get_lag,
            ..Settings::default()
        };
        let (world, infrastructure) = prepared_alone(settings).await;
        let _runs_on = world.start(Calls::new(None));
        write(&world, &infrastructure, &[pool("p", 1, "1", &["fake-1a"])]).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let [(first, _)] = &instances(&world)[..] else {
            panic!("one instance")
        };
        let cloud = world.cloud.connect(&world.keys, REGION);
        cloud.delete(Kind::Instance, &first.id).await.unwrap();
        let began = Instant::now();
        let_machines_join_but(
            world.all(),
            world.client.clone(),
            first.tags[SLOT_TAG].trim_start_matches("machine/"),
        );
        succeeds(&world).await;
        assert!(began.elapsed() < Duration::from_secs(4 * 60), "{:?}", began.elapsed());
        check(&world, 1).await;
        assert_ne!(instances(&world)[0].0.id, first.id, "lag {get_lag}");
    }
}

/// The life of a Worker: two machines, one of them in a pool that is replaced.
async fn live(world: &World, infrastructure: &Value) {
    let pools = |image| [pool("p", 1, image, &["fake-1a"]), pool("q", 1, "1", &["fake-1b"])];
    for image in ["1", "2"] {
        write(world, infrastructure, &pools(image)).await;
        succeeds(world).await;
        check(world, 2).await;
    }
    delete(world).await;
    check(world, 0).await;
    let infrastructures: Api<Infrastructure> = world.all();
    assert!(infrastructures.get_opt(NAME).await.unwrap().is_some());
    let made = world.cloud.made();
    let made = made.iter().filter(|item| item.kind() == Kind::Instance).count();
    assert_eq!(made, 3, "an instance was made and deleted again");
}

/// A life with processes whose calls are counted by what `calls` gives for their numbers.
async fn life(settings: &Settings, calls: impl Fn(usize) -> Calls) {
    let (world, infrastructure) = prepared(settings.clone()).await;
    tokio::select! {
        () = live(&world, &infrastructure) => {}
        () = succeed_one_another(&world, |process| world.start(calls(process))) => {}
    }
}

/// Otherwise the tests below would prove nothing.
#[test]
fn an_instance_made_without_its_token_is_noticed_at_each_end() {
    let whole = Calls::new(None);
    in_virtual_time(life(&Settings::default(), |_| whole.clone()));
    let calls = whole.records();
    let creations = (1..).zip(&calls).filter(|(_, record)| record.what == "create instance");
    let creations: Vec<usize> = creations.map(|(call, _)| call).collect();
    assert_eq!(creations.len(), 3, "{calls:#?}");
    for call in creations {
        let lived = catch_unwind(AssertUnwindSafe(|| {
            in_virtual_time(async {
                let (world, infrastructure) = prepared(Settings::default()).await;
                let cloud = || Arc::new(Forgetful(Arc::new(world.cloud.clone())));
                let end = |process| (process == 0).then_some(Moment { call, before: false });
                let start = |process| world.start_through(world.embedded.admin(), cloud(), Calls::new(end(process)));
                tokio::select! {
                    () = live(&world, &infrastructure) => {}
                    () = succeed_one_another(&world, start) => {}
                }
            });
        }));
        assert!(lived.is_err(), "the end at call {call} went unnoticed");
    }
}

/// The process ends at each call of a life without an end.
fn end_at_each_call(settings: &Settings) {
    let whole = Calls::new(None);
    in_virtual_time(life(settings, |_| whole.clone()));
    let calls = whole.records();
    assert!(calls.len() > 100, "{calls:#?}");
    let ends = sweep(calls.len() * 2, |number| {
        let moment = Moment {
            call: number / 2 + 1,
            before: number % 2 == 0,
        };
        let ends = Calls::new(Some(moment));
        let of = |process: usize| if process == 0 { ends.clone() } else { Calls::new(None) };
        in_virtual_time(life(settings, of));
        assert!(ends.has_ended(), "{moment} never came: {:?}", calls[moment.call - 1]);
    });
    println!(
        "{ends} ends at {} calls of a Worker's life, before and after",
        calls.len()
    );
}

#[test]
fn a_process_killed_at_any_call_leaks_and_doubles_no_instance() {
    end_at_each_call(&Settings::default());
}

#[test]
fn a_process_killed_beside_a_lagging_cloud_leaks_and_doubles_no_instance() {
    end_at_each_call(&Settings {
        list_lag: u32::MAX,
        get_lag: u32::MAX,
        settle: 3,
        ..Settings::default()
    });
}
