//! Pods as plain programs: Linux namespaces of one pod and its containers, without root and without a container engine.
//! Knows nothing of Kubernetes objects, images or policies; writes nothing outside the namespaces that it makes and the
//! volumes of its callers.
//!
//! A pod is a user, network, UTS and IPC namespace, held by a helper process. Each of its containers adds a mount and a
//! PID namespace. Helpers are this program started again ([`run_if_helper`]); they end with this process, however it
//! ends, and what runs in them ends with them. A container shows the host's root read-only, volumes at any path, and
//! folders of its own at `/tmp`, `/run` and `/dev`. All connections that a program opens to an address other than its
//! pod's arrive at [`Pod::accept`]; no packet leaves the namespace.
//!
//! This separates programs from each other and from mistakes. It does not confine hostile code: the kernel, and every
//! file of the host that this user may read, stay within reach.

mod beneath;
mod options;

pub use beneath::{make_folders_beneath, write_new_beneath};
pub use options::{ContainerOptions, Ended, ExecOptions, Limits, Missing, Mount, PodOptions, Signal};

#[cfg(target_os = "linux")]
mod available;
#[cfg(target_os = "linux")]
mod container;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod pod;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
pub use {
    available::{available, available_with},
    container::Container,
    exec::Exec,
    helper::run_if_helper,
    pod::Pod,
    terminal::{Terminal, TerminalSize},
};

#[cfg(not(target_os = "linux"))]
mod elsewhere;
// Tests build it on Linux as well, so that no change breaks other systems unnoticed.
#[cfg(all(test, target_os = "linux"))]
pub mod elsewhere;
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Container, Exec, Pod, Terminal, TerminalSize, available, available_with, run_if_helper};

#[cfg(test)]
mod systems;
