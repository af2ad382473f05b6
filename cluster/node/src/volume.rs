//! Contents of persistent volumes: they outlive pods and containers and end with their PersistentVolume. Nothing here
//! reaches a disk.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

type Contents = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// The content of one persistent volume: at most one value per Rust type. Clones show the same content.
#[derive(Clone, Default)]
pub struct Volume {
    contents: Arc<Mutex<Contents>>,
}

impl Volume {
    /// An empty volume.
    pub fn new() -> Self {
        Self::default()
    }

    /// The volume's value of type `T`; the first caller's `init` makes it. `init` must not use the volume.
    pub fn get_or_init<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let value = contents.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(init()));
        Arc::clone(value)
            .downcast::<T>()
            .expect("values are filed under their own type")
    }

    /// Whether nothing has been written into it.
    pub fn is_empty(&self) -> bool {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("empty", &self.is_empty()).finish()
    }
}

/// All volumes that the nodes of a process can mount, by the uid of their PersistentVolume. Clones are the same set.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    by_uid: Arc<Mutex<BTreeMap<String, Volume>>>,
}

impl Volumes {
    /// No volumes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The volume of a PersistentVolume, and whether this call made it.
    pub(crate) fn open(&self, uid: &str) -> (Volume, bool) {
        let mut volumes = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(volume) = volumes.get(uid) {
            return (volume.clone(), false);
        }
        let volume = Volume::new();
        volumes.insert(uid.to_owned(), volume.clone());
        (volume, true)
    }

    /// Drops a volume: who mounts the uid again finds it empty. Containers that still hold it keep what they hold.
    pub(crate) fn forget(&self, uid: &str) {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// How many volumes have content kept for them.
    pub fn len(&self) -> usize {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is no volume at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_keeps_its_value_until_it_is_forgotten() {
        let volumes = Volumes::new();
        let first = volumes.open("uid").0.get_or_init(|| 1_u32);
        assert_eq!(*volumes.open("uid").0.get_or_init(|| 2_u32), *first);
        assert_eq!(*volumes.open("other").0.get_or_init(|| 3_u32), 3);
        volumes.forget("uid");
        assert_eq!(*volumes.open("uid").0.get_or_init(|| 2_u32), 2);
        assert_eq!(*first, 1, "who still holds the content keeps it");
    }
}
