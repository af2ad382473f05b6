//! Compaction. The database retains free pages for later writes; here a file that is mostly free space is copied into a new
//! one, which then replaces it atomically. The copy proceeds in small steps between commits, so that writers hardly wait, and
//! includes what they write meanwhile. It is not read until it has replaced the file: a process that is killed loses the
//! copy and nothing else.
//!
//! It never removes rows from the store: commits remove the rows that the history no longer needs.

use super::disk::{Disk, Medium};
use super::error::FileError;
use super::place::Place;
use crate::Revision;

/// Bytes copied between two commits: a few milliseconds.
const STEP_BYTES: u64 = 1 << 20;
/// A file is mostly free space when it is so many times as large as the rows in it. Rows in the database's pages take up
/// to twice their bytes, because pages are half full and large rows are rounded up to a power of two.
const FREE_SPACE_FACTOR: u64 = 4;

/// Whether and when a file is copied.
pub(super) struct Compaction {
    /// Smaller files are left as they are; 0: every file is copied.
    above_bytes: u64,
    /// The next copy waits until the file has grown to this size: after a failure it would fail again, and a new copy is as
    /// small as it gets ...
    wait_for_bytes: u64,
    /// ... unless fewer bytes of rows than this are left.
    unless_below_bytes: u64,
    copy: Option<Copy>,
}

/// An unfinished copy.
struct Copy {
    to: Disk,
    /// All rows up to here have been copied.
    copied: Revision,
    /// How many bytes they had.
    bytes: u64,
    /// Copied rows that have been removed from the store since.
    removed: Vec<Revision>,
}

impl Compaction {
    pub(super) fn new(above_bytes: u64) -> Self {
        Compaction {
            above_bytes,
            wait_for_bytes: 0,
            unless_below_bytes: 0,
            copy: None,
        }
    }

    /// Whether there is an unfinished copy.
    pub(super) fn is_under_way(&self) -> bool {
        self.copy.is_some()
    }

    /// Begins a copy when the file is mostly free space.
    pub(super) fn consider(&mut self, place: &Place, medium: &impl Medium, rows_bytes: u64) {
        let bytes = place.file_bytes().unwrap_or(0);
        let is_mostly_free = bytes / FREE_SPACE_FACTOR > rows_bytes && bytes >= self.above_bytes;
        let is_time = bytes >= self.wait_for_bytes || rows_bytes < self.unless_below_bytes;
        let is_due = self.above_bytes == 0 || is_mostly_free && is_time;
        if self.copy.is_some() || !is_due {
            return;
        }
        let blank = place.clear().and_then(|()| Disk::blank(&place.new_file(), medium));
        match blank {
            Ok(to) => {
                self.copy = Some(Copy {
                    to,
                    copied: Revision(0),
                    bytes: 0,
                    removed: Vec::new(),
                });
            }
            Err(_) => self.give_up(place),
        }
    }

    /// Notes rows that a commit removed from the store.
    pub(super) fn note_removed(&mut self, rows: &[Revision]) {
        if let Some(copy) = &mut self.copy {
            let copied = copy.copied;
            copy.removed.extend(rows.iter().filter(|row| **row <= copied));
        }
    }

    /// Copies the next rows. Returns the copy once it is complete and has replaced the store's file.
    ///
    /// An error means that it is not certain which file is the store's; a copy that fails earlier is dropped without an
    /// error, because the store lacks nothing.
    pub(super) fn step(&mut self, from: &Disk, place: &Place) -> Result<Option<Disk>, FileError> {
        let Some(copy) = &mut self.copy else {
            return Ok(None);
        };
        match copy.step(from) {
            Ok(false) => return Ok(None),
            Ok(true) => {}
            Err(_) => {
                self.give_up(place);
                return Ok(None);
            }
        }
        let Some(copy) = self.copy.take() else {
            return Ok(None);
        };
        if let Err(error) = place.put_in_place() {
            copy.to.abandon();
            return Err(error);
        }
        self.wait_for_bytes = 2 * place.file_bytes().unwrap_or(0);
        self.unless_below_bytes = copy.bytes / 2;
        Ok(Some(copy.to.renamed(place.file())))
    }

    /// Throws away a copy that is not finished, and waits with the next one until the file has grown.
    pub(super) fn give_up(&mut self, place: &Place) {
        if let Some(copy) = self.copy.take() {
            copy.to.abandon();
        }
        // A file that stays is removed by the next copy or the next open.
        let _ = place.clear();
        self.wait_for_bytes = 2 * place.file_bytes().unwrap_or(0);
        self.unless_below_bytes = 0;
    }
}

impl Copy {
    /// Copies the next rows; true once the copy is complete and durable.
    fn step(&mut self, from: &Disk) -> Result<bool, FileError> {
        match from.copy_rows(self.copied, STEP_BYTES, &self.to)? {
            Some((last, bytes)) => {
                self.copied = last;
                self.bytes += bytes;
                Ok(false)
            }
            None => {
                from.complete(&self.to, &self.removed)?;
                Ok(true)
            }
        }
    }
}
