//! The image `gardener-resource-manager`: applies the ManagedResources of one namespace to the cluster of
//! `--target-kubeconfig`.

use cluster_node::{ContainerContext, Exit};
use control_plane_resource_manager::{Options, run};
use kube::Api;

use super::controllers::run_as_leader;
use super::flags::Flags;

/// The flags it understands. That about its health port is accepted: the node sees from the container itself whether it
/// is well.
const FLAGS: [&str; 5] = [
    "health-port",
    "leader-elect",
    "resource-class",
    "source-namespace",
    "target-kubeconfig",
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
    let path = flags.required("target-kubeconfig")?;
    let target = context.client_from(path).map_err(|fault| Exit::failed(fault.chain()))?;
    let options = Options {
        namespace: flags.get("source-namespace").map(str::to_owned),
        class: flags
            .get("resource-class")
            .filter(|class| !class.is_empty())
            .map(str::to_owned),
        cluster_id: String::new(),
    };
    let namespace = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let leases = Api::namespaced(source.clone(), namespace);
    let clock = context.clock.clone();
    let work = |stop| run(source, target, options, clock, stop);
    run_as_leader(context, &flags, leases, "gardener-resource-manager", work).await
}
