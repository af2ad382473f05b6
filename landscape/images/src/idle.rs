//! The image of a hosted component that does nothing here. The machine controllers run in the program of the provider, which
//! makes the machines (`extensions/machines`, in `provider-local`); the pod of `machine-controller-manager` is there so that
//! extensions find the Deployment that they add a container to. A component that is new has no other implementation either,
//! until one is written: its pods are ready, so that a Shoot can be seen with it.

use cluster_node::{ContainerContext, Exit};

/// Runs until stopped.
pub(crate) async fn idle(context: ContainerContext) -> Exit {
    context.ready.set(true);
    context
        .log
        .line("this container does nothing here: no program of this process stands for its image");
    context.stop.cancelled().await;
    Exit::done()
}
