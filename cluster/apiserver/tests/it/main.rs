//! The API server through `kube::Client`, one file per feature. Each test has a server of its own.

mod access;
mod crud;
mod custom;
mod server;
mod shapes;
mod watching;
