//! A container's file system: its mounts and nothing else. Reading never touches the machine's disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use crate::Volume;
use crate::directory::Directory;

/// Why a file cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No such file, or nothing is mounted there.
    #[error("no file {0}")]
    Missing(String),
    /// The bytes are not UTF-8.
    #[error("{0} is not text")]
    NotText(String),
    /// Secrets, config maps and projections cannot be written, nor can a read-only mount.
    #[error("{0} is read-only")]
    ReadOnly(String),
    /// The disk behind the volume refused it.
    #[error("{path} cannot be changed: {why}")]
    Disk {
        /// The file.
        path: String,
        /// The error of the operating system.
        why: String,
    },
}

/// What one volume of a pod holds.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Files, by relative path without a leading slash.
    Files(Directory),
    /// A persistent volume.
    Claim(Volume),
}

/// One mount of a container.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The name of the volume in the pod.
    pub(crate) volume: String,
    /// Whether it is an `emptyDir`.
    pub(crate) scratch: bool,
    /// Absolute, without a trailing slash.
    pub(crate) path: String,
    /// The part of the volume that is mounted; empty for all of it.
    pub(crate) sub_path: String,
    pub(crate) writable: bool,
    pub(crate) content: Content,
}

/// What is mounted, for callers that write it to a disk.
#[derive(Clone, Debug)]
pub enum Mounted<'a> {
    /// Files of a Secret, a ConfigMap, a projection or the downward API as they are now, by path within the volume.
    Files(BTreeMap<String, Bytes>),
    /// An `emptyDir`.
    Scratch(Scratch<'a>),
    /// A persistent volume.
    Claim(&'a Volume),
}

/// An `emptyDir` of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Scratch<'a>(&'a Directory);

impl Scratch<'_> {
    /// Its folder, where it is stored in one. It is made by its first user.
    pub fn folder(&self) -> Option<&Path> {
        self.0.folder()
    }

    /// What containers of this process have put there.
    pub fn files(&self) -> BTreeMap<String, Bytes> {
        self.0.all()
    }
}

impl Mount {
    /// Where it is mounted: absolute, without a trailing slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name of the volume in the pod.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// The part of the volume that is mounted; empty for all of it.
    pub fn sub_path(&self) -> &str {
        &self.sub_path
    }

    /// Whether the container may write there.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// What is mounted.
    pub fn content(&self) -> Mounted<'_> {
        match &self.content {
            Content::Files(directory) if self.scratch => Mounted::Scratch(Scratch(directory)),
            Content::Files(directory) => Mounted::Files(directory.all()),
            Content::Claim(volume) => Mounted::Claim(volume),
        }
    }
}

/// The files of one container. Clones are the same files; mounted Secrets, ConfigMaps and tokens change under them.
#[derive(Clone, Debug)]
pub struct Files {
    mounts: Arc<[Mount]>,
    changes: watch::Receiver<u64>,
}

impl Files {
    /// Mounts are looked up by their longest matching path. `changes` counts how often a mounted source changed.
    pub(crate) fn new(mut mounts: Vec<Mount>, changes: watch::Receiver<u64>) -> Self {
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
        Files {
            mounts: mounts.into(),
            changes,
        }
    }

    /// The mounts, those with the longest paths first.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The bytes of a file, by absolute path.
    pub fn read(&self, path: &str) -> Result<Bytes, FileError> {
        let missing = || FileError::Missing(path.to_owned());
        let (mount, inside) = self.find(path).ok_or_else(missing)?;
        match &mount.content {
            Content::Files(directory) => directory.get(&inside).ok_or_else(missing),
            Content::Claim(_) => Err(missing()),
        }
    }

    /// A file as text.
    pub fn read_text(&self, path: &str) -> Result<String, FileError> {
        let bytes = self.read(path)?;
        String::from_utf8(bytes.into()).map_err(|_| FileError::NotText(path.to_owned()))
    }

    /// Writes a file into an `emptyDir`. It is there as long as its pod is, whatever becomes of the container.
    pub fn write(&self, path: &str, bytes: impl Into<Bytes>) -> Result<(), FileError> {
        let (directory, inside) = self.writable(path)?;
        let written = directory.put(&inside, bytes.into());
        written.map_err(|error| FileError::Disk {
            path: path.to_owned(),
            why: error.to_string(),
        })
    }

