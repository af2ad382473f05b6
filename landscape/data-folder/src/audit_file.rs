//! The audit log as a file: lines as they come, a new file when one is full, the oldest deleted. A thread of its own writes,
//! so that neither a slow disk nor a full one holds up a request: what the thread cannot take is lost, and counted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use api_meta::Fault;
use base_clock::Clock;
use cluster_apiserver::{AuditPolicy, AuditSink};
use jiff::SignedDuration;

/// Events that wait to be written: kube-apiserver's `--audit-log-batch-buffer-size`.
const WAITING_MAX: usize = 10_000;
/// Bytes of all of these: an event may hold two objects of megabytes.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How long the end of the process waits for what is still to be written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// The flags of an audit log, named as kube-apiserver names them.
#[derive(Clone, Debug)]
pub struct AuditSettings {
    /// Which requests are recorded, and how much of each. (`--audit-policy-file`)
    pub policy: PathBuf,
    /// `--audit-log-path`
    pub log: PathBuf,
    /// Size at which a log is set aside, in megabytes. (`--audit-log-maxsize`)
    pub file_megabytes_max: u32,
    /// How many are set aside; 0 for all. (`--audit-log-maxbackup`)
    pub backups_max: usize,
}

/// An audit log and its policy.
pub struct Audit {
    /// Which requests are recorded, and how much of each.
    pub policy: AuditPolicy,
    /// Where they are recorded.
    pub file: AuditFile,
}

/// Opens the log of these flags.
///
/// # Errors
/// The policy cannot be used, or the log not be written.
pub fn open(settings: &AuditSettings) -> Result<Audit, Fault> {
    let AuditSettings {
        policy,
        log,
        file_megabytes_max,
        backups_max,
    } = settings;
    let unusable = |why: &str| {
        // The rest of a parser's text is a drawing of the place.
        let why = why.lines().next().unwrap_or_default();
        Fault::user(format!("the audit policy {} cannot be used: {why}", policy.display()))
            .hint("name a file with a Policy of audit.k8s.io/v1 with --audit-policy-file")
    };
    let text = fs::read_to_string(policy).map_err(|error| unusable(&error.to_string()))?;
    let read = AuditPolicy::read(&text).map_err(|why| unusable(&why))?;
    let options = Options {
        path: log.clone(),
        file_bytes_max: u64::from(*file_megabytes_max) << 20,
        backups_max: *backups_max,
    };
    let file = AuditFile::open(options, Clock::real()).map_err(|error| {
        Fault::user(format!("the audit log {} cannot be written: {error}", log.display()))
            .hint("name a file in a folder that is there with --audit-log-path")
    })?;
    Ok(Audit { policy: read, file })
}

/// Where the log is, and how much of it is retained.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file that is written.
    pub path: PathBuf,
    /// When it is larger, it is set aside under a name with the time; in bytes.
    pub file_bytes_max: u64,
    /// How many are set aside; 0 for all.
    pub backups_max: usize,
}

/// The log. Clones write to one file.
#[derive(Clone)]
pub struct AuditFile {
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

enum Order {
    Write(Vec<u8>),
    /// Answered when all that came before is written.
    Flush(SyncSender<()>),
}

impl AuditFile {
    /// Opens the file, which is made if it is not there, and begins to write.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn open(options: Options, clock: Clock) -> io::Result<Self> {
        let log = Log::open(options, clock)?;
        let (orders, comes) = sync_channel(WAITING_MAX);
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || run(log, &comes, &of_thread))?;
        Ok(Self { orders, shared })
    }

    /// Waits until all events so far are written, but not for ever.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.orders.send(Order::Flush(done)).is_ok() && wait.recv_timeout(FLUSH_PATIENCE).is_err() {
            tracing::warn!("the audit log is not written within {FLUSH_PATIENCE:?}");
        }
    }
}

impl AuditSink for AuditFile {
    fn write(&self, event: Vec<u8>) {
        let size = event.len();
        let waiting = self.shared.waiting_bytes.fetch_add(size, Ordering::Relaxed);
        let has_room = waiting + size <= WAITING_BYTES_MAX;
        if !has_room || self.orders.try_send(Order::Write(event)).is_err() {
            self.shared.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

/// Writes until the last handle to the log is dropped. An event that cannot be written is lost; the next one is tried all
/// the same.
fn run(mut log: Log, orders: &Receiver<Order>, shared: &Shared) {
    let mut has_failed = false;
    let mut note = |outcome: io::Result<()>| {
        if let Err(error) = &outcome {
            shared.lost.fetch_add(1, Ordering::Relaxed);
            if !has_failed {
                tracing::warn!(%error, "the audit log cannot be written; events are lost until it can");
            }
        }
        has_failed = outcome.is_err();
    };
    while let Ok(first) = orders.recv() {
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Write(event) => {
                    note(log.write(&event));
                    shared.waiting_bytes.fetch_sub(event.len(), Ordering::Relaxed);
                }
                Order::Flush(done) => {
                    note(log.file.flush());
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                }
            }
            next = orders.try_recv().ok();
        }
        note(log.file.flush());
    }
}

struct Log {
    options: Options,
    clock: Clock,
    file: BufWriter<File>,
    bytes: u64,
}

impl Log {
    fn open(options: Options, clock: Clock) -> io::Result<Self> {
        let (file, bytes) = append(&options.path)?;
        Ok(Self {
            options,
            clock,
            file,
            bytes,
        })
    }

    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        let size = event.len() as u64 + 1;
        if self.bytes > 0 && self.bytes + size > self.options.file_bytes_max {
            self.set_aside()?;
        }
        self.file.write_all(event)?;
        self.file.write_all(b"\n")?;
        self.bytes += size;
        Ok(())
    }

