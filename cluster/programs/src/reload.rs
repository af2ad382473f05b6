//! Notices that a program was built again. It looks once in a while instead of waiting for the file system: builders replace
//! files by others, beside thousands that they write into the same folder. Where the builder's end is known, it looks then.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How often it looks: soon enough for a user who waits. A file counts once it has not changed for so long.
const EVERY: Duration = Duration::from_secs(1);

/// Announces that a program is built and whole: its containers are started again at once, without waiting for its file to stay
/// as it is. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct BuildSignal(Arc<watch::Sender<u64>>);

impl BuildSignal {
    /// The program is another one now.
    pub fn send(&self) {
        self.0.send_modify(|builds| *builds = builds.wrapping_add(1));
    }
}

/// What distinguishes a file from the one before.
type Seen = Option<(u64, u64, u64, i64, i64)>;

/// Files of which one may be replaced.
#[derive(Debug)]
pub(crate) struct Watched {
    files: Vec<(PathBuf, Seen)>,
    built: watch::Receiver<u64>,
}

impl Watched {
    /// The files as they are now. `built` announces that they are others.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>, built: &BuildSignal) -> Self {
        // Before the look: what is built from here on is not missed.
        let built = built.0.subscribe();
        let look = |path: PathBuf| {
            let seen = look(&path);
            (path, seen)
        };
        Watched {
            files: files.into_iter().map(look).collect(),
            built,
        }
    }

    /// Waits until one of the files is another one than it was, and has stayed so for a while or is announced. `usable`: whether
    /// what is there now is worth a restart.
    pub(crate) async fn changed(mut self, usable: impl Fn() -> bool) -> PathBuf {
        let mut before: Vec<Seen> = self.files.iter().map(|(_, seen)| *seen).collect();
        loop {
            let is_whole = tokio::select! {
                () = tokio::time::sleep(EVERY) => false,
                Ok(()) = self.built.changed() => true,
            };
            let now: Vec<Seen> = self.files.iter().map(|(path, _)| look(path)).collect();
            let settled = is_whole || now == before;
            let other = self
                .files
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
        let watched = Watched::new([path.clone()], &BuildSignal::default());
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

    #[tokio::test(start_paused = true)]
    async fn an_announced_program_counts_at_once_if_its_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "one").unwrap();
        let built = BuildSignal::default();
        let mut changed = Box::pin(Watched::new([path.clone()], &built).changed(|| true));
        assert_eq!(changed.as_mut().now_or_never(), None);
        built.send();
        assert_eq!(changed.as_mut().now_or_never(), None, "it is the one that runs");
        fs::write(&path, "longer").unwrap();
        assert_eq!(changed.as_mut().now_or_never(), None);
        built.clone().send();
        assert_eq!(changed.as_mut().now_or_never(), Some(path));
    }
}
