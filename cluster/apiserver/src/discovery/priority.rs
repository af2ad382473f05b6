//! The priorities of groups and their versions in discovery: constants.
//! (kubernetes/kubernetes v1.35 pkg/controlplane/apiserver/aggregator.go, cmd/kube-apiserver/app/aggregator.go)

use crate::storage::resource_names::API_REGISTRATION;

/// The priorities of Kubernetes' own groups.
const GROUPS: [(&str, i64); 23] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("apiextensions.k8s.io", 16700),
    ("admissionregistration.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15800),
    (API_REGISTRATION, i64::MAX),
];

/// The priority of other groups that the server was built with: above those of definitions.
const ADDED: i64 = 10_000;

/// The priorities of a group and a version of definitions.
pub(crate) const DEFINED: (i64, i64) = (1000, 100);

/// Versions without the usual priority.
const VERSIONS: [(&str, &str, i64); 5] = [
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("resource.k8s.io", "v1", 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("admissionregistration.k8s.io", "v1beta1", 12),
];

/// The priorities of a group and its version: the highest come first.
pub(crate) fn priority(group: &str, version: &str, defined: bool) -> (i64, i64) {
    if defined {
        return DEFINED;
    }
    let of_group = GROUPS
        .iter()
        .find(|(name, _)| *name == group)
        .map(|(_, number)| *number);
    let own = VERSIONS.iter().find(|(of, name, _)| (*of, *name) == (group, version));
    let of_version = own.map(|(_, _, number)| *number);
    let usual = if version.contains("alpha") || version.contains("beta") {
        9
    } else {
        15
    };
    (of_group.unwrap_or(ADDED), of_version.unwrap_or(usual))
}
