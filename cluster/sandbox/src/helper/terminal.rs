//! A terminal for a command: opened among those of its container, and made the one that controls it. The helper, which leads
//! a session of its own, takes it as its controlling terminal, and the command, in the same session, becomes its foreground.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process_group};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::tcsetpgrp;

/// Both ends: the parent's, and that of programs.
pub(super) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    ioctl_tiocsctty(&theirs)?;
    Ok((ours, theirs))
}

/// Gives it to a command that was started with it.
pub(super) fn give(theirs: &OwnedFd, child: &Child) -> io::Result<()> {
    let group = Pid::from_child(child);
    tcsetpgrp(theirs, group)?;
    // A command that was faster than this has been stopped for reading a terminal that was not its own.
    kill_process_group(group, Signal::CONT).ok();
    Ok(())
}
