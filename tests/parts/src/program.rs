//! A real program that never outlives its owner: neither when that is dropped nor when its process is killed.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// Far beyond the half second that they take.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks at whether one is ready: nothing tells.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Lines of a failed program's log that are shown.
const LOG_LINES_MAX: usize = 8;

/// Runs the program until the standard input ends, which it does however its owner ends; then it is killed, and its
/// folder goes when one is named. A program that ends by itself leaves its log; one that is started again goes on with it.
const KEEPER: &str = r#"
folder=$1 log=$2
shift 2
exec 3<&0
"$@" >>"$log" 2>&1 </dev/null &
program=$!
( read -r _ <&3; trap '' TERM; kill -9 "$program"; if [ -n "$folder" ]; then rm -rf "$folder"; fi ) >/dev/null 2>&1 &
watcher=$!
wait "$program"
status=$?
kill "$watcher"
exit "$status"
"#;

/// Runs a program with `input` on its standard input, to its end; all that it says.
///
/// # Errors
/// It cannot be started, or takes no input.
pub fn fed(command: &mut Command, input: &str) -> Outcome<Output> {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = piped.spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    });
    output.map_err(|error| format!("cannot run {command:?}: {error}"))
}

/// A running program. Dropping it kills it, as `kill -9` does.
pub struct Program {
    name: &'static str,
    program: PathBuf,
    log: PathBuf,
    keeper: Child,
}

impl Program {
    /// Starts it. `folder` goes with it in the end.
    ///
    /// # Errors
    /// The program is missing or cannot be started.
    pub fn start(name: &'static str, program: &Path, folder: &Path, arguments: &[String]) -> Outcome<Self> {
        Self::keep(name, program, folder, folder, arguments)
    }

    /// Starts it; `folder` stays when it ends, so that it can be started there again.
    ///
    /// # Errors
    /// The program is missing or cannot be started.
    pub fn start_beside(name: &'static str, program: &Path, folder: &Path, arguments: &[String]) -> Outcome<Self> {
        Self::keep(name, program, folder, Path::new(""), arguments)
    }

    fn keep(name: &'static str, program: &Path, folder: &Path, goes: &Path, arguments: &[String]) -> Outcome<Self> {
        if !program.exists() {
            return Err(format!(
                "{} is missing: `cargo xtask real` prepares it",
                program.display()
            ));
        }
        let log = folder.join(format!("{name}.log"));
        let keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "keeper"])
            .args([goes, &log, program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Self {
            name,
            program: program.to_owned(),
            log,
            keeper,
        })
    }

    /// How it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The number of its process, which is a child of the keeper's.
    ///
    /// # Errors
    /// It has ended.
    pub fn process(&self) -> Outcome<u32> {
        let keeper = self.keeper.id();
        let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap_or_default();
        let program = self.program.canonicalize().ok();
        let children = children
            .split_whitespace()
            .filter_map(|number| number.parse::<u32>().ok());
        let runs = |number: &u32| std::fs::read_link(format!("/proc/{number}/exe")).ok() == program;
        let mut children = children.filter(runs);
        children.next().ok_or_else(|| format!("{} does not run", self.name))
    }

    /// Looks whether it still runs.
    ///
    /// # Errors
    /// It has ended; with the last lines of its log.
    pub fn check(&mut self) -> Outcome {
        match self.keeper.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended ({status}):\n{}", self.name, self.log_end())),
            Err(error) => Err(format!("cannot tell whether {} runs: {error}", self.name)),
        }
    }

    /// Waits until it takes connections there.
    ///
    /// # Errors
    /// It ends, or is not ready in time.
    pub fn await_port(&mut self, address: SocketAddr) -> Outcome {
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            self.check()?;
            if begun.elapsed() > READY_TIMEOUT {
                let (name, log_end) = (self.name, self.log_end());
                return Err(format!("{name} is not ready within {READY_TIMEOUT:?}:\n{log_end}"));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(())
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_end(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines
            .get(lines.len().saturating_sub(LOG_LINES_MAX)..)
            .unwrap_or_default()
            .join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // Its end is certain; an error of the wait changes nothing any more.
        let _ = self.keeper.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_and_its_folder_go_with_their_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("work");
        std::fs::create_dir(&folder).unwrap();
        let mut program = Program::start(
            "waiting",
            Path::new("/bin/sh"),
            &folder,
            &[
                "-c".to_owned(),
                "echo $$ >pid; mv pid \"$0\"; exec sleep 600".to_owned(),
                folder.join("number").display().to_string(),
            ],
        )
        .unwrap();
        let number = loop {
            program.check().unwrap();
            if let Ok(text) = std::fs::read_to_string(folder.join("number")) {
                break text.trim().to_owned();
            }
        };
        let process = Path::new("/proc").join(number);
        assert!(process.exists());
        drop(program);
        // The keeper has waited for its program, so nothing is left of the process by now.
        assert!(!process.exists());
    }

    #[test]
    fn program_that_ends_by_itself_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Program::start(
            "ending",
            Path::new("/bin/sh"),
            folder.path(),
            &["-c".to_owned(), "echo no etcd in sight; exit 3".to_owned()],
        )
        .unwrap();
        let why = loop {
            if let Err(why) = program.check() {
                break why;
            }
        };
        assert!(why.contains("ending ended (exit status: 3)"), "{why}");
        assert!(why.contains("no etcd in sight"), "{why}");
    }
}
