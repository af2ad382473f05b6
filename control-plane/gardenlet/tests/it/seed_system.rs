//! What a gardenlet keeps in its seed for everybody: the resource manager, priorities, stand-ins of kinds.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions::{Extension, ExtensionClass};
use api_meta::{Fault, LastOperationState};
use base_client::Connector;
use control_plane_gardenlet::{Addressing, Clients, Config, Images};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_kit::{ADMINS, embedded, embedded_with, until, until_gone};
use tokio_util::sync::CancellationToken;

use crate::world::{GARDENLET, World};

const MANAGER: &str = "gardener-resource-manager";

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

#[tokio::test(start_paused = true)]
async fn a_changed_or_deleted_resource_manager_is_restored() {
    let world = World::start().await;
    let seed = || world.seed.admin();
    let deployments: Api<Deployment> = Api::namespaced(seed(), "garden");
    let first = until(&deployments, MANAGER, "there", |_| true).await;
    let role = "gardener-resource-manager-seed";
    Api::<ClusterRole>::all(seed()).get(role).await.unwrap();
    Api::<ClusterRoleBinding>::all(seed()).get(role).await.unwrap();
    let bindings = Api::<ClusterRoleBinding>::all(seed());
    let bound = bindings.get(role).await.unwrap();
    bindings.delete(role, &DeleteParams::default()).await.unwrap();
    until(&bindings, role, "bound again", |found| {
        found.metadata.uid != bound.metadata.uid
    })
    .await;
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments
        .patch(MANAGER, &PatchParams::default(), &none)
        .await
        .unwrap();
    until(&deployments, MANAGER, "scaled up", |found| replicas(found) == Some(1)).await;
    deployments.delete(MANAGER, &DeleteParams::default()).await.unwrap();
    until(&deployments, MANAGER, "made again", |found| {
        found.metadata.uid != first.metadata.uid
    })
    .await;
    let seeds: Api<core::Seed> = Api::all(world.garden.admin());
    let healthy = |seed: &core::Seed| {
        let conditions = seed.status.iter().flat_map(|status| &status.conditions);
        conditions
            .filter(|one| one.type_ == "SeedSystemComponentsHealthy")
            .any(|one| one.reason == "SystemComponentsRunning")
    };
    until(&seeds, "south", "healthy again", healthy).await;
}

struct NoShoots;

impl Connector for NoShoots {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Err(Fault::bug("this garden has no Shoots"))
    }
}

/// A definition of a kind that gardenlet has a stand-in for.
fn scalers(metadata: &Value, schema: &Value) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {
            "group": "autoscaling.k8s.io", "scope": "Namespaced",
            "names": {
                "kind": "VerticalPodAutoscaler", "listKind": "VerticalPodAutoscalerList",
                "plural": "verticalpodautoscalers", "singular": "verticalpodautoscaler",
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn definitions_of_others_stay_and_old_priorities_are_replaced() {
    let settings = control_plane_garden_api::GardenSettings {
        entropy: base_clock::Entropy::seeded(7),
        gateway: None,
        plugins: control_plane_garden_api::AdmissionPlugins::default(),
    };
    let garden = embedded_with("garden", control_plane_garden_api::kinds(&settings), |builder| builder).await;
    let seed = embedded().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(seed.admin());
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let metadata = json!({
        "name": "verticalpodautoscalers.autoscaling.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, as a test has it"},
    });
    let theirs = scalers(&metadata, &schema);
    let theirs = definitions.create(&PostParams::default(), &theirs).await.unwrap();
    let classes: Api<PriorityClass> = Api::all(seed.admin());
    let old =
        serde_json::from_value(json!({"metadata": {"name": "gardener-system-500"}, "value": 999_999_500})).unwrap();
    classes.create(&PostParams::default(), &old).await.unwrap();

    let object: core::Seed = serde_json::from_value(json!({
        "metadata": {"name": "south"},
        "spec": {
            "provider": {"type": "moon", "region": "far"},
            "networks": {"nodes": "172.18.0.0/16", "pods": "10.1.0.0/16", "services": "10.2.0.0/16"},
        },
    }))
    .unwrap();
    let images = Images::new("r.example", "v0");
    let addressing = Addressing::Shared {
        url: "https://127.0.0.1:6443".into(),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let clients = Clients {
        garden: garden.client(GARDENLET, &[ADMINS]),
        seed: seed.client(GARDENLET, &[ADMINS]),
        shoots: Arc::new(NoShoots),
    };
    let (clock, entropy) = (seed.clock.clone(), seed.entropy.clone());
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    let config = Config::new(object, images, addressing);
    // What it lacks in this garden does not matter: the seed's kinds come first.
    tokio::spawn(async move {
        let _ = Box::pin(control_plane_gardenlet::run(clients, config, clock, entropy, stop)).await;
    });
    until(&classes, "gardener-system-critical", "there", |found| {
        found.value == 999_998_950
    })
    .await;
    until(&classes, "gardener-system-500", "replaced", |found| {
        found.value == 999_998_500
    })
    .await;
    let scalers = definitions
        .get("verticalpodautoscalers.autoscaling.k8s.io")
        .await
        .unwrap();
    assert_eq!(scalers.spec, theirs.spec);
    assert_eq!(scalers.metadata.labels, None);
    let monitors = definitions.get("servicemonitors.monitoring.coreos.com").await.unwrap();
    assert_eq!(monitors.metadata.labels.unwrap()["orangery.dev/stand-in"], "true");
}

#[tokio::test(start_paused = true)]
async fn the_seed_has_an_extension_for_each_type_that_is_enabled_for_seeds() {
    let world = World::start().await;
    world.extensions.silence("Extension");
    let resource =
        json!({"kind": "Extension", "type": "tide", "clusterCompatibility": ["seed"], "autoEnable": ["seed"]});
    world
        .create(json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration", "metadata": {"name": "tide"},
            "spec": {"resources": [resource]},
        }))
        .await;
    let extensions: Api<Extension> = Api::namespaced(world.seed.admin(), "garden");
    let found = until(&extensions, "tide", "requested", |_| true).await;
    assert_eq!(found.spec.class, Some(ExtensionClass::Seed));
    let seeds: Api<core::Seed> = Api::all(world.garden.admin());
    let last = |seed: &core::Seed| seed.status.as_ref()?.last_operation.clone();
    let waits = until(&seeds, "south", "waiting", |seed| {
        last(seed).is_some_and(|last| last.description.contains("Extension garden/tide"))
    })
    .await;
    assert_eq!(last(&waits).unwrap().state, LastOperationState::Processing);
    world.extensions.speak("Extension");
    until(&seeds, "south", "reconciled", |seed| {
        last(seed).is_some_and(|last| last.state == LastOperationState::Succeeded)
    })
    .await;

    let off = json!({"spec": {"extensions": [{"type": "tide", "disabled": true}]}});
    seeds
        .patch("south", &PatchParams::default(), &Patch::Merge(off))
        .await
        .unwrap();
    until_gone(&extensions, "tide").await;
}
