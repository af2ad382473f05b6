//! What tests of many crates share: an embedded API server with clients, waiting by watch, golden files, the settle
//! check, free ports and the cache folder. For tests and their programs only; never for a crate that the API server is
//! built from.
#![expect(clippy::panic, reason = "a test kit ends tests")]

mod embedded;
mod golden;
mod settle;
mod wait;

pub use embedded::{ADMINS, EPOCH, Embedded, embedded, embedded_with};
pub use golden::assert_golden;
pub use settle::settled;
pub use tests_parts::{CACHE_VARIABLE, Etcd, Helm, Proxy, Registry, Secured, cache_folder, fed, free_port};
pub use wait::{WAIT_MAX, until, until_gone};
