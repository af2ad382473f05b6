//! Changes of typed objects that have the same result however often they are made: what is there already stays where it is, and
//! nothing else is touched. Pure.

pub mod files;
mod flags;
pub mod metadata;
pub mod pods;
pub mod units;

pub use flags::Flags;
