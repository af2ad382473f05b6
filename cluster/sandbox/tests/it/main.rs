//! Pods for real: namespaces, mounts, connections and processes of the Linux that the tests run on.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod ends;
mod files;
mod kit;
mod network;
mod programs;
mod unprivileged;
