//! The guide for authors: each excerpt of Rust in it stands in a file that is compiled, which the line before it names.

const GUIDE: &str = include_str!("../../../../docs/writing-an-extension.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A line as it stands in code, whether in a doc comment or not.
fn plain(line: &str) -> &str {
    let line = line.trim();
    let line = line
        .strip_prefix("//!")
        .or_else(|| line.strip_prefix("///"))
        .unwrap_or(line);
    line.trim().trim_start_matches("# ")
}

#[test]
fn excerpts_of_the_guide_are_lines_of_compiled_files() {
    let mut excerpts = 0;
    let mut before = "";
    let mut lines = GUIDE.lines();
    while let Some(line) = lines.next() {
        if line == "```rust" {
            excerpts += 1;
            let path = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            let path = path.unwrap_or_else(|| unreachable!("the excerpt behind {before:?} names no file"));
            let source = std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
            let known: Vec<&str> = source.lines().map(plain).collect();
            for line in lines.by_ref().take_while(|line| *line != "```") {
                let line = plain(line);
                assert!(
                    line.is_empty() || line == "..." || known.contains(&line),
                    "{path} has no line {line:?}"
                );
            }
        }
        if !line.is_empty() {
            before = line;
        }
    }
    assert!(excerpts >= 8, "{excerpts}");
}
