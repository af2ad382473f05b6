//! The measured process: started from the built binary in a folder of its own, ended when dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;

/// Parts of a second in which Linux counts the time of processes (proc(5); the same on all machines).
const TICKS: f64 = 100.0;

/// Where a landscape keeps its state.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Place {
    /// `orangery up --memory`
    Memory,
    /// `orangery up`: in files of its data folder
    Folder,
}

impl Place {
    /// Both, in the order in which they are measured.
    pub(crate) const ALL: [Place; 2] = [Place::Memory, Place::Folder];

    /// How it is named in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Memory => "in memory",
            Place::Folder => "in a folder",
        }
    }
}

/// The product that was built with this program.
pub(crate) fn beside_this() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(here.with_file_name("orangery"))
}

/// A figure of a process' memory in megabytes; `None` where the system does not tell.
pub(crate) fn megabytes(process: u32, figure: &str) -> Option<f64> {
    tests_parts::memory_kib(process, figure).map(|size| size as f64 / 1024.0)
}

/// Seconds that processors have worked for a process since it began, from /proc; what cannot be read makes the result no
/// number, so that it is not taken for a figure.
pub(crate) fn processor_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may hold blanks. Behind it: state, then 10 fields, then the times in user and system mode.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let mut times = fields
        .split_whitespace()
        .skip(11)
        .map_while(|field| field.parse::<f64>().ok());
    match (times.next(), times.next()) {
        (Some(user), Some(system)) => (user + system) / TICKS,
        _ => f64::NAN,
    }
}

/// A running `orangery up --port 0`.
pub(crate) struct Landscape {
    child: Child,
    folder: PathBuf,
}

impl Landscape {
    /// Starts the measured program with the example.
    pub(crate) fn start(program: &Path, number: u8, place: Place) -> Result<Self, String> {
        Self::start_with(program, number, place, &["--example"])
    }

    /// Starts the measured program with further arguments.
    pub(crate) fn start_with(program: &Path, number: u8, place: Place, arguments: &[&str]) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("orangery-bench-{}-{number}", std::process::id()));
        let mut command = Command::new(program);
        command
            .args(["up", "--port", "0", "--data-dir"])
            .arg(&folder)
            .args(arguments);
        if let Place::Memory = place {
            command.arg("--memory");
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Self { child, folder })
    }

    /// Where the process writes its kubeconfigs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The peak of its resident memory so far, in megabytes; `None` where the system does not tell.
    pub(crate) fn peak_megabytes(&self) -> Option<f64> {
        megabytes(self.child.id(), "VmHWM")
    }

    /// What it holds in memory now beside its own program file, in megabytes; `None` where the system does not tell.
    pub(crate) fn own_megabytes(&self) -> Option<f64> {
        megabytes(self.child.id(), "RssAnon")
    }

    /// Seconds that processors have worked for it so far.
    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_seconds(self.child.id())
    }

    /// Says so when the process has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("orangery ended early ({status})")),
            Err(error) => Err(format!("cannot look at the process: {error}")),
        }
    }
}

impl Drop for Landscape {
    fn drop(&mut self) {
        // The process may have ended already; the folder may never have been made.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
