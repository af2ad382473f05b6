//! Files of the data folder: written whole or not at all, for their owner alone, and what to do when that fails. It knows
//! nothing of what is in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use api_meta::Fault;

/// What to do about a folder that cannot be used.
const CHOOSE_ANOTHER: &str = "name a folder that you may write to with --data-dir";

/// The fault of a data folder that cannot be used. `doing`: what was tried, as in `write`.
#[must_use]
pub fn unusable(doing: &str, path: &Path, error: &io::Error) -> Fault {
    let whose = somebody_elses(path, error).unwrap_or_default();
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space there, or name another folder with --data-dir"
        }
        _ if !whose.is_empty() => "run it as that user, or name a folder of your own with --data-dir",
        _ => CHOOSE_ANOTHER,
    };
    Fault::user(format!("cannot {doing} {}: {error}{whose}", path.display())).hint(hint)
}

/// Where rights are missing because the file, or the folder that it would stand in, is another user's: a half sentence
/// that says so.
pub(crate) fn somebody_elses(path: &Path, error: &io::Error) -> Option<String> {
    if error.kind() != ErrorKind::PermissionDenied {
        return None;
    }
    // `a` stands in `.`, whose name as a parent is empty.
    let name = |path: &Path| {
        if path == Path::new("") {
            ".".into()
        } else {
            path.to_owned()
        }
    };
    let (path, owner) = path.ancestors().map(name).find_map(|path| {
        let owner = fs::metadata(&path).ok()?.uid();
        Some((path, owner))
    })?;
    let own = fs::metadata("/proc/self").ok()?.uid();
    (owner != own).then(|| {
        format!(
            "; {} belongs to user {owner}, and this process is of user {own}",
            path.display()
        )
    })
}

/// A path that means the same to another terminal, which may stand in another folder.
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Makes a folder for its owner alone, and those above it.
///
/// # Errors
/// Something else is there, or it cannot be made.
pub fn make(what: &str, folder: &Path) -> Result<(), Fault> {
    if folder.exists() && !folder.is_dir() {
        return Err(Fault::user(format!("{what} {} is a file", folder.display())).hint(CHOOSE_ANOTHER));
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| unusable(&format!("create {what}"), folder, &error))
}

/// Locks a data folder as long as the returned file is open: a second process would write its kubeconfigs over ours.
/// `command`: how the error of that process describes this one.
///
/// # Errors
/// Another process has it, or it cannot be locked.
pub fn take(folder: &Path, command: &str) -> Result<File, Fault> {
    let path = folder.join("lock");
    let wrong = |error: io::Error| unusable("lock", &path, &error);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(wrong)?;
    match file.try_lock() {
        Ok(()) => {
            // What stands there is for people; without it, the lock holds as well.
            let _ = file.set_len(0).and_then(|()| file.write_all(command.as_bytes()));
            Ok(file)
        }
        Err(fs::TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = Some(holder.trim()).filter(|holder| !holder.is_empty()).unwrap_or("up");
            Err(Fault::user(format!(
                "the data folder {} is in use by another `orangery {holder}`",
                folder.display()
            ))
            .hint("end that one, or name another folder with --data-dir"))
        }
        Err(fs::TryLockError::Error(error)) => Err(wrong(error)),
    }
}

/// Writes a file that only its owner can read. Once this has returned, it is there after a power cut too.
///
/// # Errors
/// It cannot be written; then what was there is there still.
pub fn write(path: &Path, text: &str) -> Result<(), Fault> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| match path.parent() {
            Some(folder) if folder != Path::new("") => File::open(folder)?.sync_all(),
            _ => Ok(()),
        });
    written.map_err(|error| unusable("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_serves_one_process_at_a_time_and_reports_which() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), "apiserver").unwrap();
        let refusal = take(folder.path(), "up").unwrap_err().to_string();
        assert!(refusal.ends_with("in use by another `orangery apiserver`"), "{refusal}");
        drop(first);
        take(folder.path(), "up").unwrap();
    }

    #[test]
    fn a_full_disk_is_no_matter_of_rights() {
        let path = Path::new("d/lock");
        for (kind, hint) in [
            (
                ErrorKind::StorageFull,
                "free some space there, or name another folder with --data-dir",
            ),
            (
                ErrorKind::ReadOnlyFilesystem,
                "name a folder that you may write to with --data-dir",
            ),
        ] {
            let fault = unusable("lock", path, &kind.into());
            assert!(fault.to_string().starts_with("cannot lock d/lock: "), "{fault}");
            assert_eq!(fault.hint, hint);
        }
    }
}
