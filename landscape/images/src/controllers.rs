//! What the images of controllers share: the client of `--kubeconfig`, and leadership where it is asked for.

use base_controller::lead;
use cluster_node::{ContainerContext, Exit};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::flags::Flags;

/// Where Kubernetes' own controllers keep their leases.
pub(crate) const LEASE_NAMESPACE: &str = "kube-system";

/// The client of `--kubeconfig`.
pub(crate) fn client(context: &ContainerContext, flags: &Flags) -> Result<Client, Exit> {
    context
        .client_from(flags.required("kubeconfig")?)
        .map_err(|fault| Exit::failed(fault.chain()))
}

/// Runs `work` until the container stops; with `elect` only while this pod holds one of `leases`. The pod is
/// ready while it waits for the lease too, as its forerunner may hold it until then.
pub(crate) async fn run_as_leader<F, R>(
    context: &ContainerContext,
    elect: bool,
    leases: Api<Lease>,
    name: &str,
    work: F,
) -> Result<(), Exit>
where
    F: FnOnce(CancellationToken) -> R,
    R: Future<Output = ()>,
{
    context.ready.set(true);
    if !elect {
        work(context.stop.clone()).await;
        return Ok(());
    }
    let identity = context.pod.metadata.name.clone().unwrap_or_default();
    lead(
        leases,
        name,
        &identity,
        context.clock.clone(),
        context.stop.clone(),
        work,
    )
    .await
    .map_err(|lost| Exit::failed_by(&lost))
}
