//! TOML both ways, as Helm 4.1 uses it: github.com/BurntSushi/toml 1.6, byte for byte and error for error. Tables and
//! arrays nest to a limit; Go's run out of stack.

mod key_text;
mod keys;
mod lex;
mod read;
mod scalars;
mod strings;
mod tree;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;
