//! Making and entering namespaces. Maps one user only: root inside is this user outside, and no other.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use nix::sched::{CloneFlags, unshare};
use rustix::process::{Pid, PidfdFlags, getegid, geteuid, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::die_with_parent;

/// What a container shares with its pod.
pub(super) const OF_POD: ThreadNameSpaceType = ThreadNameSpaceType::USER
    .union(ThreadNameSpaceType::NETWORK)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION);

/// What a further command shares with a container.
pub(super) const OF_CONTAINER: ThreadNameSpaceType = OF_POD
    .union(ThreadNameSpaceType::MOUNT)
    .union(ThreadNameSpaceType::PROCESS_ID);

/// Leaves namespaces for new ones of these sorts.
pub(super) fn leave_for(sorts: CloneFlags) -> io::Result<()> {
    unshare(sorts)?;
    die_with_parent()
}

/// A new user namespace in which this user is root, and with it new namespaces of the other sorts.
pub(super) fn become_root_in_new(others: CloneFlags) -> io::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | others)?;
    // Without this an unprivileged user may not map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    die_with_parent()
}

/// Enters namespaces of the process `pid`.
pub(super) fn join(pid: u32, sorts: ThreadNameSpaceType) -> io::Result<()> {
    move_into_thread_name_spaces(std::os::fd::AsFd::as_fd(&open_process(pid)?), sorts)?;
    die_with_parent()
}

/// A file that is readable once the process has ended.
pub(super) fn open_process(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}
