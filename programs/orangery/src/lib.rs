//! What the binary `orangery` shares with tests: its command line, and `why`, which scenarios run for their Shoots.
//! Each command is a file of the binary.

pub mod cli;
pub mod kubeconfig;
pub mod why;
