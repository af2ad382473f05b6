//! The charts of this repository, `charts/garden` and `charts/gardenlet`: what they render, and that it agrees with the other
//! files of the repository. `cargo xtask test helm` compares the same with Helm, `cargo xtask test production` applies
//! it to a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod certificates;
mod configurations;
mod goldens;
mod own;
mod rights;
mod strict;
mod values;
