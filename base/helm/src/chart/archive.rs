//! The files of a chart's archive: a gzipped tar whose entries lie in one folder. `pkg/chart/loader/archive` of Helm 4.1, with
//! its limits on sizes and ours on the number of files.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

use super::File;

/// Helm's limits of what an archive holds ...
pub const CHART_BYTES_MAX: u64 = 100 << 20;
/// ... and of one file in it.
pub const FILE_BYTES_MAX: u64 = 5 << 20;
/// Files of a chart, those of the charts in it included; folders are not counted. Helm has no limit; the largest known charts
/// have some hundreds.
pub const FILES_MAX: usize = 10_000;
/// What headers, padding and folders may take beside the files.
const OVERHEAD_BYTES_MAX: u64 = 28 << 20;

/// The shortest gzip header.
const GZIP_HEADER_BYTES: usize = 10;
/// Where a tar header has the type of its entry.
const TYPE_OFFSET: usize = 156;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// Why an archive is refused. Texts are Helm's where it has one.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It is no gzipped tar, or a broken one.
    #[error("{0}")]
    Broken(&'static str),
    /// There is nothing in it.
    #[error("no files in chart archive")]
    Empty,
    /// A path begins at the root.
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    /// A file lies beside the chart's folder.
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideBase(String),
    /// A path leads out of the chart's folder.
    #[error("chart illegally references parent directory")]
    ParentPath,
    /// A path names a drive of Windows.
    #[error("chart contains illegally named files")]
    IllegalName,
    /// Chart.yaml lies beside the chart's folder.
    #[error("chart yaml not in base directory")]
    ChartYamlOutside,
    /// It holds more than [`CHART_BYTES_MAX`], or folders and headers without end.
    #[error("decompressed chart is larger than the maximum size {CHART_BYTES_MAX}")]
    ChartTooLarge,
    /// A file is larger than [`FILE_BYTES_MAX`].
    #[error("decompressed chart file {0:?} is larger than the maximum file size {FILE_BYTES_MAX}")]
    FileTooLarge(String),
    /// It holds more than [`FILES_MAX`] files.
    #[error("chart has more than {FILES_MAX} files")]
    TooManyFiles,
}

/// What an archive may still hold, the archives in it included: Helm's limit is one for each archive, so that archives in
/// archives would have none together.
pub(super) struct Budget {
    /// The bytes of files
    bytes: u64,
    files: usize,
    /// All that is unpacked, headers included
    unpacked_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: CHART_BYTES_MAX,
            files: FILES_MAX,
            unpacked_bytes: CHART_BYTES_MAX + OVERHEAD_BYTES_MAX,
        }
    }
}

/// The files of an archive, with paths relative to the chart's folder.
///
/// # Errors
/// An archive that Helm refuses, or that holds more than the limits allow.
pub fn files_of_archive(archive: &[u8]) -> Result<Vec<File>, ArchiveError> {
    files_within(archive, &mut Budget::default())
}

pub(super) fn files_within(archive: &[u8], budget: &mut Budget) -> Result<Vec<File>, ArchiveError> {
    let unzipped = MultiGzDecoder::new(archive);
    if unzipped.header().is_none() {
        return Err(broken(match archive.len() {
            0 => "EOF",
            1..GZIP_HEADER_BYTES => "unexpected EOF",
            _ => "gzip: invalid header",
        }));
    }
    let mut tar = tar::Archive::new(unzipped.take(budget.unpacked_bytes));
    let mut files = Vec::new();
    for entry in tar.entries().map_err(|error| unreadable(&error))? {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // Old archives have no type for folders.
        let is_old_folder = entry.header().as_bytes()[TYPE_OFFSET] == 0 && path.ends_with('/');
        if kind.is_dir() || is_old_folder || kind.is_pax_global_extensions() {
            continue;
        }
        budget.files = budget.files.checked_sub(1).ok_or(ArchiveError::TooManyFiles)?;
        let name = inner_path(&path)?;
        let size = entry.size();
        let left = budget.bytes.checked_sub(size).ok_or(ArchiveError::ChartTooLarge)?;
        if size > FILE_BYTES_MAX {
            return Err(ArchiveError::FileTooLarge(path));
        }
        budget.bytes = left;
        let mut data = Vec::new();
        let read = entry.take(size).read_to_end(&mut data);
        read.map_err(|error| unreadable(&error))?;
        if data.len() as u64 != size {
            return Err(broken("unexpected EOF"));
        }
        files.push(File {
            name,
            data: without_mark(data).into(),
        });
    }
    budget.unpacked_bytes = tar.into_inner().limit();
    if budget.unpacked_bytes == 0 {
        return Err(ArchiveError::ChartTooLarge);
    }
    if files.is_empty() {
        return Err(ArchiveError::Empty);
    }
    Ok(files)
}

fn broken(problem: &'static str) -> ArchiveError {
    ArchiveError::Broken(problem)
}

/// Go's messages for the errors of the decoders, whose own messages may quote the content.
fn unreadable(error: &io::Error) -> ArchiveError {
    broken(match error.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected EOF",
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => "gzip: invalid data",
        _ => "archive/tar: invalid tar header",
    })
}

pub(super) fn without_mark(data: Vec<u8>) -> Vec<u8> {
    match data.strip_prefix(BYTE_ORDER_MARK) {
        Some(data) => data.to_vec(),
        None => data,
    }
}

/// The path without its first folder.
fn inner_path(path: &str) -> Result<String, ArchiveError> {
    // An archive of Windows may have backslashes.
    let delimiter = if path.contains('\\') { '\\' } else { '/' };
    let (first, rest) = path.split_once(delimiter).unwrap_or((path, ""));
    let rest = rest.replace(delimiter, "/");
    if rest.starts_with('/') {
        return Err(ArchiveError::AbsolutePath);
    }
    let clean = clean(&rest);
    let bytes = clean.as_bytes();
    if clean == "." {
        return Err(ArchiveError::OutsideBase(path.to_owned()));
    }
    if clean.starts_with("..") {
        return Err(ArchiveError::ParentPath);
    }
    if bytes.len() >= 3 && bytes[0].is_ascii_alphabetic() && &bytes[1..3] == b":/" {
        return Err(ArchiveError::IllegalName);
    }
    if first == "Chart.yaml" {
        return Err(ArchiveError::ChartYamlOutside);
    }
    Ok(clean)
}

/// `path.Clean` of a path that is not absolute.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_chart_folder_and_stay_inside_it() {
        let inner = |path: &str| inner_path(path).map_err(|error| error.to_string());
        assert_eq!(inner("a/Chart.yaml").unwrap(), "Chart.yaml");
        assert_eq!(inner("a/b/../c//d").unwrap(), "c/d");
        assert_eq!(inner("a\\templates\\x.yaml").unwrap(), "templates/x.yaml");
        assert!(inner("a//etc/passwd").unwrap_err().contains("absolute"));
        assert!(inner("a/../../x").unwrap_err().contains("parent directory"));
        assert!(inner("Chart.yaml").unwrap_err().contains("outside the base directory"));
        assert!(inner("a\\c:\\x").unwrap_err().contains("illegally named"));
    }
}
