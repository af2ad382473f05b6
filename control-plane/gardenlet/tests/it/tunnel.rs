//! The tunnel from a shoot's API server to its nodes: it is there where gardenlet is configured so, and leaves nothing where it
//! no longer is.

use api_core::v1beta1 as core;
use api_meta::annotations;
use api_resources::ManagedResource;
use base_client::{Call, Injected, Verb};
use control_plane_gardenlet::NodeAccess;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::until;

use crate::succeeded;
use crate::world::{World, shoot};

/// Reconciles the shoot once more.
async fn reconcile(world: &World) {
    reconcile_until(world, "reconciled once more", succeeded).await;
}

/// Begins to, and waits for what comes of it.
async fn reconcile_until(world: &World, what: &str, is_so: impl Fn(&core::Shoot) -> bool) {
    let shoots = world.shoots();
    let before = shoots.get("b").await.unwrap().metadata.generation;
    let patch = json!({"metadata": {"annotations": {annotations::OPERATION: "reconcile"}}});
    shoots
        .patch("b", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let again = |shoot: &core::Shoot| is_so(shoot) && shoot.metadata.generation > before;
    until(&shoots, "b", what, again).await;
}

/// What of the tunnel is in the seed.
async fn parts(world: &World) -> Vec<String> {
    let everything = ListParams::default();
    let mut found = Vec::new();
    let mut note = |kind: &str, names: Vec<String>| {
        let of_tunnel = names
            .into_iter()
            .filter(|name| ["vpn", "egress", "http-proxy"].iter().any(|part| name.contains(part)));
        found.extend(of_tunnel.map(|name| format!("{kind}/{name}")));
    };
    macro_rules! note_all {
        ($($kind:ty),+) => {
            $(note(stringify!($kind), world.seed::<$kind>().list(&everything).await.unwrap().iter().map(ResourceExt::name_any).collect());)+
        };
    }
    note_all!(
        Deployment,
        Service,
        PodDisruptionBudget,
        ConfigMap,
        Secret,
        ManagedResource
    );
    found
}

fn args(deployment: &Value) -> String {
    deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_comes_and_goes_with_gardenlets_configuration() {
    let mut world = World::start().await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    assert_eq!(parts(&world).await, Vec::<String>::new(), "nodes are reached directly");

    world.restart_gardenlet(NodeAccess::Tunnel);
    reconcile(&world).await;
    let api_server: Value = world.raw::<Deployment>("kube-apiserver").await;
    assert!(
        args(&api_server).contains("--egress-selector-config-file"),
        "{api_server:#}"
    );
    let server: Value = world.raw::<Deployment>("vpn-seed-server").await;
    assert_eq!(server["spec"]["replicas"], 1);
    let managed: Value = world.raw::<ManagedResource>("shoot-core-vpn-shoot").await;
    let secret = managed["spec"]["secretRefs"][0]["name"].as_str().unwrap();
    let secret = world.seed::<Secret>().get(secret).await.unwrap().data.unwrap();
    let text = |name: &str| {
        let found = secret.iter().find(|(key, _)| key.contains(name));
        String::from_utf8(found.unwrap().1.0.clone()).unwrap()
    };
    let policy = text("allow-vpn");
    assert!(
        policy.contains("10.9.0.0/16"),
        "the infrastructure's network, not the spec's: {policy}"
    );
    let agent = text("deployment");
    for part in [
        "vpn-seed-server.shoot--a--b.svc",
        "--proxy-server-port=6443",
        "127.0.0.1",
    ] {
        assert!(agent.contains(part), "{part}: {agent}");
    }

    world.restart_gardenlet(NodeAccess::Direct);
    reconcile(&world).await;
    assert_eq!(parts(&world).await, Vec::<String>::new(), "nothing is left");
    let api_server: Value = world.raw::<Deployment>("kube-apiserver").await;
    assert!(!args(&api_server).contains("egress"), "{api_server:#}");
}

/// The Secret with the agent's key must not outlive the ManagedResource by which a later operation would find it.
#[tokio::test(start_paused = true)]
async fn a_tunnel_whose_removal_was_cut_off_leaves_nothing_after_the_next() {
    let mut world = World::start().await;
    world.create_shoot(&shoot()).await;
    until(&world.shoots(), "b", "ready", succeeded).await;
    // The last deletion of the server's parts, and the last before that of the ManagedResource.
    for part in [
        "poddisruptionbudgets/vpn-seed-server",
        "secrets/managedresource-shoot-core-vpn-shoot",
    ] {
        world.restart_gardenlet(NodeAccess::Tunnel);
        reconcile(&world).await;
        let refused = move |call: &Call| match call.verb == Verb::Delete && call.path.contains(part) {
            true => Injected::Answer(403),
            false => Injected::Pass,
        };
        world.restart_gardenlet_with(NodeAccess::Direct, refused);
        reconcile_until(&world, "refused", |shoot| {
            let status = shoot.status.as_ref().unwrap();
            !status.last_errors.is_empty() && !succeeded(shoot)
        })
        .await;
        world.restart_gardenlet(NodeAccess::Direct);
        reconcile(&world).await;
        assert_eq!(parts(&world).await, Vec::<String>::new(), "{part}");
    }
}
