//! What a gardenlet and extensions need: every one of it is allowed.

use control_plane_confinement::{Decision, Kind, Party, Request, decide};

use crate::world::{decision_of, garden, objects, part};

const ALL: &[&str] = &["get", "list", "watch", "update", "patch", "delete"];
const CHANGE: &[&str] = &["get", "list", "watch", "update", "patch"];
const READ: &[&str] = &["get", "list", "watch"];

/// Verbs that a gardenlet needs on a single object.
fn on_one(kind: Kind, name: &str) -> &'static [&'static str] {
    match kind {
        Kind::BackupBucket | Kind::BackupEntry | Kind::ShootState | Kind::ServiceAccount => ALL,
        Kind::InternalSecret | Kind::ConfigMap if name.starts_with("shoot-a.") => ALL,
        Kind::Secret if name.starts_with("shoot-a.") || name.starts_with("generated-bucket-") => ALL,
        Kind::Seed
        | Kind::Shoot
        | Kind::ControllerInstallation
        | Kind::Bastion
        | Kind::ManagedSeed
        | Kind::Gardenlet
        | Kind::Lease => CHANGE,
        Kind::Event => &["patch"],
        _ => READ,
    }
}

#[test]
fn each_object_of_the_own_seed_allows_the_verbs_needed() {
    let (graph, gardenlet) = (garden(), part("a", Party::Gardenlet));
    for (kind, inside, name) in objects("a") {
        // An extension's, not the gardenlet's.
        if kind == Kind::Lease && inside == "seed-a" {
            continue;
        }
        for verb in on_one(kind, &name) {
            let decision = decision_of(&graph, &gardenlet, verb, (kind, &inside, &name), "");
            assert_eq!(decision, Decision::Allow, "{verb} {kind} {inside}/{name}");
        }
        if matches!(
            kind,
            Kind::Seed
                | Kind::Shoot
                | Kind::ControllerInstallation
                | Kind::BackupBucket
                | Kind::BackupEntry
                | Kind::Bastion
                | Kind::ManagedSeed
        ) {
            for verb in ["get", "update", "patch"] {
                let decision = decision_of(&graph, &gardenlet, verb, (kind, &inside, &name), "status");
                assert_eq!(decision, Decision::Allow, "{verb} status of {kind} {inside}/{name}");
            }
        }
    }
}

#[test]
fn extensions_read_what_their_gardenlet_reads_and_lead_by_their_own_leases() {
    let (graph, extension) = (garden(), part("a", Party::Extension));
    for (kind, inside, name) in objects("a") {
        if kind == Kind::Event || inside == "gardener-system-seed-lease" {
            continue;
        }
        let decision = decision_of(&graph, &extension, "get", (kind, &inside, &name), "");
        assert_eq!(decision, Decision::Allow, "{kind} {inside}/{name}");
    }
    for verb in [
        "get",
        "create",
        "update",
        "patch",
        "delete",
        "list",
        "watch",
        "deletecollection",
    ] {
        let name = match verb {
            "create" | "deletecollection" | "list" | "watch" => "",
            _ => "leader",
        };
        let decision = decision_of(&graph, &extension, verb, (Kind::Lease, "seed-a", name), "");
        assert_eq!(decision, Decision::Allow, "{verb}");
    }
    let status = (Kind::ControllerInstallation, "", "installation-a");
    assert_eq!(
        decision_of(&graph, &extension, "patch", status, "status"),
        Decision::Allow
    );
}

#[test]
fn new_objects_are_let_through_to_admission() {
    let (graph, gardenlet) = (garden(), part("a", Party::Gardenlet));
    for (kind, inside) in [
        (Kind::Seed, ""),
        (Kind::BackupBucket, ""),
        (Kind::BackupEntry, "garden-pa"),
        (Kind::ShootState, "garden-pa"),
        (Kind::Secret, "garden-pa"),
        (Kind::ConfigMap, "garden-pa"),
        (Kind::InternalSecret, "garden-pa"),
        (Kind::Lease, "gardener-system-seed-lease"),
        (Kind::ServiceAccount, "seed-a"),
        (Kind::Event, "garden-pa"),
        (Kind::Event, "default"),
        (Kind::Event, "garden"),
    ] {
        let decision = decision_of(&graph, &gardenlet, "create", (kind, inside, ""), "");
        assert_eq!(decision, Decision::Allow, "{kind} in {inside:?}");
    }
    let token = (Kind::ServiceAccount, "seed-a", "extension-x");
    assert_eq!(
        decision_of(&graph, &gardenlet, "create", token, "token"),
        Decision::Allow
    );
}

/// Keys and values of selectors.
type Pairs = Vec<(&'static str, &'static str)>;

#[test]
fn lists_narrowed_to_the_seed_are_allowed() {
    let graph = garden();
    let label = ("name.seed.gardener.cloud/a", "true");
    let cases: [(Kind, &str, Pairs, Pairs); 14] = [
        (Kind::Shoot, "", vec![], vec![label]),
        (Kind::Shoot, "garden-pa", vec![], vec![label, ("more", "x")]),
        (Kind::Shoot, "", vec![("spec.seedName", "a")], vec![]),
        (Kind::Seed, "", vec![], vec![label]),
        (Kind::BackupEntry, "", vec![], vec![label]),
        (Kind::BackupEntry, "", vec![("spec.seedName", "a")], vec![]),
        (Kind::BackupBucket, "", vec![("spec.seedName", "a")], vec![]),
        (Kind::Bastion, "", vec![("spec.seedName", "a")], vec![]),
        (
            Kind::ControllerInstallation,
            "",
            vec![("spec.seedRef.name", "a")],
            vec![],
        ),
        (Kind::Secret, "seed-a", vec![], vec![]),
        (Kind::Project, "", vec![("spec.namespace", "garden-pa")], vec![]),
        (Kind::ControllerRegistration, "", vec![], vec![]),
        (Kind::ControllerDeployment, "", vec![], vec![]),
        (Kind::CloudProfile, "", vec![], vec![]),
    ];
    for (kind, inside, fields, labels) in cases {
        for verb in ["list", "watch"] {
            for party in [Party::Gardenlet, Party::Extension] {
                let request = Request {
                    verb,
                    group: kind.group(),
                    resource: kind.plural(),
                    namespace: inside,
                    fields: fields.clone(),
                    labels: labels.clone(),
                    ..Request::default()
                };
                assert_eq!(
                    decide(&graph, &part("a", party), &request),
                    Decision::Allow,
                    "{request:?}"
                );
            }
        }
    }
}
