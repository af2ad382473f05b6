//! What this program does when it was started as a helper: one process per pod and container, without a runtime and
//! mostly without threads, because namespaces are entered by threads. Never logs: what fails is sent to the parent.

mod container;
mod dev;
mod exec;
mod init;
mod mounts;
mod namespaces;
mod netlink;
mod nftables;
mod pod;
mod root;
mod root_plan;
mod terminal;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use pod::REDIRECT_PORT;

use crate::wire::StepError;

/// The first argument of a helper. No user types it by accident.
const ARGUMENT: &str = "__sandbox-helper";

/// Whether this program would act as a helper if it were started as one.
static READY: AtomicBool = AtomicBool::new(false);

/// What a helper is for: its second argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Holds the namespaces of a pod.
    Pod,
    /// Builds a container's root and waits for its first process.
    Container,
    /// A container's first process.
    Init,
    /// Starts a command in a running container.
    Exec,
    /// A program that ends at once, to try out whether containers work.
    Trial,
}

impl Role {
    const ALL: [Self; 5] = [Self::Pod, Self::Container, Self::Init, Self::Exec, Self::Trial];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Init => "init",
            Self::Exec => "exec",
            Self::Trial => "trial",
        }
    }
}

/// The exit code of the trial program; no shell and no loader uses it.
pub(crate) const TRIAL_CODE: i32 = 113;

/// Must be the first statement of `main`, before any thread: returns at once unless this process is a helper, and
/// never returns if it is one.
pub fn run_if_helper() {
    READY.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let role = args.next().unwrap_or_default();
    let Some(role) = Role::ALL.into_iter().find(|known| OsStr::new(known.name()) == role) else {
        exit(2);
    };
    exit(run(role));
}

/// Whether [`run_if_helper`] was called in this process.
pub(crate) fn is_ready() -> bool {
    READY.load(Ordering::Relaxed)
}

/// A command that starts `program` as a helper. Its environment is small: nothing of the parent's leaks into pods.
pub(crate) fn command(program: impl AsRef<OsStr>, role: Role) -> Command {
    let mut command = Command::new(program);
    command.arg(ARGUMENT).arg(role.name()).env_clear();
    // jemalloc's background thread would be a second thread, and only a process of one thread may enter a user
    // namespace. The two names are those of its prefixed and its plain build.
    for name in ["_RJEM_MALLOC_CONF", "MALLOC_CONF"] {
        command.env(name, "background_thread:false,narenas:1");
    }
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        command.env("LD_LIBRARY_PATH", path);
    }
    command
}

/// The command line of a helper that is a program of a container.
pub(crate) fn arguments(program: &Path, role: Role) -> Vec<OsString> {
    vec![program.into(), ARGUMENT.into(), role.name().into()]
}

fn run(role: Role) -> i32 {
    if role == Role::Trial {
        return TRIAL_CODE;
    }
    let Ok(socket) = socket() else { return 2 };
    // Signals of a terminal are for the parent, which ends its pods in its own order.
    rustix::process::setsid().ok();
    if die_with_parent().is_err() {
        return 2;
    }
    match role {
        Role::Pod => pod::run(&socket),
        Role::Container => container::run(&socket),
        Role::Init => init::run(&socket),
        Role::Exec => exec::run(&socket),
        Role::Trial => TRIAL_CODE,
    }
}

/// The parent's socket, which is standard input.
fn socket() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(socket)
}

/// The end of the parent is the end of this process. Entering a namespace may clear this: call it again then.
fn die_with_parent() -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// Another process of this program, which inherits the socket and both outputs.
fn next_stage(own: &str, role: Role, socket: &OwnedFd) -> io::Result<Command> {
    let mut next = command(own, role);
    next.stdin(Stdio::from(socket.try_clone()?));
    Ok(next)
}

/// The number of an error of the kernel, for messages that carry nothing else.
fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(5)
}

/// What every step of a helper returns.
type Done<T = ()> = Result<T, StepError>;
