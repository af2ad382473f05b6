//! What outlives a process: a data folder with its lock, the format of its state, keys, stores and kubeconfigs; or objects in
//! an etcd beside it; and an audit log. It starts nothing but the threads of stores and of the log.
//!
//! `folder` writes files, `server_data` is the data of one API server, `server_state` that of a process with a single API server;
//! messages and hints name the flags `--data-dir` and `--etcd-...`, by which every command chooses the place. `followed` reads
//! files again that others replace.

pub mod audit_file;
pub mod folder;
pub mod followed;
pub mod kubeconfig;
pub mod on_etcd;
pub mod server_data;
pub mod server_state;
