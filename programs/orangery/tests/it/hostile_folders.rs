//! Folders without room, that nobody may write to, or that are somebody else's, and ports in use: the real binary tells
//! what is wrong and what to do, and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use programs_orangery::kubeconfig;

use crate::restart::{Up, free_port};

/// A user without rights: `nobody`.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A file system of its own; it goes with this value.
struct Mounted<'f>(&'f Path);

impl<'f> Mounted<'f> {
    /// `None` where nothing may be mounted.
    fn new(folder: &'f Path, options: &str) -> Option<Self> {
        let mounted = mount(&["-t", "tmpfs", "-o", options, "tmpfs"], folder);
        mounted.status.success().then_some(Self(folder))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // What still runs in it keeps it until its end.
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

fn mount(how: &[&str], folder: &Path) -> Output {
    Command::new("mount").args(how).arg(folder).output().unwrap()
}

/// `up` whose files cannot grow beyond a limit, for where nothing may be mounted.
fn limited(folder: &Path, port: u16, kilobytes: u32) -> Command {
    let script = format!("trap '' XFSZ; ulimit -f {}; exec \"$@\"", kilobytes * 2);
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_orangery"), "up", "--port"])
        .arg(port.to_string())
        .arg("--data-dir")
        .arg(folder);
    command
}

#[test]
fn a_landscape_that_has_no_room_to_start_ends_in_order_and_says_so() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("data");
    let mounted = Mounted::new(outer.path(), "size=300k");
    let (output, why) = if mounted.is_some() {
        (run(&folder), "No space left on device")
    } else {
        (limited(&folder, 0, 4).output().unwrap(), "File too large")
    };
    let said = said(&output);
    assert!(said.contains(why), "{said}");
    assert!(
        said.ends_with("hint: free some space there, or name another folder with --data-dir\n"),
        "{said}"
    );
    // Parts that are stopped in order do not lose the servers under their feet.
    for word in ["connection refused", "worker closed", "panicked"] {
        assert!(!said.contains(word), "{said}");
    }
}

#[test]
fn a_folder_on_a_read_only_file_system_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = match Mounted::new(folder.path(), "ro,size=1m") {
        Some(mounted) => {
            let output = run(&folder.path().join("data"));
            drop(mounted);
            said(&output)
        }
        // The kernel's own files are there everywhere, and nobody makes a folder among them.
        None => said(&run(Path::new("/proc/self/data"))),
    };
    assert!(path.starts_with("error: cannot create the data folder "), "{path}");
    assert!(
        path.ends_with("hint: name a folder that you may write to with --data-dir\n"),
        "{path}"
    );
}

/// Runs `up`, which must end by itself with an error.
fn run(folder: &Path) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--data-dir"])
        .arg(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a user who is not the folder's owner is told.
fn told(folder: &Path, words: &[&str]) -> String {
    // The binary may lie where others cannot look.
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("orangery");
    if fs::hard_link(env!("CARGO_BIN_EXE_orangery"), &binary).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_orangery"), &binary).unwrap();
    }
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&binary);
    command
        .args(words)
        .arg("--data-dir")
        .arg(folder)
        .env_remove("RUST_LOG")
        .current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    said(&output)
}

#[test]
fn a_folder_of_another_user_is_told_with_both_users() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Whoever runs the tests without rights has none in the root folder.
    let foreign = if is_root() { folder.path() } else { Path::new("/") };
    let own = if is_root() {
        NOBODY
    } else {
        fs::metadata("/proc/self").unwrap().uid()
    };
    let whose = format!(
        "; {} belongs to user 0, and this process is of user {own}\n",
        foreign.display()
    );
    let text = told(foreign, &["up", "--port", "0"]);
    assert_eq!(
        text,
        format!(
            "error: cannot lock {}: Permission denied (os error 13){whose}\
             hint: run it as that user, or name a folder of your own with --data-dir\n",
            foreign.join("lock").display()
        )
    );
    if is_root() {
        let mut landscape = Up::start(folder.path(), 0, &[]);
        landscape.until("ready");
        let path = kubeconfig::path(folder.path(), "garden");
        for words in [["kubeconfig", "garden"], ["why", "garden-local/local"]] {
            assert_eq!(
                told(folder.path(), &words),
                format!(
                    "error: cannot read the kubeconfig {path}: Permission denied (os error 13); \
                     {path} belongs to user 0, and this process is of user {NOBODY}\n\
                     hint: run this as that user\n",
                    path = path.display()
                )
            );
        }
        landscape.stop();
    }
}

#[test]
fn a_port_in_use_leaves_nothing_behind_and_a_folder_in_use_is_named_first() {
    let folder = tempfile::tempdir().unwrap();
    let (taken, fresh) = (folder.path().join("taken"), folder.path().join("fresh"));
    let port = free_port();
    let mut landscape = Up::start(&taken, port, &[]);
    landscape.until("ready");
    let up = |folder: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_orangery"))
            .args(["up", "--port", &port.to_string(), "--data-dir"])
            .arg(folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        said(&output)
    };
    let text = up(&fresh);
    assert!(
        text.starts_with(&format!("error: cannot listen on 127.0.0.1:{port}")),
        "{text}"
    );
    assert!(!fresh.exists());
    let text = up(&taken);
    assert!(text.contains("is in use by another `orangery up`"), "{text}");
    landscape.stop();
}

#[test]
fn a_wish_to_end_that_arrives_twice_at_once_is_one_wish() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orangery"))
        .args(["up", "--port", "0", "--data-dir"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ready")));
    // As `timeout` does: the process, then its group. The signals differ, so that neither hides the other.
    let id = process.id();
    for words in [
        ["-TERM".to_owned(), id.to_string()],
        ["-INT".to_owned(), format!("-{id}")],
    ] {
        let asked = Command::new("kill").arg(&words[0]).arg("--").arg(&words[1]).status();
        assert!(asked.unwrap().success());
    }
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*said(&output)), (Some(0), ""));
}
