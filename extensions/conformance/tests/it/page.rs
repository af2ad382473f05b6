//! `docs/conformance.md`: its table of rules is written from the rules. `UPDATE_GOLDENS=1` writes it; otherwise this test
//! holds the page to the code.

use std::fmt::Write;

use extensions_conformance::Rule;
use tests_kit::assert_golden;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md");
const OPENING: &str = include_str!("../page/opening.md");

#[test]
fn generated_page_is_that_of_the_rules() {
    let mut page = OPENING.to_owned();
    let mut group = "";
    for rule in Rule::ALL {
        if rule.group() != group {
            group = rule.group();
            write!(page, "\n## {group}\n").unwrap();
        }
        write!(page, "\n### `{}`\n{}\n\n", rule.id(), rule.sentence()).unwrap();
        writeln!(page, "- **To do:** {}", rule.hint()).unwrap();
        writeln!(page, "- **Source:** {}", rule.source()).unwrap();
    }
    assert_golden(PAGE, &page);
}
