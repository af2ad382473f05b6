//! Builds a container's root in its own mount namespace: the host's folders read-only, folders of its own, volumes at
//! any path. Writes to memory only; the one exception is a mount point inside a volume, which is made in the volume.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind_recursive,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

use super::mounts::MountTable;
use super::root_plan::{self, Entry, Plan, Volume};
use super::{Done, dev};
use crate::beneath::{mount_point_beneath, open_beneath, open_root};
use crate::wire::{BuildRoot, During, Step};

/// The host's root, until the container's first process unmounts it.
pub(super) const OLD: &str = "/.old";
const SKELETONS: &str = "/.skeletons";

/// What of the host's /run is shown: on NixOS all programs are found through it.
const RUN_SHOWN: [&str; 2] = ["current-system", "wrappers"];

const SAFE: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// Looks up on the host what the container needs. Must run before namespaces are entered.
pub(super) fn plan(options: &BuildRoot) -> Done<Plan> {
    let mut volumes = Vec::new();
    for mount in &options.mounts {
        let (source, sub_path) = (Path::new(&mount.source), PathBuf::from(&mount.sub_path));
        let found = fs::canonicalize(source).and_then(|source| {
            let opened = open_beneath(open_root(&source)?, &sub_path)?;
            Ok((source, is_folder(&opened)?))
        });
        let shown = source.components().chain(sub_path.components()).collect::<PathBuf>();
        let (source, folder) = found.about(Step::Volume, shown.display())?;
        volumes.push(Volume {
            folder,
            source,
            sub_path,
            path: PathBuf::from(&mount.path),
            writable: mount.writable,
        });
    }
    let hidden = options
        .hidden
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    root_plan::plan(volumes, hidden, &on_host).during(Step::Volume)
}

fn on_host(path: &Path) -> Option<Entry> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    Some(if kind.is_symlink() {
        Entry::Link(fs::read_link(path).ok()?)
    } else if kind.is_dir() {
        Entry::Folder
    } else {
        Entry::File
    })
}

/// Changes the root of this mount namespace. The host's stays at [`OLD`].
pub(super) fn build(plan: &Plan) -> Done {
    pivot().during(Step::Root)?;
    show_host().during(Step::Root)?;
    for (name, mode) in [("/tmp", c"mode=1777"), ("/run", c"mode=755")] {
        make_folder(Path::new(name)).about(Step::Root, name)?;
        mount("tmpfs", name, "tmpfs", SAFE, mode).about(Step::Root, name)?;
    }
    for name in RUN_SHOWN {
        show_in_run(name).about(Step::Root, name)?;
    }
    dev::build().about(Step::Root, "/dev")?;
    make_folder(Path::new("/proc")).about(Step::Root, "/proc")?;
    add_skeletons(plan)?;
    for path in &plan.hidden {
        mount("tmpfs", path, "tmpfs", SAFE, c"mode=755").about(Step::Root, path.display())?;
    }
    let mut placed: Vec<Placed<'_>> = Vec::new();
    for volume in &plan.volumes {
        let outer = placed
            .iter()
            .rev()
            .find(|outer| volume.path.starts_with(&outer.volume.path));
        let root = add_volume(volume, outer).about(Step::Volume, volume.path.display())?;
        placed.push(Placed { volume, root });
    }
    make_read_only(plan, &placed).during(Step::Root)
}

/// Makes an empty root in memory and puts the host's below it.
fn pivot() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let place = ["/tmp", "/run", "/mnt", "/dev"]
        .into_iter()
        .find(|path| Path::new(path).is_dir())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no folder to build in"))?;
    mount("tmpfs", place, "tmpfs", SAFE, c"mode=755")?;
    let old = format!("{place}{OLD}");
    fs::create_dir(&old)?;
    rustix::process::pivot_root(place, old.as_str())?;
    std::env::set_current_dir("/")
}

/// Binds the host's folders, with what is mounted in them; links are copied, single files are left out.
fn show_host() -> io::Result<()> {
    for entry in fs::read_dir(OLD)? {
        let entry = entry?;
        let (from, to) = (entry.path(), Path::new("/").join(entry.file_name()));
        let kind = entry.file_type()?;
        if root_plan::FRESH.iter().any(|own| Path::new(own) == to) {
            continue;
        }
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            mount_bind_recursive(&from, &to)?;
        }
    }
    Ok(())
}

