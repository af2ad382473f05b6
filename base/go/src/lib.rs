//! What Go makes of texts: runes of bytes that need not be UTF-8, quoted strings, and regular expressions in the notation of
//! the crate `regex`. Pure; it compiles and matches no expression.

mod quote;
pub mod regex;
mod runes;

pub use quote::{push_quoted, quoted};
pub use runes::{RUNE_ERROR, decode_rune, is_print, push_rune, runes};
