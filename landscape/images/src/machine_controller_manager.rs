//! The image `machine-controller-manager`. Here the machine controllers run in the program of the provider, which makes the
//! machines (`extensions/machines`, in `provider-local`): the pod is there so that extensions find the Deployment that they
//! add a container to, and works on nothing.

use cluster_node::{ContainerContext, Exit};

/// Runs until stopped.
pub async fn machine_controller_manager(context: ContainerContext) -> Exit {
    context.ready.set(true);
    context
        .log
        .line("machines are worked on by the provider's own program here; this container does nothing");
    context.stop.cancelled().await;
    Exit::done()
}
