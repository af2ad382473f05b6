//! The ClusterRoles and bindings every cluster starts with (kubernetes/kubernetes v1.35
//! plugin/pkg/auth/authorizer/rbac/bootstrappolicy), as objects to create. A difference on purpose: the controllers run under
//! one identity, so the roles of the single controllers are folded into `system:kube-controller-manager`. No user is bound
//! to `system:node`: `node` verifies each request of a node.

mod components;

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::group;

pub(super) const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const READ: &str = "get list watch";
pub(super) const WRITE: &str = "create delete deletecollection patch update";

/// The objects every cluster starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct BootstrapPolicy {
    /// ClusterRoles.
    pub cluster_roles: Vec<ClusterRole>,
    /// ClusterRoleBindings.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
    /// Roles.
    pub roles: Vec<Role>,
    /// RoleBindings.
    pub role_bindings: Vec<RoleBinding>,
}

/// The default policy.
pub fn bootstrap_policy() -> BootstrapPolicy {
    let mut cluster_roles = general_roles();
    cluster_roles.extend(user_facing_roles());
    cluster_roles.extend(components::component_roles());
    cluster_roles.extend(components::certificate_roles());
    BootstrapPolicy {
        cluster_roles,
        cluster_role_bindings: bindings(),
        roles: roles(),
        role_bindings: role_bindings(),
    }
}

fn general_roles() -> Vec<ClusterRole> {
    let discovery = "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/";
    vec![
        role("cluster-admin", vec![rule("*", "*", "*"), paths("*", "*")]),
        role("system:discovery", vec![paths("get", discovery)]),
        role(
            "system:public-info-viewer",
            vec![paths("get", "/healthz /livez /readyz /version /version/")],
        ),
        role(
            "system:monitoring",
            vec![paths(
                "get",
                "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
            )],
        ),
        role(
            "system:basic-user",
            vec![
                rule(
                    "create",
                    "authorization.k8s.io",
                    "selfsubjectaccessreviews selfsubjectrulesreviews",
                ),
                rule("create", "authentication.k8s.io", "selfsubjectreviews"),
            ],
        ),
        role(
            "system:auth-delegator",
            vec![
                rule("create", "authentication.k8s.io", "tokenreviews"),
                rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            ],
        ),
        role(
            "system:service-account-issuer-discovery",
            vec![paths(
                "get",
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
            )],
        ),
    ]
}

fn user_facing_roles() -> Vec<ClusterRole> {
    let to = |role: &str| format!("rbac.authorization.k8s.io/aggregate-to-{role}");
    let collecting = |name: &str, into: Option<&str>| {
        let selector = LabelSelector {
            match_labels: Some(BTreeMap::from([(to(name), "true".to_owned())])),
            ..LabelSelector::default()
        };
        let mut made = role(name, Vec::new());
        made.aggregation_rule = Some(AggregationRule {
            cluster_role_selectors: Some(vec![selector]),
        });
        labelled(made, into.map(to))
    };
    let admin = vec![
        rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        rule(&format!("{READ} {WRITE}"), RBAC_GROUP, "roles rolebindings"),
    ];
    vec![
        collecting("admin", None),
        collecting("edit", Some("admin")),
        collecting("view", Some("edit")),
        labelled(role("system:aggregate-to-admin", admin), Some(to("admin"))),
        labelled(role("system:aggregate-to-edit", edit_rules()), Some(to("edit"))),
        labelled(role("system:aggregate-to-view", view_rules()), Some(to("view"))),
    ]
}

const APPS: &str =
    "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale";

