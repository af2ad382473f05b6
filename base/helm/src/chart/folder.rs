//! The files of a chart's folder, without what `.helmignore` names. Links are followed, as Helm follows them.

use std::fs;
use std::io::{self, Read};
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
    let rules = match content(&folder.join(ignore::FILE)) {
        Err(FolderError::Unreadable { why, .. }) if why.kind() == io::ErrorKind::NotFound => Rules::read("")?,
        text => Rules::read(&String::from_utf8_lossy(&text?))?,
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

/// What a file holds.
fn content(path: &Path) -> Result<Vec<u8>, FolderError> {
    let data = fs::File::open(path).and_then(bounded);
    data.map_err(|why| unreadable(path, why))?.ok_or_else(|| {
        let base = path.file_name().unwrap_or_default().to_string_lossy();
        FolderError::FileTooLarge(base.into_owned())
    })
}

/// Reads to the end, unless that is beyond the limit. The size that the system reports decides nothing: a file may grow, and
/// those of /proc have none.
fn bounded(file: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut data = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut data)?;
    Ok((data.len() as u64 <= FILE_BYTES_MAX).then_some(data))
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
                self.file(&path, name)?;
            } else {
                return Err(FolderError::Irregular(path));
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String) -> Result<(), FolderError> {
        if self.files.len() >= FILES_MAX {
            return Err(FolderError::TooManyFiles);
        }
        let data = content(path)?;
        self.bytes += data.len() as u64;
        if self.bytes > CHART_BYTES_MAX {
            return Err(FolderError::ChartTooLarge);
        }
        self.files.push(File {
            name,
            data: without_mark(data).into(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        assert_eq!(bounded(io::repeat(0)).unwrap(), None);
        let all = bounded(io::repeat(0).take(FILE_BYTES_MAX)).unwrap();
        assert_eq!(all.map(|data| data.len() as u64), Some(FILE_BYTES_MAX));
    }
}
