//! Reading tokens ahead and going back, and errors at the line of the token that was read last.

use super::super::node::{Node, NodeId, NodeKind};
use super::super::token::{Item, Kind};
use super::{Parser, Result, State};
use crate::text::Str;
use crate::text::quote::{SYNTAX, unquote};

impl<'t> Parser<'t> {
    pub(super) fn state(&mut self) -> &mut State<'t> {
        let last = self.states.len() - 1;
        &mut self.states[last]
    }

    pub(super) fn next(&mut self) -> Item<'t> {
        if self.state().peeked > 0 {
            self.state().peeked -= 1;
        } else {
            self.state().tokens[0] = self.lexer.next_item();
        }
        let state = self.state();
        state.tokens[state.peeked]
    }

    pub(super) fn backup(&mut self) {
        self.state().peeked += 1;
    }

    pub(super) fn backup2(&mut self, first: Item<'t>) {
        let state = self.state();
        state.tokens[1] = first;
        state.peeked = 2;
    }

    pub(super) fn backup3(&mut self, first: Item<'t>, second: Item<'t>) {
        let state = self.state();
        state.tokens[1] = second;
        state.tokens[2] = first;
        state.peeked = 3;
    }

    pub(super) fn peek(&mut self) -> Item<'t> {
        if self.state().peeked == 0 {
            self.state().tokens[0] = self.lexer.next_item();
            self.state().peeked = 1;
        }
        let state = self.state();
        state.tokens[state.peeked - 1]
    }

    pub(super) fn next_non_space(&mut self) -> Item<'t> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    pub(super) fn peek_non_space(&mut self) -> Item<'t> {
        let token = self.next_non_space();
        self.backup();
        token
    }

    /// An error at the line of the token that was read last.
    pub(super) fn error(&mut self, what: &str) -> String {
        let line = self.state().tokens[0].line;
        format!("template: {}:{line}: {what}", self.parse_name)
    }

    pub(super) fn unexpected(&mut self, token: &Item<'_>, context: &str) -> String {
        if token.kind != Kind::Error {
            return self.error(&format!("unexpected {} in {context}", token.shown()));
        }
        let shown = self.lexer.failure().to_owned();
        let line = self.state().action_line;
        if line == 0 || line == token.line {
            return self.error(&shown);
        }
        // No "action in action".
        let link = if shown.ends_with(" action") { "" } else { " in action" };
        let place = format!("{link} started at {}:{line}", self.parse_name);
        self.error(&format!("{shown}{place}"))
    }

    pub(super) fn expect(&mut self, wanted: &[Kind], context: &str) -> Result<Item<'t>> {
        let token = self.next_non_space();
        if wanted.contains(&token.kind) {
            Ok(token)
        } else {
            Err(self.unexpected(&token, context))
        }
    }

    pub(super) fn unquoted(&mut self, token: &Item<'_>) -> Result<Str> {
        match unquote(token.text) {
            Some(text) => Ok(text.into()),
            None => Err(self.error(SYNTAX)),
        }
    }

    pub(super) fn node(&mut self, at: usize, kind: NodeKind) -> NodeId {
        // A text of 4 GiB does not get here: there is less than a node per byte.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node { at, kind });
        id
    }

    pub(super) fn list(&mut self, nodes: Vec<NodeId>) -> NodeId {
        self.node(0, NodeKind::List(nodes))
    }

    /// Adds a node to the list that is read.
    pub(super) fn append(&mut self, node: NodeId) {
        let state = self.state();
        match state.open.last_mut() {
            Some(open) => open.nodes.push(node),
            None => state.nodes.push(node),
        }
    }
}
