//! Comparing a text with a committed file. `UPDATE_GOLDENS=1` rewrites the file instead.

use std::path::Path;

/// Compares `actual` with the file at `path`, for example `concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/x.txt")`.
///
/// # Panics
/// When they differ, naming the first line that does; when the file is missing.
#[track_caller]
pub fn assert_golden(path: impl AsRef<Path>, actual: &str) {
    let path = path.as_ref();
    if std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| value == "1") {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).expect("the folder of goldens can be made");
        }
        std::fs::write(path, actual).expect("the golden can be written");
        return;
    }
    assert_same(path, actual);
}

#[track_caller]
fn assert_same(path: &Path, actual: &str) {
    let expected = match std::fs::read_to_string(path) {
        Ok(expected) => expected,
        Err(why) => panic!("cannot read {} (UPDATE_GOLDENS=1 writes it): {why}", path.display()),
    };
    if expected == actual {
        return;
    }
    let (mut expected_lines, mut actual_lines) = (expected.lines(), actual.lines());
    let mut line = 1;
    loop {
        let (left, right) = (expected_lines.next(), actual_lines.next());
        assert!(
            left == right && left.is_some(),
            "{} differs at line {line} (UPDATE_GOLDENS=1 rewrites it)\n expected: {}\n   actual: {}\n\nwhole text:\n{actual}",
            path.display(),
            left.unwrap_or("<end>"),
            right.unwrap_or("<end>"),
        );
        line += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "missing.txt (UPDATE_GOLDENS=1 writes it)"]
    fn a_missing_golden_is_no_empty_text() {
        assert_same(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/missing.txt")),
            "",
        );
    }
}
