//! What `orangery why` says of Shoots that are stuck for real, and of one that is not.

use std::collections::BTreeSet;
use std::time::Duration;

use api_core::v1beta1::{ControllerRegistration, Seed, Shoot};
use api_extensions::{ExtensionKind, ExtensionObject, ForKind, Infrastructure};
use api_meta::schema::{full_sample, structural};
use api_meta::{Condition, ConditionStatus, ErrorCode, FaultClass, LastOperationState, ObjectName};
use base_client::api_in;
use base_clock::Clock;
use control_plane_diagnosis::facts::Facts;
use control_plane_diagnosis::observe::{Access, observe};
use control_plane_diagnosis::plan::{Answer, Blocker, Cause, Located, State, plan};
use control_plane_diagnosis::report::{Page, text};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use programs_orangery::why::{EXIT_BLOCKED, exit_code};
use serde_json::{Value, json};
use tests_scenarios::{NAME, NAMESPACE, SHOOT, SURROUNDINGS, TECHNICAL_ID, World, merge, wait};

/// An object of the Shoot's control plane.
fn in_seed(kind: &str, name: &str) -> Located {
    Located::in_seed(ObjectName::new(kind, Some(TECHNICAL_ID), name), "local")
}

struct Setup {
    world: World,
    clock: Clock,
}

impl Setup {
    async fn start() -> Self {
        let mut clock = None;
        let world = World::start_with(|settings| clock = Some(settings.clock.clone())).await;
        world.apply(&SURROUNDINGS).await;
        Self {
            world,
            clock: clock.unwrap(),
        }
    }

    async fn why(&self) -> Answer {
        self.why_with(Ok(self.world.seed.clone())).await
    }

    async fn why_with(&self, seed: Result<Client, String>) -> Answer {
        plan(&self.facts(seed).await)
    }

    async fn facts(&self, seed: Result<Client, String>) -> Facts {
        let access = Access {
            garden: self.world.garden.clone(),
            seeds: Box::new(move |_| seed.clone()),
        };
        observe(&access, NAMESPACE, NAME, self.clock.now()).await.unwrap()
    }

    async fn first(&self, cause: Cause) -> Blocker {
        let mut answer = self.why().await;
        assert_eq!(answer.blockers.first().map(|one| one.cause), Some(cause), "{answer:#?}");
        assert_eq!((answer.state, exit_code(&answer)), (State::Blocked, EXIT_BLOCKED));
        answer.blockers.remove(0)
    }

    async fn create(&self, change: impl FnOnce(&mut Value)) {
        let mut shoot = landscape_local::documents(SHOOT).unwrap().remove(0);
        change(&mut shoot);
        let shoot: Shoot = serde_json::from_value(shoot).unwrap();
        let shoots = self.world.shoots(NAMESPACE);
        shoots.create(&PostParams::default(), &shoot).await.unwrap();
    }

