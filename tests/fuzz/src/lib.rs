//! Properties that hold for every input: of patches, schemas, selectors, bodies, request lines, and of
//! charts with their YAML, values and templates. The fuzzers of `fuzz/` search for inputs that violate them,
//! `tests/seeds.rs` runs the stored inputs. Nothing here decides which answer is right: the tests of each crate and the
//! comparison with real Kubernetes do.

mod chart;
mod json;
mod kinds;
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

/// Checks a property of an input.
///
/// # Panics
/// There is no property of that name, or the input violates it.
pub fn check(target: &str, input: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    found.expect("a target of TARGETS").1(input);
}
