//! A flow in print: as text whose lines change only where the flow changes, and as Graphviz dot.

use std::fmt::{self, Display, Write};

use crate::build::{Item, title, title_of_after};
use crate::{Flow, Name, Node};

/// As text: groups, then tasks and sync points in the order of their definition, one line per edge, so that a changed
/// edge is a one-line difference.
impl<T: Copy + Ord + Name> Display for Flow<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.steps().filter(|step| step.skipped.is_some()).count();
        writeln!(out, "{}: {} tasks, {skipped} skipped", self.name, self.steps().count())?;
        for group in &self.groups {
            writeln!(out, "\n[{}]", group.name)?;
            for after in &group.after {
                writeln!(out, "    after {}", title_of_after(after))?;
            }
        }
        for item in &self.items {
            let after = match item {
                Item::Step(step) => {
                    write!(out, "\n{}", step.task.name())?;
                    if let Some(group) = step.group {
                        write!(out, " [{group}]")?;
                    }
                    if let Some(reason) = step.skipped {
                        write!(out, " (skipped: {reason})")?;
                    }
                    writeln!(out)?;
                    &step.after
                }
                Item::SyncPoint { name, after } => {
                    writeln!(out, "\n({name})")?;
                    after
                }
            };
            for after in after {
                writeln!(out, "    after {}", title_of_after(after))?;
            }
        }
        Ok(())
    }
}

impl<T: Copy + Ord + Name> Flow<T> {
    /// As a Graphviz graph: groups are boxes around their tasks, skipped tasks are dashed, edges point the way work
    /// goes; groups are expanded, edges that follow from others are left out.
    #[must_use]
    pub fn dot(&self) -> String {
        let mut out = format!(
            "digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n",
            quoted(&self.name)
        );
        for group in &self.groups {
            let _ = write!(
                out,
                "  subgraph {} {{\n    label={};\n",
                quoted(&format!("cluster_{}", group.name)),
                quoted(group.name)
            );
            for step in self.steps().filter(|step| step.group == Some(group.name)) {
                let _ = writeln!(out, "    {};", quoted(step.task.name()));
            }
            out.push_str("  }\n");
        }
        for item in &self.items {
            let (node, style) = match item {
                Item::Step(step) if step.skipped.is_some() => (Node::Task(step.task), "style=dashed"),
                Item::Step(step) => (Node::Task(step.task), "style=solid"),
                Item::SyncPoint { name, .. } => (Node::SyncPoint(name), "shape=point"),
            };
            let _ = writeln!(out, "  {} [{style}];", quoted(&title(&node)));
        }
        for (node, before) in &self.edges {
            for earlier in before {
                if !before
                    .iter()
                    .any(|between| between != earlier && self.reaches(*earlier, *between))
                {
                    let _ = writeln!(out, "  {} -> {};", quoted(&title(earlier)), quoted(&title(node)));
                }
            }
        }
        out.push_str("}\n");
        out
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
