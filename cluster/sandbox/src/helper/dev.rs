//! The devices of a container: those without effect on the machine, shared memory, terminals of its own.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use super::root::OLD;

const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Builds `/dev` in the new root.
pub(super) fn build() -> io::Result<()> {
    let dev = Path::new("/dev");
    fs::create_dir_all(dev)?;
    mount("tmpfs", dev, "tmpfs", MountFlags::NOSUID, c"mode=755")?;
    for name in DEVICES {
        let (from, to) = (Path::new(OLD).join("dev").join(name), dev.join(name));
        if from.exists() {
            fs::write(&to, "")?;
            mount_bind(&from, &to)?;
        }
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name))?;
    }
    let shared = dev.join("shm");
    fs::create_dir(&shared)?;
    mount(
        "tmpfs",
        &shared,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"mode=1777",
    )?;
    let terminals = dev.join("pts");
    fs::create_dir(&terminals)?;
    // Terminals are a convenience: a kernel without them still runs programs.
    mount(
        "devpts",
        &terminals,
        "devpts",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        c"newinstance,ptmxmode=0666,mode=0620",
    )
    .ok();
    Ok(())
}