    /// Removes a file from an `emptyDir`; one that is not there is fine.
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        let (directory, inside) = self.writable(path)?;
        directory.remove(&inside).map_err(|error| FileError::Disk {
            path: path.to_owned(),
            why: error.to_string(),
        })
    }

    /// Whether files can be written below a path: it lies in an `emptyDir` that is not mounted read-only.
    pub fn is_writable(&self, path: &str) -> bool {
        self.writable(path).is_ok()
    }

    fn writable(&self, path: &str) -> Result<(&Directory, String), FileError> {
        let (mount, inside) = self.find(path).ok_or_else(|| FileError::Missing(path.to_owned()))?;
        match &mount.content {
            Content::Files(directory) if mount.writable => Ok((directory, inside)),
            _ => Err(FileError::ReadOnly(path.to_owned())),
        }
    }

    /// The names directly below a folder, in order; none when it does not exist.
    pub fn list(&self, folder: &str) -> Vec<String> {
        match self.find(folder) {
            Some((
                Mount {
                    content: Content::Files(directory),
                    ..
                },
                inside,
            )) => directory.names_below(&inside),
            _ => Vec::new(),
        }
    }

    /// The paths of all files below a folder, in order and relative to it; none when it does not exist.
    pub fn list_all(&self, folder: &str) -> Vec<String> {
        match self.find(folder) {
            Some((
                Mount {
                    content: Content::Files(directory),
                    ..
                },
                inside,
            )) => directory.paths_below(&inside),
            _ => Vec::new(),
        }
    }

    /// The persistent volume that is mounted at or above a path.
    pub fn volume(&self, path: &str) -> Option<Volume> {
        match self.find(path)?.0 {
            Mount {
                content: Content::Claim(volume),
                ..
            } => Some(volume.clone()),
            _ => None,
        }
    }

    /// Changes whenever a mounted Secret, ConfigMap or token has changed: wait on it instead of polling.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// The mount a path lies in, and the path inside its volume.
    fn find(&self, path: &str) -> Option<(&Mount, String)> {
        let path = path.trim_end_matches('/');
        self.mounts.iter().find_map(|mount| {
            let rest = path.strip_prefix(mount.path.as_str())?;
            if !rest.is_empty() && !rest.starts_with('/') {
                return None;
            }
            let rest = rest.trim_start_matches('/');
            let inside = match (mount.sub_path.is_empty(), rest.is_empty()) {
                (true, _) => rest.to_owned(),
                (false, true) => mount.sub_path.clone(),
                (false, false) => format!("{}/{rest}", mount.sub_path),
            };
            Some((mount, inside))
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn directory(files: &[(&str, &str)]) -> Content {
        let directory = Directory::default();
        directory.replace(
            files
                .iter()
                .map(|(p, c)| ((*p).to_owned(), Bytes::from((*c).to_owned())))
                .collect(),
        );
        Content::Files(directory)
    }

    fn mount(path: &str, sub_path: &str, writable: bool, content: Content) -> Mount {
        Mount {
            volume: "v".to_owned(),
            scratch: writable,
            path: path.to_owned(),
            sub_path: sub_path.to_owned(),
            writable,
            content,
        }
    }

    #[test]
    fn the_deepest_mount_is_read_and_never_one_whose_name_is_a_prefix() {
        let (_count, changes) = watch::channel(0);
        let files = Files::new(
            vec![
                mount("/etc", "", false, directory(&[("a", "outer"), ("ssl/b", "outer")])),
                mount("/etc/ssl", "", false, directory(&[("b", "inner")])),
                mount("/one/file", "ssl/b", false, directory(&[("ssl/b", "sub")])),
                mount("/tmp", "", true, directory(&[])),
                mount("/data", "", true, Content::Claim(Volume::default())),
            ],
            changes,
        );
        assert_eq!(files.read("/etc/a").unwrap(), "outer");
        assert_eq!(files.read_text("/etc/ssl/b").unwrap(), "inner");
        assert_eq!(files.read("/one/file").unwrap(), "sub");
        assert_eq!(files.read("/etcd"), Err(FileError::Missing("/etcd".into())));
        assert_eq!(files.list("/etc"), ["a", "ssl"]);
        assert_eq!(files.write("/etc/a", "x"), Err(FileError::ReadOnly("/etc/a".into())));
        files.write("/tmp/x/y", "z").unwrap();
        assert_eq!(files.list("/tmp/"), ["x"]);
        assert!(files.volume("/data/member").is_some());
        assert!(files.volume("/tmp").is_none());
    }
}
