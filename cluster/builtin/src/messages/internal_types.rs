//! An object as kube-apiserver prints its internal types: every field under the name that it has in Go, in the order in which they
//! are declared, also those that are not set (kubernetes/kubernetes v1.35 `pkg/apis/core/types.go`).
//! For messages alone: no client is ever sent such an object.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::messages::unified_diff;
use crate::tables::gzip::unzip;

/// Fields of a pod's spec that Go has in its security context.
const OF_SECURITY_CONTEXT: [&str; 5] = [
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "shareProcessNamespace",
];
/// Fields of a label selector in the order in which they are printed, under their names in JSON.
const SELECTOR: [&str; 2] = ["matchLabels", "matchExpressions"];

/// Fields with their types; an embedded struct has no name.
type Struct = Vec<(String, String)>;

/// Structs by name, and types that are defined as another type.
#[derive(serde::Deserialize)]
struct Types {
    structs: BTreeMap<String, Struct>,
    others: BTreeMap<String, String>,
}

fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(|| {
        let bytes = unzip(include_bytes!("../../data/go_internal.json.gz"));
        serde_json::from_slice(&bytes).expect("a committed table, read by a test of this crate")
    })
}

/// What was changed of a value of that type, line by line; empty when nothing was.
pub(crate) fn changes(type_name: &str, old: &Value, new: &Value) -> String {
    unified_diff::diff(&print(type_name, old, true), &print(type_name, new, true))
}

/// The value on one line.
pub(crate) fn line(type_name: &str, value: &Value) -> String {
    print(type_name, value, false)
}

fn print(type_name: &str, value: &Value, pretty: bool) -> String {
    let mut printer = Printer {
        text: String::new(),
        depth: pretty.then_some(0),
    };
    printer.value(type_name, Some(value));
    printer.text
}

struct Printer {
    text: String,
    /// How deep it is, if it is printed over many lines.
    depth: Option<usize>,
}

impl Printer {
    fn value(&mut self, type_name: &str, value: Option<&Value>) {
        let value = value.filter(|value| !value.is_null());
        if let Some(inner) = type_name.strip_prefix('*') {
            return match value {
                None => self.text.push_str("null"),
                some => self.value(inner, some),
            };
        }
        if let Some(inner) = type_name.strip_prefix("[]") {
            return match value.and_then(Value::as_array) {
                None => self.text.push_str("null"),
                Some(items) => self.inside('[', ']', items.iter(), |printer, item| printer.value(inner, Some(item))),
            };
        }
        if let Some((_, inner)) = type_name.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return match value.and_then(Value::as_object) {
                None => self.text.push_str("null"),
                Some(fields) => {
                    let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
                    self.inside('{', '}', sorted.into_iter(), |printer, (name, value)| {
                        printer.name(name);
                        printer.value(inner, Some(value));
                    });
                }
            };
        }
        if let Some(other) = types().others.get(type_name) {
            return self.value(other, value);
        }
        if let Some(fields) = types().structs.get(type_name) {
            return self.structure(type_name, fields, value.unwrap_or(&Value::Null));
        }
        match (type_name, value) {
            ("metav1.LabelSelector", Some(selector)) => self.plain(selector, &SELECTOR),
            (_, Some(value)) => self.plain(value, &[]),
            ("string" | "types.UID", None) => self.text.push_str("\"\""),
            ("bool", None) => self.text.push_str("false"),
            ("resource.Quantity", None) => self.text.push_str("\"0\""),
            ("metav1.Time" | "metav1.MicroTime", None) => self.text.push_str("null"),
            ("intstr.IntOrString" | "int" | "int32" | "int64", None) => self.text.push('0'),
            (_, None) => self.text.push_str("{}"),
        }
    }

    fn structure(&mut self, name: &str, fields: &Struct, value: &Value) {
        let moved;
        let value = match name {
            "PodSpec" => {
                moved = with_security_context(value);
                &moved
            }
            _ => value,
        };
        let mut all = Vec::new();
        promoted(fields, &mut all);
        let nothing = Map::new();
        let given = value.as_object().unwrap_or(&nothing);
        self.inside('{', '}', all.into_iter(), |printer, (name, type_name)| {
            printer.name(name);
            let found = given.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
            printer.value(type_name, found.map(|(_, value)| value));
        });
    }

    /// As JSON has it, fields with these names first.
    fn plain(&mut self, value: &Value, first: &[&str]) {
        match value {
            Value::Object(fields) => {
                let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                let place = |name: &str| first.iter().position(|first| *first == name).unwrap_or(usize::MAX);
                sorted.sort_by_key(|(name, _)| place(name));
                self.inside('{', '}', sorted.into_iter(), |printer, (name, value)| {
                    printer.name(name);
                    printer.plain(value, &[]);
                });
            }
            Value::Array(items) => self.inside('[', ']', items.iter(), |printer, item| printer.plain(item, &[])),
            // Go's encoder escapes what is not safe in HTML.
            other => {
                let text = other.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
                self.text.push_str(&text.replace('&', "\\u0026"));
            }
        }
    }

    fn name(&mut self, name: &str) {
        let space = if self.depth.is_some() { " " } else { "" };
        self.text.push_str(&format!("{}:{space}", json!(name)));
    }

    fn inside<T>(
        &mut self,
        open: char,
        close: char,
        items: impl ExactSizeIterator<Item = T>,
        mut print: impl FnMut(&mut Self, T),
    ) {
        self.text.push(open);
        if items.len() > 0 {
            self.depth = self.depth.map(|depth| depth + 1);
            for (index, item) in items.enumerate() {
                self.text.push_str(if index == 0 { "" } else { "," });
                self.new_line();
                print(self, item);
            }
            self.depth = self.depth.map(|depth| depth - 1);
            self.new_line();
        }
        self.text.push(close);
    }

    fn new_line(&mut self) {
        if let Some(depth) = self.depth {
            self.text.push('\n');
            self.text.push_str(&" ".repeat(depth));
        }
    }
}

