//! Reads YAML by Go's rules into nodes. What nodes mean is not decided here.

mod parse;
mod property;
mod scalar;
mod scan;
mod text;
mod token;
mod tree;

pub(super) use tree::{Kind, Node, NodeId, Tree, one_document};

/// How deep collections may be nested. Go allows 10,000; each level of ours takes stack where values are made, read
/// and dropped, and no chart comes near.
pub(super) const DEPTH_MAX: usize = 500;

/// Why a text is no YAML, in go.yaml.in/yaml/v2's words without its prefix `yaml: `.
#[derive(Debug)]
pub(super) struct Problem(pub(super) String);

impl Problem {
    /// The scanner was in `line`.
    fn of_scanner(line: usize, context_line: usize, problem: &str) -> Self {
        Self::at(if line == 0 { context_line } else { line + 1 }, problem)
    }

    /// A token in `line` is not what the grammar requires. Go reports the line before.
    fn of_parser(line: usize, context_line: usize, problem: &str) -> Self {
        Self::at(if line == 0 { context_line } else { line }, problem)
    }

    fn in_the_input(problem: &str) -> Self {
        Self(problem.to_owned())
    }

    /// Go does not report a line 0.
    fn at(line: usize, problem: &str) -> Self {
        Self(match line {
            0 => problem.to_owned(),
            line => format!("line {line}: {problem}"),
        })
    }
}
