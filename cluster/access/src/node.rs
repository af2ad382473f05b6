//! What a node may: its own Node and Lease, the pods bound to it, and what these name. Pure: the caller looks up the pods.
//! (kubernetes/kubernetes v1.35 plugin/pkg/auth/authorizer/node/node_authorizer.go; admission restricts the writes that it
//! allows to the node's own objects, as NodeRestriction does there.)

use std::sync::LazyLock;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::policy::{READ, events, rule};
use crate::rules::allows;
use crate::{Attributes, ResourceTarget, Target, User, group};

/// What every node's user name begins with.
const USER_PREFIX: &str = "system:node:";
/// The ConfigMap of each namespace with the API server's authority.
const ROOT_CA: &str = "kube-root-ca.crt";
/// Where the nodes' Leases are.
const LEASES: &str = "kube-node-lease";

/// The node that the user is, if it is one.
pub fn node_name(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(USER_PREFIX)?;
    (!name.is_empty() && user.is_in(group::NODES)).then_some(name)
}

/// The answer to a node's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeDecision {
    /// Allowed to every node, or by the request alone.
    Allow,
    /// Not allowed, and why; the text may be empty.
    Deny(String),
    /// Allowed when a pod bound to the node, in the request's namespace, names the request's object so.
    IfNamed(Relation),
}

/// How a pod names something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A Secret of a volume, a variable, a registry.
    Secret,
    /// A ConfigMap of a volume or a variable.
    ConfigMap,
    /// A PersistentVolumeClaim of a volume.
    Claim,
    /// The service account it runs under.
    Account,
    /// Itself.
    Pod,
}

/// Decides on a request of `node`. `own_pods`: a list or watch is restricted to `spec.nodeName` being this node.
pub fn node_decision(node: &str, attributes: &Attributes, own_pods: bool) -> NodeDecision {
    let Target::Resource(target) = &attributes.target else {
        return NodeDecision::Deny(String::new());
    };
    let verb = attributes.verb.as_str();
    match (&*target.group, &*target.resource) {
        ("", "secrets") => named(target, verb, Relation::Secret),
        ("", "configmaps") => named(target, verb, Relation::ConfigMap),
        ("", "persistentvolumeclaims") => named(target, verb, Relation::Claim),
        ("", "serviceaccounts") => match (verb, &*target.subresource) {
            ("create", "token") if !target.name.is_empty() => NodeDecision::IfNamed(Relation::Account),
            _ => deny("can only create tokens for individual service accounts"),
        },
        ("", "pods") => pods(target, verb, own_pods),
        ("", "nodes") => nodes(node, target, verb),
        ("coordination.k8s.io", "leases") => own(node, target, verb, Some(LEASES)),
        ("storage.k8s.io", "csinodes") => own(node, target, verb, None),
        _ if UNIFORM.iter().any(|rule| allows(rule, attributes)) => NodeDecision::Allow,
        _ => deny(""),
    }
}

fn deny(why: &str) -> NodeDecision {
    NodeDecision::Deny(why.to_owned())
}

/// Built once: they are evaluated with every request of a node.
static UNIFORM: LazyLock<Vec<PolicyRule>> = LazyLock::new(uniform);

