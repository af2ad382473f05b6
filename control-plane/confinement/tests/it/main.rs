//! What is confined to a seed, over a garden of two seeds that look alike.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attacks;
mod edges;
mod needed;
mod same;
mod world;
mod writes;
