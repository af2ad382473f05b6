//! Writes whose line would be allowed, or is not known yet, and whose object is not.

use control_plane_confinement::{Graph, Identity, Kind, Party, Write, admit};
use serde_json::{Value, json};

use crate::world::{SEEDS, garden, namespace, objects, part, seed_uid, sources};

fn write<'a>(
    kind: Kind,
    inside: &'a str,
    name: &'a str,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
) -> Write<'a> {
    Write {
        group: kind.group(),
        resource: kind.plural(),
        subresource: "",
        namespace: inside,
        name,
        object,
        old,
    }
}

fn admitted(graph: &Graph, identity: &Identity, write: &Write<'_>) -> Result<(), String> {
    admit(graph, identity, write).map_err(|refusal| refusal.to_string())
}

fn gardenlet() -> Identity {
    part("a", Party::Gardenlet)
}

fn object_of(seed: &str, kind: Kind) -> Value {
    sources(seed)
        .into_iter()
        .find(|source| source.kind == kind)
        .unwrap()
        .object
}

#[test]
fn nothing_of_another_seed_is_made_changed_or_deleted() {
    let (graph, object) = (garden(), json!({}));
    for (kind, inside, name) in objects("b") {
        for (new, old) in [
            (Some(&object), None),
            (Some(&object), Some(&object)),
            (None, Some(&object)),
        ] {
            for party in [Party::Gardenlet, Party::Extension] {
                let refused = admitted(&graph, &part("a", party), &write(kind, &inside, &name, new, old));
                assert!(refused.is_err(), "{kind} {inside}/{name}");
            }
        }
    }
}

#[test]
fn objects_named_after_an_own_shoot_may_be_created_before_they_are_known() {
    let graph = garden();
    for (kind, name) in [
        (Kind::Secret, "shoot-a.ssh-keypair"),
        (Kind::InternalSecret, "shoot-a.ca-client"),
        (Kind::ConfigMap, "shoot-a.ca-cluster"),
        (Kind::ShootState, "shoot-a"),
    ] {
        let object = json!({"metadata": {"name": name}});
        assert_eq!(
            admitted(
                &graph,
                &gardenlet(),
                &write(kind, "garden-pa", name, Some(&object), None)
            ),
            Ok(())
        );
        let elsewhere = admitted(
            &graph,
            &gardenlet(),
            &write(kind, "garden-pb", name, Some(&object), None),
        );
        assert!(elsewhere.is_err(), "{kind}");
    }
}

