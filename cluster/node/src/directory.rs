//! Files by relative path: the content of one volume of a pod that is not persistent. Those of an `emptyDir` may be stored
//! in a folder too, so that they outlive the process as they outlive their containers. It never reads a file twice.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The largest file that is read back: several times what containers of this process write, which copy Secrets and
/// ConfigMaps. Larger ones, pipes and sockets are a program's, which finds them on disk.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Files by relative path without a leading slash. Clones are the same directory.
#[derive(Clone, Default)]
pub(crate) struct Directory {
    files: Arc<RwLock<BTreeMap<String, Bytes>>>,
    folder: Option<Arc<Path>>,
    /// Held while the folder is written to, so that the folder has what the last writer wrote. Readers do not wait for it.
    writing: Arc<Mutex<()>>,
}

impl Directory {
    /// The directory that is stored in a folder. Nothing is made there before something is written.
    pub(crate) fn stored_in(folder: PathBuf) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        read_below(&folder, "", &mut files)?;
        Ok(Directory {
            files: Arc::new(RwLock::new(files)),
            folder: Some(folder.into()),
            writing: Arc::default(),
        })
    }

    /// Replaces all files in memory; for volumes of which the node is the only writer. Returns whether that changed any.
    pub(crate) fn replace(&self, files: BTreeMap<String, Bytes>) -> bool {
        let mut current = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let changed = *current != files;
        *current = files;
        changed
    }

    /// The folder, if it is stored in one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// All files by path.
    pub(crate) fn all(&self) -> BTreeMap<String, Bytes> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Bytes> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(path).cloned()
    }

    pub(crate) fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        let store = |folder: Option<&Path>| {
            if self.get(path).as_ref() == Some(&bytes) {
                return Ok(());
            }
            folder.map_or(Ok(()), |folder| write(folder, path, &bytes))?;
            let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
            files.insert(path.to_owned(), bytes.clone());
            Ok(())
        };
        self.exclusively(store)
    }

    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        self.exclusively(|folder| {
            if self.get(path).is_none() {
                return Ok(());
            }
            folder.map_or(Ok(()), |folder| fs::remove_file(folder.join(path)))?;
            let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
            files.remove(path);
            Ok(())
        })
    }

    /// Makes a change while no other change is made. A change in a folder waits for the disk, but other tasks of this thread
    /// do not, if the runtime has other threads.
    fn exclusively(&self, change: impl FnOnce(Option<&Path>) -> io::Result<()>) -> io::Result<()> {
        let change = || {
            let _guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            change(self.folder.as_deref())
        };
        let has_threads = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        if self.folder.is_some() && has_threads() {
            tokio::task::block_in_place(change)
        } else {
            change()
        }
    }

    pub(crate) fn names_below(&self, folder: &str) -> Vec<String> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        let mut names: Vec<String> = files
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix))
            .map(|rest| rest.split('/').next().unwrap_or(rest).to_owned())
            .collect();
        names.dedup();
        names
    }

    /// The paths of all files below a folder, in order, relative to it.
    pub(crate) fn paths_below(&self, folder: &str) -> Vec<String> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let prefix = if folder.is_empty() {
            String::new()
        } else {
            format!("{folder}/")
        };
        files
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }
}

impl fmt::Debug for Directory {
    // Never the content: most directories hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(files.keys()).finish()
    }
}

/// Makes a folder and those above it, for their owner alone.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file whole or not at all, for its owner alone. What is unfinished lies beside the directory, where no file
/// of it can be meant.
fn write(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<()> {
    if !Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        let why = format!("{path:?} is not a path inside its volume");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let target = folder.join(path);
    make_folder(target.parent().unwrap_or(folder))?;
    let unfinished = folder.with_extension("unfinished");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    io::Write::write_all(&mut file, bytes)?;
    // An empty file in the place of a full one would be worse than a lost one.
    file.sync_data()?;
    fs::rename(&unfinished, &target)
}

fn read_below(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Bytes>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // What this process has written has names that are text.
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            read_below(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && entry.metadata()?.len() <= FILE_BYTES_MAX {
            files.insert(path, fs::read(entry.path())?.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_directory_is_read_back_unchanged() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("pod").join("disk");
        let first = Directory::stored_in(folder.clone()).unwrap();
        assert!(!folder.exists(), "nothing is made for a volume without writes");
        first.put("etc/a", "one".into()).unwrap();
        first.put("etc/a", "two".into()).unwrap();
        first.put("b", "gone".into()).unwrap();
        first.remove("b").unwrap();
        first.remove("b").unwrap();
        let again = Directory::stored_in(folder.clone()).unwrap();
        assert_eq!(again.get("etc/a").unwrap(), "two");
        assert_eq!(again.paths_below(""), ["etc/a"]);
        assert_eq!(again.paths_below("etc"), ["a"]);
    }

    #[test]
    fn other_content_of_a_stored_directory_is_not_read_back() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("disk");
        make_folder(&folder).unwrap();
        fs::File::create(folder.join("large"))
            .unwrap()
            .set_len(FILE_BYTES_MAX + 1)
            .unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status()
            .unwrap();
        assert!(made.success());
        fs::write(folder.join("small"), "kept").unwrap();
        let directory = Directory::stored_in(folder.clone()).unwrap();
        assert_eq!(directory.paths_below(""), ["small"]);
        assert!(folder.join("large").exists());
    }

    #[test]
    fn no_file_leaves_its_volume() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::stored_in(root.path().join("v")).unwrap();
        for path in ["../a", "a/../../b", "/a"] {
            let error = directory.put(path, "x".into()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
            assert!(directory.get(path).is_none());
        }
    }

    /// A write whose disk does not answer before another task of the only thread has run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_a_write_waits_for_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("disk");
        let pipe = folder.with_extension("unfinished");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let directory = Directory::stored_in(folder).unwrap();
        // Opening a pipe to write waits for a reader; opening it for both does not wait.
        let writing = tokio::spawn(async move { directory.put("a", "b".into()).unwrap_err() });
        let read = |pipe: PathBuf| fs::File::options().read(true).write(true).open(pipe).unwrap();
        let (go_on, went_on) = std::sync::mpsc::channel();
        let freed = pipe.clone();
        let guard = std::thread::spawn(move || {
            let in_time = went_on.recv_timeout(std::time::Duration::from_secs(10));
            in_time.map_err(|_| read(freed))
        });
        let reading = tokio::spawn(async move { (read(pipe), go_on.send(())) });
        // A pipe cannot be synced.
        assert_eq!(writing.await.unwrap().kind(), io::ErrorKind::InvalidInput);
        assert!(guard.join().unwrap().is_ok(), "the thread stood still");
        drop(reading.await.unwrap());
    }
}
