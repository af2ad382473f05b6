//! What outlives containers: persistent volumes, which end with their PersistentVolume, and the `emptyDir`s of pods,
//! which end with their pod. In memory, or in a folder so that they outlive the process too; then what a persistent
//! volume holds is its user's to write, at its path.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::directory::{Directory, make_folder};

/// The folder of persistent volumes, by the uid of their PersistentVolume.
const PERSISTENT: &str = "persistent";
/// The folder of `emptyDir`s, by node, uid of the pod and name of the volume.
const PODS: &str = "pods";

type Contents = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// One persistent volume: at most one value in memory per Rust type, and a path if it is stored in a folder. Clones show
/// the same content.
#[derive(Clone, Default)]
pub struct Volume {
    contents: Arc<Mutex<Contents>>,
    path: Option<Arc<Path>>,
}

impl Volume {
    fn at(path: Option<PathBuf>) -> Self {
        Volume {
            contents: Arc::default(),
            path: path.map(Arc::from),
        }
    }

    /// The volume's value of type `T`; the first caller's `init` makes it. `init` must not use the volume.
    pub fn get_or_init<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        let mut contents = self.lock();
        let value = contents.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(init()));
        Arc::clone(value)
            .downcast::<T>()
            .expect("values are filed under their own type")
    }

    /// The folder for its files, which its first user makes; none of a volume in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether nothing in memory belongs to it.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("path", &self.path)
            .field("empty", &self.is_empty())
            .finish()
    }
}

/// What the nodes of one cluster can mount, and no other cluster's: its nodes drop what their API does not know. Clones
/// are the same set.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    stored: Arc<Mutex<Stored>>,
    folder: Option<Arc<Path>>,
}

#[derive(Debug, Default)]
struct Stored {
    persistent: BTreeMap<String, Volume>,
    /// By node and uid of the pod.
    pods: BTreeMap<(String, String), BTreeMap<String, Directory>>,
}

impl Volumes {
    /// No volumes; new ones are stored in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The volumes that are stored in a folder, which is made when it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let (persistent, pods) = (folder.join(PERSISTENT), folder.join(PODS));
        make_folder(&persistent)?;
        make_folder(&pods)?;
        let mut stored = Stored::default();
        for uid in folders_in(&persistent)? {
            let path = persistent.join(&uid);
            stored.persistent.insert(uid, Volume::at(Some(path)));
        }
        for node in folders_in(&pods)? {
            for uid in folders_in(&pods.join(&node))? {
                stored.pods.insert((node.clone(), uid), BTreeMap::new());
            }
        }
        Ok(Volumes {
            stored: Arc::new(Mutex::new(stored)),
            folder: Some(folder.into()),
        })
    }

    /// The volume of a PersistentVolume.
    pub(crate) fn open(&self, uid: &str) -> Volume {
        let path = || self.folder.as_ref().map(|folder| folder.join(PERSISTENT).join(uid));
        let mut stored = self.lock();
        let volume = stored.persistent.entry(uid.to_owned());
        volume.or_insert_with(|| Volume::at(path())).clone()
    }

    /// The uids of all PersistentVolumes with a volume here.
    pub(crate) fn persistent(&self) -> Vec<String> {
        self.lock().persistent.keys().cloned().collect()
    }

    /// Drops a volume and what is in its folder: a pod that mounts the uid again finds it empty. Containers that still
    /// hold it keep what they hold.
    pub(crate) fn forget(&self, uid: &str) {
        if let Some(volume) = self.lock().persistent.remove(uid) {
            volume.lock().clear();
        }
        if let Some(folder) = &self.folder {
            remove(&folder.join(PERSISTENT).join(uid));
        }
    }

    /// An `emptyDir` of a pod on a node.
    ///
    /// # Errors
    /// Its folder cannot be read.
    pub(crate) fn scratch(&self, node: &str, pod: &str, name: &str) -> io::Result<Directory> {
        let mut stored = self.lock();
        let of_pod = stored.pods.entry((node.to_owned(), pod.to_owned())).or_default();
        if let Some(directory) = of_pod.get(name) {
            return Ok(directory.clone());
        }
        let directory = match &self.folder {
            Some(folder) => Directory::stored_in(folder.join(PODS).join(node).join(pod).join(name))?,
            None => Directory::default(),
        };
        of_pod.insert(name.to_owned(), directory.clone());
        Ok(directory)
    }

    /// The uids of all pods of a node with an `emptyDir` here.
    pub(crate) fn pods_of(&self, node: &str) -> Vec<String> {
        let stored = self.lock();
        let of_node = stored.pods.keys().filter(|(of, _)| of == node);
        of_node.map(|(_, uid)| uid.clone()).collect()
    }

    /// Drops the `emptyDir`s of a pod.
    pub(crate) fn forget_pod(&self, node: &str, pod: &str) {
        let known = self.lock().pods.remove(&(node.to_owned(), pod.to_owned()));
        if let (Some(_), Some(folder)) = (known, &self.folder) {
            remove(&folder.join(PODS).join(node).join(pod));
        }
    }

    /// How many persistent volumes are stored.
    pub fn len(&self) -> usize {
        self.lock().persistent.len()
    }

    /// Whether there is no persistent volume at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a folder. What stays is removed when the volumes are opened the next time and no volume uses it.
fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "the folder of a volume that is gone was not removed");
        }
        _ => {}
    }
}

/// The names of the folders in a folder. Other entries are ignored.
fn folders_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_keeps_its_value_until_it_is_forgotten() {
        let volumes = Volumes::new();
        let first = volumes.open("uid").get_or_init(|| 1_u32);
        assert_eq!(*volumes.open("uid").get_or_init(|| 2_u32), *first);
        assert_eq!(*volumes.open("other").get_or_init(|| 3_u32), 3);
        volumes.forget("uid");
        assert_eq!(*volumes.open("uid").get_or_init(|| 2_u32), 2);
        assert_eq!(*first, 1, "who still holds the content keeps it");
    }

    #[test]
    fn volumes_in_a_folder_are_found_again_and_leave_nothing_once_forgotten() {
        let root = tempfile::tempdir().unwrap();
        let volumes = Volumes::in_folder(root.path()).unwrap();
        let path = volumes.open("uid").path().unwrap().to_owned();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("data"), "kept").unwrap();
        let disk = volumes.scratch("node", "pod", "disk").unwrap();
        disk.put("a/b", "kept".into()).unwrap();

        let volumes = Volumes::in_folder(root.path()).unwrap();
        assert_eq!(
            (volumes.persistent(), volumes.pods_of("node")),
            (vec!["uid".into()], vec!["pod".into()])
        );
        assert!(volumes.pods_of("other").is_empty());
        assert_eq!(volumes.open("uid").path(), Some(&*path));
        let disk = volumes.scratch("node", "pod", "disk").unwrap();
        assert_eq!(disk.get("a/b").unwrap(), "kept");

        volumes.forget("uid");
        volumes.forget_pod("node", "pod");
        assert!(!path.exists());
        let volumes = Volumes::in_folder(root.path()).unwrap();
        assert!(volumes.is_empty() && volumes.pods_of("node").is_empty());
    }
}
