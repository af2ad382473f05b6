//! The image `kube-controller-manager`: the controllers of `cluster/controllers` against the API server of its
//! kubeconfig.

use std::collections::BTreeSet;
use std::sync::Arc;

use base_secrets::Authority;
use cluster_controllers::{Name, Options};
use cluster_node::{ContainerContext, Exit};
use kube::Api;

use super::controllers::{LEASE_NAMESPACE, client, run_as_leader};
use super::flags::Flags;

/// The flags it understands. Those that shape what is not here (metrics port, authentication of scrapes, node ranges,
/// which nodes take themselves) are accepted because they change no answer.
const FLAGS: [&str; 23] = [
    "allocate-node-cidrs",
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "cluster-cidr",
    "cluster-name",
    "cluster-signing-duration",
    "cluster-signing-kube-apiserver-client-cert-file",
    "cluster-signing-kube-apiserver-client-key-file",
    "cluster-signing-kubelet-client-cert-file",
    "cluster-signing-kubelet-client-key-file",
    "cluster-signing-kubelet-serving-cert-file",
    "cluster-signing-kubelet-serving-key-file",
    "controllers",
    "kubeconfig",
    "leader-elect",
    "node-cidr-mask-size",
    "profiling",
    "root-ca-file",
    "secure-port",
    "service-account-private-key-file",
    "service-cluster-ip-range",
    "use-service-account-credentials",
    "v",
];

/// Upstream's names of the controllers that are here
/// (kubernetes/kubernetes v1.35 cmd/kube-controller-manager/names/controller_names.go).
const CONTROLLERS: [(&str, Name); 16] = [
    ("bootstrap-token-cleaner-controller", Name::TokenCleaner),
    ("certificatesigningrequest-approving-controller", Name::CsrApproving),
    ("certificatesigningrequest-signing-controller", Name::CsrSigning),
    ("daemonset-controller", Name::DaemonSet),
    ("deployment-controller", Name::Deployment),
    ("endpointslice-controller", Name::EndpointSlice),
    ("garbage-collector-controller", Name::GarbageCollector),
    ("job-controller", Name::Job),
    ("namespace-controller", Name::Namespace),
    ("node-lifecycle-controller", Name::NodeLifecycle),
    ("persistentvolume-binder-controller", Name::PersistentVolume),
    ("pod-garbage-collector-controller", Name::PodGc),
    ("replicaset-controller", Name::ReplicaSet),
    ("root-ca-certificate-publisher-controller", Name::RootCaPublisher),
    ("serviceaccount-controller", Name::ServiceAccount),
    ("statefulset-controller", Name::StatefulSet),
];

/// Runs until stopped.
pub async fn kube_controller_manager(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("kube-controller-manager", &context.args, &FLAGS)?;
    let client = client(context, &flags)?;
    let read = |flag: &str| {
        let path = flags.get(flag).map(str::to_owned);
        path.map(|path| context.files.read_text(&path).map_err(|error| Exit::failed_by(&error)))
            .transpose()
    };
    let certificate = read("cluster-signing-kube-apiserver-client-cert-file")?;
    let key = read("cluster-signing-kube-apiserver-client-key-file")?;
    let signer = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let authority = Authority::from_pem(&certificate, &key).map_err(|error| Exit::failed_by(&error))?;
            Some(Arc::new(authority))
        }
        _ => None,
    };
    let options = Options {
        controllers: selected(flags.get("controllers").unwrap_or("*")),
        signer,
        root_ca: read("root-ca-file")?,
        clock: context.clock.clone(),
        entropy: context.entropy.clone(),
    };
    let run = |stop| cluster_controllers::run(client.clone(), options, stop);
    let leases = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    run_as_leader(context, &flags, leases, "kube-controller-manager", run).await
}

/// The controllers of a `--controllers` list: `*` for all, a name for one, `-name` for all but it. Names of upstream's
/// that are not here change nothing: there is nothing to switch on or off.
fn selected(list: &str) -> BTreeSet<Name> {
    let words: Vec<&str> = list.split(',').map(str::trim).collect();
    let listed = |name: &str| words.contains(&name);
    CONTROLLERS
        .into_iter()
        .filter(|(name, _)| {
            let off = words.iter().any(|word| word.strip_prefix('-') == Some(name));
            !off && (listed("*") || listed(name))
        })
        .map(|(_, controller)| controller)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_chosen_as_upstream_chooses_them() {
        assert_eq!(selected("*,bootstrapsigner,tokencleaner"), Name::ALL.into());
        assert_eq!(selected("job-controller"), [Name::Job].into());
        let but_one = selected("-job-controller,*");
        assert!(!but_one.contains(&Name::Job) && but_one.len() == Name::ALL.len() - 1);
    }
}
