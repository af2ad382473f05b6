//! The language of templates: from text to a tree, as `text/template/parse` of Go 1.26 reads it, with its error messages.
//! Nothing here knows values or runs anything, and nothing calls itself: templates may nest as deep as they like.

mod lex;
mod node;
mod number;
mod parse;
mod token;
mod write;

pub(crate) use node::{Branch, Constant, NodeId, NodeKind, Number, Pipe, Tree};
pub(crate) use number::{any_float as parse_float, signed as parse_int};
pub(crate) use parse::parse;
