//! Writing files into a folder. What is there already is never overwritten, and after an error nothing of the extension is
//! left: all is written or nothing.

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
/// A file of that name is there already, or one cannot be written: then those before it are removed.
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
    let mut made = Made::default();
    let written = files
        .iter()
        .try_for_each(|file| made.write(&folder.join(&file.path), &file.text));
    if written.is_err() {
        made.remove();
    }
    written
}

/// What has been made, in order.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    fn write(&mut self, path: &Path, text: &str) -> Result<(), Fault> {
        let refused = |error: std::io::Error| {
            let hint = match error.kind() {
                ErrorKind::StorageFull => "make room on the disk",
                _ => "name a folder that you may write to with --path",
            };
            Fault::user(format!("cannot write {}: {error}", path.display())).hint(hint)
        };
        if let Some(folder) = path.parent() {
            self.make_folder(folder).map_err(refused)?;
        }
        // Not if it has come meanwhile.
        let mut file = fs::File::create_new(path).map_err(refused)?;
        self.0.push(path.to_owned());
        file.write_all(text.as_bytes()).map_err(refused)
    }

    fn make_folder(&mut self, folder: &Path) -> std::io::Result<()> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.is_dir();
        let missing: Vec<&Path> = folder.ancestors().take_while(missing).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.0.push(folder.to_owned());
        }
        Ok(())
    }

    /// Removes all of it, apart from folders that others have written into.
    fn remove(self) {
        for path in self.0.into_iter().rev() {
            // What cannot be removed stays: the error that led here is the one to report.
            let _ = match path.is_dir() {
                true => fs::remove_dir(&path),
                false => fs::remove_file(&path),
            };
        }
    }
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
    fn after_an_error_in_the_middle_nothing_of_the_extension_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/mine"), "old").unwrap();
        fs::write(folder.path().join("taken"), "a file where a folder is to be").unwrap();
        let files = ["a/x", "b/c/y", "z", "taken/w"].map(|path| File {
            path: path.to_owned(),
            text: "new".to_owned(),
        });
        let fault = write(folder.path(), &files, Path::new("/nowhere")).unwrap_err();
        assert!(fault.to_string().contains("taken/w"), "{fault}");
        for gone in ["a/x", "b", "z"] {
            assert!(!folder.path().join(gone).exists(), "{gone}");
        }
        assert_eq!(fs::read_to_string(folder.path().join("a/mine")).unwrap(), "old");
        let new = folder.path().join("new");
        let fault = write(&new, &[files[1].clone(), files[1].clone()], Path::new("/nowhere")).unwrap_err();
        assert!(fault.to_string().contains("b/c/y") && !new.exists(), "{fault}");
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
