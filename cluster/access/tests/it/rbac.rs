//! RBAC decisions over roles and bindings that come and go.

use std::sync::Arc;

use cluster_access::*;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};
use serde_json::{Value, json};

fn index(objects: &[(&str, Value)]) -> RbacIndex {
    let mut index = RbacIndex::default();
    for (resource, object) in objects {
        put(&mut index, resource, object);
    }
    index
}

fn put(index: &mut RbacIndex, resource: &str, object: &Value) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    index.apply(Change::of(resource, &text("namespace"), &text("name"), Some(object)).unwrap());
}

fn role(name: &str, rules: Value) -> (&'static str, Value) {
    ("clusterroles", json!({"metadata": {"name": name}, "rules": rules}))
}

fn bound(name: &str, subject: Value) -> (&'static str, Value) {
    (
        "clusterrolebindings",
        json!({"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}, "subjects": [subject]}),
    )
}

fn may(index: &RbacIndex, user: &User, requested: &str) -> bool {
    index.authorize(&request(user, requested)).is_allowed()
}

/// `verb group resource[/subresource] namespace name`, `-` for none; or `verb /path`.
fn request(user: &User, requested: &str) -> Attributes {
    let user = Arc::new(user.clone());
    let parts: Vec<&str> = requested
        .split(' ')
        .map(|part| if part == "-" { "" } else { part })
        .collect();
    if parts[1].starts_with('/') {
        return Attributes::path(&user, parts[0], parts[1]);
    }
    let (resource, subresource) = parts[2].split_once('/').unwrap_or((parts[2], ""));
    let target = ResourceTarget {
        group: parts[1].into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: parts[3].into(),
        name: parts[4].into(),
    };
    Attributes::resource(&user, parts[0], target)
}

#[test]
fn rules_match_verbs_groups_subresources_names_and_paths_as_kube_apiserver_matches_them() {
    let jane = User::new("jane", &[]);
    let rules = json!([
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "secrets/x"]},
        {"verbs": ["update"], "apiGroups": ["*"], "resources": ["*/scale"]},
        {"verbs": ["delete"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"]},
        {"verbs": ["*"], "apiGroups": ["all"], "resources": ["*"]},
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]},
    ]);
    let index = index(&[role("r", rules), bound("r", json!({"kind": "User", "name": "jane"}))]);
    let cases = [
        ("get - pods n p", true),
        ("get - pods - -", true),
        ("get - pods/log n p", false),
        ("list - pods n -", false),
        ("get - secrets n x", false),
        ("get - secrets/x n y", true),
        ("update apps deployments/scale n d", true),
        ("update apps deployments n d", false),
        ("update - x/scale n d", true),
        ("delete apps deployments n a", true),
        ("delete apps deployments n c", false),
        ("delete apps deployments n -", false),
        ("anything all x/y n z", true),
        ("get /healthz", true),
        ("get /healthz/x", false),
        ("get /logs/a/b", true),
        ("get /logs", false),
        ("post /healthz", false),
    ];
    for (requested, wanted) in cases {
        assert_eq!(may(&index, &jane, requested), wanted, "{requested}");
        assert!(
            !may(&index, &User::new("joe", &["jane"]), requested),
            "{requested} as another user"
        );
    }
}

