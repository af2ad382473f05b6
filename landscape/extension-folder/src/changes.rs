//! Notices that files of an extension have changed. What the file system reports is collected until it has been still for a
//! moment: an editor writes several files, and a checkout hundreds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::folder::Folder;
use crate::manifests::{CHART, REGISTRATION};

/// How long files are still before their change counts.
const STILL: Duration = Duration::from_millis(100);
/// How long one waits for that: what never ends to change is looked at nevertheless.
const STILL_MAX: Duration = Duration::from_secs(2);
/// Folders and files of a crate that nothing of the program is made from; the builder writes some of them itself.
const NOT_BUILT_FROM: [&str; 5] = ["target", "Cargo.lock", "examples", "tests", "README.md"];

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// What the program is built from.
    pub sources: bool,
    /// The chart, or the registration.
    pub manifests: bool,
}

impl Changed {
    /// As it is at the beginning: nothing has been built or installed.
    pub const ALL: Self = Self {
        sources: true,
        manifests: true,
    };

    /// Both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sources: self.sources || other.sources,
            manifests: self.manifests || other.manifests,
        }
    }

    fn any(self) -> bool {
        self.sources || self.manifests
    }
}

/// The changes of a folder, from its making on.
pub struct Changes {
    seen: Arc<Seen>,
    watcher: RecommendedWatcher,
    folder: Folder,
    watched: BTreeSet<PathBuf>,
}

struct Seen {
    changed: Mutex<Changed>,
    more: Notify,
}

impl Seen {
    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Changes {
    /// Begins to watch.
    ///
    /// # Errors
    /// The system watches no more files, or a path is not there.
    pub fn watch(folder: &Folder) -> Result<Self, Fault> {
        let seen = Arc::new(Seen {
            changed: Mutex::default(),
            more: Notify::new(),
        });
        let (told, of_folder) = (seen.clone(), folder.clone());
        let report = move |event: notify::Result<Event>| {
            let changed = match event {
                Ok(event) => changed(&of_folder, &event),
                // Events were lost: anything may have changed.
                Err(_) => Changed::ALL,
            };
            if changed.any() {
                let mut all = told.changed();
                *all = all.and(changed);
                drop(all);
                told.more.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(report).map_err(|error| cannot_watch(&folder.path, &error))?;
        let mut changes = Self {
            seen,
            watcher,
            folder: folder.clone(),
            watched: BTreeSet::new(),
        };
        changes.look()?;
        Ok(changes)
    }

    /// Watches what is there and not watched yet: of a crate the folder itself, and all folders in it that it is built from, so
    /// that what Cargo writes into `target` is no event.
    fn look(&mut self) -> Result<(), Fault> {
        let root = self.folder.path.clone();
        let mut wanted = vec![(root.clone(), RecursiveMode::NonRecursive)];
        let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let is_built_from = |path: &PathBuf| part_of(&self.folder, path).is_some();
        wanted.extend(
            folders
                .filter(is_built_from)
                .map(|path| (path, RecursiveMode::Recursive)),
        );
        wanted.extend(
            self.folder
                .watch
                .iter()
                .map(|path| (path.clone(), RecursiveMode::Recursive)),
        );
        // What has gone may come again.
        self.watched.retain(|path| path.exists());
        for (path, mode) in wanted {
            if self.watched.insert(path.clone()) {
                self.watcher
                    .watch(&path, mode)
                    .map_err(|error| cannot_watch(&path, &error))?;
            }
        }
        Ok(())
    }

    /// Waits for the next change. Nothing is lost when this is dropped before it ends.
    pub async fn next(&mut self) -> Changed {
        while !self.seen.changed().any() {
            self.seen.more.notified().await;
        }
        let end = Instant::now() + STILL_MAX;
        while Instant::now() < end && timeout(STILL, self.seen.more.notified()).await.is_ok() {}
        if let Err(fault) = self.look() {
            tracing::warn!(hint = %fault.hint, "{fault}");
        }
        std::mem::take(&mut *self.seen.changed())
    }
}

fn cannot_watch(path: &Path, error: &notify::Error) -> Fault {
    Fault::user(format!("{} cannot be watched: {error}", path.display()))
        .hint("see that it is there; where the system watches too many files, raise fs.inotify.max_user_watches")
}

fn changed(folder: &Folder, event: &Event) -> Changed {
    if matches!(event.kind, EventKind::Access(_)) {
        return Changed::default();
    }
    let parts = event.paths.iter().filter_map(|path| part_of(folder, path));
    parts.fold(Changed::default(), Changed::and)
}

/// What a path is a part of.
fn part_of(folder: &Folder, path: &Path) -> Option<Changed> {
    let (sources, manifests) = (
        Changed {
            sources: true,
            manifests: false,
        },
        Changed {
            sources: false,
            manifests: true,
        },
    );
    let inner = path.strip_prefix(&folder.path).ok();
    let first = inner
        .and_then(|inner| inner.iter().next())
        .and_then(|first| first.to_str());
    if matches!(first, Some(CHART | REGISTRATION)) {
        return Some(manifests);
    }
    if path == folder.program {
        // It is what is made.
        return None;
    }
    if !folder.watch.is_empty() {
        return folder
            .watch
            .iter()
            .any(|watched| path.starts_with(watched))
            .then_some(sources);
    }
    let is_hidden = |name: &str| name.starts_with('.') || name.ends_with('~');
    let hidden = inner?.iter().any(|name| name.to_str().is_none_or(is_hidden));
    let first = first?;
    (!hidden && !NOT_BUILT_FROM.contains(&first)).then_some(sources)
}
