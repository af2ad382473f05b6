//! What the containers of one pod share: its folder, with its volumes in it, and its namespaces. They end with the pod on
//! this node.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::sandbox::Sandbox;
use crate::volume_folder::VolumeFolder;

/// One pod.
#[derive(Debug)]
pub(crate) struct Pod {
    folder: PathBuf,
    /// Volumes of which the node is the only writer, by name.
    pub(crate) volumes: Mutex<BTreeMap<String, VolumeFolder>>,
    /// Created by the first container that needs them.
    pub(crate) sandbox: tokio::sync::Mutex<Option<Arc<Sandbox>>>,
}

impl Pod {
    /// A pod whose folder is not there yet.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Pod {
            folder,
            volumes: Mutex::default(),
            sandbox: tokio::sync::Mutex::default(),
        }
    }

    /// The folder of a volume that is stored nowhere else.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.folder.join("volumes").join(name)
    }

    /// The folder of the pod's files of /etc.
    pub(crate) fn etc(&self) -> PathBuf {
        self.folder.join("etc")
    }

    /// The folder of one container.
    pub(crate) fn container(&self, name: &str) -> PathBuf {
        self.folder.join("containers").join(name)
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Removes a folder that a program may have filled.
pub(crate) fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), %error, "a folder of programs was not removed");
        }
        _ => {}
    }
}
