//! The conformance kit against this provider: no rule is broken, and those that are skipped are skipped for a reason that is
//! written down here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_extensions::{ExtensionKind, Network};
use api_meta::labels::RESOURCES_MANAGED_BY;
use api_meta::{Condition, ConditionStatus, Fault};
use async_trait::async_trait;
use base_client::list;
use extensions_conformance::{Fragments, Hook, Options, Rule, Subject, Verdict, validate};
use extensions_provider_fake::cloud::{CloudConnector, Kind, Settings};
use extensions_provider_fake::{ABOUT, DEFAULT_TYPE, extend};
use extensions_sdk::{Context, Extension, Observer, Registration};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_kit::embedded_with;
use tokio_util::sync::CancellationToken;

use crate::workers::{let_machines_join_but, pool, prepared_alone};
use crate::world::{REGION, World};

/// The extension's own namespace.
const NAMESPACE: &str = "extension-provider-fake";
/// The type of Networks that another extension is primary for.
const NETWORK_TYPE: &str = "of-another";
/// Pause of the kit's own writer: virtual time makes it free, its requests are not.
const WRITE_PAUSE: Duration = Duration::from_millis(60);

/// This provider registers no webhooks.
const NO_WEBHOOKS: &str = "no configuration of webhooks of the extension was found";
/// What a ControlPlane or a Worker made is found by its names; gardenlet stores machines.
const NO_STATE: &str = "the extension leaves no state";

/// A secondary for Networks, as any extension can have one.
struct Onlooker;

#[async_trait]
impl Observer<Network> for Onlooker {
    async fn observe(&self, context: &Context, _: &Network) -> Result<Vec<Condition>, Fault> {
        let now = context.clock.now();
        Ok(vec![Condition::new(
            "Seen",
            ConditionStatus::True,
            "Seen",
            "it is there",
            now,
        )])
    }
}

/// Starts the extension; it ends with the token and the task.
fn start(world: &World) -> (tokio::task::JoinHandle<()>, CancellationToken) {
    let stop = CancellationToken::new();
    let (clock, entropy) = (world.embedded.clock.clone(), world.embedded.entropy.clone());
    let extension = Extension::builder(ABOUT.name, world.embedded.admin(), clock, entropy, stop.clone());
    let cloud: Arc<dyn CloudConnector> = Arc::new(world.cloud.clone());
    let extension = extend(
        extension,
        &cloud,
        world.surroundings(&world.embedded.admin(), &stop),
        DEFAULT_TYPE,
    )
    .unwrap()
    .heartbeat(NAMESPACE)
    .secondary::<Network>(Registration::of_type(NETWORK_TYPE), Arc::new(Onlooker));
    (tokio::spawn(extension.run()), stop)
}

async fn create_surroundings(world: &World) {
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let mut networks = api_extensions::crds();
    networks.retain(|definition| definition.spec.names.plural == ExtensionKind::Network.plural());
    definitions.create(&PostParams::default(), &networks[0]).await.unwrap();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    world.manage_resources();
}

async fn passes(world: World, kind: ExtensionKind, fragments: &str, inventory: Hook, skipped: &[(Rule, &str)]) {
    create_surroundings(&world).await;
    let held_before = world.cloud.held().to_string();
    let keys = [
        ("accessKeyID", world.keys.access_key_id.clone()),
        ("secretAccessKey", world.keys.secret_access_key.clone()),
    ];
    let subject = Subject {
        secondary: Some((ExtensionKind::Network, NETWORK_TYPE.to_owned())),
        fragments: Fragments::parse(fragments).unwrap(),
        credentials: BTreeMap::from(keys.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))),
        ..Subject::new(kind, DEFAULT_TYPE)
    };
    let started = world.clone();
    let options = Options {
        write_pause: WRITE_PAUSE,
        kill: Some(Hook::restarting(move || start(&started))),
        cloud_check: Some(inventory),
        namespace: Some(NAMESPACE.to_owned()),
        ..Options::new(kind, world.embedded.clock.clone(), world.embedded.entropy.clone())
    };
    let report = validate(world.client.clone(), subject, options).await;
    assert_eq!(report.verdict, Verdict::Passed, "{}", report.text());
    assert_eq!(report.skipped().collect::<Vec<_>>(), skipped, "{}", report.text());
    assert_eq!(report.left_behind, Vec::<String>::new());
    assert_eq!(world.cloud.held().to_string(), held_before, "left behind");
}

