//! From tokens to a tree. The order in which tokens are read is Go's, because errors name the line of the token that was
//! read last.

mod pipeline;
mod tokens;

use std::mem;
use std::sync::Arc;

use super::lex::Lexer;
use super::node::{Branch, Node, NodeId, NodeKind, Tree, is_empty};
use super::token::{Item, Kind};
use crate::text::Str;
use crate::text::quote::quoted;

/// What a text holds: the nodes, and the templates with their names. The text's own template comes last.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) tree: Tree,
    pub(crate) templates: Vec<(Str, NodeId)>,
}

/// At most so many nodes are allocated at once,
const NODES_ROOM_MAX: usize = 1024;
/// and for a shorter text one for each so many bytes.
const NODE_BYTES: usize = 16;

/// Reads a template. `has_function` returns whether there is a function of that name, Go's own included.
///
/// # Errors
/// The text is no template: Go's message.
pub(crate) fn parse(name: &str, text: Arc<[u8]>, has_function: &dyn Fn(&str) -> bool) -> Result<Parsed, String> {
    let mut parser = Parser {
        lexer: Lexer::new(&text),
        text: &text,
        parse_name: name,
        nodes: Vec::with_capacity(NODES_ROOM_MAX.min(text.len() / NODE_BYTES)),
        templates: Vec::new(),
        states: vec![State::new(name.into(), Origin::Main)],
        has_function,
    };
    parser.run()?;
    let Parser { nodes, templates, .. } = parser;
    Ok(Parsed {
        tree: Tree {
            parse_name: name.to_owned(),
            text,
            nodes,
        },
        templates,
    })
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    text: &'t [u8],
    parse_name: &'t str,
    nodes: Vec<Node>,
    templates: Vec<(Str, NodeId)>,
    /// The template that is read and those around it.
    states: Vec<State<'t>>,
    has_function: &'t dyn Fn(&str) -> bool,
}

/// What began a template.
enum Origin {
    Main,
    Define,
    /// Where the block stands, and what it runs on.
    Block(usize, NodeId),
}

/// What is known of a template while it is read. Each has its own look-ahead.
struct State<'t> {
    name: Str,
    origin: Origin,
    tokens: [Item<'t>; 3],
    peeked: usize,
    variables: Vec<String>,
    /// The line on which the action began, 0 outside.
    action_line: usize,
    range_depth: usize,
    paren_depth: usize,
    nodes: Vec<NodeId>,
    open: Vec<Open>,
}

/// `if`, `with` or `range` that has not ended.
struct Open {
    kind: Control,
    at: usize,
    pipe: NodeId,
    /// How many variables there were before.
    variables: usize,
    nodes: Vec<NodeId>,
    /// The first list, when the second is read.
    list: Option<NodeId>,
    /// Whether it stands in an `else` and ends with what is around it.
    is_else: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

impl Control {
    fn name(self) -> &'static str {
        match self {
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
        }
    }
}

const NOTHING: Item<'static> = Item {
    kind: Kind::Error,
    at: 0,
    text: &[],
    line: 0,
};

impl State<'_> {
    fn new(name: Str, origin: Origin) -> Self {
        Self {
            name,
            origin,
            tokens: [NOTHING; 3],
            peeked: 0,
            variables: vec!["$".to_owned()],
            action_line: 0,
            range_depth: 0,
            paren_depth: 0,
            nodes: Vec::new(),
            open: Vec::new(),
        }
    }
}

type Result<T = (), E = String> = std::result::Result<T, E>;

impl<'t> Parser<'t> {
    fn run(&mut self) -> Result {
        loop {
            let is_top = self.states.len() == 1 && self.state().open.is_empty();
            if is_top {
                let next = self.peek().kind;
                if next == Kind::Eof {
                    return self.finish();
                }
                if next == Kind::LeftDelim {
                    let delim = self.next();
                    if self.next_non_space().kind == Kind::Define {
                        self.define()?;
                        continue;
                    }
                    self.backup2(delim);
                }
            } else if self.peek_non_space().kind == Kind::Eof {
                return Err(self.error("unexpected EOF"));
            }
            self.text_or_action()?;
        }
    }

    fn define(&mut self) -> Result {
        const CONTEXT: &str = "define clause";
        self.states.push(State::new("definition".into(), Origin::Define));
        let name = self.expect(&[Kind::String, Kind::RawString], CONTEXT)?;
        let name = self.unquoted(&name)?;
        self.state().name = name;
        self.expect(&[Kind::RightDelim], CONTEXT)?;
        Ok(())
    }

    /// Adds the template that has just ended.
    fn finish(&mut self) -> Result {
        let nodes = mem::take(&mut self.state().nodes);
        let name = self.state().name.clone();
        let root = self.list(nodes);
        let is_empty = self.is_empty(root);
        match self.templates.iter().position(|(known, _)| *known == name) {
            Some(at) if self.is_empty(self.templates[at].1) => self.templates[at].1 = root,
            Some(_) if !is_empty => {
                let name = quoted(&name);
                return Err(self.error(&format!("template: multiple definition of template {name}")));
            }
            Some(_) => {}
            None => self.templates.push((name.clone(), root)),
        }
        if self.states.len() > 1
            && let Some(State {
                origin: Origin::Block(at, pipe),
                ..
            }) = self.states.pop()
        {
            let node = self.node(at, NodeKind::Template { name, pipe: Some(pipe) });
            self.state().action_line = 0;
            self.append(node);
        }
        Ok(())
    }

