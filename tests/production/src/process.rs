//! The program `orangery` as a process that does not outlive its test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use crate::PATIENCE;

/// The program, which `cargo xtask` builds beside the tests.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    // Programs stand beside it, tests one folder further down.
    let mut beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("orangery"));
    let found = beside.find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no orangery beside {}: cargo build --package programs-orangery",
            own.display()
        )
    })
}

/// A running `orangery`. Dropping it kills it, as `kill -9` does.
pub struct Running {
    child: Child,
    log: PathBuf,
    lines: BufReader<std::process::ChildStdout>,
}

impl Running {
    /// Starts it; what it logs goes to a file of this name in the folder.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start(folder: &Path, name: &str, arguments: &[String]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let mut child = Command::new(program())
            .args(arguments)
            .current_dir(folder)
            .env_remove("RUST_LOG")
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, log, lines }
    }

    /// The next line that it prints.
    ///
    /// # Panics
    /// It ends instead.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it ended: {}", self.logged());
        line.trim().to_owned()
    }

    /// All that it logged so far.
    #[must_use]
    pub fn logged(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = File::open(&self.log) {
            // What cannot be read is not shown.
            let _ = file.read_to_string(&mut text);
        }
        text
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Panics
    /// It does not end in time.
    pub fn stop(mut self) -> ExitStatus {
        let number = self.child.id().to_string();
        let signalled = Command::new("kill").args(["-TERM", &number]).status().unwrap();
        assert!(signalled.success());
        self.wait()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// It does not in time.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = self.wait();
        (status, self.logged())
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.logged());
            std::thread::sleep(crate::LOOK_PAUSE);
        }
    }
}

impl Drop for Running {
    #[expect(clippy::print_stdout, reason = "shown with a test that fails")]
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- {}\n{}", self.log.display(), self.logged());
        }
    }
}
