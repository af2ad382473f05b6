//! Attacks, made from the table of kinds: whatever a part of seed `a` asks for of seed `b`, it does not get. And none of them
//! gets what no part may have at all.

use control_plane_confinement::{Decision, Graph, Identity, Kind, Party, Request, decide};

use crate::world::{decision_of, garden, namespace, objects, part};

const VERBS: [&str; 10] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "impersonate",
];
const PARTS: [&str; 6] = ["", "status", "finalizers", "binding", "adminkubeconfig", "token"];
/// What concerns all seeds: it may be read.
const GLOBAL: [Kind; 4] = [
    Kind::CloudProfile,
    Kind::ControllerDeployment,
    Kind::ControllerRegistration,
    Kind::ExposureClass,
];

fn parties() -> [Identity; 2] {
    [Party::Gardenlet, Party::Extension].map(|party| part("a", party))
}

fn is_denied(decision: &Decision) -> bool {
    matches!(decision, Decision::Deny(_))
}

/// A new object has no name yet in its request; whose it is, admission says.
fn is_for_admission(verb: &str, subresource: &str) -> bool {
    verb == "create" && subresource.is_empty()
}

#[test]
fn each_verb_on_each_object_of_another_seed_is_refused() {
    let (graph, mut attacks) = (garden(), 0);
    for (kind, inside, name) in objects("b") {
        for identity in &parties() {
            for (verb, subresource) in VERBS.iter().flat_map(|verb| PARTS.map(|part| (*verb, part))) {
                if is_for_admission(verb, subresource) {
                    continue;
                }
                let decision = decision_of(&graph, identity, verb, (kind, &inside, &name), subresource);
                assert!(
                    is_denied(&decision),
                    "{identity:?} {verb} {kind} {inside}/{name} {subresource}: {decision:?}"
                );
                attacks += 1;
            }
        }
    }
    assert!(attacks > 5_000, "{attacks}");
}

#[test]
fn each_kind_has_an_object_of_another_seed_or_concerns_all() {
    let of_seed: Vec<Kind> = objects("b").into_iter().map(|(kind, ..)| kind).collect();
    for kind in Kind::ALL {
        assert!(of_seed.contains(kind) || GLOBAL.contains(kind), "{kind}");
    }
}

#[test]
fn lists_that_are_not_narrowed_to_the_seed_are_refused() {
    let graph = garden();
    let other = namespace("b");
    for kind in Kind::ALL.iter().filter(|kind| !GLOBAL.contains(kind)) {
        for verb in ["list", "watch", "deletecollection"] {
            for inside in ["", "garden", "kube-system", "seed-b", &other, &namespace("a")] {
                for (fields, labels) in narrowings() {
                    let request = Request {
                        verb,
                        group: kind.group(),
                        resource: kind.plural(),
                        namespace: inside,
                        fields,
                        labels,
                        ..Request::default()
                    };
                    for identity in &parties() {
                        let decision = decide(&graph, identity, &request);
                        assert!(is_denied(&decision), "{identity:?} {request:?}: {decision:?}");
                    }
                }
            }
        }
    }
}

type Pairs = Vec<(&'static str, &'static str)>;

/// Narrowings that do not keep to seed `a`.
fn narrowings() -> Vec<(Pairs, Pairs)> {
    let fields = [
        "spec.seedName",
        "status.seedName",
        "spec.seedRef.name",
        "metadata.namespace",
        "type",
        "spec.namespace",
    ];
    let mut all: Vec<(Pairs, Pairs)> = vec![(Vec::new(), Vec::new())];
    for field in fields {
        all.extend(["b", "", "garden-pb"].map(|value| (vec![(field, value)], Vec::new())));
    }
    for label in [
        ("name.seed.gardener.cloud/b", "true"),
        ("name.seed.gardener.cloud/a", "false"),
        ("name.seed.gardener.cloud/", "true"),
        ("seed.gardener.cloud/a", "true"),
    ] {
        all.push((Vec::new(), vec![label]));
    }
    all
}

#[test]
fn secrets_that_nothing_of_the_seed_refers_to_are_refused() {
    let graph = garden();
    for (inside, name) in [
        ("garden", "internal-domain"),
        ("kube-system", "bootstrap-token-abc"),
        ("garden-pa", "of-a-user"),
        ("garden-pa", "shoot-a.kubeconfig"),
        ("garden-pa", "shoot-a.ca-client"),
        ("garden-pa", "nobody.ssh-keypair"),
        ("garden-pb", "shoot-a.ssh-keypair"),
        ("garden", "generated-bucket-nobody"),
        ("garden-pa", "generated-bucket-uid-of-a"),
        ("seed-a-2", "x"),
        ("seed-", "x"),
        // Named in its own namespace, and not in this one.
        ("garden-pb", "extra-a"),
    ] {
        for identity in &parties() {
            for verb in ["get", "list", "watch", "update", "patch", "delete"] {
                let decision = decision_of(&graph, identity, verb, (Kind::Secret, inside, name), "");
                assert!(is_denied(&decision), "{verb} {inside}/{name}");
            }
        }
    }
}

