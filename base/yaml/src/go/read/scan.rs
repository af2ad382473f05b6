//! Cuts a text into tokens, by the grammar of YAML 1.1 as go.yaml.in/yaml/v2 2.4 reads it (`scannerc.go`): indentation
//! becomes tokens that begin and end blocks, and what precedes a `:` becomes a key afterwards.

use std::collections::VecDeque;

use super::text::{Mark, Text};
use super::token::{Kind, Token};
use super::{DEPTH_MAX, Problem};

/// A key that is not announced by `?` has its `:` on the same line and within so many characters.
const SIMPLE_KEY_CHARACTERS_MAX: usize = 1024;

pub(super) struct Scanner<'a> {
    pub(super) text: Text<'a>,
    started: bool,
    /// Tokens that are known but not taken.
    tokens: VecDeque<Token<'a>>,
    /// How many were taken.
    taken: usize,
    /// The first of `tokens` cannot be preceded by a key any more.
    ready: bool,
    /// The column of the innermost block, -1 outside of all.
    pub(super) indent: isize,
    indents: Vec<isize>,
    pub(super) flow_level: usize,
    pub(super) simple_key_allowed: bool,
    /// One for the block context, one for each flow collection.
    simple_keys: Vec<SimpleKey>,
}

/// What may turn out to be a key.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Nothing else than a key can stand here.
    required: bool,
    /// It is a flow collection in which nothing could be a key, and which has ended: Go forgets to wait for its `:`. So the
    /// collection is returned first, and `{}: x` is one without a key.
    forgotten: bool,
    token: usize,
    mark: Mark,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self {
            text: Text::new(text),
            started: false,
            tokens: VecDeque::new(),
            taken: 0,
            ready: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
        }
    }

    /// The next token, which is not taken.
    pub(super) fn peek(&mut self) -> Result<&mut Token<'a>, Problem> {
        if !self.ready {
            self.fetch_more()?;
        }
        Ok(self.tokens.front_mut().expect("fetch_more leaves a token"))
    }

    /// Takes the token that [`Self::peek`] showed.
    pub(super) fn take(&mut self) -> Token<'a> {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop_front().expect("a token is taken after it was seen")
    }

    pub(super) fn problem(&self, context: Mark, problem: &str) -> Problem {
        Problem::of_scanner(self.text.mark.line, context.line, problem)
    }

    fn fetch_more(&mut self) -> Result<(), Problem> {
        while self.tokens.is_empty() || self.head_may_be_key()? {
            let fetched = self.fetch_next();
            match self.text.broken() {
                Some(problem) => return Err(problem),
                None => fetched?,
            }
        }
        self.ready = true;
        Ok(())
    }

    fn head_may_be_key(&mut self) -> Result<bool, Problem> {
        let head = self.taken;
        // Tokens of deeper levels come later.
        let first = self.simple_keys.partition_point(|key| key.token < head);
        let found = self.simple_keys[first..]
            .iter()
            .take_while(|key| key.token == head)
            .position(|key| key.possible && !key.forgotten);
        match found {
            Some(offset) => self.is_valid(first + offset),
            None => Ok(false),
        }
    }

    /// Whether what was marked as a key can still be one.
    fn is_valid(&mut self, level: usize) -> Result<bool, Problem> {
        let key = self.simple_keys[level];
        if !key.possible {
            return Ok(false);
        }
        let now = self.text.mark;
        if key.mark.line < now.line || key.mark.index + SIMPLE_KEY_CHARACTERS_MAX < now.index {
            if key.required {
                return Err(self.problem(key.mark, "could not find expected ':'"));
            }
            self.simple_keys[level].possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn fetch_next(&mut self) -> Result<(), Problem> {
        if !self.started {
            self.started = true;
            self.push(Kind::StreamStart, self.text.mark);
            return Ok(());
        }
        self.skip_to_token();
        self.unroll_indent(self.text.mark.column as isize);
        // Go looks at so many characters together.
        let _ = self.text.byte(3);
        let first = self.text.byte(0);
        if first == 0 {
            return self.fetch_stream_end();
        }
        if self.text.mark.column == 0 && first == b'%' {
            self.unroll_indent(-1);
            self.remove_simple_key()?;
            self.simple_key_allowed = false;
            return self.fetch_directive();
        }
        if self.text.is_document_indicator() {
            return self.fetch_document_indicator(first == b'-');
        }
        let in_flow = self.flow_level > 0;
        match first {
            b'[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Kind::FlowMappingStart),
            b']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.text.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.text.is_blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || self.text.is_blank_or_end(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_node_part(Self::scan_anchor),
            b'!' => self.fetch_node_part(Self::scan_tag),
            b'|' | b'>' if !in_flow => self.fetch_block_scalar(first == b'|'),
            b'\'' | b'"' => self.fetch_node_part(Self::scan_quoted),
            b'#' | b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.problem(self.text.mark, "found character that cannot start any token"))
            }
            _ => self.fetch_node_part(Self::scan_plain),
        }
    }

    fn push(&mut self, kind: Kind<'a>, at: Mark) {
        self.tokens.push_back(Token::new(kind, at));
    }

    /// Goes past blanks and comments. Tabs are no blanks where a key may begin.
    fn skip_to_token(&mut self) {
        loop {
            // A second byte order mark; elsewhere it is a character like others.
            if self.text.mark.index == 0 && self.text.starts_with("\u{feff}".as_bytes()) {
                self.text.skip();
            }
            let tabs = self.flow_level > 0 || !self.simple_key_allowed;
            self.text
                .skip_while(|text| text.byte(0) == b' ' || tabs && text.byte(0) == b'\t');
            self.text.skip_comment();
            if !self.text.is_break(0) {
                return;
            }
            self.text.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn save_simple_key(&mut self) -> Result<(), Problem> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.remove_simple_key()?;
        let mark = self.text.mark;
        *self.simple_key() = SimpleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == mark.column as isize,
            forgotten: false,
            token: self.taken + self.tokens.len(),
            mark,
        };
        Ok(())
    }

    fn simple_key(&mut self) -> &mut SimpleKey {
        self.simple_keys.last_mut().expect("the block context always has one")
    }

    fn remove_simple_key(&mut self) -> Result<(), Problem> {
        let key = *self.simple_key();
        if key.possible && key.required {
            return Err(self.problem(key.mark, "could not find expected ':'"));
        }
        self.simple_key().possible = false;
        Ok(())
    }

    /// Begins a block at `column`, before token number `before` or behind all.
    fn roll_indent(&mut self, column: usize, before: Option<usize>, kind: Kind<'a>, at: Mark) -> Result<(), Problem> {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > DEPTH_MAX {
            return Err(self.problem(at, &format!("exceeded max depth of {DEPTH_MAX}")));
        }
        self.insert(before, Token::new(kind, at));
        Ok(())
    }

    /// Puts a token before number `before` if that is still there, or behind all.
    fn insert(&mut self, before: Option<usize>, token: Token<'a>) {
        let position = before.and_then(|before| before.checked_sub(self.taken));
        self.tokens.insert(position.unwrap_or(self.tokens.len()), token);
    }

    /// Ends the blocks that are indented more than `column`.
    fn unroll_indent(&mut self, column: isize) {
        while self.flow_level == 0 && self.indent > column {
            self.push(Kind::BlockEnd, self.text.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Result<(), Problem> {
        if self.text.mark.column != 0 {
            self.text.mark.column = 0;
            self.text.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(Kind::StreamEnd, self.text.mark);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, start: bool) -> Result<(), Problem> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let kind = if start { Kind::DocumentStart } else { Kind::DocumentEnd };
        self.push(kind, self.text.mark);
        self.text.skip_bytes(3);
        Ok(())
    }

    fn fetch_indicator(&mut self, kind: Kind<'a>) {
        self.push(kind, self.text.mark);
        self.text.skip();
    }

    fn fetch_flow_start(&mut self, kind: Kind<'a>) -> Result<(), Problem> {
        self.save_simple_key()?;
        let token = self.taken + self.tokens.len();
        self.simple_keys.push(SimpleKey {
            token,
            ..SimpleKey::default()
        });
        self.flow_level += 1;
        if self.flow_level > DEPTH_MAX {
            return Err(self.problem(self.text.mark, &format!("exceeded max depth of {DEPTH_MAX}")));
        }
        self.simple_key_allowed = true;
        self.fetch_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind<'a>) -> Result<(), Problem> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let inner = self.simple_keys.pop().unwrap_or_default();
            let outer = self.simple_key();
            outer.forgotten |= outer.token == inner.token;
        }
        self.simple_key_allowed = false;
        self.fetch_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.fetch_indicator(Kind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Problem> {
        let at = self.text.mark;
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.problem(at, "block sequence entries are not allowed in this context"));
            }
            self.roll_indent(at.column, None, Kind::BlockSequenceStart, at)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.fetch_indicator(Kind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Problem> {
        let at = self.text.mark;
        if self.flow_level == 0 {
            if !self.simple_key_allowed {
                return Err(self.problem(at, "mapping keys are not allowed in this context"));
            }
            self.roll_indent(at.column, None, Kind::BlockMappingStart, at)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.fetch_indicator(Kind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Problem> {
        let at = self.text.mark;
        if self.is_valid(self.simple_keys.len() - 1)? {
            let key = *self.simple_key();
            self.insert(Some(key.token), Token::new(Kind::Key, key.mark));
            self.roll_indent(key.mark.column, Some(key.token), Kind::BlockMappingStart, key.mark)?;
            self.simple_key().possible = false;
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.simple_key_allowed {
                    return Err(self.problem(at, "mapping values are not allowed in this context"));
                }
                self.roll_indent(at.column, None, Kind::BlockMappingStart, at)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.fetch_indicator(Kind::Value);
        Ok(())
    }

    /// What may begin a key: an anchor, an alias, a tag, a scalar.
    fn fetch_node_part(&mut self, scan: fn(&mut Self) -> Result<Token<'a>, Problem>) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let token = scan(self)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Problem> {
        let token = self.scan_directive()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let token = self.scan_block(literal)?;
        self.tokens.push_back(token);
        Ok(())
    }
}
