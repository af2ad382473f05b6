//! Nodes as text, as error messages show them.

use super::node::{Branch, Constant, NodeId, NodeKind, Tree};
use crate::text::quote::quote;

/// What is still to be written: text, or a node.
enum Piece<'t> {
    Text(&'t str),
    Bytes(&'t [u8]),
    Node(NodeId),
}

impl Tree {
    /// A node as Go writes it.
    pub(crate) fn write(&self, id: NodeId) -> String {
        let mut out = Vec::new();
        let mut pieces = vec![Piece::Node(id)];
        while let Some(piece) = pieces.pop() {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Node(id) => {
                    let mut parts = Vec::new();
                    self.parts(id, &mut parts, &mut out);
                    pieces.extend(parts.into_iter().rev());
                }
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The parts of a node in their order; what comes first and is no part of the text goes out at once.
    fn parts<'t>(&'t self, id: NodeId, parts: &mut Vec<Piece<'t>>, out: &mut Vec<u8>) {
        match &self.node(id).kind {
            NodeKind::Text(from, to) => parts.push(Piece::Bytes(self.text_of(*from, *to))),
            NodeKind::Action(pipe) => parts.extend([Piece::Text("{{"), Piece::Node(*pipe), Piece::Text("}}")]),
            NodeKind::List(nodes) => parts.extend(nodes.iter().map(|node| Piece::Node(*node))),
            NodeKind::If(branch) => branch_parts("{{if ", branch, parts),
            NodeKind::With(branch) => branch_parts("{{with ", branch, parts),
            NodeKind::Range(branch) => branch_parts("{{range ", branch, parts),
            NodeKind::Template { name, pipe } => {
                out.extend_from_slice(b"{{template ");
                out.extend_from_slice(&quote(name));
                if let Some(pipe) = pipe {
                    parts.extend([Piece::Text(" "), Piece::Node(*pipe)]);
                }
                parts.push(Piece::Text("}}"));
            }
            NodeKind::Break => parts.push(Piece::Text("{{break}}")),
            NodeKind::Continue => parts.push(Piece::Text("{{continue}}")),
            NodeKind::Pipe(pipe) => {
                separated(&pipe.decl, ", ", parts);
                if !pipe.decl.is_empty() {
                    parts.push(Piece::Text(if pipe.is_assign { " = " } else { " := " }));
                }
                separated(&pipe.commands, " | ", parts);
            }
            NodeKind::Command(command) => {
                for (at, arg) in command.args.iter().enumerate() {
                    if at > 0 {
                        parts.push(Piece::Text(" "));
                    }
                    self.operand(*arg, parts);
                }
            }
            NodeKind::Constant(Constant::Bool(value)) => parts.push(Piece::Text(if *value { "true" } else { "false" })),
            NodeKind::Constant(Constant::Number(number)) => parts.push(Piece::Text(&number.text)),
            NodeKind::Constant(Constant::Str { quoted, .. }) => parts.push(Piece::Bytes(quoted)),
            NodeKind::Dot => parts.push(Piece::Text(".")),
            NodeKind::Nil => parts.push(Piece::Text("nil")),
            NodeKind::Field(fields) => field_parts(fields, parts),
            NodeKind::Variable(name, fields) => {
                parts.push(Piece::Text(name));
                field_parts(fields, parts);
            }
            NodeKind::Chain(of, fields) => {
                self.operand(*of, parts);
                field_parts(fields, parts);
            }
            NodeKind::Identifier(name) => parts.push(Piece::Text(name)),
        }
    }

    /// An operand: a pipeline stands in parentheses.
    fn operand<'t>(&'t self, id: NodeId, parts: &mut Vec<Piece<'t>>) {
        if self.pipe(id).is_some() {
            parts.extend([Piece::Text("("), Piece::Node(id), Piece::Text(")")]);
        } else {
            parts.push(Piece::Node(id));
        }
    }
}

fn separated<'t>(nodes: &[NodeId], separator: &'t str, parts: &mut Vec<Piece<'t>>) {
    for (at, node) in nodes.iter().enumerate() {
        if at > 0 {
            parts.push(Piece::Text(separator));
        }
        parts.push(Piece::Node(*node));
    }
}

fn field_parts<'t>(fields: &'t [String], parts: &mut Vec<Piece<'t>>) {
    for field in fields {
        parts.extend([Piece::Text("."), Piece::Text(field)]);
    }
}

fn branch_parts<'t>(open: &'t str, branch: &Branch, parts: &mut Vec<Piece<'t>>) {
    parts.extend([
        Piece::Text(open),
        Piece::Node(branch.pipe),
        Piece::Text("}}"),
        Piece::Node(branch.list),
    ]);
    if let Some(list) = branch.else_list {
        parts.extend([Piece::Text("{{else}}"), Piece::Node(list)]);
    }
    parts.push(Piece::Text("{{end}}"));
}
