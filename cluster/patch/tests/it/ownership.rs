//! The owners of fields after each kind of request, and the texts of refusals.

use serde_json::json;

use super::*;

#[test]
fn applied_object_is_created_with_its_manager_on_record() {
    let created = apply(
        None,
        "kubectl",
        json!({"replicas": 1, "containers": [{"name": "a", "ports": [{"port": 80}]}]}),
    )
    .unwrap();
    let expected = json!([{
        "manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1", "time": "2023-11-14T22:13:20Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"a\"}": {
            ".": {}, "f:name": {}, "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
        }}}},
    }]);
    assert_eq!(created["metadata"]["managedFields"], expected);
    assert_eq!(
        created["spec"],
        json!({"replicas": 1, "containers": [{"name": "a", "ports": [{"port": 80}]}]})
    );
}

#[test]
fn conflicts_are_worded_as_kube_apiserver_words_them() {
    let live = update(
        None,
        "kubectl",
        spec(json!({"replicas": 1, "strategy": {"type": "A"}, "set": ["x"]})),
    );
    assert_eq!(
        refusal(apply(Some(&live), "me", json!({"replicas": 2}))),
        r#"Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas"#
    );
    let live = apply(Some(&live), "other", json!({"strategy": {"type": "A"}})).unwrap();
    let error = apply(Some(&live), "me", json!({"replicas": 2, "strategy": {"type": "B"}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"kubectl\" using apps/v1:\n- .spec.replicas\n- .spec.strategy.type\n\
         conflicts with \"other\":\n- .spec.strategy.type"
    );
    let PatchError::Conflicts(conflicts) = error else {
        panic!("{error}")
    };
    assert_eq!(conflicts.list[2].cause(), r#"conflict with "other""#);
    let mut status = live.clone();
    status["status"] = json!({"ready": 1});
    let options = UpdateOptions {
        manager: "node",
        subresource: "status",
        time: at(0),
        api_version: "apps/v1",
    };
    track_update(Some(&live), &mut status, options, &schema());
    let applied = json!({"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "t"}, "status": {"ready": 2}});
    let options = ApplyOptions {
        reset: &["spec", "metadata"],
        subresource: "status",
        ..super::options("me", 0)
    };
    assert_eq!(
        refusal(server_side_apply(Some(&status), &applied, options, &schema())),
        r#"Apply failed with 1 conflict: conflict with "node" with subresource "status" using apps/v1: .status.ready"#
    );
}

#[test]
fn same_value_is_shared_and_force_takes_a_field_over() {
    let live = apply(None, "a", json!({"replicas": 1, "map": {"m": {"k": "1"}}})).unwrap();
    let shared = apply(Some(&live), "b", json!({"replicas": 1})).unwrap();
    assert_eq!(
        (owned(&shared, "a")["f:replicas"].clone(), owned(&shared, "b")),
        (json!({}), json!({"f:replicas": {}}))
    );
    assert!(apply(Some(&shared), "b", json!({"replicas": 2})).is_err());
    let forced = apply_by_force(&shared, "b", json!({"replicas": 2}));
    assert_eq!(forced["spec"]["replicas"], 2);
    assert_eq!(owned(&forced, "a"), json!({"f:map": {"f:m": {".": {}, "f:k": {}}}}));
}

#[test]
fn fields_without_an_applier_are_removed_and_shared_ones_stay() {
    let live = apply(
        None,
        "a",
        json!({
            "replicas": 1, "set": ["x", "y"], "map": {"m": {"k": "1"}}, "raw": {"deep": {"a": 1}},
            "containers": [{"name": "one", "image": "1"}, {"name": "two", "image": "2"}],
        }),
    )
    .unwrap();
    let live = apply(
        Some(&live),
        "b",
        json!({"set": ["y", "z"], "containers": [{"name": "two", "args": ["v"]}], "raw": {"deep": {"b": 2}}}),
    )
    .unwrap();
    let shrunk = apply(Some(&live), "a", json!({"replicas": 1})).unwrap();
    assert_eq!(
        shrunk["spec"],
        json!({"replicas": 1, "set": ["y", "z"], "containers": [{"name": "two", "args": ["v"]}], "raw": {"deep": {"b": 2}}})
    );
    let empty = apply(Some(&shrunk), "b", json!({})).unwrap();
    assert_eq!(empty["spec"], json!({"replicas": 1}));
    assert_eq!(owned(&empty, "b"), json!({}), "an applied empty object is a field");
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "t"}});
    let nothing = server_side_apply(Some(&empty), &nothing, options("b", 0), &schema()).unwrap();
    assert_eq!(managed(&nothing).len(), 1, "who owns nothing is not on record");
}

#[test]
fn fields_that_others_set_survive_applies_that_do_not_name_them() {
    let live = apply(
        None,
        "a",
        json!({"containers": [{"name": "one", "image": "1"}], "selector": {"a": "1"}}),
    )
    .unwrap();
    let live = update_spec(
        &live,
        "scaler",
        json!({"replicas": 3, "containers": [{"name": "one", "image": "1", "args": ["x"]}], "selector": {"a": "1"}}),
    );
    let again = apply(Some(&live), "a", json!({"containers": [{"name": "one", "image": "2"}]})).unwrap();
    assert_eq!(
        again["spec"],
        json!({"replicas": 3, "containers": [{"name": "one", "image": "2", "args": ["x"]}]})
    );
    let gone = apply(Some(&again), "a", json!({})).unwrap();
    assert_eq!(gone["spec"]["replicas"], 3);
}

#[test]
fn atomic_lists_and_maps_have_one_owner() {
    let live = apply(
        None,
        "a",
        json!({"selector": {"x": "1"}, "containers": [{"name": "c", "args": ["1", "2"]}]}),
    )
    .unwrap();
    assert_eq!(owned(&live, "a")["f:selector"], json!({}));
    assert_eq!(
        refusal(apply(Some(&live), "b", json!({"selector": {"y": "1"}}))),
        r#"Apply failed with 1 conflict: conflict with "a": .spec.selector"#
    );
    let forced = apply_by_force(
        &live,
        "b",
        json!({"selector": {"y": "1"}, "containers": [{"name": "c", "args": ["3"]}]}),
    );
    assert_eq!(
        forced["spec"],
        json!({"selector": {"y": "1"}, "containers": [{"name": "c", "args": ["3"]}]})
    );
    assert_eq!(
        owned(&forced, "a"),
        json!({"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}})
    );
}

#[test]
fn update_takes_what_it_changes_and_drops_what_it_removes() {
    let live = apply(
        None,
        "a",
        json!({"replicas": 1, "set": ["x"], "map": {"m": {"k": "1", "l": "1"}}}),
    )
    .unwrap();
    let edited = update_spec(
        &live,
        "editor",
        json!({"replicas": 2, "set": ["x", "w"], "map": {"m": {"k": "1"}, "n.f:.": {"": "e"}}}),
    );
    assert_eq!(
        owned(&edited, "a"),
        json!({"f:set": {"v:\"x\"": {}}, "f:map": {"f:m": {".": {}, "f:k": {}}}})
    );
    assert_eq!(
        owned(&edited, "editor"),
        json!({"f:replicas": {}, "f:set": {"v:\"w\"": {}}, "f:map": {"f:n.f:.": {".": {}, "f:": {}}}})
    );
    assert_eq!(
        refusal(apply(Some(&edited), "a", json!({"replicas": 1}))),
        r#"Apply failed with 1 conflict: conflict with "editor" using apps/v1: .spec.replicas"#
    );
}

#[test]
fn update_without_change_leaves_no_trace() {
    let live = update(None, "a", spec(json!({"replicas": 1})));
    let mut same = live.clone();
    let later = UpdateOptions {
        manager: "a",
        subresource: "",
        time: at(60),
        api_version: "apps/v1",
    };
    track_update(Some(&live), &mut same, later, &schema());
    assert_eq!(same, live);
    track_update(
        Some(&live),
        &mut same,
        UpdateOptions { manager: "b", ..later },
        &schema(),
    );
    assert_eq!(same, live);
    same["spec"]["replicas"] = json!(2);
    track_update(Some(&live), &mut same, later, &schema());
    assert_eq!(managed(&same)[0]["time"], "2023-11-14T22:14:20Z");
}

#[test]
fn missing_or_broken_managed_fields_change_nothing_and_empty_ones_remove_all() {
    let live = apply(None, "a", json!({"replicas": 1})).unwrap();
    let with = |sent: Value| {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = sent;
        new
    };
    for sent in [Value::Null, json!([{"manager": "x"}]), json!("x")] {
        assert_eq!(update(Some(&live), "b", with(sent)), live);
    }
    for sent in [json!([]), json!([{}])] {
        let forgotten = update(Some(&live), "b", with(sent.clone()));
        assert!(managed(&forgotten).is_empty());
        let edited = update_spec(&forgotten, "b", json!({"replicas": 2}));
        assert!(managed(&edited).is_empty(), "one manager alone on record would mislead");
        assert_eq!(
            refusal(apply(Some(&edited), "a", json!({"replicas": 3}))),
            r#"Apply failed with 1 conflict: conflict with "before-first-apply" using apps/v1: .spec.replicas"#
        );
        let created = update(None, "b", with(sent));
        assert_eq!(
            owned(&created, "b")["f:replicas"],
            json!({}),
            "there is nothing to forget"
        );
    }
}

#[test]
fn a_subresource_cannot_rewrite_managed_fields() {
    let live = apply(None, "a", json!({"replicas": 1})).unwrap();
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    new["status"] = json!({"ready": 1});
    let options = UpdateOptions {
        manager: "node",
        subresource: "status",
        time: at(0),
        api_version: "apps/v1",
    };
    track_update(Some(&live), &mut new, options, &schema());
    assert_eq!(owned(&new, "a"), json!({"f:replicas": {}}));
    assert_eq!(managed(&new)[1]["subresource"], "status");
}

#[test]
fn update_that_only_removes_fields_retains_its_time() {
    let live = update(None, "a", spec(json!({"replicas": 1, "map": {"m": {"k": "1"}}})));
    let mut new = live.clone();
    new["spec"] = json!({"replicas": 1});
    let later = UpdateOptions {
        manager: "a",
        subresource: "",
        time: at(60),
        api_version: "apps/v1",
    };
    track_update(Some(&live), &mut new, later, &schema());
    assert_eq!(managed(&new)[0]["time"], managed(&live)[0]["time"]);
    assert_eq!(owned(&new, "a"), json!({".": {}, "f:replicas": {}}));
}

#[test]
fn requests_own_only_what_they_can_change() {
    let applied = json!({
        "apiVersion": "apps/v1", "kind": "Thing", "spec": {"replicas": 1}, "status": {"ready": 9},
        "metadata": {"name": "t", "creationTimestamp": null, "labels": {"app.kubernetes.io/name": "x"}, "uid": "u"},
    });
    let live = server_side_apply(None, &applied, options("a", 0), &schema()).unwrap();
    assert_eq!(
        managed(&live)[0]["fieldsV1"],
        json!({"f:metadata": {"f:labels": {"f:app.kubernetes.io/name": {}}}, "f:spec": {"f:replicas": {}}})
    );
    assert_eq!(live.get("status"), None);
    let status = ApplyOptions {
        reset: &["spec", "metadata"],
        subresource: "status",
        ..options("a", 0)
    };
    let live = server_side_apply(Some(&live), &applied, status, &schema()).unwrap();
    assert_eq!(managed(&live)[1]["fieldsV1"], json!({"f:status": {"f:ready": {}}}));
    assert_eq!(managed(&live)[1]["subresource"], "status");
}

#[test]
fn ambiguous_configurations_are_refused() {
    for (applied, why) in [
        (
            json!({"containers": [{"name": "a"}, {"name": "a"}]}),
            r#".spec.containers: duplicate entries for key [name="a"]"#,
        ),
        (
            json!({"set": ["a", "b", "a"]}),
            r#".spec.set: duplicate entries for key [="a"]"#,
        ),
        (
            json!({"containers": [{"name": "a"}, {"ports": []}]}),
            r#".spec.containers: element 1: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#,
        ),
    ] {
        assert_eq!(
            refusal(apply(None, "a", applied)),
            format!("failed to create typed patch object (/t; apps/v1, Kind=Thing): {why}")
        );
    }
    let mut managed = spec(json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        refusal(server_side_apply(None, &managed, options("a", 0), &schema())),
        "metadata.managedFields must be nil"
    );
    assert!(server_side_apply(None, &json!([]), options("a", 0), &schema()).is_err());
}

#[test]
fn updates_beyond_the_limit_of_managers_merge_the_oldest() {
    let mut live = update(None, "m0", spec(json!({"map": {"m": {"k0": "0"}}})));
    for n in 1..20 {
        let mut new = live.clone();
        new["spec"]["map"]["m"][format!("k{n}")] = json!("1");
        let manager = format!("m{n}");
        let options = UpdateOptions {
            manager: &manager,
            subresource: "",
            time: at(n),
            api_version: "apps/v1",
        };
        track_update(Some(&live), &mut new, options, &schema());
        live = new;
    }
    let managers: Vec<_> = managed(&live)
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(managers.len(), cluster_patch::UPDATE_MANAGERS_MAX);
    assert_eq!((managers[0].as_str(), managers[9].as_str()), ("ancient-changes", "m19"));
    assert!(!owned(&live, "ancient-changes")["f:map"]["f:m"]["f:k3"].is_null());
}

#[test]
fn objects_without_schema_merge_maps_by_key_and_lists_as_one() {
    let any = Schema::any();
    let thing = |spec: Value| json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "t"}, "spec": spec});
    let live = server_side_apply(None, &thing(json!({"m": {"a": 1}, "l": [1]})), options("a", 0), &any).unwrap();
    let both = server_side_apply(Some(&live), &thing(json!({"m": {"b": 2}})), options("b", 0), &any).unwrap();
    assert_eq!(both["spec"], json!({"m": {"a": 1, "b": 2}, "l": [1]}));
    let taken = server_side_apply(Some(&both), &thing(json!({"l": [1, 2]})), options("b", 0), &any);
    assert_eq!(
        refusal(taken),
        r#"Apply failed with 1 conflict: conflict with "a": .spec.l"#
    );
}

#[test]
fn a_value_of_another_type_conflicts_only_with_owners_of_the_field_itself() {
    let below = apply(None, "they", json!({"raw": {"a": 1}})).unwrap();
    let taken = apply(Some(&below), "me", json!({"raw": 7})).unwrap();
    assert_eq!(taken["spec"], json!({"raw": 7}));
    assert_eq!(owned(&taken, "they"), Value::Null);
    assert_eq!(owned(&taken, "me"), json!({"f:raw": {}}));
    let field = update(None, "they", spec(json!({"raw": {"a": 1}})));
    let conflict = "Apply failed with 1 conflict: conflict with \"they\" using apps/v1: .spec.raw";
    assert_eq!(refusal(apply(Some(&field), "me", json!({"raw": 7}))), conflict);
}

#[test]
fn fields_that_go_always_writes_have_no_owner_while_empty() {
    let schema = cluster_builtin::schema("apps", "v1", "Deployment").expect("a kind of Kubernetes");
    let mut made = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t"}, "spec": {
        "strategy": {}, "paused": false,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "resources": {}}]}},
    }});
    let options = UpdateOptions {
        manager: "me",
        subresource: "",
        time: at(0),
        api_version: "apps/v1",
    };
    track_update(None, &mut made, options, &schema);
    let item = json!({".": {}, "f:name": {}, "f:resources": {}});
    let expected = json!({"f:spec": {"f:paused": {}, "f:template": {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": item}},
    }}});
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], expected);
}

#[test]
fn apply_without_change_has_no_time() {
    let live = update(None, "kubectl", spec(json!({"replicas": 1})));
    let later = ApplyOptions {
        manager: "me",
        ..options("me", 9)
    };
    let same = server_side_apply(Some(&live), &spec(json!({"replicas": 1})), later, &schema()).unwrap();
    let mine = &same["metadata"]["managedFields"][0];
    assert_eq!((&mine["manager"], mine.get("time")), (&json!("me"), None));
}

#[test]
fn object_without_its_last_field_is_null_and_others_are_retained() {
    let live = update(None, "other", spec(json!({"replicas": 1, "map": {"k": {"mine": "x"}}})));
    let applied = apply(Some(&live), "me", json!({"map": {"k": {"mine": "x"}}})).unwrap();
    let mut without = applied.clone();
    let managers = without["metadata"]["managedFields"].as_array_mut().unwrap();
    managers.retain(|entry| entry["manager"] == "me");
    let after = apply(Some(&without), "me", json!({"map": {"k": {}}})).unwrap();
    assert_eq!(after["spec"], json!({"replicas": 1, "map": {"k": null}}));
}
