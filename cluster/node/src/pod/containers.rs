//! The containers of a pod as slots, from its spec and from the earlier runs in its status. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::slot::{Doing, Restart, Slot};

/// The pod's containers, init containers first, with the earlier runs in the pod's status.
pub(super) fn slots(pod: &Pod) -> Vec<Slot> {
    let policy = Restart::of(pod);
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let seen = |statuses: &Option<Vec<ContainerStatus>>, name: &str| {
        statuses.iter().flatten().find(|status| status.name == name).cloned()
    };
    let init = spec.init_containers.unwrap_or_default();
    let has_init = !init.is_empty();
    let init = init.into_iter().map(|container| {
        let seen = seen(&status.init_container_statuses, &container.name);
        Slot::new(container, policy, true, seen.as_ref())
    });
    let main = spec.containers.into_iter().map(|container| {
        let seen = seen(&status.container_statuses, &container.name);
        let mut slot = Slot::new(container, policy, false, seen.as_ref());
        if has_init && matches!(slot.doing, Doing::Waiting { .. }) {
            slot.hold("PodInitializing", String::new());
        }
        slot
    });
    init.chain(main).chain(ephemeral(pod)).collect()
}

/// The ephemeral containers of a pod, with their reported status: they run once.
pub(super) fn ephemeral(pod: &Pod) -> impl Iterator<Item = Slot> + '_ {
    let all = pod
        .spec
        .iter()
        .flat_map(|spec| spec.ephemeral_containers.iter().flatten());
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.ephemeral_container_statuses.as_ref());
    all.filter_map(move |container| {
        // But for its target, which only a runtime knows to use, it is a container like others.
        let container: Container = serde_json::to_value(container).and_then(serde_json::from_value).ok()?;
        let seen = statuses
            .into_iter()
            .flatten()
            .find(|status| status.name == container.name);
        Some(Slot::ephemeral(container, seen))
    })
}
