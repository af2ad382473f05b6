//! The texts of steps. They reach users in progress texts and in `status.lastErrors[].taskID`, and are those of
//! gardener/gardener v1.150 `pkg/gardenlet/controller/shoot/shoot/flow_*.go`. A step may have another text on the way to
//! another goal.

use components_hosted::{ComponentId, component};

use crate::single::{Single, Title};
use crate::step::{Kind, Managed, Point, Step, Verb, Way};

/// The text of a step on the way to a goal.
pub(crate) fn name_of(way: Way, step: Step) -> &'static str {
    match step {
        Step::Single(single) => of_single(way, single),
        Step::Kind(kind, verb) => of(&of_kind(way, kind), verb),
        Step::Component(id, verb) => of_component(way, id, verb),
        Step::Extensions(point, verb) => of(&of_extensions(way, point), verb),
        Step::Managed(managed, verb) => of(&of_managed(managed), verb),
    }
}

/// The texts of a subject.
struct Titles {
    deploy: &'static str,
    wait: &'static str,
    destroy: &'static str,
    wait_destroyed: &'static str,
}

fn of_component(way: Way, id: ComponentId, verb: Verb) -> &'static str {
    of_titles(way, &component(id).titles(), verb)
}

/// The title of the Service that the API server has early.
fn of_api_server_service(way: Way, verb: Verb) -> &'static str {
    let titles = component(ComponentId::ApiServer).titles();
    let early = titles
        .early
        .expect("the API server has a Service early, and titles for it");
    of_titles(way, early, verb)
}

fn of_titles(way: Way, titles: &components_hosted::Titles, verb: Verb) -> &'static str {
    match (verb, way) {
        (Verb::Deploy, Way::Delete) => titles.deploy_for_deletion,
        (Verb::Deploy, _) => titles.deploy,
        (Verb::Wait, Way::Delete) => titles.wait_for_deletion,
        (Verb::Wait, _) => titles.wait,
        (Verb::Destroy, _) => titles.destroy,
        (Verb::WaitDestroyed, _) => titles.wait_destroyed,
    }
}

fn of(titles: &Titles, verb: Verb) -> &'static str {
    match verb {
        Verb::Deploy => titles.deploy,
        Verb::Wait => titles.wait,
        Verb::Destroy => titles.destroy,
        Verb::WaitDestroyed => titles.wait_destroyed,
    }
}

fn of_kind(way: Way, kind: Kind) -> Titles {
    match kind {
        Kind::Infrastructure => Titles {
            deploy: "Deploying Shoot infrastructure",
            wait: "Waiting until Shoot infrastructure has been reconciled",
            destroy: "Destroying shoot infrastructure",
            wait_destroyed: "Waiting until shoot infrastructure has been deleted",
        },
        Kind::InternalDnsRecord => Titles {
            deploy: "Deploying internal domain DNS record",
            wait: "Waiting until internal domain DNS record is ready",
            destroy: match way {
                Way::Hibernate => "Destroying internal domain DNS record if hibernated",
                _ => "Destroying internal domain DNS record",
            },
            wait_destroyed: "Waiting until internal domain DNS record has been destroyed",
        },
        Kind::ExternalDnsRecord => Titles {
            deploy: "Deploying external domain DNS record",
            wait: "Waiting until external domain DNS record is ready",
            destroy: match way {
                Way::Hibernate => "Destroying external domain DNS record if hibernated",
                _ => "Destroying external domain DNS record",
            },
            wait_destroyed: "Waiting until external domain DNS record has been destroyed",
        },
        Kind::ControlPlane if way == Way::Delete => Titles {
            deploy: "Deploying Shoot control plane",
            wait: "Waiting until Shoot control plane has been reconciled",
            ..of_kind(Way::Reconcile, kind)
        },
        Kind::ControlPlane => Titles {
            deploy: "Deploying shoot control plane components",
            wait: "Waiting until shoot control plane has been reconciled",
            destroy: "Destroying shoot control plane",
            wait_destroyed: "Waiting until shoot control plane has been destroyed",
        },
        Kind::OperatingSystemConfig => Titles {
            deploy: "Deploying OperatingSystemConfig resources for worker pools",
            wait: "Waiting until OperatingSystemConfig for worker pools have been reconciled",
            destroy: "Deleting operating system config resources",
            wait_destroyed: "Waiting until all operating system config resources are deleted",
        },
        Kind::Network => Titles {
            deploy: "Deploying shoot network plugin",
            wait: "Waiting until shoot network plugin has been reconciled",
            destroy: "Destroying shoot network plugin",
            wait_destroyed: "Waiting until shoot network plugin has been destroyed",
        },
        Kind::ContainerRuntime if way == Way::Delete => Titles {
            wait_destroyed: "Waiting until stale container runtime resources are deleted",
            ..of_kind(Way::Reconcile, kind)
        },
        Kind::ContainerRuntime => Titles {
            deploy: "Deploying container runtime resources",
            wait: "Waiting until container runtime resources are ready",
            destroy: "Deleting container runtime resources",
            wait_destroyed: "Waiting until container runtime resources are deleted",
        },
        Kind::Worker => Titles {
            deploy: "Configuring worker pools",
            wait: "Waiting until worker pools have been reconciled",
            destroy: "Destroying shoot workers",
            wait_destroyed: "Waiting until shoot worker nodes have been terminated",
        },
    }
}