fn edit_rules() -> Vec<PolicyRule> {
    vec![
        rule(
            READ,
            "",
            "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
        ),
        rule("impersonate", "", "serviceaccounts"),
        rule(WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        rule("create", "", "pods/eviction"),
        rule(
            WRITE,
            "",
            "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
        ),
        rule("create", "", "serviceaccounts/token"),
        rule(WRITE, "apps", &format!("{APPS} deployments/rollback")),
        rule(WRITE, "autoscaling", "horizontalpodautoscalers"),
        rule(WRITE, "batch", "cronjobs jobs"),
        rule(WRITE, "policy", "poddisruptionbudgets"),
        rule(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        rule(&format!("{READ} {WRITE}"), "coordination.k8s.io", "leases"),
    ]
}

fn view_rules() -> Vec<PolicyRule> {
    vec![
        rule(
            READ,
            "",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
        ),
        rule(
            READ,
            "",
            "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
        ),
        rule(READ, "", "namespaces"),
        rule(READ, "discovery.k8s.io", "endpointslices"),
        rule(
            READ,
            "apps",
            &format!(
                "controllerrevisions {APPS} daemonsets/status deployments/status replicasets/status statefulsets/status"
            ),
        ),
        rule(
            READ,
            "autoscaling",
            "horizontalpodautoscalers horizontalpodautoscalers/status",
        ),
        rule(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        rule(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        rule(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    ]
}

fn bindings() -> Vec<ClusterRoleBinding> {
    let nodes = "system:certificates.k8s.io:certificatesigningrequests:";
    vec![
        binding("cluster-admin", "cluster-admin", &[("Group", group::MASTERS)]),
        binding(
            "system:discovery",
            "system:discovery",
            &[("Group", group::AUTHENTICATED)],
        ),
        binding(
            "system:basic-user",
            "system:basic-user",
            &[("Group", group::AUTHENTICATED)],
        ),
        binding(
            "system:public-info-viewer",
            "system:public-info-viewer",
            &[("Group", group::AUTHENTICATED), ("Group", group::UNAUTHENTICATED)],
        ),
        binding(
            "system:monitoring",
            "system:monitoring",
            &[("Group", "system:monitoring")],
        ),
        binding(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            &[("Group", group::SERVICE_ACCOUNTS)],
        ),
        binding("system:node", "system:node", &[]),
        binding(
            "system:node-bootstrapper",
            "system:node-bootstrapper",
            &[("Group", group::BOOTSTRAPPERS)],
        ),
        binding(
            "system:node-autoapprove-bootstrap",
            &format!("{nodes}nodeclient"),
            &[("Group", group::BOOTSTRAPPERS)],
        ),
        binding(
            "system:node-autoapprove-certificate-rotation",
            &format!("{nodes}selfnodeclient"),
            &[("Group", group::NODES)],
        ),
        binding(
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            &[("User", "system:kube-controller-manager")],
        ),
        binding(
            "system:kube-scheduler",
            "system:kube-scheduler",
            &[("User", "system:kube-scheduler")],
        ),
        binding(
            "system:volume-scheduler",
            "system:volume-scheduler",
            &[("User", "system:kube-scheduler")],
        ),
    ]
}

/// Bootstrap tokens read the cluster's public information; anonymous requests may read the signed `cluster-info`.
fn roles() -> Vec<Role> {
    let cluster_info = named(rule("get", "", "configmaps"), "cluster-info");
    let ClusterRole { metadata, rules, .. } = role(
        "system:controller:bootstrap-signer",
        vec![
            rule(READ, "", "configmaps"),
            named(rule("update", "", "configmaps"), "cluster-info"),
            events(),
        ],
    );
    let ClusterRole {
        metadata: info,
        rules: info_rules,
        ..
    } = role("system:bootstrap-signer-clusterinfo", vec![cluster_info]);
    let public = |metadata: ObjectMeta| ObjectMeta {
        namespace: Some("kube-public".to_owned()),
        ..metadata
    };
    // For extension API servers behind this one.
    let trusting = named(rule(READ, "", "configmaps"), "extension-apiserver-authentication");
    let reader = role("extension-apiserver-authentication-reader", vec![trusting]);
    let system = ObjectMeta {
        namespace: Some("kube-system".to_owned()),
        ..reader.metadata
    };
    vec![
        Role {
            metadata: public(metadata),
            rules,
        },
        Role {
            metadata: public(info),
            rules: info_rules,
        },
        Role {
            metadata: system,
            rules: reader.rules,
        },
    ]
}

fn role_bindings() -> Vec<RoleBinding> {
    let made = |namespace: &str, name: &str, role: &str, subjects: &[(&str, &str)]| {
        let made = binding(name, role, subjects);
        RoleBinding {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                ..made.metadata
            },
            role_ref: RoleRef {
                kind: "Role".to_owned(),
                ..made.role_ref
            },
            subjects: made.subjects,
        }
    };
    let signed = "system:bootstrap-signer-clusterinfo";
    let components = ["system:kube-controller-manager", "system:kube-scheduler"].map(|name| ("User", name));
    vec![
        made("kube-public", signed, signed, &[("User", group::ANONYMOUS_USER)]),
        made(
            "kube-system",
            "system::extension-apiserver-authentication-reader",
            "extension-apiserver-authentication-reader",
            &components,
        ),
    ]
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Verbs and resources separated by spaces; one API group.
pub(crate) fn rule(verbs: &str, group: &str, resources: &str) -> PolicyRule {
    PolicyRule {
        verbs: words(verbs),
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(words(resources)),
        ..PolicyRule::default()
    }
}

pub(super) fn paths(verbs: &str, urls: &str) -> PolicyRule {
    PolicyRule {
        verbs: words(verbs),
        non_resource_urls: Some(words(urls)),
        ..PolicyRule::default()
    }
}

pub(super) fn named(rule: PolicyRule, name: &str) -> PolicyRule {
    PolicyRule {
        resource_names: Some(vec![name.to_owned()]),
        ..rule
    }
}

pub(crate) fn events() -> PolicyRule {
    let groups = Some(vec![String::new(), "events.k8s.io".to_owned()]);
    PolicyRule {
        api_groups: groups,
        ..rule("create patch update", "", "events")
    }
}

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(
            "kubernetes.io/bootstrapping".to_owned(),
            "rbac-defaults".to_owned(),
        )])),
        annotations: Some(BTreeMap::from([(
            "rbac.authorization.kubernetes.io/autoupdate".to_owned(),
            "true".to_owned(),
        )])),
        ..ObjectMeta::default()
    }
}

pub(super) fn role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata: metadata(name),
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

fn labelled(mut role: ClusterRole, label: Option<String>) -> ClusterRole {
    role.metadata
        .labels
        .get_or_insert_default()
        .extend(label.map(|label| (label, "true".to_owned())));
    role
}

fn binding(name: &str, role: &str, subjects: &[(&str, &str)]) -> ClusterRoleBinding {
    let subject = |(kind, name): &(&str, &str)| Subject {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: (*kind).to_owned(),
        name: (*name).to_owned(),
        namespace: None,
    };
    ClusterRoleBinding {
        metadata: metadata(name),
        role_ref: RoleRef {
            api_group: RBAC_GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(subjects.iter().map(subject).collect()),
    }
}
