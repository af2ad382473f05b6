//! The image `gardener-resource-manager`: applies the ManagedResources of one namespace to the cluster of
//! `--target-kubeconfig`.

use cluster_node::{ContainerContext, Exit};
use control_plane_resource_manager::{Options, run};

use super::flags::Flags;

/// The flags it understands. Those about its health port and its leadership are accepted: there is one pod at a time,
/// and the node sees from the container itself whether it is well.
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
    context.ready.set(true);
    run(source, target, options, context.clock.clone(), context.stop.clone()).await;
    Ok(())
}
