//! The image `gardener-resource-manager` of version 0.1: what `orangery resource-manager` is now, with flags in place of a
//! configuration file. Pods of a data folder that an older program has left run it until gardenlet replaces them.

use cluster_node::{Binding, ContainerContext, Endpoint, Exit};
use control_plane_resource_manager::{NetworkPolicies, Options, run, webhooks};
use kube::{Api, Client};

use super::controllers::run_as_leader;
use super::flags::Flags;

/// The flags it understands. That about its health port is accepted: the node sees from the container itself whether it
/// is well.
const FLAGS: [&str; 9] = [
    "garbage-collector",
    "health-port",
    "leader-elect",
    "network-policy-namespace-selectors",
    "resource-class",
    "source-namespace",
    "target-kubeconfig",
    "token-requestor-class",
    "webhook-port",
];

/// Runs until stopped.
pub async fn gardener_resource_manager(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("gardener-resource-manager", &context.args, &FLAGS)?;
    let source = context.client().map_err(|fault| Exit::failed(fault.chain()))?;
    let target = match flags.get("target-kubeconfig") {
        Some(path) => context.client_from(path).map_err(|fault| Exit::failed(fault.chain()))?,
        None => source.clone(),
    };
    let given = |flag: &str| flags.get(flag).map(str::to_owned);
    let options = Options {
        namespace: given("source-namespace"),
        class: given("resource-class"),
        cluster_id: String::new(),
        garbage_collection: flags.is_on("garbage-collector")?,
        token_requestor: given("token-requestor-class"),
        network_policies: network_policies(&flags)?,
        machine_namespace: None,
    };
    // Every pod answers, not the leader alone.
    let _serving = serve_webhooks(context, &flags, &target)?;
    let namespace = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let leases = Api::namespaced(source.clone(), namespace);
    let clock = context.clock.clone();
    let work = |stop| run(source, target, options, clock, stop);
    run_as_leader(
        context,
        flags.is_on("leader-elect")?,
        leases,
        "gardener-resource-manager",
        work,
    )
    .await
}

/// Serves webhooks where the flag names a port.
fn serve_webhooks(context: &ContainerContext, flags: &Flags, target: &Client) -> Result<Option<Binding>, Exit> {
    let Some(port) = flags.get("webhook-port") else {
        return Ok(None);
    };
    let port = port.parse().map_err(|_| {
        Exit::failed(format!(
            "gardener-resource-manager: --webhook-port is {port:?}, a port from 1 to 65535 is allowed"
        ))
    })?;
    let serving = context.network.bind(port, Endpoint::Http(webhooks(target.clone())));
    serving.map(Some).map_err(|error| Exit::failed_by(&error))
}

/// Network policies are made where the flag says so: a JSON list of label selectors of namespaces.
fn network_policies(flags: &Flags) -> Result<Option<NetworkPolicies>, Exit> {
    let Some(selectors) = flags.get("network-policy-namespace-selectors") else {
        return Ok(None);
    };
    let namespace_selectors = serde_json::from_str(selectors).map_err(|error| {
        Exit::failed(format!(
            "gardener-resource-manager: --network-policy-namespace-selectors is no JSON list of label selectors: {error}"
        ))
    })?;
    Ok(Some(NetworkPolicies {
        namespace_selectors,
        ingress_controller: None,
    }))
}