#[tokio::test(start_paused = true)]
async fn infrastructures_break_no_rule_of_the_conformance_kit() {
    let world = World::new(Settings::default()).await;
    let cloud = world.cloud.clone();
    let inventory = Hook::new(move || {
        let held = cloud.held().to_string();
        async { Ok(held) }
    });
    let fragments = include_str!("../../conformance/infrastructure.yaml");
    let skipped = [
        (Rule::WebhooksAnswer, NO_WEBHOOKS),
        (Rule::WebhooksSpareOtherProviders, NO_WEBHOOKS),
    ];
    passes(world, ExtensionKind::Infrastructure, fragments, inventory, &skipped).await;
}

/// A ControlPlane holds nothing in the cloud. What lies outside of the seed is in the shoot, and is looked at in the cloud's
/// place.
#[tokio::test(start_paused = true)]
async fn control_planes_break_no_rule_of_the_conformance_kit() {
    let world = World::new(Settings::default()).await;
    let shoot = embedded_with("shoot", Vec::new(), |builder| builder).await;
    let manager = control_plane_resource_manager::run(
        world.client.clone(),
        shoot.admin(),
        control_plane_resource_manager::Options::default(),
        world.embedded.clock.clone(),
        CancellationToken::new(),
    );
    tokio::spawn(manager);
    let in_shoot = shoot.admin();
    let inventory = Hook::new(move || {
        let (roles, bindings): (Api<ClusterRole>, Api<ClusterRoleBinding>) =
            (Api::all(in_shoot.clone()), Api::all(in_shoot.clone()));
        async move {
            let managed = format!("{RESOURCES_MANAGED_BY}=gardener");
            let roles = list(&roles, &managed).await?;
            let bindings = list(&bindings, &managed).await?;
            let roles = roles.iter().map(|role| format!("ClusterRole {}\n", role.name_any()));
            let bindings = bindings
                .iter()
                .map(|binding| format!("ClusterRoleBinding {}\n", binding.name_any()));
            Ok(roles.chain(bindings).collect())
        }
    });
    let fragments = include_str!("../../conformance/control-plane.yaml");
    let skipped = [
        (Rule::MigrateLeavesState, NO_STATE),
        (Rule::RestoreKeepsState, NO_STATE),
        (Rule::WebhooksAnswer, NO_WEBHOOKS),
        (Rule::WebhooksSpareOtherProviders, NO_WEBHOOKS),
    ];
    passes(world, ExtensionKind::ControlPlane, fragments, inventory, &skipped).await;
}

/// Machines are instances in the subnets of an Infrastructure that stays. A task of the test lets each of them join.
#[tokio::test(start_paused = true)]
async fn workers_break_no_rule_of_the_conformance_kit() {
    let (world, infrastructure) = prepared_alone(Settings::default()).await;
    let_machines_join_but(Api::all(world.client.clone()), world.client.clone(), "");
    let cloud = world.cloud.clone();
    let inventory = Hook::new(move || {
        let mut held = cloud.held();
        held.0.retain(|item| item.kind() == Kind::Instance);
        let held = held.to_string();
        async { Ok(held) }
    });
    let mut bad = pool("p", 1, "1", &["fake-1a"]);
    bad["providerConfig"] = json!({"spot": true});
    let secret = |name: &str, key: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {key: "{}"}});
    let fragments = json!({
        "spec": {"region": REGION, "infrastructureProviderStatus": infrastructure, "pools": [pool("p", 1, "1", &["fake-1a"])]},
        "changedSpec": {"pools": [pool("p", 2, "1", &["fake-1a"])]},
        "badSpec": {"pools": [bad]},
        "objects": [
            secret("user-data", "cloud_config"),
            secret("shoot-access-machine-controller-manager", "kubeconfig"),
        ],
    });
    let skipped = [
        (Rule::MigrateLeavesState, NO_STATE),
        (Rule::RestoreKeepsState, NO_STATE),
        (Rule::WebhooksAnswer, NO_WEBHOOKS),
        (Rule::WebhooksSpareOtherProviders, NO_WEBHOOKS),
    ];
    passes(
        world,
        ExtensionKind::Worker,
        &fragments.to_string(),
        inventory,
        &skipped,
    )
    .await;
}
