//! Questions about YAML, values and charts, what Helm says to them, and documents drawn from a seed. Nothing here says
//! itself what is right: Helm does, in the program of `oracle/`.

pub mod bench;
pub mod case;
pub mod generate;
mod oracle;
mod ours;
pub mod real;

pub use case::{Answer, Case};
pub use oracle::Oracle;
pub use ours::answer as our_answer;

/// What cannot be done is a sentence for the person who runs the tests.
pub type Outcome<T = ()> = Result<T, String>;
