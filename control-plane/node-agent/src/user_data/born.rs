//! Files and units of user data while they are read, with the limits that hold for every form of it.

use bytes::Bytes;

use super::{BYTES_MAX, ENTRIES_MAX, UserData, UserDataError};
use crate::desired::{Content, DesiredFile, DesiredUnit};

/// Most bytes of a path; Linux' own limit.
const PATH_BYTES_MAX: usize = 4096;
/// Most bytes of a unit's name; systemd's own limit.
const UNIT_NAME_BYTES_MAX: usize = 255;
/// Most notes of what is skipped: they are for a reader.
const NOTES_MAX: usize = 100;
/// Where unit files lie.
const UNIT_FOLDER: &str = "/etc/systemd/system/";
/// What names of units end with; a name without is that of a service.
const UNIT_SUFFIXES: [&str; 8] = [
    ".service", ".socket", ".timer", ".mount", ".path", ".target", ".slice", ".swap",
];

/// What has been read so far.
#[derive(Debug, Default)]
pub(super) struct Born {
    data: UserData,
    /// Files, units and drop-ins.
    entries: usize,
    /// The size of all that was written: text that stands once may be written several times by YAML's aliases.
    bytes: usize,
    notes_left_out: usize,
}

impl Born {
    pub(super) fn into_user_data(mut self) -> UserData {
        if self.notes_left_out > 0 {
            let more = format!("and {} more", self.notes_left_out);
            self.data.skipped.push(more);
        }
        self.data
    }

    /// Notes what is not done.
    pub(super) fn skip(&mut self, note: String) {
        if self.data.skipped.len() < NOTES_MAX {
            self.data.skipped.push(note);
        } else {
            self.notes_left_out += 1;
        }
    }

    fn count(&mut self) -> Result<(), UserDataError> {
        self.entries += 1;
        match self.entries > ENTRIES_MAX {
            true => Err(UserDataError::TooMany),
            false => Ok(()),
        }
    }

    /// The unit, and the drop-in if it is one, of a file in systemd's folder.
    pub(super) fn unit_path(path: &str) -> Option<(&str, Option<&str>)> {
        let inside = path.strip_prefix(UNIT_FOLDER)?;
        match inside.split_once('/') {
            None => Some((inside, None)).filter(|(name, _)| has_unit_suffix(name)),
            Some((folder, drop_in)) => {
                let name = folder.strip_suffix(".d").filter(|name| has_unit_suffix(name))?;
                Some((name, Some(drop_in))).filter(|_| drop_in.ends_with(".conf") && !drop_in.contains('/'))
            }
        }
    }

    /// Where a unit's drop-in lies.
    pub(super) fn drop_in_path(unit: &str, drop_in: &str) -> String {
        format!("{UNIT_FOLDER}{}.d/{drop_in}", full_name(unit))
    }

    /// Writes a file, or what a unit consists of; `false` for a path that no file can have.
    pub(super) fn write(&mut self, path: &str, permissions: u32, content: Bytes) -> Result<bool, UserDataError> {
        self.count_bytes(content.len())?;
        self.put(path, permissions, content)
    }

    /// As [`Born::write`], after what has been written there before.
    pub(super) fn append(&mut self, path: &str, permissions: u32, content: &[u8]) -> Result<bool, UserDataError> {
        self.count_bytes(content.len())?;
        let whole = [self.content_of(path), content].concat();
        self.put(path, permissions, Bytes::from(whole))
    }

    fn count_bytes(&mut self, more: usize) -> Result<(), UserDataError> {
        self.bytes = self.bytes.saturating_add(more);
        match self.bytes > BYTES_MAX {
            true => Err(UserDataError::TooLarge),
            false => Ok(()),
        }
    }

    /// What has been written to a file, unit or drop-in so far.
    fn content_of(&self, path: &str) -> &[u8] {
        let desired = &self.data.desired;
        let unit = Self::unit_path(path);
        let text = unit.and_then(|(name, drop_in)| {
            let unit = desired.units.get(name)?;
            drop_in.map_or(unit.content.as_ref(), |drop_in| unit.drop_ins.get(drop_in))
        });
        match (text, desired.files.get(path).map(|file| &file.content)) {
            (Some(text), _) => text.as_bytes(),
            (None, Some(Content::Bytes(bytes))) => bytes,
            (None, _) => &[],
        }
    }

    fn put(&mut self, path: &str, permissions: u32, content: Bytes) -> Result<bool, UserDataError> {
        let clean = path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."));
        if !path.starts_with('/') || !clean || path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return Ok(false);
        }
        let Some((name, drop_in)) = Self::unit_path(path) else {
            self.count()?;
            let content = Content::Bytes(content);
            let file = DesiredFile { permissions, content };
            self.data.desired.files.insert(path.to_owned(), file);
            return Ok(true);
        };
        let Ok(text) = String::from_utf8(content.to_vec()) else {
            return Ok(false);
        };
        let Some(unit) = self.unit(name)? else {
            return Ok(false);
        };
        match drop_in {
            None => unit.content = Some(text),
            Some(drop_in) => {
                unit.drop_ins.insert(drop_in.to_owned(), text);
            }
        }
        Ok(true)
    }

    /// The mode of a file that has been written.
    pub(super) fn mode_of(&self, path: &str) -> Option<u32> {
        self.data.desired.files.get(path).map(|file| file.permissions)
    }

    /// Whether there is such a file.
    pub(super) fn change_mode(&mut self, path: &str, permissions: u32) -> bool {
        let file = self.data.desired.files.get_mut(path);
        file.map(|file| file.permissions = permissions).is_some()
    }

    /// A unit, which does not run until it is started; none for a name that no unit can have.
    pub(super) fn unit(&mut self, name: &str) -> Result<Option<&mut DesiredUnit>, UserDataError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
        if name.is_empty() || name.len() > UNIT_NAME_BYTES_MAX || name.starts_with('.') || !name.bytes().all(allowed) {
            return Ok(None);
        }
        self.count()?;
        let unit = self.data.desired.units.entry(full_name(name));
        Ok(Some(unit.or_insert_with(|| DesiredUnit {
            stopped: true,
            ..DesiredUnit::default()
        })))
    }
}

fn has_unit_suffix(name: &str) -> bool {
    UNIT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

fn full_name(unit: &str) -> String {
    let suffix = if has_unit_suffix(unit) { "" } else { ".service" };
    format!("{unit}{suffix}")
}
