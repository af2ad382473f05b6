//! The API server through `kube::Client`, one file per feature. Each test has a server of its own.

mod crud;
mod custom;
mod server;
mod watching;