    fn is_empty(&self, list: NodeId) -> bool {
        is_empty(&self.nodes, self.text, list)
    }

    fn text_or_action(&mut self) -> Result {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => {
                let node = self.node(token.at, NodeKind::Text(token.at, token.at + token.text.len()));
                self.append(node);
                Ok(())
            }
            Kind::LeftDelim => {
                self.state().action_line = token.line;
                self.action()
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    fn action(&mut self) -> Result {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => return self.block(),
            Kind::Break => self.leave("{{break}}", token.at, NodeKind::Break)?,
            Kind::Continue => self.leave("{{continue}}", token.at, NodeKind::Continue)?,
            Kind::Else => return self.else_control(),
            Kind::End => {
                self.expect(&[Kind::RightDelim], "end")?;
                return self.end();
            }
            Kind::If => return self.control(Control::If, false),
            Kind::Range => return self.control(Control::Range, false),
            Kind::With => return self.control(Control::With, false),
            Kind::Template => self.template()?,
            _ => {
                self.backup();
                let at = self.peek().at;
                let pipe = self.pipeline("command", Kind::RightDelim)?;
                self.node(at, NodeKind::Action(pipe))
            }
        };
        self.append(node);
        self.state().action_line = 0;
        Ok(())
    }

    fn leave(&mut self, what: &str, at: usize, kind: NodeKind) -> Result<NodeId> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(&token, what));
        }
        if self.state().range_depth == 0 {
            return Err(self.error(&format!("{what} outside {{{{range}}}}")));
        }
        Ok(self.node(at, kind))
    }

    fn template_name(&mut self, token: &Item<'t>, context: &str) -> Result<Str> {
        match token.kind {
            Kind::String | Kind::RawString => self.unquoted(token),
            _ => Err(self.unexpected(token, context)),
        }
    }

    fn template(&mut self) -> Result<NodeId> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = if self.next_non_space().kind == Kind::RightDelim {
            None
        } else {
            self.backup();
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(self.node(token.at, NodeKind::Template { name, pipe }))
    }

    fn block(&mut self) -> Result {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        self.states.push(State::new(name, Origin::Block(token.at, pipe)));
        Ok(())
    }

    /// Begins `if`, `with` or `range`.
    fn control(&mut self, kind: Control, is_else: bool) -> Result {
        let variables = self.state().variables.len();
        let pipe = self.pipeline(kind.name(), Kind::RightDelim)?;
        if kind == Control::Range {
            self.state().range_depth += 1;
        }
        let at = self.nodes[pipe.0 as usize].at;
        self.state().open.push(Open {
            kind,
            at,
            pipe,
            variables,
            nodes: Vec::new(),
            list: None,
            is_else,
        });
        Ok(())
    }

    fn else_control(&mut self) -> Result {
        let next = self.peek_non_space().kind;
        if !matches!(next, Kind::If | Kind::With) {
            self.expect(&[Kind::RightDelim], "else")?;
        }
        self.state().action_line = 0;
        if self.state().open.is_empty() {
            return Err(self.stray("{{else}}"));
        }
        let state = self.state();
        let last = state.open.len() - 1;
        let (kind, has_else) = (state.open[last].kind, state.open[last].list.is_some());
        if has_else {
            return Err(self.error("expected end; found {{else}}"));
        }
        let nodes = mem::take(&mut state.open[last].nodes);
        if kind == Control::Range {
            state.range_depth -= 1;
        }
        let list = self.list(nodes);
        self.state().open[last].list = Some(list);
        match (kind, self.peek().kind) {
            (Control::If, Kind::If) | (Control::With, Kind::With) => {
                self.next();
                self.control(kind, true)
            }
            _ => Ok(()),
        }
    }

    /// An `else` or `end` where there is nothing to end.
    fn stray(&mut self, what: &str) -> String {
        match self.state().origin {
            Origin::Main => self.error(&format!("unexpected {what}")),
            Origin::Define => self.error(&format!("unexpected {what} in define clause")),
            Origin::Block(..) => {
                // Go reports it at the line of the template around the block.
                self.states.pop();
                self.error(&format!("unexpected {what} in block clause"))
            }
        }
    }

    fn end(&mut self) -> Result {
        self.state().action_line = 0;
        if self.state().open.is_empty() {
            return match self.state().origin {
                Origin::Main => Err(self.stray("{{end}}")),
                _ => self.finish(),
            };
        }
        while let Some(mut open) = self.state().open.pop() {
            let is_else = open.is_else;
            if open.kind == Control::Range && open.list.is_none() {
                self.state().range_depth -= 1;
            }
            let nodes = mem::take(&mut open.nodes);
            let last = self.list(nodes);
            let (list, else_list) = match open.list {
                Some(list) => (list, Some(last)),
                None => (last, None),
            };
            self.state().variables.truncate(open.variables);
            let branch = Branch {
                pipe: open.pipe,
                list,
                else_list,
            };
            let kind = match open.kind {
                Control::If => NodeKind::If(branch),
                Control::With => NodeKind::With(branch),
                Control::Range => NodeKind::Range(branch),
            };
            let node = self.node(open.at, kind);
            self.append(node);
            if !is_else {
                break;
            }
        }
        Ok(())
    }
}
