//! A volume of which the node is the only writer, in a folder: its files change all at once, for readers that have the folder
//! open as well (kubernetes/kubernetes v1.35 pkg/volume/util/atomic_writer.go). It decides nothing about what the files hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;

/// The link to the folder with the current files.
const DATA: &str = "..data";
/// The link before it takes its place.
const DATA_NEXT: &str = "..data_tmp";

/// Files by path within the volume, each with its mode.
pub(crate) type Content = BTreeMap<String, (Bytes, u32)>;

/// One volume's folder.
#[derive(Debug)]
pub(crate) struct VolumeFolder {
    path: PathBuf,
    /// What the files hold; none where that is not known, as after a write that failed on its way.
    written: Option<Content>,
    /// The links that may be there, by name.
    shown: BTreeSet<String>,
    /// How often it was written.
    times: u64,
}

impl VolumeFolder {
    /// A folder that is not there yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        VolumeFolder {
            path,
            written: None,
            shown: BTreeSet::new(),
            times: 0,
        }
    }

    /// Makes the folder hold these files and no others. A reader sees all of the files before, or all of these.
    pub(crate) fn write(&mut self, content: Content) -> io::Result<()> {
        if self.written.as_ref() == Some(&content) {
            return Ok(());
        }
        make_folder(&self.path)?;
        let written = self.switch_to(&content);
        // What was replaced, or could not be written to its end.
        let removed = self.remove_all_but_current();
        written.and(removed)?;
        self.written = Some(content);
        Ok(())
    }

    fn switch_to(&mut self, content: &Content) -> io::Result<()> {
        self.times += 1;
        let name = format!("..{}", self.times);
        let folder = self.path.join(&name);
        make_folder(&folder)?;
        for (path, (bytes, mode)) in content {
            write_file(&folder, path, bytes, *mode)?;
        }
        let next = self.path.join(DATA_NEXT);
        remove_file(&next)?;
        symlink(&name, &next)?;
        // From here on the earlier files may be gone, even if a later step fails.
        self.written = None;
        fs::rename(&next, self.path.join(DATA))?;
        let tops = content.keys().filter_map(|path| path.split('/').next());
        let now: BTreeSet<String> = tops.map(str::to_owned).collect();
        self.shown.extend(now.iter().cloned());
        for top in &now {
            let link = self.path.join(top);
            if fs::symlink_metadata(&link).is_err() {
                symlink(Path::new(DATA).join(top), &link)?;
            }
        }
        for gone in self.shown.difference(&now) {
            remove_file(&self.path.join(gone))?;
        }
        self.shown = now;
        Ok(())
    }

    fn remove_all_but_current(&self) -> io::Result<()> {
        let current = match fs::read_link(self.path.join(DATA)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            current => Some(current?),
        };
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let time = name.to_str().and_then(|name| name.strip_prefix(".."));
            let is_ours = time.is_some_and(|time| time.parse::<u64>().is_ok());
            if is_ours && current.as_deref() != Some(Path::new(&name)) {
                fs::remove_dir_all(self.path.join(name))?;
            }
        }
        Ok(())
    }
}

