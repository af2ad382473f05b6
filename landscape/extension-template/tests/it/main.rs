//! Generated extensions: committed as goldens, and each a whole that Cargo and Kubernetes can read. That their Rust compiles
//! shows the test `extension-template-goldens`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod generated;
mod guide;
mod kinds_guide;
mod whole;
