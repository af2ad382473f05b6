//! Edges: each is there by one field alone, goes with it, and outlives whoever else held it.

use std::collections::HashSet;

use control_plane_confinement::{Graph, Kind, SecretBinding, Shoot};
use serde_json::{Value, json};

use crate::world::{SEEDS, Source, garden, namespace, put, seed_uid, sources};

fn meta(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

/// Takes a field away; of a list, what an item says.
fn clear(object: &mut Value, field: &str) {
    let is_item = field
        .rsplit('/')
        .next()
        .is_some_and(|last| last.parse::<usize>().is_ok());
    *object.pointer_mut(field).unwrap() = if is_item { json!({}) } else { Value::Null };
}

#[test]
fn each_field_draws_its_edge_and_no_other_field_does() {
    for (at, source) in sources("a").iter().enumerate() {
        for (field, kind, inside, name) in &source.edges {
            let graph = garden();
            assert!(graph.reaches(*kind, inside, name, "a"), "{} {field}", source.kind);
            assert!(!graph.reaches(*kind, inside, name, "b"), "{} {field}", source.kind);
            let mut graph = Graph::default();
            for (other, Source { kind, object, .. }) in sources("a").into_iter().enumerate() {
                let mut object = object;
                if other == at {
                    clear(&mut object, field);
                }
                put(&mut graph, kind, &object);
            }
            assert!(
                !graph.reaches(*kind, inside, name, "a"),
                "{} without {field}",
                source.kind
            );
        }
    }
}

#[test]
fn each_edge_is_followed_when_its_field_changes() {
    for source in sources("a") {
        for (field, kind, inside, name) in &source.edges {
            let mut graph = garden();
            let mut changed = source.object.clone();
            clear(&mut changed, field);
            assert!(put(&mut graph, source.kind, &changed), "{field}");
            assert!(!graph.reaches(*kind, inside, name, "a"), "{} {field}", source.kind);
            assert!(put(&mut graph, source.kind, &source.object));
            assert!(graph.reaches(*kind, inside, name, "a"), "{} {field}", source.kind);
        }
    }
}

#[test]
fn writes_that_change_no_edge_are_no_news() {
    let mut graph = garden();
    for source in sources("a") {
        let mut object = source.object.clone();
        object["metadata"]["resourceVersion"] = json!("7");
        object["metadata"]["annotations"] = json!({"a": "b"});
        assert!(!put(&mut graph, source.kind, &object), "{}", source.kind);
    }
}

#[test]
fn nothing_is_left_of_objects_that_are_gone() {
    let mut graph = garden();
    for seed in SEEDS {
        for source in sources(seed) {
            let (inside, name) = (meta(&source.object, "namespace"), meta(&source.object, "name"));
            assert!(graph.remove(source.kind, &inside, &name));
            assert!(!graph.remove(source.kind, &inside, &name));
        }
    }
    assert_eq!(graph.size(), (0, 0, 0));
}

#[test]
fn a_list_forgets_what_it_does_not_show() {
    let mut graph = garden();
    let shown = HashSet::from([(namespace("b"), "shoot-b".to_owned())]);
    assert!(graph.retain(Kind::Shoot, &shown));
    assert!(!graph.retain(Kind::Shoot, &shown));
    assert!(!graph.reaches(Kind::Shoot, &namespace("a"), "shoot-a", "a"));
    assert!(graph.reaches(Kind::Shoot, &namespace("b"), "shoot-b", "b"));
    assert!(graph.reaches(Kind::Seed, "", "a", "a"), "other kinds stay");
}

#[test]
fn what_two_objects_hold_stays_with_the_second() {
    let shoot = |name: &str, seed: &str| -> Shoot {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"seedName": seed, "secretBindingName": "shared"}}))
        .unwrap()
    };
    let binding: SecretBinding = serde_json::from_value(
        json!({"metadata": {"name": "shared", "namespace": "n"}, "secretRef": {"name": "s", "namespace": "n"}}),
    )
    .unwrap();
    let mut graph = Graph::default();
    for shoot in [shoot("one", "a"), shoot("two", "a"), shoot("three", "b")] {
        graph.put(&shoot);
    }
    graph.put(&binding);
    let reaches = |graph: &Graph, seed: &str| {
        let all = [
            (Kind::SecretBinding, "n", "shared"),
            (Kind::Secret, "n", "s"),
            (Kind::Namespace, "", "n"),
        ];
        let found = all.map(|(kind, inside, name)| graph.reaches(kind, inside, name, seed));
        assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
        found[0]
    };
    assert!(reaches(&graph, "a") && reaches(&graph, "b"));
    graph.remove(Kind::Shoot, "n", "one");
    assert!(reaches(&graph, "a") && reaches(&graph, "b"));
    graph.put(&shoot("two", "b"));
    assert!(!reaches(&graph, "a") && reaches(&graph, "b"));
}

#[test]
fn a_shoot_on_its_way_belongs_to_both_seeds() {
    let mut graph = garden();
    let mut moving = sources("a")
        .into_iter()
        .find(|source| source.kind == Kind::Shoot)
        .unwrap()
        .object;
    moving["spec"]["seedName"] = json!("b");
    moving["status"]["seedName"] = json!("a");
    put(&mut graph, Kind::Shoot, &moving);
    for seed in SEEDS {
        assert!(graph.reaches(Kind::Shoot, &namespace("a"), "shoot-a", seed));
        assert!(graph.reaches(Kind::Secret, &namespace("a"), "extra-a", seed));
    }
    moving["status"]["seedName"] = json!("b");
    put(&mut graph, Kind::Shoot, &moving);
    assert!(!graph.reaches(Kind::Shoot, &namespace("a"), "shoot-a", "a"));
    assert!(
        graph.reaches(Kind::BackupBucket, "", &seed_uid("a"), "a"),
        "its seed's own stay"
    );
}

/// Whatever comes and goes in whatever order, the graph is that of what is there.
#[test]
fn the_graph_does_not_depend_on_its_history() {
    let all: Vec<Source> = SEEDS.iter().flat_map(|seed| sources(seed)).collect();
    let mut drawn = 1_u64;
    let mut draw = |below: usize| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (drawn >> 33) as usize % below
    };
    let mut graph = Graph::default();
    let mut present: Vec<Option<Value>> = vec![None; all.len()];
    for _ in 0..3_000 {
        let at = draw(all.len());
        let Source { kind, object, edges } = &all[at];
        if draw(4) == 0 {
            graph.remove(*kind, &meta(object, "namespace"), &meta(object, "name"));
            present[at] = None;
        } else {
            let mut changed = object.clone();
            if draw(2) == 0 {
                clear(&mut changed, edges[draw(edges.len())].0);
            }
            put(&mut graph, *kind, &changed);
            present[at] = Some(changed);
        }
        if draw(20) > 0 {
            continue;
        }
        let mut rebuilt = Graph::default();
        for (source, object) in all.iter().zip(&present) {
            if let Some(object) = object {
                put(&mut rebuilt, source.kind, object);
            }
        }
        assert_eq!(graph.size(), rebuilt.size());
        for (seed, (_, kind, inside, name)) in SEEDS
            .iter()
            .flat_map(|seed| all.iter().flat_map(|one| &one.edges).map(move |edge| (seed, edge)))
        {
            let (is, should) = (
                graph.reaches(*kind, inside, name, seed),
                rebuilt.reaches(*kind, inside, name, seed),
            );
            assert_eq!(is, should, "{kind} {inside}/{name} of {seed}");
        }
    }
}
