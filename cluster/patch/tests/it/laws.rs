//! Laws that hold for random objects, random configurations and random nonsense.

use cluster_patch::{json_patch, merge_patch, strategic_merge};
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", ".", "f:", "a/b~\"", ""]).prop_map(str::to_owned)
}

/// Specs that fit the schema; lists by key have no key twice.
fn sound_spec() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::btree_map(name(), name(), 0..3);
    let container = (
        prop::option::of(name()),
        prop::option::of(prop::collection::vec(name(), 0..3)),
    );
    (
        prop::option::of(0..3),
        prop::option::of(prop::collection::btree_map(name(), container, 0..4)),
        prop::option::of(prop::collection::btree_set(name(), 0..3)),
        prop::option::of(texts()),
        prop::option::of(prop::collection::btree_map(name(), texts(), 0..3)),
        prop::option::of(json_value(&[])),
    )
        .prop_map(|(replicas, containers, set, selector, map, raw)| {
            let containers = containers.map(|containers| {
                let item = |(name, (image, args))| without_nulls(json!({"name": name, "image": image, "args": args}));
                containers.into_iter().map(item).collect::<Vec<_>>()
            });
            without_nulls(json!({
                "replicas": replicas, "containers": containers, "set": set, "selector": selector, "map": map, "raw": raw,
            }))
        })
}

/// The part of a spec that some manager can own: what the schema declares, where no value becomes one of another type, without
/// lists by key or of a set that have no items. Such a list does not hold what is around it.
fn ownable(mut spec: Value) -> Value {
    let fields = spec.as_object_mut().expect("a spec");
    fields.retain(|name, value| name != "raw" && *value != json!([]));
    spec
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        other => other,
    }
}

const DIRECTIVES: [&str; 14] = [
    "name",
    "spec",
    "containers",
    "set",
    "metadata",
    "managedFields",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/set",
    "f:spec",
    ".",
    "k:{\"name\":\"a\"}",
    "fieldsV1",
];

/// Any JSON; some of its keys are of these.
fn json_value(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        Just(json!(1.0)),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let mut names = vec!["a", "b", "c", ".", "f:", "a/b~\"", ""];
        names.extend(keys);
        let key = prop::sample::select(names).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Every leaf of the configuration is in the object. A null changes nothing in a map or a list.
fn contains(object: &Value, applied: &Value) -> bool {
    match (object, applied) {
        (Value::Object(_) | Value::Array(_), Value::Null) => true,
        (Value::Object(object), Value::Object(applied)) => applied
            .iter()
            .all(|(key, value)| object.get(key).is_some_and(|mine| contains(mine, value))),
        (Value::Array(object), Value::Array(applied)) => applied
            .iter()
            .all(|value| object.iter().any(|mine| contains(mine, value))),
        (Value::Number(object), Value::Number(applied)) => object.as_f64() == applied.as_f64(),
        _ => object == applied,
    }
}

fn config() -> ProptestConfig {
    // Regression files would be written into the checkout; failures print their smallest case anyway.
    ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn applying_twice_is_applying_once(before in sound_spec(), applied in sound_spec()) {
        let live = update(None, "someone", spec(before));
        let once = apply_by_force(&live, "me", applied.clone());
        let later = ApplyOptions { force: false, ..options("me", 99) };
        let twice = server_side_apply(Some(&once), &spec(applied.clone()), later, &schema());
        prop_assert_eq!(twice.as_ref(), Ok(&once));
        prop_assert!(contains(&once["spec"], &applied), "{} lacks {}", once, applied);
    }

    #[test]
    fn another_manager_never_takes_fields_away_without_force(mine in sound_spec(), theirs in sound_spec(), fewer in sound_spec()) {
        let (mine, theirs, fewer) = (ownable(mine), ownable(theirs), ownable(fewer));
        let live = apply(None, "me", mine.clone()).unwrap();
        // A map that loses its last field becomes null, although another manager owns the map.
        let mine = without_empty(&mine);
        if let Ok(both) = apply(Some(&live), "they", theirs) {
            prop_assert!(contains(&spec_of(&both), &mine), "{} lacks {}", both, mine);
            prop_assert_eq!(owned(&both, "me"), owned(&live, "me"));
            // Nor when they apply less again.
            if let Ok(after) = apply(Some(&both), "they", fewer) {
                prop_assert!(contains(&spec_of(&after), &mine), "{} lacks {}", after, mine);
                prop_assert_eq!(owned(&after, "me"), owned(&live, "me"));
            }
        }
    }

    #[test]
    fn an_object_of_one_manager_has_only_what_it_applied_last(first in sound_spec(), last in sound_spec()) {
        // A configuration in which nothing can be owned would leave no manager on record.
        let with_owner = |mut spec: Value| {
            spec["strategy"] = json!({"type": "x"});
            spec
        };
        let (first, last) = (with_owner(first), with_owner(last));
        let live = apply(None, "me", first).unwrap();
        let live = apply(Some(&live), "me", last.clone()).unwrap();
        let fresh = apply(None, "me", last).unwrap();
        // Some granular lists and maps that have become empty stay, and some go.
        prop_assert_eq!(managed(&live), managed(&fresh));
        prop_assert!(contains(&spec_of(&live), &without_empty(&fresh["spec"])) && contains(&without_empty(&fresh["spec"]), &without_empty(&live["spec"])), "{} {}", live, fresh);
    }

    #[test]
    fn random_patches_never_cause_a_panic(live in json_value(&DIRECTIVES), request in json_value(&DIRECTIVES)) {
        let mut object = spec(live.clone());
        object["metadata"]["managedFields"] = request.clone();
        let mut whole = request.clone();
        for (live, applied) in [(&live, &request), (&object, &request), (&object, &spec(request.clone()))] {
            for schema in [schema(), Schema::any()] {
                let options = ApplyOptions { force: true, ..options("m", 0) };
                let _ = server_side_apply(Some(live), applied, options, &schema);
                let _ = strategic_merge(live, applied, &schema);
                let options = UpdateOptions { manager: "m", subresource: "", time: at(0), api_version: "v1" };
                track_update(Some(live), &mut whole, options, &schema);
            }
            let _ = merge_patch(live, applied);
            let _ = json_patch(live, applied);
        }
    }

    #[test]
    fn strategic_merge_without_knowledge_of_lists_is_a_merge_patch(object in sound_spec(), patch in sound_spec()) {
        // Nulls in elements of a list are removals to one and values to the other.
        prop_assume!(!patch.to_string().contains("null"));
        prop_assert_eq!(strategic_merge(&object, &patch, &Schema::any()), merge_patch(&object, &patch));
    }
}

/// The spec; one that has lost its last field is null.
fn spec_of(object: &Value) -> Value {
    match &object["spec"] {
        Value::Null => json!({}),
        spec => spec.clone(),
    }
}

fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let stripped = fields.iter().map(|(key, value)| (key.clone(), without_empty(value)));
            stripped
                .filter(|(_, value)| *value != json!({}) && *value != json!([]) && !value.is_null())
                .collect()
        }
        Value::Array(items) => items.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}
