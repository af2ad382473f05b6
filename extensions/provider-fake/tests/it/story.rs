//! The life of an Infrastructure and a ControlPlane as gardenlet leads it, and lives of it in which the extension's process ends again and again.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_extensions::{ControlPlane, Infrastructure};
use api_meta::LastOperationState::Succeeded;
use api_resources::ManagedResource;
use base_secrets::label;
use extensions_provider_fake::cloud::{Calls, Settings};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

use crate::world::{NAME, Process, World, answered, config, gone};

/// What exists after the creation, and after the change.
const CREATED: [&str; 5] = [
    "key-pair",
    "network",
    "security-group",
    "subnet/fake-1a",
    "subnet/fake-1b",
];
const CHANGED: [&str; 5] = [
    "key-pair",
    "network",
    "security-group",
    "subnet/fake-1a",
    "subnet/fake-1c",
];
/// How many things ever have to be made: a subnet and a key pair come with the change.
const MADE: usize = CREATED.len() + 2;

/// The authority of the control plane, its bundle and the certificate, by their names without what is generated.
const MANAGED_SECRETS: [&str; 3] = [
    "ca-provider-fake-controlplane",
    "ca-provider-fake-controlplane-bundle",
    "cloud-controller-manager-server",
];

const FIRST_KEY: &str = "ssh-ed25519 AAAA first";
const SECOND_KEY: &str = "ssh-ed25519 AAAA second";
const A: (&str, &str) = ("fake-1a", "10.250.0.0/20");
const B: (&str, &str) = ("fake-1b", "10.250.16.0/20");
const C: (&str, &str) = ("fake-1c", "10.250.32.0/20");
/// For calls that were under way when a process ended.
const AFTERMATH: Duration = Duration::from_millis(100);

/// The providerStatus that gardenlet copies into the ControlPlane.
fn provider_status(object: Infrastructure) -> api_meta::RawJson {
    object.status.unwrap().provider_status.unwrap()
}

/// Creates, changes and deletes an Infrastructure and a ControlPlane, and looks at cloud and seed after each.
async fn live(world: &World) {
    let control_planes = world.all::<ControlPlane>();
    world.create(config(&[A, B], &[]), FIRST_KEY).await;
    let status = provider_status(world.succeeds().await);
    world.create_control_plane(status.value()).await;
    answered(&control_planes, Succeeded).await;
    look(world, &CREATED).await;
    world
        .request("reconcile", Some((config(&[A, C], &["192.0.2.0/24"]), SECOND_KEY)))
        .await;
    let status = provider_status(world.succeeds().await);
    let change = |object: &mut ControlPlane| object.spec.infrastructure_provider_status = Some(status.clone());
    world.edit(&control_planes, "reconcile", change).await;
    answered(&control_planes, Succeeded).await;
    look(world, &CHANGED).await;
    control_planes.delete(NAME, &DeleteParams::default()).await.unwrap();
    gone(&control_planes).await;
    assert_eq!(world.names_of::<Secret>().await, ["cloudprovider"]);
    assert_eq!(world.names_of::<ManagedResource>().await, [""; 0]);
    assert_eq!(world.names_of::<Deployment>().await, [""; 0]);
    world.delete().await;
    world.goes().await;
    let held = world.cloud.held();
    assert!(held.is_empty(), "left behind:\n{held}");
    assert_eq!(world.cloud.made().len(), MADE, "something was made and deleted again");
}

async fn look(world: &World, expected: &[&str]) {
    let doubled = world.doubled();
    assert!(doubled.is_empty(), "doubled:\n{doubled}");
    assert_eq!(world.slots(), expected);
    let secrets = world.all::<Secret>().list(&ListParams::default()).await.unwrap();
    let mut managed: Vec<String> = secrets
        .iter()
        .filter_map(|secret| secret.labels().get(label::NAME).cloned())
        .collect();
    managed.sort();
    assert_eq!(managed, MANAGED_SECRETS);
    check(world, "at the end of an operation").await;
}

async fn check(world: &World, when: &str) {
    let unnamed = world.unnamed().await;
    assert!(unnamed.is_empty(), "{when}, status.state does not name {unnamed:?}");
    let unnamed = world.unnamed_instances().await;
    assert!(unnamed.is_empty(), "{when}, no Machine is {unnamed:?}");
    let doubled = world.doubled();
    assert!(doubled.is_empty(), "{when}, there are twice:\n{doubled}");
}

/// Runs processes one after the other, each started by `start` with its number, and looks at the state whenever one has ended.
/// It never returns: the last process goes on.
pub(crate) async fn succeed_one_another(world: &World, start: impl Fn(usize) -> Process) {
    for number in 0.. {
        let process = start(number);
        process.calls.ended().await;
        let last = process.calls.records().last().cloned();
        process.kill();
        for when in ["at once", "once its last calls have arrived"] {
            check(world, &format!("after the end at {last:?}, {when}")).await;
            tokio::time::sleep(AFTERMATH).await;
        }
    }
}

/// A life in which processes are started by `start`.
pub(crate) async fn life(world: &World, start: impl Fn(usize) -> Process) {
    world.manage_resources();
    tokio::select! {
        () = live(world) => {}
        () = succeed_one_another(world, start) => {}
    }
}

/// Runs something in virtual time, with a runtime of its own.
pub(crate) fn in_virtual_time<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(work)
}

/// The calls of a life in which no process ends.
pub(crate) fn calls_of_a_life(settings: &Settings) -> Vec<String> {
    in_virtual_time(async {
        let world = World::new(settings.clone()).await;
        let calls = Calls::new(None);
        life(&world, |_| world.start(calls.clone())).await;
        calls.records().into_iter().map(|record| record.what).collect()
    })
}

/// Runs a sweep in full when it is set: minutes instead of seconds.
const FULL: &str = "PROVIDER_FAKE_SWEEP";
/// How many of a sweep run otherwise.
const SAMPLE: usize = 16;

/// Does something for each number up to `count`, or for each k-th unless the whole sweep is requested, on all cores; fails with
/// all failures. Returns how many these are. k is odd, so that of two alternating cases both are among them.
pub(crate) fn sweep(count: usize, work: impl Fn(usize) + Sync) -> usize {
    let is_full = std::env::var_os(FULL).is_some_and(|value| value == "full");
    let step = if is_full { 1 } else { (count / SAMPLE) | 1 };
    let numbers: Vec<usize> = (0..count).step_by(step).collect();
    for_each(numbers.len(), |at| work(numbers[at]));
    numbers.len()
}

fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::<Vec<usize>>::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let number @ 0.. = next.fetch_add(1, Ordering::Relaxed)
                    && number < count
                {
                    let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(number)));
                    if worked.is_err() {
                        failures.lock().unwrap().push(number);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {count} failed: {failures:?}",
        failures.len()
    );
}