#[test]
fn a_shoot_is_neither_moved_nor_made_to_refer_to_more() {
    let graph = garden();
    let old = object_of("a", Kind::Shoot);
    let with = |pointer: &str, value: Value| {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = value;
        admitted(
            &graph,
            &gardenlet(),
            &write(Kind::Shoot, "garden-pa", "shoot-a", Some(&new), Some(&old)),
        )
    };
    assert_eq!(
        with(
            "/metadata",
            json!({"name": "shoot-a", "namespace": "garden-pa", "uid": "u", "finalizers": ["gardener"]})
        ),
        Ok(())
    );
    assert_eq!(
        with("/spec/resources", json!([])),
        Ok(()),
        "fewer references open nothing"
    );
    for (pointer, value, why) in [
        ("/spec/seedName", json!("b"), "it would change spec.seedName"),
        ("/spec/seedName", Value::Null, "it would change spec.seedName"),
        (
            "/spec/credentialsBindingName",
            json!("of-others"),
            "it would newly refer to CredentialsBinding garden-pa/of-others",
        ),
        (
            "/spec/resources/0/resourceRef/name",
            json!("x"),
            "it would newly refer to Secret garden-pa/x",
        ),
    ] {
        let refused = with(pointer, value).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    let mut new = old.clone();
    for (seed, expected) in [("a", true), ("b", false)] {
        new["status"]["seedName"] = json!(seed);
        let outcome = admitted(
            &graph,
            &gardenlet(),
            &write(Kind::Shoot, "garden-pa", "shoot-a", Some(&new), Some(&old)),
        );
        assert_eq!(outcome.is_ok(), expected, "{outcome:?}");
    }
}

#[test]
fn a_seed_refers_to_nothing_that_others_need() {
    let graph = garden();
    let mut old = object_of("a", Kind::Seed);
    let to =
        |name: &str, inside: &str| json!({"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": inside});
    let outcome = |credentials: Value, old: Option<&Value>| {
        let mut new = object_of("a", Kind::Seed);
        new["spec"]["backup"]["credentialsRef"] = credentials;
        admitted(&graph, &gardenlet(), &write(Kind::Seed, "", "a", Some(&new), old))
    };
    for old in [None, Some(&old)] {
        assert_eq!(outcome(to("backup-a", "garden"), old), Ok(()), "its own");
        assert_eq!(outcome(to("new", "garden"), old), Ok(()), "it has no owner");
        for (name, inside) in [
            ("backup-b", "garden"),
            ("pull-b", "garden"),
            ("extra-b", "garden-pb"),
            ("x", "kube-system"),
        ] {
            let refused = outcome(to(name, inside), old).unwrap_err();
            let expected = format!(
                "it would refer to Secret {inside}/{name}, which is not in namespace garden or is needed by others"
            );
            assert!(refused.contains(&expected), "{refused}");
        }
    }
    // What an administrator has written stays.
    old["spec"]["backup"]["credentialsRef"] = to("backup-b", "garden");
    assert_eq!(outcome(to("backup-b", "garden"), Some(&old)), Ok(()));
    let other = object_of("b", Kind::Seed);
    assert!(admitted(&graph, &gardenlet(), &write(Kind::Seed, "", "b", Some(&other), None)).is_err());
}

#[test]
fn a_bucket_is_the_seeds_and_has_credentials_of_the_seed() {
    let graph = garden();
    let (name, secret) = (
        seed_uid("a"),
        |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": "garden"}),
    );
    let outcome = |seed: &str, credentials: &str| {
        let object =
            json!({"metadata": {"name": name}, "spec": {"seedName": seed, "credentialsRef": secret(credentials)}});
        admitted(
            &graph,
            &gardenlet(),
            &write(Kind::BackupBucket, "", &name, Some(&object), None),
        )
    };
    assert_eq!(outcome("a", "backup-a"), Ok(()));
    for (seed, credentials, why) in [
        ("b", "backup-a", "spec.seedName must be this seed"),
        ("a", "backup-b", "it would refer to Secret garden/backup-b"),
        ("a", "nobodys", "it would refer to Secret garden/nobodys"),
    ] {
        let refused = outcome(seed, credentials).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn an_entry_lies_in_a_bucket_of_the_seed() {
    let graph = garden();
    let inside = namespace("a");
    let outcome = |name: &str, seed: &str, bucket: &str| {
        let object =
            json!({"metadata": {"name": name, "namespace": inside}, "spec": {"seedName": seed, "bucketName": bucket}});
        admitted(
            &graph,
            &gardenlet(),
            &write(Kind::BackupEntry, &inside, name, Some(&object), None),
        )
    };
    assert_eq!(outcome("shoot--pa--shoot--u", "a", &seed_uid("a")), Ok(()));
    for (name, seed, bucket) in [
        ("shoot--pa--shoot--u", "b", seed_uid("a")),
        ("shoot--pa--shoot--u", "a", seed_uid("b")),
        ("shoot--pb--shoot--u", "a", seed_uid("a")),
    ] {
        assert!(outcome(name, seed, &bucket).is_err(), "{name} {seed} {bucket}");
    }
}

#[test]
fn an_installation_keeps_its_spec() {
    let graph = garden();
    let old = object_of("a", Kind::ControllerInstallation);
    let mut new = old.clone();
    new["status"] = json!({"conditions": []});
    let outcome = |new: &Value| {
        let write = write(
            Kind::ControllerInstallation,
            "",
            "installation-a",
            Some(new),
            Some(&old),
        );
        [Party::Gardenlet, Party::Extension].map(|party| admitted(&graph, &part("a", party), &write).is_ok())
    };
    assert_eq!(outcome(&new), [true, true]);
    new["spec"]["deploymentRef"]["name"] = json!("deployment-b");
    assert_eq!(outcome(&new), [false, false]);
}

#[test]
fn an_event_is_not_about_another_seeds_object() {
    let graph = garden();
    let outcome = |about: Value| {
        let [old, new] = ["involvedObject", "regarding"].map(|field| {
            let object = json!({"metadata": {"name": "e", "namespace": "garden-pa"}, field: about});
            admitted(
                &graph,
                &gardenlet(),
                &write(Kind::Event, "garden-pa", "e", Some(&object), None),
            )
            .is_ok()
        });
        assert_eq!(old, new);
        new
    };
    let about = |kind: &str, inside: &str, name: &str| json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "namespace": inside, "name": name});
    assert!(outcome(about("Shoot", "garden-pa", "shoot-a")));
    assert!(outcome(about("Shoot", "garden-pa", "gone")));
    assert!(outcome(
        json!({"apiVersion": "v1", "kind": "Pod", "namespace": "garden-pb", "name": "p"})
    ));
    assert!(!outcome(about("Shoot", "garden-pb", "shoot-b")));
    assert!(!outcome(about("Seed", "", "b")));
}

#[test]
fn other_kinds_are_not_looked_at() {
    let object = json!({});
    let write = Write {
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        object: Some(&object),
        ..Write::default()
    };
    for seed in SEEDS {
        assert_eq!(
            admitted(&Graph::default(), &part(seed, Party::Gardenlet), &write),
            Ok(())
        );
    }
}
