//! Which format a state's folder is in: the first file to be written there and the first to be read. It opens nothing
//! else.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use api_meta::Fault;
use serde::{Deserialize, Serialize};

use super::damaged;
use crate::folder;

/// The file.
const FILE: &str = "format";
/// The format that this program reads and writes. What an older program would misread gets another number.
/// 2: the local provider is installed by its chart; what format 1 holds of it is of another operator.
const NUMBER: u64 = 2;
/// This program's version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Deserialize, Serialize)]
struct Format {
    /// The number of the format.
    format: u64,
    /// The version of the program that began the folder; for people.
    version: String,
}

/// Whether there is a state.
#[must_use]
pub fn is_in(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Refuses a folder that this program cannot read, and marks an empty one as its own.
///
/// # Errors
/// It is of another format, is damaged, or cannot be read or written. It is left as it was.
pub fn check(folder: &Path) -> Result<(), Fault> {
    let path = folder.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return begin(folder, &path),
        Err(error) if error.kind() == ErrorKind::InvalidData => return Err(not_ours(&path, "it is not text")),
        Err(error) => return Err(folder::unusable("read", &path, &error)),
    };
    let found: Format = serde_json::from_str(&text).map_err(|error| not_ours(&path, &error.to_string()))?;
    if found.format != NUMBER {
        let shown = format!("{}, written by orangery {}", found.format, found.version);
        return Err(other(&path, "format", &shown, &NUMBER.to_string()));
    }
    Ok(())
}

fn begin(folder: &Path, path: &Path) -> Result<(), Fault> {
    let mut entries = fs::read_dir(folder).map_err(|error| folder::unusable("read", folder, &error))?;
    let foreign = entries.find_map(|entry| {
        let name = entry.ok()?.file_name().to_string_lossy().into_owned();
        // Left by a process that was killed as it began.
        (name != format!("{FILE}.new")).then_some(name)
    });
    if let Some(name) = foreign {
        return Err(damaged(
            path,
            &format!("it is missing beside {name:?}"),
            "the state's format",
        ));
    }
    let ours = Format {
        format: NUMBER,
        version: VERSION.to_owned(),
    };
    let text = serde_json::to_string(&ours).map_err(|error| Fault::bug(error.to_string()))?;
    folder::write(path, &format!("{text}\n"))
}

fn not_ours(path: &Path, found: &str) -> Fault {
    damaged(path, found, &format!("{{\"format\":{NUMBER},\"version\":\"...\"}}"))
}

/// A file that another version of the program wrote.
pub(super) fn other(path: &Path, what: &str, found: &str, expected: &str) -> Fault {
    Fault::user(format!(
        "{} has {what} {found}; orangery {VERSION} reads {expected}",
        path.display()
    ))
    .hint("use a version of orangery that reads it, or name another folder with --data-dir")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_becomes_ours_and_stays_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_in(folder.path()));
        fs::write(folder.path().join("format.new"), "{").unwrap();
        for _ in 0..2 {
            check(folder.path()).unwrap();
        }
        assert!(is_in(folder.path()));
    }

    #[test]
    fn foreign_or_damaged_folder_is_refused_and_left_alone() {
        for (file, text, expected) in [
            (
                "format",
                "{\"format\":3,\"version\":\"9.1.0\"}",
                "format 3, written by orangery 9.1.0",
            ),
            (
                "format",
                "{\"format\":1,\"version\":\"0.1.0\"}",
                "format 1, written by orangery 0.1.0",
            ),
            ("format", "", "is damaged"),
            ("format", "{\"format\":2", "is damaged"),
            ("garden", "", "it is missing beside \"garden\""),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(file), text).unwrap();
            let fault = check(folder.path()).unwrap_err();
            assert!(fault.to_string().contains(expected), "{fault}");
            assert!(fault.to_string().contains(&*folder.path().to_string_lossy()), "{fault}");
            assert!(fault.hint.contains("--data-dir"), "{}", fault.hint);
            assert_eq!(fs::read_to_string(folder.path().join(file)).unwrap(), text);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
