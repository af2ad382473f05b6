//! The image `kube-scheduler`: the small scheduler of `cluster/controllers` against the API server of its kubeconfig.

use cluster_node::{ContainerContext, Exit};
use kube::Api;

use super::controllers::{LEASE_NAMESPACE, client, run_as_leader};
use super::flags::Flags;

/// The flags it understands. Those about its own port are accepted because they change no answer.
const FLAGS: [&str; 7] = [
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "kubeconfig",
    "leader-elect",
    "profiling",
    "secure-port",
    "v",
];

/// Runs until stopped.
pub async fn kube_scheduler(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("kube-scheduler", &context.args, &FLAGS)?;
    let client = client(context, &flags)?;
    let run = |stop| cluster_controllers::scheduler::run(client.clone(), context.clock.clone(), stop);
    let leases = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    run_as_leader(context, &flags, leases, "kube-scheduler", run).await
}
