//! Writing files into a folder. What is there already is never overwritten: then nothing is written at all.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use api_meta::Fault;

use crate::File;

/// The file with the exact versions of all crates.
const LOCK: &str = "Cargo.lock";

/// Writes the files into `folder`, which is made if it is not there; and beside them the SDK's lock file, so that the extension
/// is built from the same crates as the SDK, which are on this machine already.
///
/// # Errors
/// A file of that name is there already, or it cannot be written.
pub fn write(folder: &Path, files: &[File], sdk: &Path) -> Result<(), Fault> {
    let lock = fs::read_to_string(sdk.join(LOCK)).map(|text| File {
        path: LOCK.to_owned(),
        text,
    });
    let files: Vec<&File> = files.iter().chain(&lock).collect();
    let taken = files
        .iter()
        .map(|file| folder.join(&file.path))
        .find(|path| fs::symlink_metadata(path).is_ok());
    if let Some(taken) = taken {
        return Err(Fault::user(format!(
            "{} exists already, and nothing is overwritten",
            taken.display()
        ))
        .hint("name another folder with --path"));
    }
    files
        .iter()
        .try_for_each(|file| write_one(&folder.join(&file.path), &file.text))
}

fn write_one(path: &PathBuf, text: &str) -> Result<(), Fault> {
    let refused = |error: std::io::Error| {
        let hint = match error.kind() {
            ErrorKind::StorageFull => "make room on the disk",
            _ => "name a folder that you may write to with --path",
        };
        Fault::user(format!("cannot write {}: {error}", path.display())).hint(hint)
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(refused)?;
    }
    // Not if it has come meanwhile.
    let mut file = fs::File::create_new(path).map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_stay_and_then_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = |path: &str| File {
            path: path.to_owned(),
            text: "new".to_owned(),
        };
        let files = [file("a/b"), file("c")];
        fs::write(folder.path().join("c"), "old").unwrap();
        let fault = write(folder.path(), &files, Path::new("/nowhere")).unwrap_err();
        assert!(fault.to_string().contains("c exists already"), "{fault}");
        assert_eq!(fs::read_to_string(folder.path().join("c")).unwrap(), "old");
        assert!(!folder.path().join("a").exists());
        fs::remove_file(folder.path().join("c")).unwrap();
        fs::write(folder.path().join("mine"), "old").unwrap();
        write(folder.path(), &files, Path::new("/nowhere")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b")).unwrap(), "new");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let files = [File {
            path: "x".to_owned(),
            text: String::new(),
        }];
        let fault = write(&folder.path().join("file/below"), &files, Path::new("/nowhere")).unwrap_err();
        assert!(fault.to_string().contains("file/below"), "{fault}");
        assert!(fault.hint.contains("--path"));
    }
}
