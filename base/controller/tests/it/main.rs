//! Clients, caches and controllers against an API server in this process. Each test has a server of its own.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod backoffs;
mod caches;
mod calls;
mod changes;
mod leases;
mod mirrors;
mod reconciles;
mod server;
