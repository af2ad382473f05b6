//! What the scanner cuts a text into.

use std::borrow::Cow;

use super::text::Mark;

/// A token with the line it begins in, counted from 0.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    StreamStart,
    StreamEnd,
    VersionDirective { major: u8, minor: u8 },
    TagDirective { handle: Vec<u8>, prefix: Vec<u8> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(Vec<u8>),
    Anchor(Vec<u8>),
    Tag { handle: Vec<u8>, suffix: Vec<u8> },
    Scalar { value: Cow<'a, [u8]>, plain: bool },
}

impl<'a> Token<'a> {
    pub(super) fn new(kind: Kind<'a>, at: Mark) -> Self {
        Self { kind, line: at.line }
    }
}
