//! The files of a chart's folder, without what `.helmignore` names. Links are followed, as Helm follows them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::File;
use super::archive::{CHART_BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, without_mark};
use super::ignore::{self, IgnoreError, Rules};

/// How deep folders may nest: a link may lead to a folder around it.
const FOLDER_DEPTH_MAX: usize = 32;

/// Why a folder is refused.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be read.
    #[error("error reading {path}: {why}")]
    Unreadable {
        /// Its path
        path: PathBuf,
        /// The error
        why: io::Error,
    },
    /// Its `.helmignore` is wrong.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    /// A device, a socket, a pipe.
    #[error("cannot load irregular file {0} as it has file mode type bits set")]
    Irregular(PathBuf),
    /// A file is larger than Helm allows.
    #[error("chart file {0:?} is larger than the maximum file size {FILE_BYTES_MAX}")]
    FileTooLarge(String),
    /// All files together are larger than an archive may be.
    #[error("chart is larger than the maximum size {CHART_BYTES_MAX}")]
    ChartTooLarge,
    /// More than [`FILES_MAX`] files.
    #[error("chart has more than {FILES_MAX} files")]
    TooManyFiles,
    /// Folders nest too deep, perhaps by a link.
    #[error("folders lie more than {FOLDER_DEPTH_MAX} deep in each other at {0}")]
    TooDeep(PathBuf),
}

/// The files of a folder in the order of their paths.
///
/// # Errors
/// A folder that Helm refuses, or that holds more than the limits allow.
pub fn files_of_folder(folder: &Path) -> Result<Vec<File>, FolderError> {
    let rules = match fs::read(folder.join(ignore::FILE)) {
        Ok(text) => Rules::read(&String::from_utf8_lossy(&text))?,
        Err(why) if why.kind() == io::ErrorKind::NotFound => Rules::read("")?,
        Err(why) => return Err(unreadable(&folder.join(ignore::FILE), why)),
    };
    let mut walk = Walk {
        rules,
        files: Vec::new(),
        bytes: 0,
    };
    walk.folder(folder, "", 0)?;
    Ok(walk.files)
}

fn unreadable(path: &Path, why: io::Error) -> FolderError {
    FolderError::Unreadable {
        path: path.to_owned(),
        why,
    }
}

struct Walk {
    rules: Rules,
    files: Vec<File>,
    bytes: u64,
}

impl Walk {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), FolderError> {
        if depth > FOLDER_DEPTH_MAX {
            return Err(FolderError::TooDeep(folder.to_owned()));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(|why| unreadable(folder, why))? {
            let entry = entry.map_err(|why| unreadable(folder, why))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
            if names.len() > FILES_MAX {
                return Err(FolderError::TooManyFiles);
            }
        }
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let metadata = fs::metadata(&path).map_err(|why| unreadable(&path, why))?;
            let name = format!("{prefix}{name}");
            if self.rules.ignore(&name, metadata.is_dir()) {
                continue;
            }
            if metadata.is_dir() {
                self.folder(&path, &format!("{name}/"), depth + 1)?;
            } else if metadata.is_file() {
                self.file(&path, name, metadata.len())?;
            } else {
                return Err(FolderError::Irregular(path));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, size: u64) -> Result<(), FolderError> {
        if size > FILE_BYTES_MAX {
            let base = name.rsplit('/').next().unwrap_or_default();
            return Err(FolderError::FileTooLarge(base.to_owned()));
        }
        self.bytes += size;
        if self.bytes > CHART_BYTES_MAX {
            return Err(FolderError::ChartTooLarge);
        }
        if self.files.len() >= FILES_MAX {
            return Err(FolderError::TooManyFiles);
        }
        let data = fs::read(path).map_err(|why| unreadable(path, why))?;
        self.files.push(File {
            name,
            data: without_mark(data).into(),
        });
        Ok(())
    }
}
