//! Cases for the template engine, what Go says of them, and templates drawn from a seed. Nothing here says itself what is
//! right: Go does, in the program of `oracle/`.

pub mod case;
mod data;
pub mod forms;
pub mod generate;
mod oracle;
mod ours;

pub use case::{Answer, Case};
pub use oracle::Oracle;
pub use ours::answer as our_answer;

/// What cannot be done is a sentence for the person who runs the tests.
pub type Outcome<T = ()> = Result<T, String>;
