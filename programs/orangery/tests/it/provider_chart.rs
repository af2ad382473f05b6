//! The local provider's own chart, linted as any author's.

use std::process::Command;

#[test]
fn the_chart_of_the_local_provider_has_no_findings() {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/provider-local");
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["chart", "lint", chart])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), text.as_str()),
        (Some(0), "provider-local 0.1.0: 6 objects, 0 errors, 0 warnings\n")
    );
}