#[test]
fn a_role_binding_grants_only_in_its_namespace_and_until_its_deletion() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}, {"verbs": ["get"], "nonResourceURLs": ["*"]}]);
    let mut index = index(&[role("reader", rules)]);
    let binding = json!({"metadata": {"name": "b", "namespace": "n"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}, {"kind": "Group", "name": "dev"}]});
    put(&mut index, "rolebindings", &binding);
    let (robot, dev) = (User::service_account("n", "robot"), User::new("x", &["dev"]));
    for user in [&robot, &dev] {
        assert!(may(&index, user, "get - pods n p"));
        assert!(
            !may(&index, user, "get - pods other p")
                && !may(&index, user, "get - pods - -")
                && !may(&index, user, "get /healthz")
        );
    }
    assert!(!may(&index, &User::service_account("other", "robot"), "get - pods n p"));
    let Decision::Allow(reason) = index.authorize(&request(&robot, "get - pods n p")) else {
        panic!("denied")
    };
    assert_eq!(
        reason,
        r#"RBAC: allowed by RoleBinding "b/n" of ClusterRole "reader" to ServiceAccount "robot/n""#
    );
    index.apply(Change::of("clusterroles", "", "reader", None).unwrap());
    assert_eq!(
        index.authorize(&request(&dev, "get - pods n p")),
        Decision::Deny(r#"RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found"#.into())
    );
    index.apply(Change::of("rolebindings", "n", "b", None).unwrap());
    assert_eq!(
        index.authorize(&request(&dev, "get - pods n p")),
        Decision::Deny(String::new())
    );
}

#[test]
fn a_changed_binding_forgets_its_former_subjects_and_a_malformed_object_grants_nothing() {
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let mut index = index(&[role("r", rules), bound("r", json!({"kind": "User", "name": "jane"}))]);
    put(
        &mut index,
        "clusterrolebindings",
        &bound("r", json!({"kind": "User", "name": "joe"})).1,
    );
    assert!(
        !may(&index, &User::new("jane", &[]), "get - pods n p")
            && may(&index, &User::new("joe", &[]), "get - pods n p")
    );
    put(
        &mut index,
        "clusterroles",
        &json!({"metadata": {"name": "r"}, "rules": "all"}),
    );
    assert!(!may(&index, &User::new("joe", &[]), "get - pods n p"));
    assert!(may(&index, &User::new("root", &["system:masters"]), "get - pods n p"));
}

fn defaults() -> RbacIndex {
    let mut index = RbacIndex::default();
    let policy = bootstrap_policy();
    policy
        .cluster_roles
        .into_iter()
        .for_each(|role| index.apply(Change::ClusterRole(Box::new(role))));
    policy
        .cluster_role_bindings
        .into_iter()
        .for_each(|binding| index.apply(Change::ClusterRoleBinding(Box::new(binding))));
    policy
        .roles
        .into_iter()
        .for_each(|role| index.apply(Change::Role(Box::new(role))));
    policy
        .role_bindings
        .into_iter()
        .for_each(|binding| index.apply(Change::RoleBinding(Box::new(binding))));
    index
}

