//! A node against an API server, in virtual time.

mod cluster;
mod network;
mod node;
mod pods;
mod service_accounts;
mod volumes;
