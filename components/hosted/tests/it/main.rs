//! What reaches the API servers of a seed and a shoot, printed.

mod hosted;
mod shoot;
mod steps;

use std::path::PathBuf;

use serde::Serialize;

fn goldens() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden(name: &str, object: &impl Serialize) {
    let actual = format!("{}\n", serde_json::to_string_pretty(object).expect("objects are JSON"));
    golden_text(name, &actual);
}

fn golden_text(name: &str, actual: &str) {
    let path = goldens().join(name);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, actual).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(expected, actual, "{name} differs; UPDATE_GOLDENS=1 rewrites it");
}