fn of_extensions(way: Way, point: Point) -> Titles {
    let hibernates = way == Way::Hibernate;
    match point {
        Point::BeforeApiServer => Titles {
            deploy: match hibernates {
                true => "Hibernating extension resources after kube-apiserver hibernation",
                false => "Deploying extension resources before kube-apiserver",
            },
            wait: match hibernates {
                true => "Waiting until extension resources hibernated after kube-apiserver hibernation are ready",
                false => "Waiting until extension resources handled before kube-apiserver are ready",
            },
            destroy: "Deleting extension resources before kube-apiserver",
            wait_destroyed: "Waiting until extension resources that should be handled before kube-apiserver have been deleted",
        },
        Point::AfterApiServer => Titles {
            deploy: match hibernates {
                true => "Hibernating extension resources before kube-apiserver hibernation",
                false => "Deploying extension resources after kube-apiserver",
            },
            wait: match hibernates {
                true => "Waiting until extension resources hibernated before kube-apiserver hibernation are ready",
                false => "Waiting until extension resources handled after kube-apiserver are ready",
            },
            destroy: "Deleting extension resources after kube-apiserver",
            wait_destroyed: "Waiting until extension resources that should be handled after kube-apiserver have been deleted",
        },
        Point::AfterWorkers => Titles {
            deploy: "Deploying extension resources after workers",
            wait: "Waiting until extension resources handled after workers are ready",
            destroy: "Deleting extension resources after workers",
            wait_destroyed: "Waiting until extension resources handled after workers have been deleted",
        },
    }
}

fn of_managed(managed: Managed) -> Titles {
    match managed {
        Managed::ShootNamespaces => Titles {
            deploy: "Deploying shoot namespaces system component",
            wait: "Waiting until shoot namespaces have been reconciled",
            destroy: "Deleting shoot namespaces system component",
            wait_destroyed: "Waiting until shoot namespaces system component has been deleted",
        },
        Managed::ShootSystem => Titles {
            deploy: "Deploying shoot system resources",
            wait: "Waiting until shoot system resources have been applied",
            destroy: "Deleting shoot system resources",
            wait_destroyed: "Waiting until shoot system resources have been deleted",
        },
        Managed::ClusterIdentity => Titles {
            deploy: "Deploying shoot cluster identity",
            wait: "Waiting until shoot cluster identity has been applied",
            destroy: "Deleting shoot cluster identity",
            wait_destroyed: "Waiting until shoot cluster identity has been deleted",
        },
        Managed::NodeAgent => Titles {
            deploy: "Deploying managed resources for the gardener-node-agent",
            wait: "Waiting until managed resources for the gardener-node-agent have been applied",
            destroy: "Deleting managed resources for the gardener-node-agent",
            wait_destroyed: "Waiting until managed resources for the gardener-node-agent have been deleted",
        },
        Managed::VpnShoot => Titles {
            deploy: "Deploying vpn-shoot system component",
            wait: "Waiting until vpn-shoot system component is ready",
            destroy: "Deleting vpn-shoot system component",
            wait_destroyed: "Waiting until vpn-shoot system component has been deleted",
        },
    }
}

fn of_single(way: Way, single: Single) -> &'static str {
    match single.row().title {
        Title::Deletion { deletion, .. } if way == Way::Delete => deletion,
        Title::Same(title) | Title::Deletion { otherwise: title, .. } => title,
        Title::EarlyService(verb) => of_api_server_service(way, verb),
    }
}
