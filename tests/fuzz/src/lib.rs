//! What must hold for every input, whoever sends it: properties of patches, schemas, selectors, bodies,
//! request lines, and of charts with their YAML, values and templates.
//! The fuzzers of `fuzz/` look for inputs that break them, `tests/seeds.rs` runs those that are kept. Nothing here says
//! what a right answer is: that is for the tests of each crate and for the comparison with real Kubernetes.

mod chart;
mod forms;
mod json;
mod patch;
mod request_line;
mod schema;
mod selector;
mod template;
mod text;
mod values;
mod yaml;

/// A property and the name of its fuzzer.
pub type Target = (&'static str, fn(&[u8]));

/// Every property.
pub const TARGETS: [Target; 9] = [
    ("patch", patch::check),
    ("schema", schema::check),
    ("selector", selector::check),
    ("json", json::check),
    ("request-line", request_line::check),
    ("yaml", yaml::check),
    ("template", template::check),
    ("chart", chart::check),
    ("values", values::check),
];

/// Holds an input against a property. Panics when it breaks it.
///
/// # Panics
/// There is no property of that name, or the input breaks it.
pub fn check(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    found.expect("a target of TARGETS").1(input);
}
