//! The image `kube-controller-manager`: the controllers of `cluster/controllers` against the API server of its
//! kubeconfig.

use std::collections::BTreeSet;
use std::sync::Arc;

use base_secrets::Authority;
use cluster_controllers::{Name, NodeRanges, Options};
use cluster_node::{ContainerContext, Exit};
use ipnet::IpNet;
use kube::Api;

use super::controllers::{LEASE_NAMESPACE, client, run_as_leader};
use super::flags::{Flags, Library, Program};

/// Its flags, and those that have an effect here.
pub(super) const PROGRAM: Program = Program {
    name: "kube-controller-manager",
    table: include_str!("flags/kube-controller-manager.tsv"),
    library: Library::Pflag,
    effective: &[
        "allocate-node-cidrs",
        "cluster-cidr",
        "cluster-signing-kube-apiserver-client-cert-file",
        "cluster-signing-kube-apiserver-client-key-file",
        "controllers",
        "kubeconfig",
        "leader-elect",
        "node-cidr-mask-size",
        "node-cidr-mask-size-ipv4",
        "node-cidr-mask-size-ipv6",
        "root-ca-file",
        "service-cluster-ip-range",
    ],
    // Not the file of --cloud-config: no controller that reads it is left upstream.
    files: &[
        "authentication-kubeconfig",
        "authorization-kubeconfig",
        "client-ca-file",
        "cluster-signing-cert-file",
        "cluster-signing-key-file",
        "cluster-signing-kube-apiserver-client-cert-file",
        "cluster-signing-kube-apiserver-client-key-file",
        "cluster-signing-kubelet-client-cert-file",
        "cluster-signing-kubelet-client-key-file",
        "cluster-signing-kubelet-serving-cert-file",
        "cluster-signing-kubelet-serving-key-file",
        "cluster-signing-legacy-unknown-cert-file",
        "cluster-signing-legacy-unknown-key-file",
        "pv-recycler-pod-template-filepath-hostpath",
        "pv-recycler-pod-template-filepath-nfs",
        "requestheader-client-ca-file",
        "root-ca-file",
        "service-account-private-key-file",
        "tls-cert-file",
        "tls-private-key-file",
    ],
};

/// Upstream's names of the controllers that are here
/// (kubernetes/kubernetes v1.35 cmd/kube-controller-manager/names/controller_names.go).
const CONTROLLERS: [(&str, Name); 19] = [
    ("bootstrap-token-cleaner-controller", Name::TokenCleaner),
    ("certificatesigningrequest-approving-controller", Name::CsrApproving),
    ("certificatesigningrequest-cleaner-controller", Name::CsrCleaner),
    ("certificatesigningrequest-signing-controller", Name::CsrSigning),
    ("daemonset-controller", Name::DaemonSet),
    ("deployment-controller", Name::Deployment),
    ("endpointslice-controller", Name::EndpointSlice),
    ("garbage-collector-controller", Name::GarbageCollector),
    ("job-controller", Name::Job),
    ("namespace-controller", Name::Namespace),
    ("node-ipam-controller", Name::NodeIpam),
    ("node-lifecycle-controller", Name::NodeLifecycle),
    ("persistentvolume-binder-controller", Name::PersistentVolume),
    ("pod-garbage-collector-controller", Name::PodGc),
    ("replicaset-controller", Name::ReplicaSet),
    ("resourcequota-controller", Name::ResourceQuota),
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
    let flags = PROGRAM.flags(context)?;
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
        node_ranges: node_ranges(&flags)?,
        clock: context.clock.clone(),
        entropy: context.entropy.clone(),
    };
    let run = |stop| cluster_controllers::run(client.clone(), options, stop);
    let leases = Api::namespaced(client.clone(), LEASE_NAMESPACE);
    run_as_leader(
        context,
        flags.is_on("leader-elect")?,
        leases,
        "kube-controller-manager",
        run,
    )
    .await
}

