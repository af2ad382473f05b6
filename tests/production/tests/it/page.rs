//! A page of the documentation as the blocks of commands in it, each executed once and in order.

use crate::shell::Shell;

/// What opens a block that is executed, and what opens one that is not.
const EXECUTED: &str = "```sh";
const NOT_EXECUTED: &str = "```sh not-run";
const END: &str = "```";

/// The blocks that are still to be executed, the last first: each with its heading.
pub(crate) struct Page {
    blocks: Vec<(String, String)>,
}

impl Page {
    /// Reads a page.
    pub(crate) fn read(text: &str) -> Self {
        let (mut heading, mut blocks, mut open) = (String::new(), Vec::new(), None::<(bool, String)>);
        let mut in_other = false;
        for line in text.lines() {
            // Blocks in lists are indented, their content as deep at least.
            let trimmed = line.trim_start();
            match open.take() {
                Some((true, block)) if trimmed == END => blocks.push((heading.clone(), block)),
                Some((false, _)) if trimmed == END => {}
                Some((is_executed, block)) => open = Some((is_executed, format!("{block}{line}\n"))),
                None if trimmed == EXECUTED || trimmed == NOT_EXECUTED => {
                    open = Some((trimmed == EXECUTED, String::new()));
                }
                None if trimmed.starts_with(END) => in_other = !in_other,
                None if !in_other => {
                    if let Some(found) = line.strip_prefix("## ") {
                        found.clone_into(&mut heading);
                    }
                }
                None => {}
            }
        }
        assert!(open.is_none(), "a block of {heading:?} has no end");
        blocks.reverse();
        Self { blocks }
    }

    /// Executes the next block, which is below this heading; what it prints.
    pub(crate) fn next(&mut self, shell: &Shell, heading: &str) -> String {
        let (found, block) = self
            .blocks
            .pop()
            .unwrap_or_else(|| panic!("no block is left for {heading:?}"));
        assert_eq!(found, heading, "{block}");
        shell.run(&block)
    }

    /// That all blocks were executed.
    pub(crate) fn end(self) {
        assert_eq!(self.blocks, Vec::new(), "blocks that no test executes");
    }
}

#[test]
fn blocks_are_found_below_their_headings_and_marked_ones_are_left_out() {
    let text = "# A\n## B\n```sh\none\n```\n```sh not-run\ntwo\n```\n```yaml\n## no\n```\n## C\n1. x\n   ```sh\n   three\n   ```\n";
    let page = Page::read(text);
    let owned = |heading: &str, block: &str| (heading.to_owned(), block.to_owned());
    assert_eq!(page.blocks, [owned("C", "   three\n"), owned("B", "one\n")]);
}
