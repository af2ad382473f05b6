//! Notices that a program was built again. It looks once in a while instead of waiting for the file system: builders replace
//! files by others, beside thousands that they write into the same folder.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it looks: soon enough for who waits for it, and a file stays as it is for so long before it counts.
const EVERY: Duration = Duration::from_secs(1);

/// What tells a file from the one before.
type Seen = Option<(u64, u64, u64, i64, i64)>;

/// Files of which one may be replaced.
#[derive(Debug)]
pub(crate) struct Watched(Vec<(PathBuf, Seen)>);

impl Watched {
    /// The files as they are now.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let look = |path: PathBuf| {
            let seen = look(&path);
            (path, seen)
        };
        Watched(files.into_iter().map(look).collect())
    }

    /// Waits until one of the files is another one than it was, and has stayed so for a while. `usable`: whether what is
    /// there now is worth a restart.
    pub(crate) async fn changed(&self, usable: impl Fn() -> bool) -> PathBuf {
        let mut before: Vec<Seen> = self.0.iter().map(|(_, seen)| *seen).collect();
        loop {
            tokio::time::sleep(EVERY).await;
            let now: Vec<Seen> = self.0.iter().map(|(path, _)| look(path)).collect();
            let settled = now == before;
            let other = self
                .0
                .iter()
                .zip(&now)
                .find(|((_, was), is)| is.is_some() && was != *is);
            if let Some(((path, _), _)) = other.filter(|_| settled && usable()) {
                return path.clone();
            }
            before = now;
        }
    }
}

fn look(path: &Path) -> Seen {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_counts_as_changed_once_it_is_another_and_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "one").unwrap();
        let watched = Watched::new([path.clone()]);
        let mut changed = Box::pin(watched.changed(|| true));
        let mut pass = async || {
            tokio::time::advance(EVERY).await;
            changed.as_mut().now_or_never()
        };
        assert_eq!(pass().await, None);
        fs::remove_file(&path).unwrap();
        assert_eq!(pass().await, None);
        assert_eq!(pass().await, None, "what is gone cannot be started");
        fs::write(&path, "three").unwrap();
        assert_eq!(pass().await, None, "it may still be written to");
        fs::write(&path, "longer").unwrap();
        assert_eq!(pass().await, None, "it was");
        assert_eq!(pass().await, Some(path));
    }
}
