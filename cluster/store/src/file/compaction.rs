//! Giving pages back to the disk. The database keeps what it once had for what may come; here a file that is mostly air is
//! copied into a new one that takes its place at once. The copy goes in small steps between commits, so that writers
//! hardly wait, and follows what they do meanwhile. The copy is not read until it takes the store's place: a process that
//! is killed loses the copy and nothing else.
//!
//! It never decides what a row is worth: rows that the history no longer needs are removed by commits.

use super::disk::{Disk, Medium};
use super::error::FileError;
use super::place::Place;
use crate::Revision;

/// Bytes copied between two commits: a few milliseconds.
const STEP_BYTES: u64 = 1 << 20;
/// A file is mostly air when it is so many times as large as the rows in it. What lies in the database's pages takes up
/// to twice its bytes, because pages are half full and large rows are rounded up to a power of two.
const AIR_FACTOR: u64 = 4;

/// Whether and when a file is copied.
pub(super) struct Compaction {
    /// Files below are left as they are; 0: every file is copied, however it is.
    above_bytes: u64,
    /// What the file has to grow to before the next copy: one that failed would fail again, and one that has just been made
    /// is as small as it gets ...
    wait_for_bytes: u64,
    /// ... unless so much has gone that fewer bytes of rows than this are left.
    unless_below_bytes: u64,
    copy: Option<Copy>,
}

/// A copy in the making.
struct Copy {
    to: Disk,
    /// All rows up to here have been copied.
    copied: Revision,
    /// How many bytes they had.
    bytes: u64,
    /// Of these, the ones that have gone from the store since.
    gone: Vec<Revision>,
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

    /// Whether there is a copy to go on with.
    pub(super) fn is_under_way(&self) -> bool {
        self.copy.is_some()
    }

    /// Begins a copy when the file is mostly air.
    pub(super) fn consider(&mut self, place: &Place, medium: &impl Medium, rows_bytes: u64) {
        let bytes = place.file_bytes().unwrap_or(0);
        let is_air = bytes / AIR_FACTOR > rows_bytes && bytes >= self.above_bytes;
        let is_time = bytes >= self.wait_for_bytes || rows_bytes < self.unless_below_bytes;
        let is_due = self.above_bytes == 0 || is_air && is_time;
        if self.copy.is_some() || !is_due {
            return;
        }
        let blank = place.clear().and_then(|()| Disk::blank(&place.in_the_making(), medium));
        match blank {
            Ok(to) => {
                self.copy = Some(Copy {
                    to,
                    copied: Revision(0),
                    bytes: 0,
                    gone: Vec::new(),
                });
            }
            Err(_) => self.give_up(place),
        }
    }

    /// Notes rows that a commit removed from the store.
    pub(super) fn forgot(&mut self, rows: &[Revision]) {
        if let Some(copy) = &mut self.copy {
            let copied = copy.copied;
            copy.gone.extend(rows.iter().filter(|row| **row <= copied));
        }
    }

    /// Copies a little more. Once all is copied, the copy is returned in the place of the store.
    ///
    /// An error means that it is not certain which file is the store's; a copy that fails before is given up in silence,
    /// for the store lacks nothing.
    pub(super) fn go_on(&mut self, from: &Disk, place: &Place) -> Result<Option<Disk>, FileError> {
        let Some(copy) = &mut self.copy else {
            return Ok(None);
        };
        match copy.go_on(from) {
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
        // What stays is removed by the next copy or the next open.
        let _ = place.clear();
        self.wait_for_bytes = 2 * place.file_bytes().unwrap_or(0);
        self.unless_below_bytes = 0;
    }
}

impl Copy {
    /// Whether it is complete and durable.
    fn go_on(&mut self, from: &Disk) -> Result<bool, FileError> {
        match from.copy_rows(self.copied, STEP_BYTES, &self.to)? {
            Some((last, bytes)) => {
                self.copied = last;
                self.bytes += bytes;
                Ok(false)
            }
            None => {
                from.complete(&self.to, &self.gone)?;
                Ok(true)
            }
        }
    }
}
