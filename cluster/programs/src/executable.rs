//! Whether a file can be run on this machine, checked before the first run. It never runs one.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How much of a file is read: the header of an ELF file, or the first line of a script.
const HEAD_BYTES: usize = 256;
/// `e_machine` of ELF files that this machine runs (elf.h: EM_X86_64, EM_AARCH64).
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Why a file does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotExecutable {
    /// No such file.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// A bare name that no folder of PATH has.
    #[error("{0} is in no folder of PATH")]
    NotInPath(String),
    /// Not a file.
    #[error("{0} is not a file")]
    NotAFile(PathBuf),
    /// Its mode does not allow it.
    #[error("{0} is not executable (chmod +x)")]
    Mode(PathBuf),
    /// It cannot be looked at.
    #[error("{path} cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system answered.
        why: String,
    },
    /// Made for other machines.
    #[error("{0} is built for another architecture (exec format error)")]
    Architecture(PathBuf),
    /// Neither a program nor a script with an interpreter.
    #[error("{0} is neither a program of this system nor a script with #! (exec format error)")]
    Format(PathBuf),
    /// A script whose interpreter is not there.
    #[error("{script} is a script for {interpreter}, which does not exist")]
    Interpreter {
        /// The script.
        script: PathBuf,
        /// What it names.
        interpreter: PathBuf,
    },
}

impl NotExecutable {
    /// The kubelet's reason: of a failure before there is a container, or when its program is started.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            NotExecutable::Architecture(_) | NotExecutable::Format(_) | NotExecutable::Interpreter { .. } => {
                "RunContainerError"
            }
            _ => "CreateContainerError",
        }
    }
}

/// The file that a first word of a command stands for: a path, or a name in PATH. Errors: none that runs here.
pub(crate) fn find(word: &str) -> Result<PathBuf, NotExecutable> {
    if word.contains('/') {
        let path = PathBuf::from(word);
        return check(&path).map(|()| path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join(word));
    let found = candidates.into_iter().find(|path| check(path).is_ok());
    found.ok_or_else(|| NotExecutable::NotInPath(word.to_owned()))
}

fn check(path: &Path) -> Result<(), NotExecutable> {
    let unreadable = |error: std::io::Error| NotExecutable::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let meta = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(NotExecutable::Missing(path.to_owned()));
        }
        meta => meta.map_err(unreadable)?,
    };
    if !meta.is_file() {
        return Err(NotExecutable::NotAFile(path.to_owned()));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(NotExecutable::Mode(path.to_owned()));
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
    match read {
        // What may be run and not read is left to the operating system.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(()),
        read => read.map_err(unreadable)?,
    };
    if let Some(line) = head.strip_prefix(b"#!") {
        return check_script(path, line);
    }
    if cfg!(target_os = "linux") {
        return check_elf(path, &head);
    }
    Ok(())
}

fn check_script(script: &Path, line: &[u8]) -> Result<(), NotExecutable> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let Some(interpreter) = line.split_whitespace().next() else {
        return Err(NotExecutable::Format(script.to_owned()));
    };
    let interpreter = PathBuf::from(interpreter);
    if interpreter.exists() {
        return Ok(());
    }
    Err(NotExecutable::Interpreter {
        script: script.to_owned(),
        interpreter,
    })
}

fn check_elf(path: &Path, head: &[u8]) -> Result<(), NotExecutable> {
    if !head.starts_with(b"\x7fELF") {
        return Err(NotExecutable::Format(path.to_owned()));
    }
    // Byte 5 is the byte order; machines of the other order are foreign.
    let machine = match (head.get(5), head.get(18..20)) {
        (Some(1), Some(&[low, high])) => u16::from_le_bytes([low, high]),
        _ => 0,
    };
    (machine == MACHINE)
        .then_some(())
        .ok_or_else(|| NotExecutable::Architecture(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, content: &[u8], mode: u32) -> String {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn program_that_cannot_run_here_is_refused_before_it_is_started() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(own.to_str().unwrap()), Ok(own));
        assert!(find("sh").unwrap().is_absolute());
        assert_eq!(
            find("no-such-program"),
            Err(NotExecutable::NotInPath("no-such-program".into()))
        );
        let script = file(folder, "script", b"#!/bin/sh\nexit 0\n", 0o755);
        assert_eq!(find(&script), Ok(script.into()));
        let mut foreign = vec![0; 64];
        foreign[..6].copy_from_slice(b"\x7fELF\x02\x01");
        foreign[18] = 22;
        for (path, reason, words) in [
            (
                folder.join("none").display().to_string(),
                "CreateContainerError",
                "does not exist",
            ),
            (folder.display().to_string(), "CreateContainerError", "is not a file"),
            (
                file(folder, "mode", b"#!/bin/sh\n", 0o644),
                "CreateContainerError",
                "chmod +x",
            ),
            (
                file(folder, "foreign", &foreign, 0o755),
                "RunContainerError",
                "another architecture",
            ),
            (
                file(folder, "text", b"hello", 0o755),
                "RunContainerError",
                "neither a program",
            ),
            (
                file(folder, "lost", b"#!/no/such/python\n", 0o755),
                "RunContainerError",
                "/no/such/python",
            ),
        ] {
            let error = find(&path).unwrap_err();
            assert_eq!(error.reason(), reason, "{error}");
            assert!(
                error.to_string().contains(words) && error.to_string().contains(&path),
                "{error}"
            );
        }
    }
}
