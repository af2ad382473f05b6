//! The first process of a container: mounts /proc, leaves the host's root behind, locks the mounts, starts the program,
//! reaps orphans, passes signals on, and reports how the program ended. Its own end is the end of the container.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::thread;

use nix::sched::CloneFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, set_dumpable_behavior, setrlimit,
};

use super::{Done, namespaces, root};
use crate::wire::{During, FromContainer, StartProgram, Step, ToInit, receive_blocking, send_blocking};
use crate::{Ended, Limits};

/// Files of /proc that act on the whole machine. Root of the host is still root to them, whatever its namespace.
const PROC_READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
const PROC_HIDDEN: [&str; 3] = ["kcore", "keys", "timer_list"];

pub(super) fn run(socket: &OwnedFd) -> i32 {
    let program = match receive_blocking::<StartProgram>(socket) {
        Ok(Some((program, _))) => program,
        Ok(None) => return 0,
        Err(_) => return 2,
    };
    let running = match start(socket, &program) {
        Ok(running) => running,
        Err(error) => {
            send_blocking(socket, &FromContainer::Failed(error.into()), &[]).ok();
            return 1;
        }
    };
    send_blocking(socket, &FromContainer::Running, &[]).ok();
    let ended = reap_until(running);
    send_blocking(socket, &FromContainer::Ended(ended), &[]).ok();
    0
}

fn start(socket: &OwnedFd, program: &StartProgram) -> Done<Pid> {
    mount_proc().during(Step::Proc)?;
    leave_host().during(Step::Root)?;
    // Mounts that come from a namespace with more rights keep their flags: read-only stays read-only, even for a
    // program that is root in here.
    namespaces::become_root_in_new(CloneFlags::CLONE_NEWNS).during(Step::Lock)?;
    // Through /proc/1 a program could otherwise open this executable, where it is, for writing.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).during(Step::Lock)?;
    rustix::thread::set_no_new_privs(true).during(Step::Lock)?;
    let own = socket.try_clone().during(Step::Message)?;
    let (started, program_id) = std::sync::mpsc::channel();
    // This process is in its own PID namespace, so it may have threads.
    thread::Builder::new()
        .name("messages".to_owned())
        .spawn(move || handle_messages(&own, &program_id))
        .during(Step::Program)?;
    let child = spawn(program, Stdio::null(), None)?;
    let child = Pid::from_child(&child);
    started.send(child).ok();
    Ok(child)
}

fn mount_proc() -> io::Result<()> {
    let safe = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", safe, None)?;
    for name in PROC_READ_ONLY {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mount_bind(&path, &path)?;
            mount_remount(&path, MountFlags::BIND | MountFlags::RDONLY | safe, "")?;
        }
    }
    for name in PROC_HIDDEN {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            mount_bind("/dev/null", &path)?;
        }
    }
    Ok(())
}

fn leave_host() -> io::Result<()> {
    unmount(root::OLD, UnmountFlags::DETACH)?;
    fs::remove_dir(root::OLD)?;
    mount_remount(
        "/",
        MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV,
        "",
    )?;
    Ok(())
}

/// Starts a program in the namespaces of this process, in a process group of its own. Without outputs it has those of this
/// process. The limits hold for this process from now on as well.
pub(super) fn spawn(
    program: &StartProgram,
    input: Stdio,
    outputs: Option<(Stdio, Stdio)>,
) -> Done<std::process::Child> {
    let name = program.command.first().map_or(OsStr::new(""), |name| name.as_os_str());
    let working_dir = Path::new(&program.working_dir);
    if !working_dir.as_os_str().is_empty() {
        std::env::set_current_dir(working_dir).about(Step::WorkingDir, working_dir.display())?;
    }
    let mut command = Command::new(name);
    command
        .args(program.command.iter().skip(1))
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .stdin(input)
        .process_group(0);
    if let Some((output, errors)) = outputs {
        command.stdout(output).stderr(errors);
    }
    set_limits(&program.limits).during(Step::Limits)?;
    command.spawn().about(Step::Program, name.display())
}

fn set_limits(limits: &Limits) -> io::Result<()> {
    for (resource, limit) in [
        (Resource::Nofile, limits.open_files),
        (Resource::Data, limits.memory),
        (Resource::Fsize, limits.file_size),
        (Resource::Nproc, limits.processes),
    ] {
        if let Some(limit) = limit {
            // The hard limit cannot be raised; where it is lower, it holds already.
            let maximum = rustix::process::getrlimit(resource).maximum;
            let limit = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
            setrlimit(
                resource,
                Rlimit {
                    current: limit,
                    maximum: limit,
                },
            )?;
        }
    }
    Ok(())
}

/// Carries out the parent's messages. When the parent is gone, so is the container.
fn handle_messages(socket: &OwnedFd, program: &std::sync::mpsc::Receiver<Pid>) {
    let Ok(program) = program.recv() else { return };
    loop {
        match receive_blocking::<ToInit>(socket) {
            Ok(Some((ToInit::Signal(number), _))) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    // An error means that it has ended, and the other thread reports that.
                    kill_process(program, signal).ok();
                }
            }
            Ok(Some((ToInit::Kill, _)) | None) | Err(_) => exit(0),
        }
    }
}

/// Waits for the program, and reaps orphans meanwhile.
fn reap_until(program: Pid) -> Ended {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Ended::Exited(code),
                    (None, signal) => Ended::Signaled(signal.unwrap_or(Signal::KILL.as_raw())),
                };
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No child is left, and the end of the program was missed: impossible, but it must not loop.
            Err(_) => return Ended::Signaled(Signal::KILL.as_raw()),
        }
    }
}