    /// Goes on in a new file. The old one gets a name with the time, `audit-2026-01-02T03-04-05.678.log`, that of the next
    /// free millisecond.
    fn set_aside(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let folder = folder_of(&self.options.path);
        match fs::rename(&self.options.path, folder.join(self.free_name())) {
            // Set aside before, when the new file could not be opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        (self.file, self.bytes) = append(&self.options.path)?;
        if self.options.backups_max > 0 {
            self.delete_oldest(folder)?;
        }
        Ok(())
    }

    /// A name with the time that no file has.
    fn free_name(&self) -> String {
        let ((stem, ending), folder) = (self.names(), folder_of(&self.options.path));
        let mut time = self.clock.now();
        loop {
            let name = format!("{stem}{}{ending}", time.strftime("%Y-%m-%dT%H-%M-%S.%3f"));
            if !folder.join(&name).exists() {
                return name;
            }
            time += SignedDuration::from_millis(1);
        }
    }

    /// What stands before and behind the time.
    fn names(&self) -> (String, String) {
        let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let ending = part(self.options.path.extension());
        let ending = if ending.is_empty() {
            ending
        } else {
            format!(".{ending}")
        };
        (format!("{}-", part(self.options.path.file_stem())), ending)
    }

    fn delete_oldest(&self, folder: &Path) -> io::Result<()> {
        let (stem, ending) = self.names();
        let mut old: Vec<PathBuf> = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let time = name.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(&ending));
                time.is_some_and(|time| time.starts_with(|first: char| first.is_ascii_digit()))
            })
            .collect();
        old.sort();
        let too_many = old.len().saturating_sub(self.options.backups_max);
        old.iter().take(too_many).try_for_each(fs::remove_file)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Opens a file for lines to come. Only its owner may read it: it records who wrote what.
fn append(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let bytes = file.metadata()?.len();
    Ok((BufWriter::new(file), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn options(folder: &Path, backups_max: usize) -> Options {
        Options {
            path: folder.join("audit.log"),
            file_bytes_max: 10,
            backups_max,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_file_is_set_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("audit-notes.log"), "mine").unwrap();
        let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap());
        let mut log = Log::open(options(folder.path(), 1), clock.clone()).unwrap();
        for (number, event) in ["aaaa", "bbbb", "cccc", "a long event that fits no file"]
            .iter()
            .enumerate()
        {
            log.write(event.as_bytes()).unwrap();
            log.file.flush().unwrap();
            if number == 1 {
                assert_eq!(names(folder.path()), ["audit-notes.log", "audit.log"]);
            }
        }
        // Both were set aside at one moment: the clock of this test stands still.
        assert_eq!(
            names(folder.path()),
            ["audit-2026-01-02T03-04-05.001.log", "audit-notes.log", "audit.log"]
        );
        let text = fs::read_to_string(folder.path().join("audit.log")).unwrap();
        assert_eq!(text, "a long event that fits no file\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_rotated_without_a_new_one_does_not_end_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::simulated("2026-01-02T03:04:05Z".parse().unwrap());
        let mut log = Log::open(options(folder.path(), 2), clock).unwrap();
        log.write(b"a long event").unwrap();
        // As when the process had no file descriptor left for the new file.
        fs::rename(
            &log.options.path,
            folder.path().join("audit-2026-01-02T03-04-04.000.log"),
        )
        .unwrap();
        for event in ["another one", "and one more"] {
            log.write(event.as_bytes()).unwrap();
            log.file.flush().unwrap();
        }
        let retained: Vec<_> = names(folder.path())
            .into_iter()
            .map(|name| fs::read_to_string(folder.path().join(name)).unwrap())
            .collect();
        assert_eq!(retained, ["a long event\n", "another one\n", "and one more\n"]);
    }

    #[test]
    fn events_are_written_in_order_and_retained_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let wide = Options {
            file_bytes_max: 1 << 20,
            ..options(folder.path(), 0)
        };
        for round in 0..2 {
            let file = AuditFile::open(wide.clone(), Clock::real()).unwrap();
            for number in 0..100 {
                file.write(format!("{round} {number}").into_bytes());
            }
            file.flush();
            assert_eq!((file.lost(), file.shared.waiting_bytes.load(Ordering::Relaxed)), (0, 0));
        }
        let text = fs::read_to_string(&wide.path).unwrap();
        let expected: String = (0..200)
            .map(|line| format!("{} {}\n", line / 100, line % 100))
            .collect();
        assert_eq!(text, expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_loses_events_and_counts_them_and_nothing_waits() {
        let options = Options {
            path: PathBuf::from("/dev/full"),
            file_bytes_max: u64::MAX,
            backups_max: 0,
        };
        let file = AuditFile::open(options, Clock::real()).unwrap();
        // More than the buffer before the file takes.
        file.write(vec![b'x'; 1 << 20]);
        file.flush();
        assert!(file.lost() > 0);
        file.write(vec![b'x'; WAITING_BYTES_MAX + 1]);
        assert!(file.lost() > 1);
        assert_eq!(file.shared.waiting_bytes.load(Ordering::Relaxed), 0);
    }
}