fn show_in_run(name: &str) -> io::Result<()> {
    let (from, to) = (Path::new(OLD).join("run").join(name), Path::new("/run").join(name));
    match fs::symlink_metadata(&from) {
        Ok(found) if found.is_symlink() => std::os::unix::fs::symlink(fs::read_link(&from)?, to),
        Ok(found) if found.is_dir() => {
            fs::create_dir(&to)?;
            Ok(mount_bind_recursive(&from, &to)?)
        }
        _ => Ok(()),
    }
}

/// Makes mount points that the host does not have, in a layer above the host's folder.
fn add_skeletons(plan: &Plan) -> Done {
    if plan.skeletons.is_empty() {
        return Ok(());
    }
    make_folder(Path::new(SKELETONS)).during(Step::Root)?;
    mount("tmpfs", SKELETONS, "tmpfs", SAFE, c"mode=755").during(Step::Root)?;
    for (number, (above, missing)) in plan.skeletons.iter().enumerate() {
        let layer = PathBuf::from(format!("{SKELETONS}/{number}"));
        make_folder(&layer).during(Step::Root)?;
        for (path, folder) in missing {
            let below = path.strip_prefix(above).unwrap_or(path);
            make_mount_point(&layer.join(below), *folder).about(Step::Root, path.display())?;
        }
        if overlay(&layer, above).is_err() {
            copy_as_binds(&layer, above).about(Step::Root, above.display())?;
        }
    }
    // The overlays hold what they need of it.
    unmount(SKELETONS, UnmountFlags::DETACH).during(Step::Root)?;
    fs::remove_dir(SKELETONS).during(Step::Root)
}

/// Does not work without root before Linux 5.11, nor above folders in which the host has mounts.
fn overlay(layer: &Path, above: &Path) -> io::Result<()> {
    let below = under_old(above);
    let special = |path: &Path| path.as_os_str().as_bytes().iter().any(|byte| b":,\\".contains(byte));
    if special(&below) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut data = b"lowerdir=".to_vec();
    data.extend_from_slice(layer.as_os_str().as_bytes());
    data.push(b':');
    data.extend_from_slice(below.as_os_str().as_bytes());
    let data = CString::new(data)?;
    mount("overlay", above, "overlay", MountFlags::RDONLY | SAFE, data.as_c_str())?;
    Ok(())
}

/// What an overlay would show, one mount for each entry of the host's folder.
fn copy_as_binds(layer: &Path, above: &Path) -> io::Result<()> {
    let below = under_old(above);
    mount("tmpfs", above, "tmpfs", SAFE, c"mode=755")?;
    for source in [layer, below.as_path()] {
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            let (from, to) = (entry.path(), above.join(entry.file_name()));
            let made_before = to.symlink_metadata().is_ok();
            let kind = entry.file_type()?;
            if source == layer {
                copy_tree(&from, &to)?;
            } else if made_before {
                // Both have it: what the host has beside the mount point is not shown.
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
            } else {
                make_mount_point(&to, kind.is_dir())?;
                mount_bind_recursive(&from, &to)?;
            }
        }
    }
    Ok(())
}

/// Folders and empty files.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return make_mount_point(to, false);
    }
    make_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A volume that is mounted. Only its open root is certain to be it: in another volume, programs may move the folder it is
/// mounted at, and put a link in its place.
struct Placed<'a> {
    volume: &'a Volume,
    root: OwnedFd,
}

/// Mounts a volume, and returns its root there.
fn add_volume(volume: &Volume, outer: Option<&Placed<'_>>) -> io::Result<OwnedFd> {
    let point = match outer {
        Some(outer) => {
            let below = volume.path.strip_prefix(&outer.volume.path).unwrap_or(&volume.path);
            mount_point_beneath(&outer.root, below, volume.folder)?
        }
        None => {
            let there = fs::metadata(&volume.path);
            if !there.is_ok_and(|there| there.is_dir() == volume.folder) {
                make_mount_point(&volume.path, volume.folder)?;
            }
            open_root(&volume.path)?
        }
    };
    if is_folder(&point)? != volume.folder {
        return Err(rustix::io::Errno::NOTDIR.into());
    }
    // What was looked up before may have been replaced by another program since: it is looked up in this mount namespace, and
    // what was opened is mounted.
    let source = open_beneath(open_root(&under_old(&volume.source))?, &volume.sub_path)?;
    let how = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let root = open_tree(&source, "", how | OpenTreeFlags::AT_EMPTY_PATH)?;
    let both_open = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&root, "", &point, "", both_open)?;
    Ok(root)
}

