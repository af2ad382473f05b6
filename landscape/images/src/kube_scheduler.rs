//! The image `kube-scheduler`: the small scheduler of `cluster/controllers` against the API server of its kubeconfig.

use cluster_node::{ContainerContext, Exit};
use kube::Api;

use super::controllers::{LEASE_NAMESPACE, client, run_as_leader};
use super::flags::{Library, Program};

/// Its flags, and those that have an effect here.
pub(super) const PROGRAM: Program = Program {
    name: "kube-scheduler",
    table: include_str!("flags/kube-scheduler.tsv"),
    library: Library::Pflag,
    effective: &["kubeconfig", "leader-elect"],
    files: &[
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "client-ca-file",
        "config",
        "requestheader-client-ca-file",
        "tls-cert-file",
        "tls-private-key-file",
    ],
};

/// Runs until stopped.
pub async fn kube_scheduler(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = PROGRAM.flags(context)?;
    let client = client(context, &flags)?;
    let run = |stop| cluster_controllers::scheduler::run(client.clone(), context.clock.clone(), stop);
    let leases = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    run_as_leader(context, flags.is_on("leader-elect")?, leases, "kube-scheduler", run).await
}
