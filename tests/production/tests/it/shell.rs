//! Commands as a person types them: in one folder, with the programs of the real parts and `orangery` in their path, and with
//! the variables that earlier commands have exported.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests_parts::{cache_folder, fed};
use tests_production::process::program;

/// Folders with programs, below the cache folder.
const PROGRAMS: [&str; 3] = ["real/kubectl", "real/helm", "real/kubernetes"];
/// Where the variables are between two commands.
const VARIABLES: &str = ".variables";

/// The folder and the variables.
pub(crate) struct Shell {
    folder: TempDir,
}

impl Shell {
    /// An empty folder that links to these files of the repository.
    pub(crate) fn new(links: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let repository = repository.canonicalize().unwrap();
        for link in links {
            std::os::unix::fs::symlink(repository.join(link), folder.path().join(link)).unwrap();
        }
        std::fs::write(folder.path().join(VARIABLES), "").unwrap();
        Self { folder }
    }

    /// A file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the folder.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// What commands print that all succeed.
    pub(crate) fn run(&self, commands: &str) -> String {
        self.run_with(commands, "")
    }

    /// The same, fed with `input`.
    pub(crate) fn run_with(&self, commands: &str, input: &str) -> String {
        let script = format!("set -eo pipefail\n. ./{VARIABLES}\n{commands}\nexport -p > {VARIABLES}\n");
        let mut folders: Vec<PathBuf> = PROGRAMS.iter().map(|name| cache_folder().unwrap().join(name)).collect();
        folders.push(program().parent().unwrap().to_owned());
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&inherited));
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::join_paths(folders).unwrap());
        let output = fed(&mut command, input).unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{commands}\n{printed}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }
}
