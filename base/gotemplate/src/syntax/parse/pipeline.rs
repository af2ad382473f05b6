//! Pipelines: declarations, commands, operands. Open pipelines are in a list, and not on the stack of the thread.

use std::mem;
use std::sync::Arc;

use super::super::node::{Command, Constant, NodeId, NodeKind, Number, Pipe};
use super::super::token::{Item, Kind};
use super::{Parser, Result};
use crate::text::quote::quoted;

/// How deep parentheses may nest: Go's own limit.
const PAREN_DEPTH_MAX: usize = 10_000;

const PARENTHESES: &str = "parenthesized pipeline";

/// A pipeline that has not ended.
struct OpenPipe {
    context: &'static str,
    end: Kind,
    at: usize,
    pipe: Pipe,
    command: Option<OpenCommand>,
}

struct OpenCommand {
    at: usize,
    args: Vec<NodeId>,
}

/// What a term turned out to be.
enum Term {
    /// Something else, which is still to be read
    Nothing,
    Node(NodeId),
    /// An opening parenthesis
    Open,
}

impl<'t> Parser<'t> {
    /// A pipeline up to a token that ends it, which is read too.
    pub(super) fn pipeline(&mut self, context: &'static str, end: Kind) -> Result<NodeId> {
        let mut open = vec![];
        let mut top = self.open_pipe(context, end)?;
        loop {
            if top.command.is_none() {
                let token = self.next_non_space();
                if token.kind == top.end {
                    let node = self.close_pipe(top)?;
                    let Some(outer) = open.pop() else {
                        return Ok(node);
                    };
                    top = outer;
                    self.state().paren_depth -= 1;
                    self.operand(&mut top, Some(node))?;
                    continue;
                }
                if !begins_operand(token.kind) {
                    return Err(self.unexpected(&token, top.context));
                }
                self.backup();
                let at = self.peek_non_space().at;
                top.command = Some(OpenCommand { at, args: Vec::new() });
            }
            self.peek_non_space();
            match self.term()? {
                Term::Nothing => self.operand(&mut top, None)?,
                Term::Node(node) => self.operand(&mut top, Some(node))?,
                Term::Open => {
                    let inner = self.open_pipe(PARENTHESES, Kind::RightParen)?;
                    open.push(mem::replace(&mut top, inner));
                }
            }
        }
    }

