//! The memory of a container's processes beside its limit. No cgroup is needed: /proc is read at intervals, so what grows faster
//! than that is beyond its limit for a moment. Files that are mapped or cached do not count, as they could be given back.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// How often the memory is read: some fifty files a second for a container of ten processes, nothing for one without a limit.
const INTERVAL: Duration = Duration::from_millis(500);
/// The lines of `/proc/PID/status` with a process' own memory.
const HELD: [&str; 2] = ["RssAnon:", "RssShmem:"];
/// The same of `/proc/PID/smaps_rollup`, where what several processes share is divided among them.
const SHARES: [&str; 2] = ["Pss_Anon:", "Pss_Shmem:"];

/// Whose memory counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processes {
    /// All that a process has started, and what these have; not itself.
    Below(u32),
    /// A process group.
    Group(i32),
}

/// Waits until they hold more than a limit, and returns how much, in bytes.
pub(crate) async fn beyond(processes: Processes, limit_bytes: u64) -> u64 {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let measured = tokio::task::spawn_blocking(move || {
            // What forked processes share is counted for each of them: expensive to divide, and only needed near the limit.
            let rough = processes.bytes("status", HELD);
            if rough > limit_bytes {
                processes.bytes("smaps_rollup", SHARES)
            } else {
                rough
            }
        });
        // A runtime that ends takes the container with it.
        let held = measured.await.unwrap_or(0);
        if held > limit_bytes {
            return held;
        }
    }
}

impl Processes {
    /// What they hold by lines of a file of /proc. One that has ended holds nothing.
    fn bytes(self, file: &str, lines: [&str; 2]) -> u64 {
        let ids = match self {
            Self::Below(root) => below(root),
            Self::Group(group) => of_group(group),
        };
        let texts = ids
            .iter()
            .filter_map(|id| fs::read_to_string(format!("/proc/{id}/{file}")).ok());
        texts.map(|text| kilobytes(&text, lines)).sum::<u64>() << 10
    }
}

/// The sum of some lines of the form `Name:  12 kB`.
fn kilobytes(text: &str, lines: [&str; 2]) -> u64 {
    let values = text.lines().filter_map(|line| {
        let value = lines.iter().find_map(|name| line.strip_prefix(name))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    values.sum()
}

fn below(root: u32) -> Vec<u32> {
    let mut found = children(root);
    let mut next = 0;
    while let Some(id) = found.get(next) {
        found.extend(children(*id));
        next += 1;
    }
    found
}

fn children(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let ids = listed.flat_map(|ids| {
        ids.split_whitespace()
            .filter_map(|id| id.parse().ok())
            .collect::<Vec<_>>()
    });
    ids.collect()
}

fn of_group(group: i32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| group_of(format!("/proc/{id}/stat")) == Some(group))
        .collect()
}

fn group_of(stat: impl AsRef<Path>) -> Option<i32> {
    let text = fs::read_to_string(stat).ok()?;
    // The name before may hold anything; behind it are state, parent and group.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[test]
    fn kilobytes_of_the_named_lines_are_added() {
        let text = "Name:\tx\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nRssShmem:\t  20 kB\nThreads:\t1\n";
        assert_eq!(kilobytes(text, HELD), 120);
    }

    fn holding(bytes: usize) -> Child {
        let script = format!("x='{}'; echo held; read word", "x".repeat(bytes));
        let mut command = Command::new("/bin/sh");
        let mut child = command
            .arg("-s")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, format!("{script}\n").as_bytes()).unwrap();
        child.stdin = Some(input);
        let mut word = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
        child
    }

    #[test]
    fn memory_of_a_group_and_of_descendants_is_found() {
        let mut child = holding(8 << 20);
        let group = Processes::Group(i32::try_from(child.id()).unwrap());
        let (rough, shares) = (group.bytes("status", HELD), group.bytes("smaps_rollup", SHARES));
        let below = Processes::Below(std::process::id());
        let descendants = below.bytes("status", HELD);
        child.kill().unwrap();
        child.wait().unwrap();
        for held in [rough, shares, descendants] {
            assert!(held >= 8 << 20, "{held}");
        }
        assert_eq!(group.bytes("status", HELD), 0);
    }
}
