//! The folder of a real part: one that goes with its owner, or one that stays so that the part can be started on it again.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Outcome;

/// A folder of files and data.
pub enum Folder {
    /// Deleted when it is dropped.
    Temporary(TempDir),
    /// Left where it is.
    Lasting(PathBuf),
}

impl Folder {
    /// A new one in the machine's folder of temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn temporary(prefix: &str) -> Outcome<Self> {
        let made = tempfile::Builder::new().prefix(prefix).tempdir();
        made.map(Self::Temporary)
            .map_err(|error| format!("cannot make a temporary folder: {error}"))
    }

    /// This one, which is made when it is missing; only its owner may read it, since keys lie in it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn lasting(path: PathBuf) -> Outcome<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Self::Lasting(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Lasting(path) => path,
        }
    }
}