    /// Begins a pipeline: what it declares or assigns.
    fn open_pipe(&mut self, context: &'static str, end: Kind) -> Result<OpenPipe> {
        let at = self.peek_non_space().at;
        let mut pipe = Pipe {
            is_assign: false,
            decl: Vec::new(),
            commands: Vec::new(),
        };
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                break;
            }
            self.next();
            // The token after the spaces decides whether the variable is declared.
            let after = self.peek();
            let next = self.peek_non_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.is_assign = next.kind == Kind::Assign;
                    self.next_non_space();
                    self.declare(&mut pipe, &variable);
                    break;
                }
                Kind::Char if next.text == b"," => {
                    self.next_non_space();
                    self.declare(&mut pipe, &variable);
                    if context != "range" || pipe.decl.len() >= 2 {
                        return Err(self.error(&format!("too many declarations in {context}")));
                    }
                    if !matches!(
                        self.peek_non_space().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return Err(self.error("range can only initialize variables"));
                    }
                }
                _ if after.kind == Kind::Space => {
                    self.backup3(variable, after);
                    break;
                }
                _ => {
                    self.backup2(variable);
                    break;
                }
            }
        }
        Ok(OpenPipe {
            context,
            end,
            at,
            pipe,
            command: None,
        })
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: &Item<'t>) {
        let name = variable.word();
        let node = self.node(variable.at, NodeKind::Variable(name.clone(), Arc::default()));
        pipe.decl.push(node);
        self.state().variables.push(name);
    }

    fn close_pipe(&mut self, open: OpenPipe) -> Result<NodeId> {
        if open.pipe.commands.is_empty() {
            return Err(self.error(&format!("missing value for {}", open.context)));
        }
        for (at, command) in open.pipe.commands.iter().enumerate().skip(1) {
            let NodeKind::Command(command) = &self.nodes[command.0 as usize].kind else {
                continue;
            };
            let first = &self.nodes[command.args[0].0 as usize].kind;
            if matches!(first, NodeKind::Constant(_) | NodeKind::Dot | NodeKind::Nil) {
                return Err(self.error(&format!("non executable command in pipeline stage {}", at + 1)));
            }
        }
        Ok(self.node(open.at, NodeKind::Pipe(open.pipe)))
    }

    /// Takes a term with the fields behind it as an argument, and ends the command where it ends.
    fn operand(&mut self, top: &mut OpenPipe, term: Option<NodeId>) -> Result {
        let operand = match term {
            Some(term) => Some(self.with_fields(term)?),
            None => None,
        };
        if let Some(command) = &mut top.command {
            command.args.extend(operand);
        }
        let token = self.next();
        match token.kind {
            Kind::Space => return Ok(()),
            Kind::RightDelim | Kind::RightParen => self.backup(),
            Kind::Pipe => {}
            _ => return Err(self.unexpected(&token, "operand")),
        }
        let Some(OpenCommand { at, args }) = top.command.take().filter(|command| !command.args.is_empty()) else {
            return Err(self.error("empty command"));
        };
        let command = self.node(at, NodeKind::Command(Command { args }));
        top.pipe.commands.push(command);
        Ok(())
    }

    fn with_fields(&mut self, term: NodeId) -> Result<NodeId> {
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(term);
        }
        let mut more = Vec::new();
        while self.peek().kind == Kind::Field {
            more.push(self.next().field_name());
        }
        let node = &mut self.nodes[term.0 as usize];
        match &mut node.kind {
            NodeKind::Field(fields) | NodeKind::Variable(_, fields) => {
                node.at = first.at;
                // There is no other reference to them yet.
                let known = Arc::get_mut(fields).unwrap_or_default().iter_mut().map(mem::take);
                *fields = known.chain(more).collect();
                Ok(term)
            }
            NodeKind::Constant(constant) => {
                let text = match constant {
                    Constant::Bool(value) => value.to_string().into_bytes(),
                    Constant::Number(number) => number.text.clone().into_bytes(),
                    Constant::Str { quoted, .. } => quoted.to_vec(),
                };
                Err(self.after_term(&text))
            }
            NodeKind::Nil => Err(self.after_term(b"nil")),
            NodeKind::Dot => Err(self.after_term(b".")),
            _ => Ok(self.node(first.at, NodeKind::Chain(term, more.into()))),
        }
    }

    fn after_term(&mut self, term: &[u8]) -> String {
        self.error(&format!("unexpected . after term {}", quoted(term)))
    }

    fn term(&mut self) -> Result<Term> {
        let token = self.next_non_space();
        let kind = match token.kind {
            Kind::Identifier => {
                let name = token.word();
                if !(self.has_function)(&name) {
                    return Err(self.error(&format!("function {} not defined", quoted(token.text))));
                }
                NodeKind::Identifier(name)
            }
            Kind::Dot => NodeKind::Dot,
            Kind::Nil => NodeKind::Nil,
            Kind::Variable => {
                let name = token.word();
                if !self.state().variables.contains(&name) {
                    return Err(self.error(&format!("undefined variable {}", quoted(token.text))));
                }
                NodeKind::Variable(name, Arc::default())
            }
            Kind::Field => NodeKind::Field([token.field_name()].into()),
            Kind::Bool => NodeKind::Constant(Constant::Bool(token.text == b"true")),
            Kind::CharConstant | Kind::Complex | Kind::Number => match Number::read(token.text, token.kind) {
                Ok(number) => NodeKind::Constant(Constant::Number(number.into())),
                Err(why) => return Err(self.error(&why)),
            },
            Kind::LeftParen => {
                if self.state().paren_depth >= PAREN_DEPTH_MAX {
                    return Err(self.error("max expression depth exceeded"));
                }
                self.state().paren_depth += 1;
                return Ok(Term::Open);
            }
            Kind::String | Kind::RawString => {
                let text = self.unquoted(&token)?;
                let quoted = token.text.into();
                NodeKind::Constant(Constant::Str { quoted, text })
            }
            _ => {
                self.backup();
                return Ok(Term::Nothing);
            }
        };
        Ok(Term::Node(self.node(token.at, kind)))
    }
}

fn begins_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Bool
            | Kind::CharConstant
            | Kind::Complex
            | Kind::Dot
            | Kind::Field
            | Kind::Identifier
            | Kind::Number
            | Kind::Nil
            | Kind::RawString
            | Kind::String
            | Kind::Variable
            | Kind::LeftParen
    )
}
