//! Authentication and RBAC through the public API.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

mod authentication;
mod rbac;
