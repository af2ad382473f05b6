//! What outlives a process: a data folder with its lock, the format of its state, keys, stores and kubeconfigs; or objects in
//! an etcd beside it; and an audit log. It starts nothing but the threads of stores and of the log.
//!
//! `folder` writes files, `kept` is what one API server keeps, `server_state` that of a process with a single API server;
//! messages and hints name the flags `--data-dir` and `--etcd-...`, by which every command chooses the place. `followed` reads
//! files again that others replace.

pub mod audit_file;
pub mod folder;
pub mod followed;
pub mod kept;
pub mod kubeconfig;
pub mod on_etcd;
pub mod server_state;
