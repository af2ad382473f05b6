//! Checks the grammar: makes events of tokens, as go.yaml.in/yaml/v2 2.4 does (`parserc.go`).

use std::borrow::Cow;

use super::Problem;
use super::scan::Scanner;
use super::token::Kind;

/// Most bytes of the prefixes of tags, each counted as often as it is used: every node has its whole tag.
const PREFIX_BYTES_MAX: usize = 64 << 20;
/// Most `%TAG` directives of a document. Go has no limit, and they are hardly ever used.
const TAG_DIRECTIVES_MAX: usize = 100;

/// What a document consists of.
#[derive(Debug)]
pub(super) enum Event<'a> {
    DocumentStart,
    DocumentEnd,
    StreamEnd,
    Alias(Vec<u8>),
    Scalar { value: Cow<'a, [u8]>, implicit: bool },
    SequenceStart,
    SequenceEnd,
    MappingStart,
    MappingEnd,
}

/// An event with the line it begins in, counted from 0, its anchor and its tag (empty for none).
#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) event: Event<'a>,
    pub(super) line: usize,
    pub(super) anchor: Option<Vec<u8>>,
    pub(super) tag: Vec<u8>,
}

/// What is expected next.
#[derive(Clone, Copy, Debug)]
enum State {
    FirstDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceEntry { first: bool },
    FlowSequenceEntryMappingKey,
    FlowSequenceEntryMappingValue,
    FlowSequenceEntryMappingEnd,
    FlowMappingKey { first: bool },
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// The lines in which open collections begin.
    lines: Vec<usize>,
    /// Handles and prefixes of tags.
    tag_directives: Vec<(Vec<u8>, Vec<u8>)>,
    prefix_bytes: usize,
}

type Parsed<'a> = Result<Placed<'a>, Problem>;

