//! The guides for authors: each excerpt of Rust in them stands in a file that is compiled, which the line before it names: line
//! for line and in order. `...` stands for lines that are left out; comments and blank lines of the file may be left out too.

const GUIDES: [(&str, &str, usize); 2] = [
    (
        "writing-an-extension.md",
        include_str!("../../../../docs/writing-an-extension.md"),
        8,
    ),
    ("webhooks.md", include_str!("../../../../docs/webhooks.md"), 3),
];
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const LEFT_OUT: &str = "...";

/// A line as it stands in code, whether in a doc comment or not; nothing for one that may be left out.
fn plain(line: &str) -> Option<&str> {
    let line = line.trim();
    let in_doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
    let line = in_doc.unwrap_or(line).trim().trim_start_matches("# ");
    (!line.is_empty()).then_some(line)
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
}

/// Where the lines go on that begin at `at`: after all of `excerpt` up to the first that differs, which is given.
fn follow<'a>(source: &[&str], mut at: usize, excerpt: &[&'a str]) -> Result<(), &'a str> {
    for line in excerpt {
        while !is_comment(line) && source.get(at).is_some_and(|line| is_comment(line)) {
            at += 1;
        }
        if source.get(at) != Some(line) {
            return Err(line);
        }
        at += 1;
    }
    Ok(())
}

/// Looks an excerpt up: each of its parts between lines that are left out, one behind the other.
fn find(source: &str, excerpt: &str) -> Result<(), String> {
    let source: Vec<&str> = source.lines().filter_map(plain).collect();
    let excerpt: Vec<&str> = excerpt.lines().filter_map(plain).collect();
    let mut from = 0;
    for part in excerpt.split(|line| *line == LEFT_OUT).filter(|part| !part.is_empty()) {
        let starts = (from..source.len()).filter(|at| source[*at] == part[0]);
        let mut wrong = part[0];
        let found = starts.into_iter().find(|at| match follow(&source, *at, part) {
            Ok(()) => true,
            Err(line) => {
                wrong = line;
                false
            }
        });
        from = found.ok_or_else(|| format!("{wrong:?} is not there, or not behind the line before it"))? + part.len();
    }
    Ok(())
}

#[test]
fn excerpts_of_the_guides_are_lines_of_compiled_files() {
    for (guide, text, excerpts_min) in GUIDES {
        let mut excerpts = 0;
        let mut before = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line == "```rust" {
                excerpts += 1;
                let path = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                let path = path.unwrap_or_else(|| unreachable!("{guide}: the excerpt behind {before:?} names no file"));
                let source = std::fs::read_to_string(format!("{ROOT}/{path}")).unwrap();
                let excerpt: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
                if let Err(wrong) = find(&source, &excerpt.join("\n")) {
                    unreachable!("{guide}: the excerpt of {path}: {wrong}");
                }
            }
            if !line.is_empty() {
                before = line;
            }
        }
        assert!(excerpts >= excerpts_min, "{guide}: {excerpts}");
    }
}

#[test]
fn excerpts_in_another_order_or_with_a_hidden_gap_are_found() {
    let source = "fn a() {\n    // Why.\n    one();\n\n    two();\n    three();\n}\n";
    for excerpt in [
        "fn a() {\none();\ntwo();",
        "// Why.\none();",
        "one();\n...\nthree();",
        "fn a() {\n...\n}",
    ] {
        assert_eq!(find(source, excerpt), Ok(()), "{excerpt}");
    }
    for excerpt in ["two();\none();", "one();\nthree();", "three();\n...\none();", "four();"] {
        assert!(find(source, excerpt).is_err(), "{excerpt}");
    }
}
