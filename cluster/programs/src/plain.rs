//! Programs without namespaces: a process group each on the machine as it is. All groups end with this process, however it
//! ends: a small shell reads which groups run, and kills them when its input ends. What leaves its group by `setsid`
//! is not found again.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::memory::Processes;
use crate::process::{Ended, Output, Process, Run};

/// What the shell runs: `add GROUP` and `gone GROUP`, line by line. It starts no program.
const GUARDIAN: &str = r#"
groups=""
while read -r word group; do
  case $word in
    add) groups="$groups $group" ;;
    gone) rest=""; for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done; groups=$rest ;;
  esac
done
for one in $groups; do kill -s KILL -- "-$one"; done
"#;

/// Kills process groups when this process is gone.
#[derive(Debug)]
pub(crate) struct Guardian(Mutex<std::process::ChildStdin>);

impl Guardian {
    /// Starts the shell, in a group of its own, so that a terminal's Ctrl-C does not end it.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        use std::os::unix::process::CommandExt;
        let mut shell = std::process::Command::new("/bin/sh")
            .args(["-c", GUARDIAN])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = shell
            .stdin
            .take()
            .ok_or_else(|| io::Error::other("the shell has no input"))?;
        // It ends when its input does; its parent at that time reaps it.
        std::thread::Builder::new()
            .name("program-guardian".to_owned())
            .spawn(move || shell.wait())?;
        Ok(Arc::new(Guardian(Mutex::new(stdin))))
    }

    fn send(&self, word: &str, group: Pid) {
        let mut stdin = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{word} {}\n", group.as_raw_nonzero());
        if let Err(error) = io::Write::write_all(&mut *stdin, line.as_bytes()) {
            tracing::warn!(%error, "programs would outlive this process: the shell that ends them is gone");
        }
    }
}

/// What a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Empty,
    /// What this process writes: [`Plain::input`].
    Pipe,
}

/// A program in a process group of its own. Its id stays taken until this is dropped, even when it has ended: until then a
/// signal to the group reaches no other.
pub(crate) struct Plain {
    child: Child,
    group: Pid,
    guardian: Arc<Guardian>,
}

impl Plain {
    /// Starts a program.
    pub(crate) fn start(run: &Run, guardian: Arc<Guardian>, input: Input) -> io::Result<Self> {
        let mut command = Command::new(&run.program);
        command
            .args(&run.args)
            .env_clear()
            .envs(run.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&run.working_dir)
            .stdin(match input {
                Input::Empty => Stdio::null(),
                Input::Pipe => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = id
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("a process without an id"))?;
        guardian.send("add", group);
        Ok(Plain { child, group, guardian })
    }

    /// Its standard input, if that is a pipe. Taken once; dropped, the program reads its end.
    pub(crate) fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    fn signal(&self, signal: Signal) {
        // A failure means that the group has ended already.
        let _ = kill_process_group(self.group, signal);
    }
}

#[async_trait]
impl Process for Plain {
    fn outputs(&mut self) -> Vec<Output> {
        let stdout = self.child.stdout.take().map(|stream| Box::new(stream) as Output);
        let stderr = self.child.stderr.take().map(|stream| Box::new(stream) as Output);
        stdout.into_iter().chain(stderr).collect()
    }

    fn processes(&self) -> Processes {
        Processes::Group(self.group.as_raw_nonzero().get())
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    async fn wait(&mut self) -> io::Result<Ended> {
        // Before it is looked at for the first time, so that no end is missed.
        let mut ends = signal(SignalKind::child())?;
        // It is reaped when it is dropped.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            if let Some(status) = waitid(WaitId::Pid(self.group), options)? {
                return Ok(match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Ended::Exited(code),
                    (None, Some(signal)) => Ended::Signaled(signal),
                    (None, None) => Ended::Exited(255),
                });
            }
            ends.recv().await;
        }
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.guardian.send("gone", self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::test_kill_process;

    use super::*;

    fn sleeper() -> (Child, Pid) {
        let script = "trap '' TERM; sleep 600 & wait";
        let child = Command::new("/bin/sh")
            .args(["-c", script])
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id().unwrap()).unwrap();
        (child, Pid::from_raw(id).unwrap())
    }

    #[tokio::test]
    async fn an_id_stays_taken_until_the_last_signal_to_its_group() {
        let guardian = Guardian::start().unwrap();
        for (script, expected) in [
            ("exit 3", Ended::Exited(3)),
            ("kill -s KILL $$", Ended::Signaled(Signal::KILL.as_raw())),
        ] {
            let run = Run {
                program: "/bin/sh".into(),
                args: vec!["-c".to_owned(), script.to_owned()],
                env: Vec::new(),
                working_dir: "/".into(),
            };
            let mut plain = Plain::start(&run, guardian.clone(), Input::Empty).unwrap();
            let group = plain.group;
            for _ in 0..2 {
                assert_eq!(plain.wait().await.unwrap(), expected, "{script}");
            }
            assert!(
                test_kill_process(group).is_ok(),
                "{script}: another program could have its id"
            );
            drop(plain);
            assert!(test_kill_process(group).is_err(), "{script}: it is not reaped");
        }
    }

    /// The pipe ends as it does when this process is killed.
    #[tokio::test]
    async fn groups_that_still_run_are_killed_when_the_pipe_ends() {
        let guardian = Guardian::start().unwrap();
        let ((mut left, left_group), (mut ended, ended_group)) = (sleeper(), sleeper());
        guardian.send("add", ended_group);
        guardian.send("add", left_group);
        guardian.send("gone", ended_group);
        drop(guardian);
        let status = left.wait().await.unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert!(
            ended.try_wait().unwrap().is_none(),
            "its number may be another's by now"
        );
        kill_process_group(ended_group, Signal::KILL).unwrap();
        ended.wait().await.unwrap();
    }
}