/// What all nodes may alike. PersistentVolumes beyond upstream: the in-process node stores their content and must learn of
/// their deletion; they contain no secrets. It dials Services itself, so it reads EndpointSlices, and enforces network
/// policies itself, so it reads these and the labels of namespaces, as a network plugin does under an account of its own.
pub(crate) fn uniform() -> Vec<PolicyRule> {
    vec![
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule(
            "create",
            "authorization.k8s.io",
            "subjectaccessreviews localsubjectaccessreviews",
        ),
        rule(READ, "", "services persistentvolumes namespaces"),
        rule("get", "", "endpoints"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(READ, "networking.k8s.io", "networkpolicies"),
        events(),
        rule(
            "create get list watch",
            "certificates.k8s.io",
            "certificatesigningrequests",
        ),
        rule(READ, "storage.k8s.io", "csidrivers"),
        rule(READ, "node.k8s.io", "runtimeclasses"),
    ]
}

fn named(target: &ResourceTarget, verb: &str, relation: Relation) -> NodeDecision {
    if !matches!(verb, "get" | "list" | "watch") || !target.subresource.is_empty() {
        return deny("can only read resources of this type");
    }
    if target.namespace.is_empty() {
        return deny("can only read namespaced object of this type");
    }
    if target.name.is_empty() {
        return deny("No Object name found");
    }
    NodeDecision::IfNamed(relation)
}

fn pods(target: &ResourceTarget, verb: &str, own_pods: bool) -> NodeDecision {
    match (&*target.subresource, verb) {
        ("", "list" | "watch") if own_pods => NodeDecision::Allow,
        ("", "get" | "list" | "watch") if !target.name.is_empty() && !target.namespace.is_empty() => {
            NodeDecision::IfNamed(Relation::Pod)
        }
        ("", "list" | "watch") => deny("can only list/watch pods with spec.nodeName field selector"),
        // Beyond upstream the node may patch its pods, to mark those that are simulated; there are no mirror pods to create.
        ("", "delete" | "patch") | ("status", "update" | "patch") | ("eviction", "create") => NodeDecision::Allow,
        _ => deny(""),
    }
}

fn nodes(node: &str, target: &ResourceTarget, verb: &str) -> NodeDecision {
    match (&*target.subresource, verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => NodeDecision::Allow,
        ("", "get" | "list" | "watch") if target.name == node => NodeDecision::Allow,
        ("", "get" | "list" | "watch") if target.name.is_empty() => {
            NodeDecision::Deny(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch") => NodeDecision::Deny(format!(
            "node '{node}' cannot read '{}', only its own Node object",
            target.name
        )),
        _ => deny(""),
    }
}

/// Objects with the node's name. The name of a new one is not known here.
fn own(node: &str, target: &ResourceTarget, verb: &str, namespace: Option<&str>) -> NodeDecision {
    let verbs = matches!(verb, "get" | "create" | "update" | "patch" | "delete");
    if !verbs || !target.subresource.is_empty() {
        return deny("can only get, create, update, patch, or delete the one of the node");
    }
    if namespace.is_some_and(|namespace| target.namespace != namespace) {
        return NodeDecision::Deny(format!("can only access leases in the \"{LEASES}\" system namespace"));
    }
    if verb != "create" && target.name != node {
        return deny("can only access the one with the same name as the requesting node");
    }
    NodeDecision::Allow
}

/// The node that a pod is bound to; empty for none.
pub fn node_of(pod: &Value) -> &str {
    text(pod, "/spec/nodeName")
}

/// Whether a pod names something so (kubernetes/kubernetes v1.35 pkg/api/pod/util.go VisitPodSecretNames,
/// VisitPodConfigmapNames).
pub fn names(pod: &Value, relation: Relation, name: &str) -> bool {
    let volumes = || list(pod, "/spec/volumes");
    match relation {
        Relation::Pod => text(pod, "/metadata/name") == name,
        Relation::Account => match text(pod, "/spec/serviceAccountName") {
            "" => name == "default",
            account => account == name,
        },
        Relation::Claim => volumes().any(|volume| {
            let ephemeral = volume.get("ephemeral").is_some_and(Value::is_object)
                && name
                    .split_at_checked(text(pod, "/metadata/name").len())
                    .is_some_and(|(owner, rest)| {
                        owner == text(pod, "/metadata/name") && rest.strip_prefix('-') == Some(text(volume, "/name"))
                    });
            ephemeral || text(volume, "/persistentVolumeClaim/claimName") == name
        }),
        // Upstream admission adds the volume with the authority to each pod; here its node does.
        Relation::ConfigMap if name == ROOT_CA => true,
        Relation::ConfigMap => {
            volumes().any(|volume| {
                text(volume, "/configMap/name") == name
                    || list(volume, "/projected/sources").any(|source| text(source, "/configMap/name") == name)
            }) || variables(pod, "configMapKeyRef", "configMapRef", name)
        }
        Relation::Secret => {
            volumes().any(|volume| secret_of(volume, name))
                || list(pod, "/spec/imagePullSecrets").any(|secret| text(secret, "/name") == name)
                || variables(pod, "secretKeyRef", "secretRef", name)
        }
    }
}

/// Each kind of volume names its Secret in one of three ways.
fn secret_of(volume: &Value, name: &str) -> bool {
    let mut kinds = volume.as_object().into_iter().flat_map(|fields| fields.values());
    let ways = ["/secretName", "/secretRef/name", "/nodePublishSecretRef/name"];
    kinds.any(|source| ways.iter().any(|way| text(source, way) == name))
        || list(volume, "/projected/sources").any(|source| text(source, "/secret/name") == name)
}

fn variables(pod: &Value, key: &str, whole: &str, name: &str) -> bool {
    let lists = ["/spec/containers", "/spec/initContainers", "/spec/ephemeralContainers"];
    let (key, whole) = (format!("/valueFrom/{key}/name"), format!("/{whole}/name"));
    lists.iter().flat_map(|path| list(pod, path)).any(|container| {
        list(container, "/env").any(|variable| text(variable, &key) == name)
            || list(container, "/envFrom").any(|source| text(source, &whole) == name)
    })
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}