/// How `--cluster-cidr` is divided among nodes; none without `--allocate-node-cidrs`. Of two families each has a mask
/// size of its own, as upstream has it.
fn node_ranges(flags: &Flags) -> Result<Option<NodeRanges>, Exit> {
    if !flags.is_on("allocate-node-cidrs")? {
        return Ok(None);
    }
    let networks = networks(flags, "cluster-cidr")?;
    let size = flags.parsed::<u8>("node-cidr-mask-size")?;
    let wrong = |what: &str| Exit::failed(format!("kube-controller-manager: {what}"));
    if networks.is_empty() {
        return Err(wrong("--cluster-cidr is required by --allocate-node-cidrs"));
    }
    if networks.len() > 1 && size.is_some() {
        return Err(wrong(
            "--node-cidr-mask-size is for one --cluster-cidr: give --node-cidr-mask-size-ipv4 and -ipv6",
        ));
    }
    let mut parts = Vec::new();
    for network in networks {
        let of_family = match network {
            IpNet::V4(_) => "node-cidr-mask-size-ipv4",
            IpNet::V6(_) => "node-cidr-mask-size-ipv6",
        };
        parts.push((network, flags.parsed(of_family)?.or(size)));
    }
    NodeRanges::new(&parts, self::networks(flags, "service-cluster-ip-range")?)
        .map(Some)
        .map_err(|error| wrong(&format!("--cluster-cidr: {error}")))
}

/// A flag with a list of networks.
fn networks(flags: &Flags, name: &str) -> Result<Vec<IpNet>, Exit> {
    let words = flags.get(name).unwrap_or_default().split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(|word| {
            let wrong = || {
                Exit::failed(format!(
                    "kube-controller-manager: --{name}: {word:?} is no network in CIDR form"
                ))
            };
            word.parse().map_err(|_| wrong())
        })
        .collect()
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

    fn ranges(args: &[&str]) -> Result<Option<NodeRanges>, String> {
        let args: Vec<String> = args.iter().map(|arg| format!("--{arg}")).collect();
        let flags = PROGRAM.flags_of(&args).unwrap();
        node_ranges(&flags).map_err(|exit| exit.message)
    }

    #[test]
    fn node_ranges_follow_the_flags_and_none_are_made_by_default() {
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let (on, pods, services) = (
            "allocate-node-cidrs=true",
            "cluster-cidr=10.1.0.0/16",
            "service-cluster-ip-range=10.2.0.0/16",
        );
        assert_eq!(ranges(&[pods, "allocate-node-cidrs=false"]), Ok(None));
        let made = ranges(&[on, pods, services, "node-cidr-mask-size=26"]).unwrap();
        let wanted = NodeRanges::new(&[(net("10.1.0.0/16"), Some(26))], vec![net("10.2.0.0/16")]).unwrap();
        assert_eq!(made, Some(wanted));
        let both = "cluster-cidr=10.1.0.0/16,fd00::/56";
        let made = ranges(&[on, both, "node-cidr-mask-size-ipv4=25"]).unwrap();
        let wanted = NodeRanges::new(&[(net("10.1.0.0/16"), Some(25)), (net("fd00::/56"), None)], vec![]).unwrap();
        assert_eq!(made, Some(wanted));
    }

    #[test]
    fn flags_that_divide_nothing_are_refused_by_name() {
        let refusal = |args: &[&str]| ranges(args).unwrap_err();
        assert!(refusal(&["allocate-node-cidrs"]).contains("--cluster-cidr is required"));
        assert!(refusal(&["allocate-node-cidrs", "cluster-cidr=10.1.0.0"]).contains("\"10.1.0.0\" is no network"));
        let narrow = [
            "allocate-node-cidrs",
            "cluster-cidr=10.1.0.0/16",
            "node-cidr-mask-size=8",
        ];
        assert!(refusal(&narrow).contains("choose one from 16 to 32"));
        let both = [
            "allocate-node-cidrs",
            "cluster-cidr=10.1.0.0/16,fd00::/56",
            "node-cidr-mask-size=24",
        ];
        assert!(refusal(&both).contains("--node-cidr-mask-size-ipv4"));
    }

    #[test]
    fn controllers_are_chosen_as_upstream_chooses_them() {
        assert_eq!(selected("*,bootstrapsigner,tokencleaner"), Name::ALL.into());
        assert_eq!(selected("job-controller"), [Name::Job].into());
        let but_one = selected("-job-controller,*");
        assert!(!but_one.contains(&Name::Job) && but_one.len() == Name::ALL.len() - 1);
    }
}
