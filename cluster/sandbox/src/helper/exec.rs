//! The helper of a further command in a running container: joins its namespaces, starts the command, reports its end.
//! The command ends when the parent sends a message or closes the socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};

use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, Signal, kill_process_group, set_dumpable_behavior};

use super::{Done, init, namespaces, terminal};
use crate::Ended;
use crate::wire::{During, FromContainer, StartExec, Step, receive_blocking, send_blocking};

pub(super) fn run(socket: &OwnedFd) -> i32 {
    let (start, files) = match receive_blocking::<StartExec>(socket) {
        Ok(Some(received)) => received,
        Ok(None) => return 0,
        Err(_) => return 2,
    };
    let (mut child, terminal) = match start_command(&start, files) {
        Ok(started) => started,
        Err(error) => {
            send_blocking(socket, &FromContainer::Failed(error.into()), &[]).ok();
            return 1;
        }
    };
    {
        // The parent alone holds it from now on: the terminal hangs up when the parent closes it.
        let terminal = terminal;
        let files: Vec<BorrowedFd<'_>> = terminal.iter().map(AsFd::as_fd).collect();
        send_blocking(socket, &FromContainer::Running, &files).ok();
    }
    let ended = watch(socket, &mut child);
    send_blocking(socket, &FromContainer::Ended(ended), &[]).ok();
    0
}

/// Starts the command; returns it with the parent's end of its terminal.
fn start_command(start: &StartExec, files: Vec<OwnedFd>) -> Done<(Child, Option<OwnedFd>)> {
    // Until it executes its program, the command is this executable, visible to the container's programs.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).during(Step::Join)?;
    namespaces::join(start.init, namespaces::OF_CONTAINER).during(Step::Join)?;
    rustix::thread::set_no_new_privs(true).during(Step::Join)?;
    if !start.terminal {
        let input = files.into_iter().next().map_or_else(Stdio::null, Stdio::from);
        return Ok((init::spawn(&start.program, input, None)?, None));
    }
    let (ours, theirs) = terminal::open().during(Step::Terminal)?;
    let end = || theirs.try_clone().map(Stdio::from).during(Step::Terminal);
    let child = init::spawn(&start.program, end()?, Some((end()?, end()?)))?;
    terminal::give(&theirs, &child).during(Step::Terminal)?;
    // When the terminal hangs up, this process is to go on: it ends the command if that does not end by itself. What is
    // blocked is inherited by programs that are started from now on, and none is.
    let hang_up = SigSet::from(Blocked::SIGHUP);
    hang_up.thread_block().map_err(io::Error::from).during(Step::Terminal)?;
    Ok((child, Some(ours)))
}

/// Waits for the command or for the end of the parent. After entering a PID namespace there are no threads.
fn watch(socket: &OwnedFd, child: &mut Child) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    if let Ok(process) = namespaces::open_process(child.id()) {
        let mut files = [PollFd::new(&process, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        while poll(&mut files, None).is_err() {}
        if files[0].revents().is_empty() {
            kill_process_group(Pid::from_child(child), Signal::KILL).ok();
        }
    }
    match child.wait() {
        Ok(status) => status
            .code()
            .map_or(Ended::Signaled(status.signal().unwrap_or(9)), Ended::Exited),
        Err(_) => Ended::Signaled(9),
    }
}
