//! Clients, caches and controllers against an API server in this process. Each test has a server of its own.

mod caches;
mod calls;
mod leases;
mod reconciles;
mod server;