fn is_folder(file: &OwnedFd) -> io::Result<bool> {
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    Ok(kind == rustix::fs::FileType::Directory)
}

/// The path that leads to an open file itself, whatever stands at its path by now.
fn path_of(file: &OwnedFd) -> String {
    format!("{OLD}/proc/self/fd/{}", file.as_raw_fd())
}

/// The number of the mount that an open file is in, as in `mountinfo`.
fn mount_of(file: &OwnedFd) -> io::Result<u64> {
    let text = fs::read_to_string(format!("{OLD}/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "an open file without the number of its mount",
        )
    })
}

fn make_mount_point(path: &Path, folder: bool) -> io::Result<()> {
    if folder {
        return make_folder(path);
    }
    if let Some(above) = path.parent() {
        make_folder(above)?;
    }
    fs::OpenOptions::new().create(true).append(true).open(path).map(drop)
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn under_old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Makes every mount read-only that is not meant to be written to, one by one: a flag does not reach the mounts below.
fn make_read_only(plan: &Plan, placed: &[Placed<'_>]) -> io::Result<()> {
    let declared = declared(plan, placed);
    let volumes: BTreeMap<u64, &Placed<'_>> = placed
        .iter()
        .map(|placed| Ok((mount_of(&placed.root)?, placed)))
        .collect::<io::Result<_>>()?;
    let table = MountTable::read(&Path::new(OLD).join("proc"))?;
    for mounted in table.mounts() {
        let path = mounted.path.as_path();
        let volume = table
            .chain(mounted)
            .find_map(|mount| Some((mount, *volumes.get(&mount.number)?)));
        let writable = match volume {
            Some((_, placed)) => placed.volume.writable,
            None => declared
                .iter()
                .filter(|(above, _)| path.starts_with(above))
                .max_by_key(|(above, _)| above.components().count())
                .is_some_and(|(_, writable)| *writable),
        };
        let is_read_only = mounted.options.contains(MountFlags::RDONLY);
        // The root itself is changed last, by the first process.
        if writable || path == Path::new("/") || path.starts_with(OLD) || is_read_only || table.is_covered(mounted) {
            continue;
        }
        let root = match volume {
            // Looked up from the volume's root: programs may move the folder that the volume is mounted at.
            Some((mount, placed)) => {
                let below = path.strip_prefix(&mount.path).unwrap_or(path);
                open_beneath(placed.root.try_clone()?, below)?
            }
            None => open_root(path)?,
        };
        if mount_of(&root)? != mounted.number {
            return Err(io::Error::other(format!(
                "what is mounted at {} has moved",
                path.display()
            )));
        }
        let place = path_of(&root);
        // Flags that a mount has cannot be dropped here; the times of access stay as they are by themselves.
        let flags = MountFlags::BIND | MountFlags::RDONLY | mounted.options;
        if mount_remount(&place, flags, "").is_err() {
            // Better an empty folder than one that can be written to.
            mount("tmpfs", &place, "tmpfs", MountFlags::RDONLY | SAFE, None)?;
        }
    }
    Ok(())
}

/// Whether what is mounted at a path or below is writable. For mounts that are in no volume: those of a volume are known by
/// their numbers, and only what a volume hides is found by the volume's path.
fn declared<'a>(plan: &'a Plan, placed: &'a [Placed<'_>]) -> Vec<(&'a Path, bool)> {
    let mut declared: Vec<(&Path, bool)> = ["/tmp", "/run", "/dev"].map(|path| (Path::new(path), true)).into();
    declared.extend(RUN_SHOWN.map(|name| match name {
        "wrappers" => (Path::new("/run/wrappers"), false),
        _ => (Path::new("/run/current-system"), false),
    }));
    declared.extend(plan.hidden.iter().map(|path| (path.as_path(), false)));
    let volumes = placed.iter().map(|placed| placed.volume);
    declared.extend(volumes.map(|volume| (volume.path.as_path(), volume.writable)));
    declared
}
