//! The guide to the kinds: each kind has a section with an object as gardenlet writes it and a status as an extension leaves it.
//! Both are what the API's types read, with no field that they drop, and what the definitions of the kinds accept.

use api_extensions::{ExtensionKind, ExtensionObject, ForKind};
use api_meta::ErrorCode;
use cluster_dry_run::dry_run;
use serde_json::Value;

const GUIDE: &str = include_str!("../../../../docs/extension-kinds.md");

/// The section of a kind: its text, and its blocks of YAML.
struct Section {
    text: String,
    blocks: Vec<Value>,
}

fn section(kind: ExtensionKind) -> Section {
    let heading = format!("\n## {kind}\n");
    let (_, rest) = GUIDE
        .split_once(&heading)
        .unwrap_or_else(|| unreachable!("no section {kind}"));
    let text = rest.split("\n## ").next().unwrap_or_default().to_owned();
    let blocks = text.split("```yaml\n").skip(1);
    let blocks = blocks.map(|rest| base_yaml::read_strict(rest.split("```").next().unwrap_or_default()).unwrap());
    let blocks = blocks.collect();
    Section { text, blocks }
}

/// The object of a section with its status.
fn object(kind: ExtensionKind) -> Value {
    let mut blocks = section(kind).blocks.into_iter();
    let mut object = blocks.next().unwrap_or_else(|| unreachable!("{kind} has no object"));
    for more in blocks {
        let Value::Object(more) = more else {
            unreachable!("{kind}: {more} is no mapping")
        };
        object.as_object_mut().unwrap().extend(more);
    }
    object
}

/// An object, read into the type of its kind and written again.
struct RoundTrip(Value);

impl ForKind for RoundTrip {
    type Output = Value;

    fn call<K: ExtensionObject>(self) -> Value {
        let typed: K = serde_json::from_value(self.0).unwrap();
        serde_json::to_value(typed).unwrap()
    }
}

/// Paths of `given` that `returned` lacks or has otherwise.
fn lost(given: &Value, returned: &Value, path: &str) -> Vec<String> {
    match (given, returned) {
        (Value::Object(given), Value::Object(returned)) => given
            .iter()
            .flat_map(|(name, value)| {
                lost(
                    value,
                    returned.get(name).unwrap_or(&Value::Null),
                    &format!("{path}.{name}"),
                )
            })
            .collect(),
        (Value::Array(given), Value::Array(returned)) if given.len() == returned.len() => given
            .iter()
            .zip(returned)
            .flat_map(|(given, returned)| lost(given, returned, &format!("{path}[]")))
            .collect(),
        (given, returned) if given == returned => Vec::new(),
        _ => vec![path.to_owned()],
    }
}

#[test]
fn objects_of_the_guide_have_no_field_that_the_types_drop() {
    for kind in ExtensionKind::ALL {
        let given = object(*kind);
        assert_eq!(given["kind"], kind.kind());
        assert_eq!(
            given["metadata"]["namespace"].is_string(),
            kind.is_namespaced(),
            "{kind}"
        );
        let returned = kind.with(RoundTrip(given.clone()));
        assert_eq!(lost(&given, &returned, ""), Vec::<String>::new(), "{kind}: {returned}");
    }
}

#[test]
fn sections_name_what_only_their_kind_reports() {
    for kind in ExtensionKind::ALL {
        let Section { text, blocks } = section(*kind);
        for field in kind.own_status() {
            assert!(
                text.contains(&format!("`{field}`")) || text.contains(&format!("  {field}:")),
                "{kind}: {field}"
            );
        }
        let parts = ["Made by", "Spec", "Status", "Delete", "Trap"];
        let missing: Vec<&str> = parts
            .into_iter()
            .filter(|part| !text.contains(&format!("**{part}.**")))
            .collect();
        assert!(missing.is_empty() && !blocks.is_empty(), "{kind} lacks {missing:?}");
    }
}

#[tokio::test]
async fn objects_of_the_guide_are_accepted_by_the_definitions_of_the_kinds() {
    let objects: Vec<Value> = ExtensionKind::ALL.iter().map(|kind| object(*kind)).collect();
    let remarks = dry_run(&api_extensions::crds(), &objects, "garden").await.unwrap();
    assert!(remarks.is_empty(), "{remarks:?}");
    let mut wrong = objects[0].clone();
    wrong["spec"]["secretReff"] = Value::from(1);
    let remarks = dry_run(&api_extensions::crds(), &[wrong], "garden").await.unwrap();
    assert_eq!(remarks.len(), 1, "a misspelt field is found: {remarks:?}");
}

#[test]
fn the_guide_has_every_error_code() {
    for code in ErrorCode::KNOWN {
        assert!(GUIDE.contains(&format!("`{code}`")), "{code}");
    }
}
