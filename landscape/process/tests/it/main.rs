//! What the crate gives other crates.

use tests_kit::assert_golden;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");

#[test]
fn generated_reference_lists_every_field() {
    assert_golden(PAGE, &landscape_process::reference());
}
