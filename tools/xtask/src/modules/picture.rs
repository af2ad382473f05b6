//! The layers of a crate and which imports which, as text for ARCHITECTURE.md. The test here guards what is committed there.

use super::{LayeredCrate, circles};

/// What stands in a row of the picture where a layer imports another one.
const MARK: &str = "■";

/// One row per layer, the last of the table on top: what it imports from. An import of a later layer stands right of the
/// diagonal.
pub(crate) fn picture(layered: &LayeredCrate) -> String {
    let width = layered.layers.iter().map(String::len).max().unwrap_or_default();
    let count = layered.layers.len();
    let mut text = String::new();
    for (place, layer) in layered.layers.iter().enumerate().rev() {
        text.push_str(&format!("{:>2} {layer:width$} ", place + 1));
        for other in 0..count {
            let imports = |import: &&super::Import| {
                layered.place(&import.from) == Some(place) && layered.place(&import.to) == Some(other)
            };
            let cell = match layered.imports.iter().find(imports) {
                _ if other == place => "\\",
                Some(_) => MARK,
                None => "·",
            };
            text.push_str(&format!(" {cell:>2}"));
        }
        text.push('\n');
    }
    let numbers: Vec<String> = (1..=count).map(|number| format!(" {number:>2}")).collect();
    text.push_str(&format!("   {:width$} {}\n", "", numbers.concat()));
    text.push_str(&format!("\n{}\n", facts(layered)));
    text
}

/// How many imports are of a later layer, and which files import each other in a circle.
fn facts(layered: &LayeredCrate) -> String {
    let later = layered
        .imports
        .iter()
        .filter(|import| layered.place(&import.to) > layered.place(&import.from))
        .count();
    let circles: Vec<String> = circles(&layered.edges())
        .iter()
        .map(|circle| {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            format!("  {}", files.join(", "))
        })
        .collect();
    match circles.is_empty() {
        true => format!("imports of later layers: {later}; circles: none"),
        false => format!("imports of later layers: {later}; circles:\n{}", circles.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::layered;
    use super::*;
    use crate::tidy::sources;

    /// The crates whose pictures ARCHITECTURE.md has.
    const PICTURED: [&str; 4] = ["cluster/apiserver", "cluster/cel", "cluster/schema", "cluster/builtin"];

    #[test]
    fn a_row_marks_what_its_layer_imports_and_facts_name_circles() {
        let read = layered(&[
            ("first/a.rs", "use crate::first::b::B;\n"),
            ("first/b.rs", "use crate::first::a::A;\n"),
            ("second/c.rs", "use crate::first::a::A;\n"),
        ]);
        assert_eq!(
            picture(&read),
            " 2 second   ■  \\\n 1 first    \\  ·\n            1  2\n\nimports of later layers: 0; circles:\n  first/a, first/b\n"
        );
    }

    #[test]
    fn generated_pictures_of_module_layers() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = root.join("ARCHITECTURE.md");
        let mut text = std::fs::read_to_string(&page).unwrap();
        let sources = sources(&root).unwrap();
        for folder in PICTURED {
            let drawn = picture(&LayeredCrate::read(folder, &sources).unwrap());
            let (begin, end) = (format!("<!-- layers of {folder} -->\n```\n"), "```\n<!-- end -->");
            let (before, rest) = text.split_once(&begin).unwrap();
            let (committed, behind) = rest.split_once(end).unwrap();
            if std::env::var_os("UPDATE_GOLDENS").is_some_and(|value| value == "1") {
                text = format!("{before}{begin}{drawn}{end}{behind}");
                std::fs::write(&page, &text).unwrap();
            } else {
                assert_eq!(committed, drawn, "ARCHITECTURE.md is stale: run `cargo xtask generate`");
            }
        }
    }
}