const DEFAULT_TAG_DIRECTIVES: [(&[u8], &[u8]); 2] = [(b"!", b"!"), (b"!!", b"tag:yaml.org,2002:")];

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a [u8]) -> Result<Self, Problem> {
        let mut scanner = Scanner::new(text);
        scanner.peek()?;
        scanner.take();
        Ok(Self {
            scanner,
            state: State::FirstDocumentStart,
            states: Vec::new(),
            lines: Vec::new(),
            tag_directives: Vec::new(),
            prefix_bytes: 0,
        })
    }

    /// The next event; [`Event::StreamEnd`] is the last.
    pub(super) fn next(&mut self) -> Parsed<'a> {
        match self.state {
            State::FirstDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(true, false),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceEntry { first } => self.flow_sequence_entry(first),
            State::FlowSequenceEntryMappingKey => self.flow_sequence_entry_mapping_key(),
            State::FlowSequenceEntryMappingValue => self.flow_sequence_entry_mapping_value(),
            State::FlowSequenceEntryMappingEnd => self.flow_sequence_entry_mapping_end(),
            State::FlowMappingKey { first } => self.flow_mapping_key(first),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let line = self.scanner.peek()?.line;
                self.empty(State::FlowMappingKey { first: false }, line)
            }
            State::End => placed(Event::StreamEnd, 0),
        }
    }

    fn peek(&mut self) -> Result<&mut Kind<'a>, Problem> {
        Ok(&mut self.scanner.peek()?.kind)
    }

    fn line(&mut self) -> Result<usize, Problem> {
        Ok(self.scanner.peek()?.line)
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    /// An empty scalar where none is written.
    fn empty(&mut self, next: State, line: usize) -> Parsed<'a> {
        self.state = next;
        placed(
            Event::Scalar {
                value: Cow::default(),
                implicit: true,
            },
            line,
        )
    }

    /// The event that ends the collection which the token at hand ends.
    fn end_collection(&mut self, event: Event<'a>) -> Parsed<'a> {
        self.pop_state();
        self.lines.pop();
        placed(event, self.scanner.take().line)
    }

    fn collection_problem(&mut self, problem: &str) -> Problem {
        let context_line = self.lines.pop().unwrap_or(0);
        match self.line() {
            Ok(line) => Problem::of_parser(line, context_line, problem),
            Err(problem) => problem,
        }
    }

    fn document_start(&mut self, first: bool) -> Parsed<'a> {
        while !first && *self.peek()? == Kind::DocumentEnd {
            self.scanner.take();
        }
        let line = self.line()?;
        match self.peek()? {
            Kind::StreamEnd => {
                self.state = State::End;
                placed(Event::StreamEnd, line)
            }
            Kind::VersionDirective { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.explicit_document_start(line)
            }
            _ if !first => self.explicit_document_start(line),
            _ => {
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                placed(Event::DocumentStart, line)
            }
        }
    }

    fn explicit_document_start(&mut self, line: usize) -> Parsed<'a> {
        self.directives()?;
        if *self.peek()? != Kind::DocumentStart {
            let line = self.line()?;
            return Err(Problem::of_parser(line, 0, "did not find expected <document start>"));
        }
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        self.scanner.take();
        placed(Event::DocumentStart, line)
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut versioned = false;
        while let Kind::VersionDirective { .. } | Kind::TagDirective { .. } = self.peek()? {
            let token = self.scanner.take();
            let problem = |problem: &str| Err(Problem::of_parser(token.line, 0, problem));
            match token.kind {
                Kind::VersionDirective { .. } if versioned => return problem("found duplicate %YAML directive"),
                Kind::VersionDirective { major: 1, minor: 1 } => versioned = true,
                Kind::TagDirective { handle, prefix } => {
                    if self.tag_directives.iter().any(|(known, _)| *known == handle) {
                        return problem("found duplicate %TAG directive");
                    }
                    if self.tag_directives.len() >= TAG_DIRECTIVES_MAX {
                        return problem(&format!("document has more than {TAG_DIRECTIVES_MAX} %TAG directives"));
                    }
                    self.tag_directives.push((handle, prefix));
                }
                _ => return problem("found incompatible YAML document"),
            }
        }
        for (handle, prefix) in DEFAULT_TAG_DIRECTIVES {
            if self.tag_directives.iter().all(|(known, _)| known != handle) {
                self.tag_directives.push((handle.to_vec(), prefix.to_vec()));
            }
        }
        Ok(())
    }

    fn document_content(&mut self) -> Parsed<'a> {
        let line = self.line()?;
        match self.peek()? {
            Kind::VersionDirective { .. }
            | Kind::TagDirective { .. }
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd => {
                let next = self.states.pop().unwrap_or(State::End);
                self.empty(next, line)
            }
            _ => self.node(true, false),
        }
    }

    fn document_end(&mut self) -> Parsed<'a> {
        let line = self.line()?;
        if *self.peek()? == Kind::DocumentEnd {
            self.scanner.take();
        }
        self.tag_directives.clear();
        self.state = State::DocumentStart;
        placed(Event::DocumentEnd, line)
    }

    /// A node with its anchor and tag, in either order.
    fn node(&mut self, block: bool, indentless_sequence: bool) -> Parsed<'a> {
        let line = self.line()?;
        if let Kind::Alias(name) = self.peek()? {
            let name = name.clone();
            self.pop_state();
            self.scanner.take();
            return placed(Event::Alias(name), line);
        }
        let mut anchor = None;
        let mut tag = None;
        loop {
            match self.peek()? {
                Kind::Anchor(_) if anchor.is_none() => {
                    if let Kind::Anchor(name) = self.scanner.take().kind {
                        anchor = Some(name);
                    }
                }
                Kind::Tag { .. } if tag.is_none() => {
                    let token = self.scanner.take();
                    if let Kind::Tag { handle, suffix } = token.kind {
                        tag = Some((handle, suffix, token.line));
                    }
                }
                _ => break,
            }
        }
        let tag = match tag {
            Some((handle, suffix, at)) => self.whole_tag(&handle, suffix, at, line)?,
            None => Vec::new(),
        };
        let event = self.node_event(block, indentless_sequence, line, anchor.is_some(), &tag)?;
        Ok(Placed {
            event,
            line,
            anchor,
            tag,
        })
    }

    fn whole_tag(&mut self, handle: &[u8], suffix: Vec<u8>, at: usize, line: usize) -> Result<Vec<u8>, Problem> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        let Some((_, prefix)) = self.tag_directives.iter().find(|(known, _)| known == handle) else {
            return Err(Problem::of_parser(at, line, "found undefined tag handle"));
        };
        self.prefix_bytes += prefix.len();
        if self.prefix_bytes > PREFIX_BYTES_MAX {
            let problem = format!("prefixes of tags have more than {PREFIX_BYTES_MAX} bytes together");
            return Err(Problem::of_parser(at, line, &problem));
        }
        Ok([prefix.as_slice(), &suffix].concat())
    }

    fn node_event(
        &mut self,
        block: bool,
        indentless_sequence: bool,
        line: usize,
        anchored: bool,
        tag: &[u8],
    ) -> Result<Event<'a>, Problem> {
        let (event, state) = match self.peek()? {
            Kind::BlockEntry if indentless_sequence => (Event::SequenceStart, State::IndentlessSequenceEntry),
            Kind::Scalar { value, plain } => {
                let value = std::mem::take(value);
                let implicit = *plain && tag.is_empty() || tag == b"!";
                self.pop_state();
                self.scanner.take();
                return Ok(Event::Scalar { value, implicit });
            }
            Kind::FlowSequenceStart => (Event::SequenceStart, State::FlowSequenceEntry { first: true }),
            Kind::FlowMappingStart => (Event::MappingStart, State::FlowMappingKey { first: true }),
            Kind::BlockSequenceStart if block => (Event::SequenceStart, State::BlockSequenceEntry),
            Kind::BlockMappingStart if block => (Event::MappingStart, State::BlockMappingKey),
            _ if anchored || !tag.is_empty() => {
                self.pop_state();
                return Ok(Event::Scalar {
                    value: Cow::default(),
                    implicit: tag.is_empty(),
                });
            }
            _ => {
                let at = self.line()?;
                return Err(Problem::of_parser(at, line, "did not find expected node content"));
            }
        };
        self.state = state;
        if !matches!(state, State::IndentlessSequenceEntry) {
            let begin = self.scanner.take();
            self.lines.push(begin.line);
        }
        Ok(event)
    }

    fn block_sequence_entry(&mut self) -> Parsed<'a> {
        match self.peek()? {
            Kind::BlockEntry => {
                let line = self.scanner.take().line;
                match self.peek()? {
                    Kind::BlockEntry | Kind::BlockEnd => self.empty(State::BlockSequenceEntry, line),
                    _ => self.node_then(State::BlockSequenceEntry, true, false),
                }
            }
            Kind::BlockEnd => self.end_collection(Event::SequenceEnd),
            _ => Err(self.collection_problem("did not find expected '-' indicator")),
        }
    }

    fn node_then(&mut self, next: State, block: bool, indentless_sequence: bool) -> Parsed<'a> {
        self.states.push(next);
        self.node(block, indentless_sequence)
    }

    /// A sequence whose entries are in the column of the key they belong to.
    fn indentless_sequence_entry(&mut self) -> Parsed<'a> {
        let line = self.line()?;
        if *self.peek()? != Kind::BlockEntry {
            self.pop_state();
            return placed(Event::SequenceEnd, line);
        }
        self.scanner.take();
        match self.peek()? {
            Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd => {
                self.empty(State::IndentlessSequenceEntry, line)
            }
            _ => self.node_then(State::IndentlessSequenceEntry, true, false),
        }
    }

    fn block_mapping_key(&mut self) -> Parsed<'a> {
        match self.peek()? {
            Kind::Key => self.block_mapping_part(State::BlockMappingValue),
            Kind::BlockEnd => self.end_collection(Event::MappingEnd),
            _ => Err(self.collection_problem("did not find expected key")),
        }
    }

    fn block_mapping_value(&mut self) -> Parsed<'a> {
        match self.peek()? {
            Kind::Value => self.block_mapping_part(State::BlockMappingKey),
            _ => {
                let line = self.line()?;
                self.empty(State::BlockMappingKey, line)
            }
        }
    }

    /// What follows `?` or `:`.
    fn block_mapping_part(&mut self, next: State) -> Parsed<'a> {
        let line = self.scanner.take().line;
        match self.peek()? {
            Kind::Key | Kind::Value | Kind::BlockEnd => self.empty(next, line),
            _ => self.node_then(next, true, true),
        }
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Parsed<'a> {
        if *self.peek()? != Kind::FlowSequenceEnd {
            if !first {
                self.flow_entry("did not find expected ',' or ']'")?;
            }
            match self.peek()? {
                Kind::Key => {
                    self.state = State::FlowSequenceEntryMappingKey;
                    return placed(Event::MappingStart, self.scanner.take().line);
                }
                Kind::FlowSequenceEnd => {}
                _ => return self.node_then(State::FlowSequenceEntry { first: false }, false, false),
            }
        }
        self.end_collection(Event::SequenceEnd)
    }

    fn flow_entry(&mut self, problem: &str) -> Result<(), Problem> {
        if *self.peek()? != Kind::FlowEntry {
            return Err(self.collection_problem(problem));
        }
        self.scanner.take();
        Ok(())
    }

    fn flow_sequence_entry_mapping_key(&mut self) -> Parsed<'a> {
        match self.peek()? {
            Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                // Go takes the token; what follows is read without it.
                let line = self.scanner.take().line;
                self.empty(State::FlowSequenceEntryMappingValue, line)
            }
            _ => self.node_then(State::FlowSequenceEntryMappingValue, false, false),
        }
    }

    fn flow_sequence_entry_mapping_value(&mut self) -> Parsed<'a> {
        let line = self.line()?;
        if *self.peek()? == Kind::Value {
            self.scanner.take();
            match self.peek()? {
                Kind::FlowEntry | Kind::FlowSequenceEnd => {}
                _ => return self.node_then(State::FlowSequenceEntryMappingEnd, false, false),
            }
        }
        self.empty(State::FlowSequenceEntryMappingEnd, line)
    }

    fn flow_sequence_entry_mapping_end(&mut self) -> Parsed<'a> {
        let line = self.line()?;
        self.state = State::FlowSequenceEntry { first: false };
        placed(Event::MappingEnd, line)
    }

    fn flow_mapping_key(&mut self, first: bool) -> Parsed<'a> {
        if *self.peek()? != Kind::FlowMappingEnd {
            if !first {
                self.flow_entry("did not find expected ',' or '}'")?;
            }
            match self.peek()? {
                Kind::Key => {
                    self.scanner.take();
                    return self.flow_mapping_part(State::FlowMappingValue);
                }
                Kind::FlowMappingEnd => {}
                _ => return self.node_then(State::FlowMappingEmptyValue, false, false),
            }
        }
        self.end_collection(Event::MappingEnd)
    }

    /// The key behind `?`, or the value behind `:`.
    fn flow_mapping_part(&mut self, next: State) -> Parsed<'a> {
        let line = self.line()?;
        match self.peek()? {
            Kind::FlowEntry | Kind::FlowMappingEnd => self.empty(next, line),
            Kind::Value if matches!(next, State::FlowMappingValue) => self.empty(next, line),
            _ => self.node_then(next, false, false),
        }
    }

    fn flow_mapping_value(&mut self) -> Parsed<'a> {
        let next = State::FlowMappingKey { first: false };
        if *self.peek()? == Kind::Value {
            self.scanner.take();
            return self.flow_mapping_part(next);
        }
        let line = self.line()?;
        self.empty(next, line)
    }
}

fn placed(event: Event<'_>, line: usize) -> Parsed<'_> {
    Ok(Placed {
        event,
        line,
        anchor: None,
        tag: Vec::new(),
    })
}