fn write_file(folder: &Path, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let inside = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    if !inside || path.is_empty() {
        let why = format!("{path:?} is not a path inside its volume");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let target = folder.join(path);
    make_folder(target.parent().unwrap_or(folder))?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&target)?;
    io::Write::write_all(&mut file, bytes)?;
    // Whatever the umask of this process is.
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Makes a folder and those above it. Other users may read it, as far as the folders above let them.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: &[(&str, &str)]) -> Content {
        let files = files.iter();
        files
            .map(|(path, text)| ((*path).to_owned(), (Bytes::from((*text).to_owned()), 0o640)))
            .collect()
    }

    #[test]
    fn files_change_together_and_missing_ones_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("volume");
        let mut volume = VolumeFolder::new(path.clone());
        volume
            .write(content(&[("a", "1"), ("pki/ca.crt", "1"), ("old", "1")]))
            .unwrap();
        assert_eq!(fs::read_to_string(path.join("pki/ca.crt")).unwrap(), "1");
        let mode = fs::metadata(path.join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // The same content is not written again.
        let link = fs::read_link(path.join("..data")).unwrap();
        volume
            .write(content(&[("a", "1"), ("pki/ca.crt", "1"), ("old", "1")]))
            .unwrap();
        assert_eq!(fs::read_link(path.join("..data")).unwrap(), link, "nothing has changed");
        volume.write(content(&[("a", "2"), ("new/b", "2")])).unwrap();
        assert_ne!(fs::read_link(path.join("..data")).unwrap(), link);
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "2");
        assert_eq!(fs::read_to_string(path.join("new/b")).unwrap(), "2");
        assert!(!path.join("old").exists() && !path.join("pki").exists());
        let left = fs::read_dir(&path).unwrap().count();
        assert_eq!(left, 4, "two files, the link and what it leads to");
    }

    #[test]
    fn no_file_leaves_its_volume() {
        let root = tempfile::tempdir().unwrap();
        for path in ["../a", "a/../../b", "/a", ""] {
            let mut volume = VolumeFolder::new(root.path().join("v"));
            let error = volume.write(content(&[(path, "x")])).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path}");
        }
    }

    #[test]
    fn a_failed_write_leaves_what_was_there_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("v");
        let mut volume = VolumeFolder::new(path.clone());
        let entries = || fs::read_dir(&path).unwrap().count();
        for _ in 0..3 {
            assert!(volume.write(content(&[("a", "1"), ("b/../c", "1")])).is_err());
            assert_eq!(entries(), 0);
        }
        volume.write(content(&[("a", "1")])).unwrap();
        for _ in 0..3 {
            assert!(volume.write(content(&[("a", "2"), ("b/../c", "2")])).is_err());
            assert_eq!(entries(), 3, "a file, the link and what it leads to");
        }
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "1");
    }

    #[test]
    fn earlier_content_is_written_again_after_a_write_that_failed_late() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("v");
        let mut volume = VolumeFolder::new(path.clone());
        let before = || content(&[("a", "1"), ("old", "1")]);
        volume.write(before()).unwrap();
        // A folder in the place of a link that is to go, and a file in that of a folder: neither can be removed.
        for (link, obstacle) in [(Some("old"), "old/x"), (None, "..999")] {
            if let Some(link) = link {
                fs::remove_file(path.join(link)).unwrap();
                fs::create_dir(path.join(link)).unwrap();
            }
            fs::write(path.join(obstacle), "").unwrap();
            assert!(volume.write(content(&[("a", "2"), ("new", "2")])).is_err());
            assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "2", "{obstacle}");
            fs::remove_file(path.join(obstacle)).unwrap();
            if let Some(link) = link {
                fs::remove_dir(path.join(link)).unwrap();
            }
            volume.write(before()).unwrap();
            for file in ["a", "old"] {
                assert_eq!(fs::read_to_string(path.join(file)).unwrap(), "1", "{obstacle}");
            }
            let left = fs::read_dir(&path).unwrap().count();
            assert_eq!(left, 4, "two files, the link and what it leads to: {obstacle}");
        }
    }

    #[test]
    fn nothing_is_removed_while_the_current_folder_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("v");
        let mut volume = VolumeFolder::new(path.clone());
        volume.write(content(&[("a", "1")])).unwrap();
        let current = path.join(fs::read_link(path.join(DATA)).unwrap());
        // Reading a file as a link fails.
        fs::remove_file(path.join(DATA)).unwrap();
        fs::write(path.join(DATA), "").unwrap();
        assert!(volume.write(content(&[("a", "2"), ("b/../c", "2")])).is_err());
        assert_eq!(fs::read_to_string(current.join("a")).unwrap(), "1");
    }
}
