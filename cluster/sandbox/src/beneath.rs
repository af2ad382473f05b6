//! Paths within a volume that programs write to: a link may lead from one place of the volume to another, never out of it,
//! even if folders and links are replaced meanwhile. Each part of a path is opened in the folder before it, never followed by
//! the kernel.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, mkdirat, open, openat, readlinkat};
use rustix::io::Errno;

/// As the kernel's `MAXSYMLINKS`.
const LINKS_MAX: usize = 40;
/// Opens a file or folder to be named and nothing else, where the system has such a flag.
#[cfg(target_os = "linux")]
const NAMED: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const NAMED: OFlags = OFlags::NONBLOCK;

/// Opens the root of a volume; its own path is followed as it stands.
pub(crate) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(open(root, NAMED | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens what stands at a path within the open folder `root`; an empty path is `root` itself.
///
/// # Errors
/// Something on the way is missing, or leads out of `root`.
#[cfg(target_os = "linux")]
pub(crate) fn open_beneath(root: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    walk(root, path, &|_, _| Err(Errno::NOENT.into()))
}

/// Makes the folders of a path within the folder `root` that are missing. Every user may write to them.
///
/// # Errors
/// A folder cannot be made, or the path leads out of `root`, be it by a link.
pub fn make_folders_beneath(root: &Path, path: &Path) -> io::Result<()> {
    walk(open_root(root)?, path, &make_folder).map(drop)
}

/// Writes a file at a path within the folder `root`, and makes the folders above it; whatever stands there already stays.
///
/// # Errors
/// The file cannot be written, or the path leads out of `root`, be it by a link.
pub fn write_new_beneath(root: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (above, name) = (path.parent(), path.file_name().ok_or_else(leads_out)?);
    let folder = walk(open_root(root)?, above.unwrap_or(Path::new("")), &make_folder)?;
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&folder, name, how, Mode::from(0o666)) {
        Ok(file) => io::Write::write_all(&mut std::fs::File::from(file), bytes),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens a mount point for a folder or a file at a path within the open folder `root`, and makes it where it is missing.
///
/// # Errors
/// It cannot be made, or the path leads out of `root`, be it by a link.
#[cfg(target_os = "linux")]
pub(crate) fn mount_point_beneath(root: &OwnedFd, path: &Path, folder: bool) -> io::Result<OwnedFd> {
    match open_beneath(root.try_clone()?, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let make = |above: &OwnedFd, name: &OsStr| match mkdirat(above, name, Mode::from(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    };
    if folder {
        return walk(root.try_clone()?, path, &make);
    }
    let (above, name) = (path.parent(), path.file_name().ok_or_else(leads_out)?);
    let above = walk(root.try_clone()?, above.unwrap_or(Path::new("")), &make)?;
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(&above, name, how, Mode::from(0o644))?)
}

fn make_folder(above: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    match mkdirat(above, name, mode) {
        // Whatever the umask of this process is.
        Ok(()) => {
            let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            Ok(fchmod(openat(above, name, how, Mode::empty())?, mode)?)
        }
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What to do about a name that is missing in an open folder.
type Missing<'a> = &'a dyn Fn(&OwnedFd, &OsStr) -> io::Result<()>;

fn walk(root: OwnedFd, path: &Path, missing: Missing<'_>) -> io::Result<OwnedFd> {
    let mut todo = VecDeque::from(parts(path)?);
    let (mut here, mut above) = (root, Vec::new());
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            here = above.pop().ok_or_else(leads_out)?;
            continue;
        }
        match readlinkat(&here, part.as_os_str(), Vec::new()) {
            Ok(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                for part in parts(&target)?.into_iter().rev() {
                    todo.push_front(part);
                }
                continue;
            }
            Err(Errno::NOENT) => missing(&here, &part)?,
            // No link, or an error that opening it has too.
            Err(_) => {}
        }
        let next = openat(
            &here,
            part.as_os_str(),
            NAMED | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        // A link that has taken its place just now.
        if FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP.into());
        }
        above.push(std::mem::replace(&mut here, next));
    }
    Ok(here)
}

fn parts(path: &Path) -> io::Result<Vec<OsString>> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let named = parts.map(|part| match part {
        Component::Normal(name) => Ok(name.to_owned()),
        Component::ParentDir => Ok("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => Err(leads_out()),
    });
    named.collect()
}

fn leads_out() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the path leads out of the volume")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    /// A folder with a volume `v` in it, and a folder `outside` beside that.
    fn volume() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("v");
        fs::create_dir_all(root.join("..1/nested")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(root.join("..1/key"), "").unwrap();
        for (target, link) in [
            ("..1", "..data"),
            ("..data/key", "key"),
            ("../v/..1", "around"),
            ("..1/nested/../..", "top"),
            ("../outside", "out"),
            ("/etc", "absolute"),
            ("round", "round"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        (folder, root)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_are_followed_within_a_volume_and_not_out_of_it() {
        let (_folder, root) = volume();
        for (path, leads_to) in [
            ("", Some("")),
            ("key", Some("..1/key")),
            ("./..data/nested/", Some("..1/nested")),
            ("top/key", Some("..1/key")),
            ("..1/../key", Some("..1/key")),
            ("..", None),
            ("..1/../../v/key", None),
            ("/etc", None),
            ("out", None),
            ("out/../v/key", None),
            ("around", None),
            ("absolute", None),
            ("absolute/passwd", None),
            ("round", None),
            ("key/x", None),
            ("none", None),
        ] {
            let opened = open_beneath(open_root(&root).unwrap(), Path::new(path));
            let inode = opened.ok().map(|opened| fstat(opened).unwrap().st_ino);
            let expected = leads_to.map(|path| fs::metadata(root.join(path)).unwrap().ino());
            assert_eq!(inode, expected, "{path}");
        }
    }

    #[test]
    fn missing_folders_are_made_within_a_volume_and_not_out_of_it() {
        let (folder, root) = volume();
        for path in ["a/b", "..data/c/d", "a/b"] {
            make_folders_beneath(&root, Path::new(path)).unwrap();
            let mode = fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o777, "{path}");
        }
        for path in ["out/x", "../outside/x", "/tmp/x", "key/x"] {
            assert!(make_folders_beneath(&root, Path::new(path)).is_err(), "{path}");
            assert!(write_new_beneath(&root, Path::new(path), b"x").is_err(), "{path}");
        }
        write_new_beneath(&root, Path::new("new/file"), b"first").unwrap();
        write_new_beneath(&root, Path::new("new/file"), b"second").unwrap();
        assert_eq!(fs::read_to_string(root.join("new/file")).unwrap(), "first");
        // A link to a file that is not there.
        symlink("../outside/x", root.join("dangling")).unwrap();
        write_new_beneath(&root, Path::new("dangling"), b"x").unwrap();
        assert_eq!(fs::read_dir(folder.path().join("outside")).unwrap().count(), 0);
    }
}