/// The fields, with those of embedded structs in their place.
fn promoted<'t>(fields: &'t Struct, all: &mut Vec<(&'t str, &'t str)>) {
    for (name, type_name) in fields {
        match types().structs.get(type_name).filter(|_| name.is_empty()) {
            Some(inner) => promoted(inner, all),
            None => all.push((name, type_name)),
        }
    }
}

/// A pod's spec as Go has it: what is the host's is part of the security context, which is always there.
fn with_security_context(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    let moved: Vec<(&str, Value)> = OF_SECURITY_CONTEXT
        .into_iter()
        .filter_map(|name| Some((name, fields.remove(name)?)))
        .collect();
    let context = fields.entry("securityContext").or_insert(Value::Null);
    if !context.is_object() {
        *context = json!({});
    }
    for (name, value) in moved {
        context[name] = value;
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_printed_with_its_name_in_go_even_if_unset() {
        let taint = json!({"key": "a<b", "effect": "NoSchedule"});
        let expected = r#"{"Key":"a\u003cb","Value":"","Effect":"NoSchedule","TimeAdded":null}"#;
        assert_eq!(line("Taint", &taint), expected);
        let spec =
            json!({"hostNetwork": true, "containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 1}}}]});
        let text = line("PodSpec", &spec);
        assert!(
            text.contains(r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#),
            "{text}"
        );
        assert!(
            text.contains(r#""LivenessProbe":{"Exec":null,"HTTPGet":{"Path":"","Port":1,"#),
            "{text}"
        );
    }

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let (old, new) = (
            json!({"accessModes": ["ReadWriteOnce"]}),
            json!({"accessModes": ["ReadOnlyMany"]}),
        );
        let text = changes("PersistentVolumeClaimSpec", &old, &new);
        let expected = "@@ -1,6 +1,6 @@\n {\n  \"AccessModes\": [\n-  \"ReadWriteOnce\"\n+  \"ReadOnlyMany\"\n  ],\n  \"Selector\": null,\n  \"Resources\": {\n";
        assert_eq!(text, expected);
        assert_eq!(changes("PersistentVolumeClaimSpec", &old, &old), "");
    }
}
