//! Where a container's mounts go, decided before anything is mounted: links of the host resolved, missing mount points
//! found. Reads the host, changes nothing.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Folders of the container's own: nothing of the host is seen in them, and mount points can be made there.
pub(super) const FRESH: [&str; 4] = ["/dev", "/proc", "/run", "/tmp"];

/// As the kernel's `MAXSYMLINKS`.
const LINKS_MAX: usize = 40;

/// What stands at a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Folder,
    File,
    Link(PathBuf),
}

/// A mount with its place in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Without links.
    pub(super) source: PathBuf,
    /// Below the source, where programs may have written; see `beneath`.
    pub(super) sub_path: PathBuf,
    pub(super) folder: bool,
    pub(super) path: PathBuf,
    pub(super) writable: bool,
}

/// What is to be mounted, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Folders of the host that lack mount points: which, and whether each is for a folder.
    pub(super) skeletons: BTreeMap<PathBuf, Vec<(PathBuf, bool)>>,
    /// Folders of the host that are shown empty.
    pub(super) hidden: Vec<PathBuf>,
    /// Outer ones first.
    pub(super) volumes: Vec<Volume>,
}

/// Resolves and sorts. `host` returns what stands at a path of the host, without following a link at its end.
pub(super) fn plan(
    volumes: Vec<Volume>,
    hidden: Vec<PathBuf>,
    host: &dyn Fn(&Path) -> Option<Entry>,
) -> io::Result<Plan> {
    let hidden: Vec<PathBuf> = hidden
        .into_iter()
        .filter(|path| path != Path::new("/") && host(path) == Some(Entry::Folder))
        .filter(|path| !is_below(path, &own_folders()))
        .collect();
    let mut opaque = own_folders();
    opaque.extend(hidden.iter().cloned());
    let mut resolved = Vec::new();
    for volume in volumes {
        let path = resolve(&volume.path, &opaque, host)?;
        if path == Path::new("/") || path.starts_with("/proc") {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("nothing can be mounted at {}", path.display()),
            ));
        }
        resolved.push(Volume { path, ..volume });
    }
    // Stable: of two at one place the later one is seen.
    resolved.sort_by_key(|volume| volume.path.components().count());
    let mut skeletons: BTreeMap<PathBuf, Vec<(PathBuf, bool)>> = BTreeMap::new();
    for (index, volume) in resolved.iter().enumerate() {
        let in_another = resolved[..index]
            .iter()
            .any(|outer| volume.path.starts_with(&outer.path));
        if in_another || is_below(&volume.path, &opaque) || fits(host(&volume.path), volume.folder) {
            continue;
        }
        let above = volume
            .path
            .ancestors()
            .skip(1)
            .find(|path| host(path) == Some(Entry::Folder))
            .unwrap_or(Path::new("/"));
        // The container has a root folder of its own.
        if above != Path::new("/") {
            let missing = (volume.path.clone(), volume.folder);
            skeletons.entry(above.to_owned()).or_default().push(missing);
        }
    }
    Ok(Plan {
        skeletons,
        hidden,
        volumes: resolved,
    })
}

fn own_folders() -> Vec<PathBuf> {
    FRESH.iter().map(PathBuf::from).collect()
}

fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn fits(entry: Option<Entry>, folder: bool) -> bool {
    match entry {
        Some(Entry::Folder) => folder,
        Some(Entry::File) => !folder,
        Some(Entry::Link(_)) | None => false,
    }
}

/// Follows the host's links, as they could not be followed once the host's root is elsewhere.
fn resolve(path: &Path, opaque: &[PathBuf], host: &dyn Fn(&Path) -> Option<Entry>) -> io::Result<PathBuf> {
    if !path.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not absolute", path.display()),
        ));
    }
    let mut todo: VecDeque<OsString> = parts(path).collect();
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match host(&next) {
            Some(Entry::Link(target)) if !is_below(&next, opaque) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()));
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    todo.push_front(part);
                }
            }
            _ => at = next,
        }
    }
    Ok(at)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(path: &Path) -> Option<Entry> {
        match path.to_str().unwrap() {
            "/" | "/etc" | "/usr" | "/usr/lib" | "/var" | "/var/lib" | "/home" | "/home/me" | "/tmp" => {
                Some(Entry::Folder)
            }
            "/etc/hosts" => Some(Entry::File),
            "/var/run" => Some(Entry::Link("/run".into())),
            "/lib" => Some(Entry::Link("usr/lib".into())),
            "/loop" => Some(Entry::Link("/loop".into())),
            "/tmp/trap" => Some(Entry::Link("/etc".into())),
            _ => None,
        }
    }

    fn volume(path: &str, folder: bool) -> Volume {
        Volume {
            source: "/data".into(),
            sub_path: PathBuf::new(),
            folder,
            path: path.into(),
            writable: false,
        }
    }

    fn paths(plan: &Plan) -> Vec<&str> {
        plan.volumes
            .iter()
            .map(|volume| volume.path.to_str().unwrap())
            .collect()
    }

    #[test]
    fn links_are_followed_on_the_host_but_not_in_the_containers_folders() {
        let volumes = ["/var/run/secrets/a", "/lib/x", "/tmp/trap/y", "/etc/../opt"].map(|path| volume(path, true));
        let plan = plan(volumes.to_vec(), Vec::new(), &host).unwrap();
        assert_eq!(paths(&plan), ["/opt", "/run/secrets/a", "/usr/lib/x", "/tmp/trap/y"]);
    }

    #[test]
    fn a_skeleton_is_made_at_the_deepest_folder_that_exists() {
        let volumes = ["/etc/kubernetes/x", "/var/lib/a/b", "/data", "/run/z"].map(|path| volume(path, true));
        let plan = plan(volumes.to_vec(), Vec::new(), &host).unwrap();
        assert_eq!(
            plan.skeletons,
            BTreeMap::from([
                ("/etc".into(), vec![("/etc/kubernetes/x".into(), true)]),
                ("/var/lib".into(), vec![("/var/lib/a/b".into(), true)]),
            ])
        );
    }

    #[test]
    fn an_existing_mount_point_needs_a_skeleton_only_if_of_another_type() {
        let plan = plan(
            vec![volume("/etc/hosts", false), volume("/var/lib", true)],
            Vec::new(),
            &host,
        )
        .unwrap();
        assert!(plan.skeletons.is_empty());
        let plan = super::plan(vec![volume("/etc/hosts", true)], Vec::new(), &host).unwrap();
        assert_eq!(plan.skeletons.len(), 1);
    }

    #[test]
    fn mounts_inside_others_come_later_and_need_no_skeleton() {
        let volumes = vec![
            volume("/etc/a/b/c", true),
            volume("/etc/a", true),
            volume("/home/me/x", true),
        ];
        let plan = plan(volumes, vec!["/home/me".into(), "/nowhere".into()], &host).unwrap();
        assert_eq!(paths(&plan), ["/etc/a", "/home/me/x", "/etc/a/b/c"]);
        assert_eq!(plan.skeletons.keys().collect::<Vec<_>>(), [Path::new("/etc")]);
        assert_eq!(plan.skeletons[Path::new("/etc")].len(), 1);
        assert_eq!(plan.hidden, [PathBuf::from("/home/me")]);
    }

    #[test]
    fn relative_circular_and_impossible_paths_are_refused() {
        for path in ["etc", "/loop/x", "/", "/etc/..", "/proc/1"] {
            assert!(plan(vec![volume(path, true)], Vec::new(), &host).is_err(), "{path}");
        }
    }
}
