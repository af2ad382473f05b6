//! The tree of a template: nodes in one table, each known by its place there.

use std::sync::Arc;

use crate::text::Str;

/// A node's place in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(pub(super) u32);

/// A node: where it stands in the text, and what it is.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: usize,
    pub(crate) kind: NodeKind,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum NodeKind {
    /// Text from that byte to that
    Text(usize, usize),
    /// A pipeline whose value is printed
    Action(NodeId),
    /// What runs in order
    List(Vec<NodeId>),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        name: Str,
        pipe: Option<NodeId>,
    },
    Break,
    Continue,
    Pipe(Pipe),
    Command(Command),
    Constant(Constant),
    Dot,
    Nil,
    /// `.a.b`
    Field(Arc<[String]>),
    /// `$x.a.b`: the variable with its dollar, and the fields
    Variable(String, Arc<[String]>),
    /// `(pipeline).a.b`
    Chain(NodeId, Arc<[String]>),
    /// The name of a function
    Identifier(String),
}

/// A pipeline: what it declares or assigns, and its commands.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) is_assign: bool,
    pub(crate) decl: Vec<NodeId>,
    pub(crate) commands: Vec<NodeId>,
}

/// A command: what is executed, followed by its arguments. There is at least one node.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) args: Vec<NodeId>,
}

/// `if`, `with` and `range`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: NodeId,
    pub(crate) list: NodeId,
    pub(crate) else_list: Option<NodeId>,
}

/// A literal.
#[derive(Debug)]
pub(crate) enum Constant {
    Bool(bool),
    Number(Box<Number>),
    Str {
        /// As it was written
        quoted: Str,
        text: Str,
    },
}

/// A number in all the forms that it can have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Number {
    pub(crate) text: String,
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
}

/// The nodes of one text: of its own template and of those that it defines.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The name that errors give the text.
    pub(crate) parse_name: String,
    pub(crate) text: Arc<[u8]>,
    pub(super) nodes: Vec<Node>,
}

impl Tree {
    /// The node at that place.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        // A tree's ids are given by the tree itself, the fallback is never taken.
        static NOTHING: Node = Node {
            at: 0,
            kind: NodeKind::Nil,
        };
        self.nodes.get(id.0 as usize).unwrap_or(&NOTHING)
    }

    /// A pipeline.
    pub(crate) fn pipe(&self, id: NodeId) -> Option<&Pipe> {
        match &self.node(id).kind {
            NodeKind::Pipe(pipe) => Some(pipe),
            _ => None,
        }
    }

    /// What a list holds.
    pub(crate) fn list(&self, id: NodeId) -> &[NodeId] {
        match &self.node(id).kind {
            NodeKind::List(nodes) => nodes,
            _ => &[],
        }
    }

    /// Text of the template.
    pub(crate) fn text_of(&self, from: usize, to: usize) -> &[u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Whether a list holds nothing but spaces.
    pub(crate) fn is_empty(&self, list: NodeId) -> bool {
        is_empty(&self.nodes, &self.text, list)
    }

    /// `NAME:LINE:COLUMN` of a node.
    pub(crate) fn location(&self, id: NodeId) -> String {
        let before = self.text_of(0, self.node(id).at);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = match before.iter().rposition(|byte| *byte == b'\n') {
            Some(feed) => before.len() - feed - 1,
            None => before.len(),
        };
        format!("{}:{line}:{column}", self.parse_name)
    }
}

/// Whether a list holds nothing but spaces: such a definition does not replace another.
pub(super) fn is_empty(nodes: &[Node], text: &[u8], list: NodeId) -> bool {
    let kind = |id: NodeId| nodes.get(id.0 as usize).map(|node| &node.kind);
    let Some(NodeKind::List(inside)) = kind(list) else {
        return false;
    };
    inside.iter().all(|node| match kind(*node) {
        Some(NodeKind::Text(from, to)) => is_blank(text.get(*from..*to).unwrap_or_default()),
        _ => false,
    })
}

/// `bytes.TrimSpace` leaves nothing.
fn is_blank(text: &[u8]) -> bool {
    crate::text::runes(text).all(|(_, rune, _)| rune.is_whitespace())
}
