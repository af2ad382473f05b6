//! A node against an API server, in virtual time.

#![expect(clippy::unwrap_used, reason = "in these files everything is a test")]

mod cluster;
mod health;
mod logs;
mod network;
mod node;
mod pods;
mod power;
mod service_accounts;
mod volumes;
