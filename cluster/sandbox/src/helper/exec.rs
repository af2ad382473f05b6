//! The helper of a further command in a running container: joins its namespaces, starts the command, reports its end.
//! The command ends when the parent lets go of it.

use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use super::{Done, init, namespaces};
use crate::Ended;
use crate::wire::{During, FromContainer, StartExec, Step, receive_blocking, send_blocking};

pub(super) fn run(socket: &OwnedFd) -> i32 {
    let (start, files) = match receive_blocking::<StartExec>(socket) {
        Ok(Some(received)) => received,
        Ok(None) => return 0,
        Err(_) => return 2,
    };
    let mut child = match start_command(&start, files) {
        Ok(child) => child,
        Err(error) => {
            send_blocking(socket, &FromContainer::Failed(error.into()), &[]).ok();
            return 1;
        }
    };
    send_blocking(socket, &FromContainer::Running, &[]).ok();
    let ended = watch(socket, &mut child);
    send_blocking(socket, &FromContainer::Ended(ended), &[]).ok();
    0
}

fn start_command(start: &StartExec, files: Vec<OwnedFd>) -> Done<Child> {
    // For a moment the command is this executable, in sight of the container's programs.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).during(Step::Join)?;
    namespaces::join(start.init, namespaces::OF_CONTAINER).during(Step::Join)?;
    rustix::thread::set_no_new_privs(true).during(Step::Join)?;
    let input = files.into_iter().next().map_or_else(Stdio::null, Stdio::from);
    init::spawn(&start.program, input)
}

/// Waits for the command or for the end of the parent. After entering a PID namespace there are no threads.
fn watch(socket: &OwnedFd, child: &mut Child) -> Ended {
    use std::os::unix::process::ExitStatusExt;
    if let Ok(process) = namespaces::open_process(child.id()) {
        let mut files = [PollFd::new(&process, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        while poll(&mut files, None).is_err() {}
        if files[0].revents().is_empty() {
            child.kill().ok();
        }
    }
    match child.wait() {
        Ok(status) => status
            .code()
            .map_or(Ended::Signaled(status.signal().unwrap_or(9)), Ended::Exited),
        Err(_) => Ended::Signaled(9),
    }
}
