//! Cases about YAML, values and charts with Helm's answers, and documents drawn from a seed. Nothing here decides what is
//! right: Helm does, in the program of `oracle/`.

pub mod bench;
pub mod case;
pub mod generate;
mod oracle;
mod ours;
pub mod real;

pub use case::{Answer, Case};
pub use oracle::Oracle;
pub use ours::answer as our_answer;

/// The error is a sentence for the user who runs the tests.
pub type Outcome<T = ()> = Result<T, String>;