#[test]
fn what_is_only_referred_to_is_never_written() {
    let graph = garden();
    for (kind, inside, name) in [
        (Kind::Secret, "garden", "backup-a"),
        (Kind::Secret, "garden-pa", "extra-a"),
        (Kind::ConfigMap, "garden-pa", "audit-a"),
        (Kind::ConfigMap, "kube-system", "cluster-identity"),
        (Kind::CredentialsBinding, "garden-pa", "credentials-a"),
        (Kind::Project, "", "pa"),
        (Kind::Namespace, "", "garden-pa"),
        (Kind::CloudProfile, "", "moons"),
        (Kind::ControllerDeployment, "", "deployment-a"),
        (Kind::ControllerRegistration, "", "registration-a"),
    ] {
        for identity in &parties() {
            for verb in ["update", "patch", "delete"] {
                let decision = decision_of(&graph, identity, verb, (kind, inside, name), "");
                assert!(is_denied(&decision), "{identity:?} {verb} {kind} {inside}/{name}");
            }
        }
    }
}

#[test]
fn shoots_are_neither_made_nor_deleted_nor_moved() {
    let graph = garden();
    let own = (Kind::Shoot, "garden-pa", "shoot-a");
    for identity in &parties() {
        for (verb, subresource) in [
            ("create", ""),
            ("delete", ""),
            ("update", "binding"),
            ("patch", "binding"),
            ("create", "adminkubeconfig"),
            ("create", "viewerkubeconfig"),
        ] {
            let decision = decision_of(&graph, identity, verb, own, subresource);
            assert!(is_denied(&decision), "{identity:?} {verb} {subresource}");
        }
    }
}

#[test]
fn extensions_get_no_identities_and_do_not_write_the_seed() {
    let (graph, extension) = (garden(), part("a", Party::Extension));
    for (verb, kind, inside, name, subresource) in [
        ("create", Kind::ServiceAccount, "seed-a", "", ""),
        ("delete", Kind::ServiceAccount, "seed-a", "extension-x", ""),
        ("create", Kind::ServiceAccount, "seed-a", "extension-x", "token"),
        ("create", Kind::CertificateSigningRequest, "", "", ""),
        ("patch", Kind::Seed, "", "a", ""),
        ("patch", Kind::Seed, "", "a", "status"),
        ("create", Kind::Seed, "", "", ""),
        ("get", Kind::Lease, "gardener-system-seed-lease", "a", ""),
        ("create", Kind::Lease, "gardener-system-seed-lease", "", ""),
        ("patch", Kind::Gardenlet, "garden", "a", ""),
    ] {
        let decision = decision_of(&graph, &extension, verb, (kind, inside, name), subresource);
        assert!(is_denied(&decision), "{verb} {kind} {inside}/{name} {subresource}");
    }
}

#[test]
fn nothing_belongs_to_a_seed_before_the_graph_is_filled() {
    let graph = Graph::default();
    for (kind, inside, name) in objects("a") {
        let by_name_alone = matches!(
            kind,
            Kind::Seed | Kind::Lease | Kind::Gardenlet | Kind::ServiceAccount | Kind::Namespace
        ) || inside == "seed-a";
        let decision = decision_of(&graph, &part("a", Party::Gardenlet), "get", (kind, &inside, &name), "");
        assert!(by_name_alone || is_denied(&decision), "{kind} {inside}/{name}");
        if let Decision::Deny(refusal) = decision {
            let known = !matches!(kind, Kind::Event | Kind::Lease);
            assert_eq!(refusal.may_change(), known, "{refusal}");
        }
    }
}

#[test]
fn a_refusal_names_verb_kind_object_seed_and_what_would_be_allowed() {
    let graph = garden();
    let gardenlet = part("a", Party::Gardenlet);
    let text = |decision: Decision| match decision {
        Decision::Deny(refusal) => refusal.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(
        text(decision_of(
            &graph,
            &gardenlet,
            "get",
            (Kind::Secret, "garden", "backup-b"),
            ""
        )),
        "the gardenlet of seed \"a\" may not get Secret garden/backup-b: it does not belong to this seed (allowed: get of \
         those that the Seed, Shoots, bindings, buckets and installations of seed \"a\" refer to, all on those named after \
         its Shoots and buckets, get, list and watch in namespace seed-a)"
    );
    assert_eq!(
        text(decision_of(&graph, &gardenlet, "list", (Kind::Project, "", ""), "")),
        "the gardenlet of seed \"a\" may not list all projects: it is not narrowed to this seed (allowed: get of Projects \
         that have Shoots on seed \"a\")"
    );
    assert_eq!(
        text(decision_of(
            &graph,
            &gardenlet,
            "patch",
            (Kind::Shoot, "garden-pb", "shoot-b"),
            "status"
        )),
        "the gardenlet of seed \"a\" may not patch status of Shoot garden-pb/shoot-b: it does not belong to this seed \
         (allowed: get, update and patch of metadata and status of Shoots on seed \"a\", with lists by the label \
         name.seed.gardener.cloud/a=true)"
    );
}

#[test]
fn other_kinds_are_left_to_roles() {
    let graph = garden();
    for (group, resource) in [
        ("", "pods"),
        ("authentication.k8s.io", "tokenreviews"),
        ("rbac.authorization.k8s.io", "clusterroles"),
    ] {
        let request = Request {
            verb: "get",
            group,
            resource,
            ..Request::default()
        };
        assert_eq!(
            decide(&graph, &part("a", Party::Gardenlet), &request),
            Decision::NoOpinion
        );
    }
}