#[test]
fn default_roles_aggregate_view_into_edit_into_admin_and_new_roles_immediately() {
    let mut index = defaults();
    for name in ["admin", "edit", "view"] {
        put(
            &mut index,
            "rolebindings",
            &json!({"metadata": {"name": name, "namespace": "n"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": name}]}),
        );
    }
    let user = |name: &str| User::new(name, &["system:authenticated"]);
    let cases = [
        ("get - pods n p", [true, true, true]),
        ("create - pods n -", [true, true, false]),
        ("create rbac.authorization.k8s.io roles n -", [true, false, false]),
        ("get - secrets n s", [true, true, false]),
        ("get stable.example.com widgets n w", [false, false, false]),
        ("get - pods other p", [false, false, false]),
        ("get /apis", [true, true, true]),
    ];
    for (requested, wanted) in cases {
        assert_eq!(
            ["admin", "edit", "view"].map(|name| may(&index, &user(name), requested)),
            wanted,
            "{requested}"
        );
    }
    put(
        &mut index,
        "clusterroles",
        &json!({"metadata": {"name": "widgets", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["stable.example.com"], "resources": ["widgets"]}]}),
    );
    assert_eq!(
        ["admin", "edit", "view"].map(|name| may(&index, &user(name), "get stable.example.com widgets n w")),
        [true; 3]
    );
    assert!(index.aggregated_rules("admin").unwrap().len() > index.aggregated_rules("view").unwrap().len());
}

#[test]
fn default_bindings_let_bootstrappers_in_and_leave_nodes_to_their_own_rules() {
    let index = defaults();
    let node = User::new("system:node:a", &["system:nodes", "system:authenticated"]);
    let joining = User::new(
        "system:bootstrap:abcdef",
        &["system:bootstrappers", "system:authenticated"],
    );
    let other = User::new("jane", &["system:authenticated"]);
    let cases = [
        ("patch - pods/status n p", [false; 3]),
        (
            "create certificates.k8s.io certificatesigningrequests - -",
            [false, true, false],
        ),
        (
            "create certificates.k8s.io certificatesigningrequests/nodeclient - -",
            [false, true, false],
        ),
        ("update coordination.k8s.io leases kube-node-lease a", [false; 3]),
        (
            "create authorization.k8s.io selfsubjectaccessreviews - -",
            [true, true, true],
        ),
        ("list - secrets kube-system -", [false; 3]),
    ];
    for (requested, wanted) in cases {
        assert_eq!(
            [&node, &joining, &other].map(|user| may(&index, user, requested)),
            wanted,
            "{requested}"
        );
    }
    assert!(may(&index, &User::anonymous(), "get /healthz") && !may(&index, &User::anonymous(), "get /api"));
    let controllers = User::new("system:kube-controller-manager", &[]);
    assert!(
        may(&index, &controllers, "create apps replicasets n -")
            && !may(
                &index,
                &controllers,
                "create rbac.authorization.k8s.io clusterrolebindings - -"
            )
    );
}

#[test]
fn a_user_cannot_grant_rights_they_do_not_hold() {
    let rules = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/log"]}, {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}]);
    let mut index = index(&[
        role("reader", rules),
        bound("reader", json!({"kind": "User", "name": "jane"})),
        role(
            "strong",
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        ),
    ]);
    let jane = Arc::new(User::new("jane", &["dev", "system:authenticated"]));
    let target = |name: &str| ResourceTarget {
        group: "rbac.authorization.k8s.io".into(),
        resource: "clusterroles".into(),
        name: name.into(),
        ..ResourceTarget::default()
    };
    let grant = |index: &RbacIndex, rules: Value| {
        index.may_grant_rules(
            &jane,
            &target("new"),
            &serde_json::from_value::<Vec<PolicyRule>>(rules).unwrap(),
        )
    };
    let held = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "resourceNames": ["a"]}, {"verbs": ["get"], "nonResourceURLs": ["/logs/x"]}]);
    assert_eq!(grant(&index, held), Ok(()));
    let text = grant(&index, json!([{"verbs": ["get", "delete", "patch"], "apiGroups": [""], "resources": ["pods"]}, {"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}])).unwrap_err();
    assert_eq!(
        text,
        "user \"jane\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
        {APIGroups:[\"\"], Resources:[\"*\"], Verbs:[\"get\"]}\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"patch\"]}"
    );
    let strong = RoleRef {
        api_group: "rbac.authorization.k8s.io".into(),
        kind: "ClusterRole".into(),
        name: "strong".into(),
    };
    assert!(index.may_bind(&jane, "n", &strong).is_err());
    assert!(
        index
            .may_bind(
                &jane,
                "n",
                &RoleRef {
                    name: "nobody".into(),
                    ..strong.clone()
                }
            )
            .unwrap_err()
            .contains("not found")
    );
    let more = json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["strong"]}, {"verbs": ["escalate"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}]);
    put(&mut index, "clusterroles", &role("more", more).1);
    put(
        &mut index,
        "clusterrolebindings",
        &bound("more", json!({"kind": "User", "name": "jane"})).1,
    );
    assert_eq!(index.may_bind(&jane, "n", &strong), Ok(()));
    assert_eq!(
        grant(
            &index,
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
        ),
        Ok(())
    );
}
