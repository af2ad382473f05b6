//! Patches of four kinds and updates: sections are words (kind, manager, another manager), the object, the patch, another
//! patch.

use cluster_patch::{
    ApplyOptions, COPY_BYTES_MAX, Element, FieldSet, PatchError, UpdateOptions, json_patch, merge_patch,
    server_side_apply, strategic_merge, track_update,
};
use cluster_schema::Schema;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds;
use crate::text::{Sections, first_difference};

/// How many times larger an object with its ownership may be than its inputs: each name in it occurs once more as a field,
/// keys of list items twice more with their quotes escaped.
const OWNERSHIP_FACTOR: usize = 16;
/// What an entry of `managedFields` takes beside its fields.
const ENTRY_BYTES: usize = 1024;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that updates it.
const KUBECTL: &str = "kubectl";

pub(crate) fn check(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut sections = Sections::of(&input);
    let mut words = sections.text().split_whitespace();
    let kind = kinds::find(words.next().unwrap_or_default());
    let me = words.next().unwrap_or("me");
    let they = words.next().unwrap_or("they");
    let mut section = || sections.json().unwrap_or_default();
    let (object, patch, other) = (section(), section(), section());

    json(&object, &patch);
    merge(&object, &patch);
    strategic(&object, &patch, &kind.schema);
    fields(&patch);
    for object in [object.clone(), storable(&object, &kind.schema)] {
        apply(&object, [&patch, &other], [me, they], &kind.schema);
    }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

fn json(object: &Value, patch: &Value) {
    if let Ok(patched) = json_patch(object, patch) {
        assert!(
            size(&patched) <= size(object) + size(patch) + COPY_BYTES_MAX + 64,
            "a JSON patch has made too much"
        );
    }
}

fn merge(object: &Value, patch: &Value) {
    let Ok(once) = merge_patch(object, patch) else { return };
    assert!(
        size(&once) <= size(object) + size(patch),
        "a merge patch has made too much"
    );
    // A list that replaces an object retains its nulls, one that replaces a list does not (evanphx/json-patch v4.12
    // `merge.go`): after the second time nothing changes any more.
    let twice = merge_patch(&once, patch).expect("what was merged can be merged again");
    assert_eq!(
        merge_patch(&twice, patch),
        Ok(twice),
        "a merge patch thrice is not one twice"
    );
}

fn strategic(object: &Value, patch: &Value, schema: &Schema) {
    if let Ok(once) = strategic_merge(object, patch, schema) {
        assert!(
            size(&once) <= size(object) + size(patch),
            "a strategic merge patch has made too much"
        );
    }
}

/// Sets and elements of `managedFields` are read as they are written.
fn fields(patch: &Value) {
    if let Some(fields) = FieldSet::from_json(patch) {
        let written = fields.to_json();
        assert_eq!(FieldSet::from_json(&written), Some(fields), "{written}");
    }
    let names = patch.as_object().into_iter().flatten().map(|(name, _)| name);
    for element in names.filter_map(|name| Element::parse(name)) {
        let printed = element.print();
        assert_eq!(Element::parse(&printed), Some(element), "{printed}");
    }
}

/// The object as it could be stored: without unknown fields, and with defaults.
fn storable(object: &Value, schema: &Schema) -> Value {
    let mut object = match object {
        Value::Object(_) => object.clone(),
        other => json!({ "spec": other }),
    };
    object["apiVersion"] = json!("example.org/v1");
    object["kind"] = json!("Thing");
    if !object["metadata"].is_object() {
        object["metadata"] = json!({"name": "t"});
    }
    schema.prune(&mut object);
    let _ = schema.fill(&mut object);
    schema.normalize(&mut object);
    object
}

fn apply(object: &Value, patches: [&Value; 2], [me, they]: [&str; 2], schema: &Schema) {
    let at = |second| Timestamp::from_second(second).expect("a moment of 1970");
    let update = |old: Option<&Value>, new: &Value, second| {
        let options = UpdateOptions {
            manager: they,
            subresource: "",
            time: at(second),
            api_version: "example.org/v1",
        };
        let mut new = new.clone();
        track_update(old, &mut new, options, schema);
        new
    };
    let live = update(None, object, 0);
    let again = update(Some(&live), &live, 1);
    let difference = first_difference(&live, &again);
    assert!(
        difference.is_none(),
        "an update without a change: {}",
        difference.unwrap_or_default()
    );

    let apply = |live: Option<&Value>, patch: &Value, manager, force, second| {
        let options = ApplyOptions {
            manager,
            force,
            subresource: "",
            time: at(second),
            api_version: "example.org/v1",
            reset: &["status"],
        };
        server_side_apply(live, patch, options, schema)
    };
    let [patch, other] = patches;
    for live in [None, Some(&live)] {
        for manager in [me, they, KUBECTL] {
            let once = match apply(live, patch, manager, true, 2) {
                Ok(once) => once,
                Err(PatchError::Conflicts(conflicts)) => unreachable!("forced, and yet {conflicts:?}"),
                Err(_) => continue,
            };
            let sizes = live.map_or(0, size) + size(patch);
            assert!(
                size(&once) <= OWNERSHIP_FACTOR * sizes + 4 * ENTRY_BYTES,
                "an apply has made {} bytes of {sizes}",
                size(&once)
            );
            let _ = apply(Some(&once), other, they, false, 4);
            let _ = apply(Some(&once), other, me, true, 5);
            // An apply without fields to own leaves an object without managers, which the next apply takes for one from before
            // server-side apply (kubernetes/kubernetes v1.35 apimachinery/pkg/util/managedfields/internal/skipnonapplied.go).
            if once.pointer("/metadata/managedFields").is_none() {
                continue;
            }
            // The annotation is overwritten after each apply of kubectl, whoever else owns it: the next one finds another text
            // than it applies (kubernetes/kubernetes v1.35 apimachinery lastappliedupdater.go).
            let annotations = patch.pointer("/metadata/annotations");
            if manager == KUBECTL && annotations.is_some_and(|all| all.get(LAST_APPLIED).is_some()) {
                continue;
            }
            let twice = apply(Some(&once), patch, manager, false, 3).unwrap_or_else(|error| json!(error.to_string()));
            let difference = first_difference(&once, &twice);
            assert!(
                difference.is_none(),
                "applied twice by {manager}: {}",
                difference.unwrap_or_default()
            );
        }
    }
}