    async fn until(&self, state: LastOperationState) {
        wait(&self.world.shoots(NAMESPACE), NAME, |shoot| {
            let last = shoot?.status.as_ref()?.last_operation.as_ref()?;
            (last.state == state).then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_shoot_is_one_line_even_without_its_seed() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    let shoots = setup.world.shoots(NAMESPACE);
    let conditions = wait(&shoots, NAME, |shoot| {
        let conditions = &shoot?.status.as_ref()?.conditions;
        let hold = conditions.iter().all(|one| one.status.as_str() == "True");
        (conditions.len() == 4 && hold).then(|| conditions.clone())
    })
    .await;
    let answer = setup.why().await;
    assert_eq!((answer.state, exit_code(&answer)), (State::Healthy, 0), "{answer:#?}");
    let held = conditions.iter().map(|one| one.last_transition_time.0).max();
    assert!(answer.since >= held, "{:?} and {held:?}", answer.since);
    let printed = text(&answer, &Page::default());
    assert!(
        printed.starts_with("Shoot garden-local/local is healthy since 2026-01-01T"),
        "{printed}"
    );
    assert_eq!(printed.lines().count(), 1, "{printed}");

    let blind = setup.why_with(Err("no seed.kubeconfig".to_owned())).await;
    assert_eq!(blind.state, State::Healthy, "{blind:#?}");
    assert_eq!(blind.unknown, ["what is in the seed: no seed.kubeconfig"]);
}

/// Creates an object of a kind, with every field, that belongs to the Shoot.
struct Create<'a>(&'a Client);

impl<'a> ForKind for Create<'a> {
    type Output = BoxFuture<'a, ()>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        async move {
            let mut object = full_sample(&structural::<K>());
            object["metadata"] = json!({"name": format!("{TECHNICAL_ID}--sample")});
            object["spec"]["class"] = "shoot".into();
            let object: K = serde_json::from_value(object).unwrap();
            let api = api_in::<K>(self.0, TECHNICAL_ID);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn extension_objects_of_every_kind_are_observed() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    let kinds = async || {
        let facts = setup.facts(Ok(setup.world.seed.clone())).await;
        let extensions = facts.in_seed.present().unwrap().extensions.present().unwrap();
        extensions
            .iter()
            .map(|one| one.id.kind.clone())
            .collect::<BTreeSet<_>>()
    };
    // Beside those that a local Shoot has, its seed's bucket among them.
    let present = kinds().await;
    assert!(present.contains("BackupBucket"), "{present:?}");
    let others = ExtensionKind::ALL.iter().filter(|kind| !present.contains(kind.kind()));
    for kind in others {
        kind.with(Create(&setup.world.seed)).await;
    }
    assert!(kinds().await.iter().eq(ExtensionKind::NAMES));
}

#[tokio::test(start_paused = true)]
async fn a_shoot_without_a_seed_shows_each_seeds_reason() {
    let setup = Setup::start().await;
    let seeds: Api<Seed> = Api::all(setup.world.garden.clone());
    let hidden = json!({"spec": {"settings": {"scheduling": {"visible": false}}}});
    merge(&seeds, "local", &hidden).await;
    setup.create(|_| {}).await;
    setup.until(LastOperationState::Pending).await;
    let blocker = setup.first(Cause::NotScheduled).await;
    assert_eq!(blocker.message, "it has no seed: 0 of 1 seeds fit");
    assert_eq!(blocker.details, ["local is not visible to the scheduler"]);
    assert_eq!(
        blocker.to_do,
        "set spec.settings.scheduling.visible of Seed local to true, or add a Seed that fits"
    );
    assert!(blocker.since.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_disabled_extension_is_reported_with_object_installation_and_deployment() {
    let setup = Setup::start().await;
    setup.world.scale_provider(0).await;
    setup.create(|_| {}).await;
    let infrastructures: Api<Infrastructure> = Api::namespaced(setup.world.seed.clone(), TECHNICAL_ID);
    wait(&infrastructures, NAME, |infrastructure| infrastructure.map(|_| ())).await;
    let requested_at = setup.clock.now();
    // Its last heartbeat must grow old.
    tokio::time::sleep(Duration::from_secs(100)).await;
    let blocker = setup.first(Cause::ExtensionSilent).await;
    let infrastructure = in_seed("Infrastructure", NAME);
    assert!(blocker.objects.contains(&infrastructure), "{blocker:#?}");
    assert!(
        blocker
            .who
            .contains("registration provider-local, installation provider-local-")
    );
    assert!(
        blocker.details[0].contains("/provider-local wants 0 pods"),
        "{blocker:#?}"
    );
    assert_eq!(
        blocker.tasks,
        [
            "Waiting until Shoot infrastructure has been reconciled",
            "Waiting until the BackupEntry for ETCD data has been reconciled"
        ]
    );
    let since = blocker.since.unwrap();
    assert!(since.duration_since(requested_at).abs().as_secs() < 1, "{blocker:#?}");

    let unseen = setup.why_with(Err("no way".to_owned())).await;
    assert_eq!(unseen.blockers[0].cause, Cause::Waiting, "{unseen:#?}");
    assert!(
        unseen.blockers[0]
            .message
            .contains(&format!("Infrastructure {TECHNICAL_ID}/{NAME}"))
    );

    setup.world.scale_provider(1).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    assert_eq!(setup.why().await.blockers, Vec::new());
}

#[tokio::test(start_paused = true)]
async fn an_extension_error_is_reported_with_code_class_task_and_retry() {
    let setup = Setup::start().await;
    let wrong = json!({"networks": 5});
    setup
        .create(|shoot| shoot["spec"]["provider"]["infrastructureConfig"] = wrong)
        .await;
    setup.until(LastOperationState::Failed).await;
    let blocker = setup.first(Cause::ExtensionError).await;
    assert!(
        blocker.message.contains("infrastructureConfig cannot be read"),
        "{blocker:#?}"
    );
    assert_eq!(blocker.codes, [ErrorCode::ConfigurationProblem]);
    assert_eq!(blocker.class, Some(FaultClass::User.as_str()));
    assert_eq!(blocker.objects, [in_seed("Infrastructure", NAME)]);
    assert_eq!(
        blocker.tasks,
        ["Waiting until Shoot infrastructure has been reconciled"]
    );
    assert_eq!(blocker.next_try, "none before you act");
    assert!(
        blocker
            .command
            .is_some_and(|command| command.contains("operation=retry"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_type_without_registration_is_reported_by_kind_and_type() {
    let setup = Setup::start().await;
    let registrations: Api<ControllerRegistration> = Api::all(setup.world.garden.clone());
    let extra =
        json!({"metadata": {"name": "net-extra"}, "spec": {"resources": [{"kind": "Network", "type": "extra"}]}});
    let extra: ControllerRegistration = serde_json::from_value(extra).unwrap();
    registrations.create(&PostParams::default(), &extra).await.unwrap();
    setup
        .create(|shoot| shoot["spec"]["networking"]["type"] = json!("extra"))
        .await;
    wait(&setup.world.shoots(NAMESPACE), NAME, |shoot| {
        let errors = &shoot?.status.as_ref()?.last_errors;
        errors
            .iter()
            .any(|error| error.description.contains("Network/extra"))
            .then_some(())
    })
    .await;
    let blocker = setup.first(Cause::NotInstalled).await;
    assert_eq!(blocker.details, ["needed for Network/extra"]);

    registrations
        .delete("net-extra", &DeleteParams::default())
        .await
        .unwrap();
    let blocker = setup.first(Cause::NotRegistered).await;
    assert!(
        blocker.message.contains("net-extra") && blocker.message.contains("is being deleted"),
        "{blocker:#?}"
    );
    let released = json!({"metadata": {"finalizers": null}});
    merge(&registrations, "net-extra", &released).await;
    let blocker = setup.first(Cause::NotRegistered).await;
    assert!(
        blocker
            .message
            .ends_with("no ControllerRegistration is responsible for Network/extra"),
        "{blocker:#?}"
    );
    assert_eq!(blocker.tasks, ["Check required extensions"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_shoot_is_answered_with_the_nearest_names() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    let access = Access {
        garden: setup.world.garden.clone(),
        seeds: Box::new({
            let seed = setup.world.seed.clone();
            move |_| Ok(seed.clone())
        }),
    };
    let now = setup.clock.now();
    let fault = observe(&access, NAMESPACE, "lokal", now).await.unwrap_err();
    assert_eq!(fault.to_string(), "Shoot garden-local/lokal does not exist");
    assert_eq!(fault.hint, "name one that exists: garden-local/local");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_waits_for_objects_inside_the_shoot_reports_it() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    let inside = setup.world.shoot_client(NAMESPACE, NAME).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(inside, "default");
    let held = json!({
        "metadata": {"name": "mine", "finalizers": ["example.com/mine"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let held: PersistentVolumeClaim = serde_json::from_value(held).unwrap();
    claims.create(&PostParams::default(), &held).await.unwrap();
    let shoots = setup.world.shoots(NAMESPACE);
    let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
    merge(&shoots, NAME, &confirmed).await;
    shoots.delete(NAME, &DeleteParams::default()).await.unwrap();
    wait(&shoots, NAME, |shoot| {
        let last = shoot?.status.as_ref()?.last_operation.as_ref()?;
        last.description.contains("Cleaning Kubernetes resources").then_some(())
    })
    .await;
    let answer = setup.why().await;
    assert_eq!(answer.state, State::Working, "{answer:#?}");
    assert!(
        answer.blockers[0]
            .message
            .contains("objects inside the Shoot are being deleted"),
        "{answer:#?}"
    );
    assert_eq!(answer.blockers[0].tasks, ["Cleaning Kubernetes resources"]);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_pod_that_cannot_run_is_reported_with_its_reason() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    let deployments: Api<Deployment> = Api::namespaced(setup.world.seed.clone(), TECHNICAL_ID);
    let container = json!([{"name": "kube-scheduler", "image": "nowhere.example/none:v9"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
    deployments
        .patch("kube-scheduler", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    wait(&setup.world.shoots(NAMESPACE), NAME, |shoot| {
        let conditions = &shoot?.status.as_ref()?.conditions;
        let healthy = Condition::find(conditions, "ControlPlaneHealthy")?;
        (healthy.status == ConditionStatus::False).then_some(())
    })
    .await;
    let pods: Api<Pod> = Api::namespaced(setup.world.seed.clone(), TECHNICAL_ID);
    let all = pods.list(&ListParams::default()).await.unwrap().items;
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    let newest = all
        .iter()
        .find(|pod| image(pod).as_deref() == Some("nowhere.example/none:v9"));
    let name = newest.unwrap().name_any();
    wait(&pods, &name, |pod| {
        let status = pod?.status.as_ref()?.container_statuses.as_ref()?.first()?;
        status.state.as_ref()?.waiting.as_ref()?.reason.clone()
    })
    .await;
    let blocker = setup.first(Cause::PodNotRunning).await;
    assert!(
        blocker
            .message
            .contains("ImageNotInCatalogue: image \"nowhere.example/none:v9\""),
        "{blocker:#?}"
    );
    assert_eq!(blocker.objects[0], in_seed("Deployment", "kube-scheduler"));
}

#[tokio::test(start_paused = true)]
async fn machines_with_a_refused_token_are_reported_by_name() {
    let setup = Setup::start().await;
    setup.create(|_| {}).await;
    setup.world.succeeded(NAMESPACE, NAME).await;
    let inside = setup.world.shoot_client(NAMESPACE, NAME).await;
    let secrets: Api<Secret> = Api::namespaced(inside, "kube-system");
    let tokens = secrets.list(&ListParams::default()).await.unwrap().items;
    let tokens = tokens
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("bootstrap-token-"));
    for token in tokens {
        secrets.delete(&token, &DeleteParams::default()).await.unwrap();
    }
    let machines: Api<api_machine::Machine> = Api::namespaced(setup.world.seed.clone(), TECHNICAL_ID);
    let first = machines.list(&ListParams::default()).await.unwrap().items[0].name_any();
    machines.delete(&first, &DeleteParams::default()).await.unwrap();
    wait(&setup.world.shoots(NAMESPACE), NAME, |shoot| {
        let conditions = &shoot?.status.as_ref()?.conditions;
        let ready = Condition::find(conditions, "EveryNodeReady")?;
        (ready.status == ConditionStatus::False).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let blocker = setup.first(Cause::BootstrapTokenMissing).await;
    assert!(
        blocker.details[0].starts_with("Machine shoot--local--local-pool-a"),
        "{blocker:#?}"
    );
}
