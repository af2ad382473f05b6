//! The file in which a program leaves why it ended, at the container's `terminationMessagePath`: made for each run, read
//! after it. (kubernetes/kubernetes v1.35 pkg/kubelet/kuberuntime/kuberuntime_container.go getTerminationMessage)

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Container;
use rustix::fs::OFlags;

use crate::volume_folder::make_folder;

/// How much of it is read, from its end (pkg/kubelet/container/runtime.go, MaxContainerTerminationMessageLength).
const MESSAGE_BYTES_MAX: u64 = 4 << 10;
/// Where it is when the container names no place, and its API server has set no default.
const PATH: &str = "/dev/termination-log";

/// Where a container expects the file.
pub(crate) fn path(container: &Container) -> String {
    let path = container.termination_message_path.as_deref();
    let path = path.filter(|path| !path.is_empty()).unwrap_or(PATH);
    format!("/{}", path.trim_start_matches('/'))
}

/// Where it is, in the folder of a container.
pub(crate) fn file(own: &Path) -> PathBuf {
    own.join("termination-log")
}

/// Makes an empty one.
pub(crate) fn make(own: &Path) -> io::Result<()> {
    make_folder(own)?;
    let file = file(own);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(&file, "")?;
    // Whatever user the program runs as.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))
}

/// What a program has left. Nothing, if it has put something else in the place of the file.
pub(crate) fn read(own: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let mut file = fs::OpenOptions::new().read(true).custom_flags(flags).open(file(own))?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Ok(String::new());
    }
    file.seek(SeekFrom::Start(about.len().saturating_sub(MESSAGE_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_file_is_read_and_nothing_in_its_place() {
        let own = tempfile::tempdir().unwrap();
        make(own.path()).unwrap();
        assert_eq!(read(own.path()).unwrap(), "");
        fs::write(file(own.path()), format!("{}end", "x".repeat(9000))).unwrap();
        let left = read(own.path()).unwrap();
        assert!(left.len() == 4096 && left.ends_with("xend"));
        make(own.path()).unwrap();
        assert_eq!(read(own.path()).unwrap(), "");
        fs::remove_file(file(own.path())).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", file(own.path())).unwrap();
        assert!(read(own.path()).is_err());
    }
}
