//! What the process takes, every few seconds: read from the system, written as comma separated values and read again.

use std::fs;
use std::path::Path;

/// The columns, as they stand in the first line.
const COLUMNS: &str =
    "seconds,phase,life,rss_anon_mb,rss_file_mb,threads,open_files,cpu_seconds,shoots,under_way,folder_mb,load";
/// What is done meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// There are no Shoots yet.
    Empty,
    /// Shoots are created.
    Fill,
    /// Deeds and faults.
    Deeds,
    /// Nothing more is asked: all becomes as it was asked for.
    Settle,
    /// All Shoots are deleted.
    Delete,
    /// None is left.
    After,
    /// None is left, and the process was started again.
    Again,
}

impl Phase {
    /// All, in their order.
    pub const ALL: [Self; 7] = [
        Self::Empty,
        Self::Fill,
        Self::Deeds,
        Self::Settle,
        Self::Delete,
        Self::After,
        Self::Again,
    ];

    /// As it stands in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Fill => "fill",
            Self::Deeds => "deeds",
            Self::Settle => "settle",
            Self::Delete => "delete",
            Self::After => "after",
            Self::Again => "again",
        }
    }
}

/// One look.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Since the beginning.
    pub seconds: f64,
    /// What was done.
    pub phase: Phase,
    /// The how-manieth process.
    pub life: u32,
    /// Resident memory of its own, in megabytes.
    pub rss_anon_mb: f64,
    /// Resident memory that files back: the program and mapped files, in megabytes.
    pub rss_file_mb: f64,
    /// Threads.
    pub threads: u64,
    /// Open files and sockets.
    pub open_files: u64,
    /// Processor time that this process has taken since it was started, in seconds.
    pub cpu_seconds: f64,
    /// Shoots that are there.
    pub shoots: u64,
    /// Shoots that are being worked on.
    pub under_way: u64,
    /// Size of the state folder on the disk, in megabytes.
    pub folder_mb: f64,
    /// Load of the machine over the last minute.
    pub load: f64,
}

/// What the system says about a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    rss_anon_mb: f64,
    rss_file_mb: f64,
    threads: u64,
    open_files: u64,
    cpu_seconds: f64,
}

/// In a second, as `/proc/PID/stat` counts on Linux.
const TICKS: f64 = 100.0;
/// In a megabyte.
const BYTES: f64 = 1024.0 * 1024.0;

impl Taken {
    /// What the process of this number takes; `None` when it has gone meanwhile.
    #[must_use]
    pub fn by(process: u32) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).ok();
        let status = read("status")?;
        let field = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let stat = read("stat")?;
        // The program's name stands in brackets and may contain anything; user and system time are the 12th and 13th
        // field behind it.
        let times: Vec<f64> = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse().ok())
            .collect();
        Some(Self {
            rss_anon_mb: field("RssAnon:")? / 1024.0,
            rss_file_mb: field("RssFile:")? / 1024.0,
            threads: field("Threads:")? as u64,
            open_files: fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64,
            cpu_seconds: times.iter().sum::<f64>() / TICKS,
        })
    }
}

/// The size of all files below a folder, as the disk has them, in megabytes. What goes meanwhile counts nothing.
#[must_use]
pub fn folder_mb(folder: &Path) -> f64 {
    use std::os::unix::fs::MetadataExt;
    /// The unit of `st_blocks`.
    const BLOCK: u64 = 512;
    let (mut folders, mut bytes) = (vec![folder.to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * BLOCK,
                Err(_) => {}
            }
        }
    }
    bytes as f64 / BYTES
}

/// Load of the machine over the last minute.
#[must_use]
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

impl Sample {
    /// Put together.
    #[must_use]
    pub fn new(
        taken: &Taken,
        seconds: f64,
        phase: Phase,
        life: u32,
        [shoots, under_way]: [u64; 2],
        folder: &Path,
    ) -> Self {
        Self {
            seconds,
            phase,
            life,
            rss_anon_mb: taken.rss_anon_mb,
            rss_file_mb: taken.rss_file_mb,
            threads: taken.threads,
            open_files: taken.open_files,
            cpu_seconds: taken.cpu_seconds,
            shoots,
            under_way,
            folder_mb: folder_mb(folder),
            load: load(),
        }
    }

    fn line(&self) -> String {
        format!(
            "{:.1},{},{},{:.1},{:.1},{},{},{:.1},{},{},{:.1},{:.2}",
            self.seconds,
            self.phase.name(),
            self.life,
            self.rss_anon_mb,
            self.rss_file_mb,
            self.threads,
            self.open_files,
            self.cpu_seconds,
            self.shoots,
            self.under_way,
            self.folder_mb,
            self.load
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [seconds, phase, life, rest @ ..] = fields.as_slice() else {
            return None;
        };
        let numbers: Vec<f64> = rest.iter().filter_map(|field| field.parse().ok()).collect();
        let &[
            anon,
            file,
            threads,
            open_files,
            cpu_seconds,
            shoots,
            under_way,
            folder_mb,
            load,
        ] = numbers.as_slice()
        else {
            return None;
        };
        Some(Self {
            seconds: seconds.parse().ok()?,
            phase: Phase::ALL.into_iter().find(|known| known.name() == *phase)?,
            life: life.parse().ok()?,
            rss_anon_mb: anon,
            rss_file_mb: file,
            threads: threads as u64,
            open_files: open_files as u64,
            cpu_seconds,
            shoots: shoots as u64,
            under_way: under_way as u64,
            folder_mb,
            load,
        })
    }
}

/// All as a file's text.
#[must_use]
pub fn write(samples: &[Sample]) -> String {
    let lines = samples.iter().map(Sample::line);
    std::iter::once(COLUMNS.to_owned())
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

/// What [`write()`] has written.
///
/// # Errors
/// The first line that is none.
pub fn read(text: &str) -> Result<Vec<Sample>, String> {
    text.lines()
        .enumerate()
        .skip(1)
        .map(|(number, line)| {
            Sample::parse(line).ok_or_else(|| format!("line {}: {line:?} does not have {COLUMNS}", number + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_and_its_sample_is_read_as_it_was_written() {
        let taken = Taken::by(std::process::id()).unwrap();
        assert!(
            taken.rss_anon_mb > 0.1 && taken.threads >= 1 && taken.open_files >= 3,
            "{taken:?}"
        );
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deeper")).unwrap();
        fs::write(folder.path().join("deeper/file"), vec![1; 1 << 20]).unwrap();
        let sample = Sample::new(&taken, 12.5, Phase::Deeds, 3, [200, 7], folder.path());
        assert!((0.9..1.5).contains(&sample.folder_mb), "{}", sample.folder_mb);
        let text = write(&[sample]);
        let again = read(&text).unwrap();
        assert_eq!(write(&again), text);
        assert_eq!((again[0].life, again[0].under_way), (3, 7));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let why = read("seconds,phase\n1.0,nowhere,3\n").unwrap_err();
        assert!(why.starts_with("line 2: \"1.0,nowhere,3\""), "{why}");
    }
}
