//! A document as a tree of nodes, with aliases that point at what they name.

use std::borrow::Cow;
use std::collections::HashMap;

use super::parse::{Event, Parser, Placed};
use super::{DEPTH_MAX, Problem};

/// Capacity for at most so many nodes is reserved at once, and for one for each [`NODE_BYTES`] bytes of a shorter text.
const NODES_ROOM_MAX: usize = 1024;
const NODE_BYTES: usize = 16;

/// A node's place in its tree.
pub(crate) type NodeId = usize;

/// All nodes of a document, each before those in it.
pub(crate) struct Tree<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) root: NodeId,
}

pub(crate) struct Node<'a> {
    pub(crate) kind: Kind<'a>,
    /// Counted from 0.
    pub(crate) line: usize,
    /// As it is written out in full (`tag:yaml.org,2002:str`), empty for none.
    pub(crate) tag: Vec<u8>,
}

pub(crate) enum Kind<'a> {
    Alias {
        name: Vec<u8>,
        of: NodeId,
    },
    /// `implicit` when neither quotes nor a tag make it a text.
    Scalar {
        value: Cow<'a, [u8]>,
        implicit: bool,
    },
    Sequence(Vec<NodeId>),
    /// Keys and values in turn.
    Mapping(Vec<NodeId>),
}

/// The first document of `text`, if there is one.
pub(crate) fn one_document(text: &[u8]) -> Result<Option<Tree<'_>>, Problem> {
    let mut parser = Parser::new(text)?;
    match parser.next()?.event {
        Event::DocumentStart => {}
        _ => return Ok(None),
    }
    let builder = Builder {
        nodes: Vec::with_capacity(NODES_ROOM_MAX.min(text.len() / NODE_BYTES)),
        ..Builder::default()
    };
    let tree = builder.build(&mut parser)?;
    // What follows at once is read too: it can be wrong.
    parser.next()?;
    Ok(Some(tree))
}

#[derive(Default)]
struct Builder<'a> {
    nodes: Vec<Node<'a>>,
    anchors: HashMap<Vec<u8>, NodeId>,
    open: Vec<NodeId>,
}

impl<'a> Builder<'a> {
    fn build(mut self, parser: &mut Parser<'a>) -> Result<Tree<'a>, Problem> {
        loop {
            let Placed {
                event,
                line,
                anchor,
                tag,
            } = parser.next()?;
            let kind = match event {
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(root) = self.open.pop().filter(|_| self.open.is_empty()) {
                        return Ok(Tree {
                            nodes: self.nodes,
                            root,
                        });
                    }
                    continue;
                }
                Event::Alias(name) => match self.anchors.get(&name) {
                    Some(of) => Kind::Alias { name, of: *of },
                    None => {
                        let name = String::from_utf8_lossy(&name);
                        return Err(Problem(format!("unknown anchor '{name}' referenced")));
                    }
                },
                Event::Scalar { value, implicit } => Kind::Scalar { value, implicit },
                Event::SequenceStart => Kind::Sequence(Vec::new()),
                Event::MappingStart => Kind::Mapping(Vec::new()),
                Event::DocumentStart | Event::DocumentEnd | Event::StreamEnd => {
                    return Err(Problem(
                        "attempted to go past the end of stream; corrupted value?".to_owned(),
                    ));
                }
            };
            let opens = matches!(kind, Kind::Sequence(_) | Kind::Mapping(_));
            let id = self.add(Node { kind, line, tag });
            if let Some(anchor) = anchor {
                self.anchors.insert(anchor, id);
            }
            if opens {
                self.open.push(id);
                if self.open.len() > DEPTH_MAX {
                    return Err(Problem::at(line + 1, &format!("exceeded max depth of {DEPTH_MAX}")));
                }
            } else if self.open.is_empty() {
                return Ok(Tree {
                    nodes: self.nodes,
                    root: id,
                });
            }
        }
    }

    fn add(&mut self, node: Node<'a>) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        if let Some(parent) = self.open.last().map(|parent| &mut self.nodes[*parent])
            && let Kind::Sequence(children) | Kind::Mapping(children) = &mut parent.kind
        {
            children.push(id);
        }
        id
    }
}
