//! Time and randomness as arguments: a [`Clock`] that is either the machine's or simulated, and an [`Entropy`]
//! that is either the operating system's or comes from a seed.
//!
//! Nothing else in the workspace asks the machine what time it is or draws a random number. This crate never
//! sleeps: sleeping is `tokio::time`, which a test pauses.

mod clock;
mod entropy;

pub use clock::{Clock, Hand};
pub use entropy::{Entropy, SUFFIX_ALPHABET};
