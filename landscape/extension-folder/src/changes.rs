//! Notices that files of an extension have changed. What the file system reports is collected until it has been still for a
//! moment: an editor writes several files, and a checkout hundreds. What changes while a build runs is reported apart: the
//! build may have written it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use notify::{Event, EventKind, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::folder::Folder;
use crate::parts::{Changed, part_of, wanted};

/// How long files are still before their change counts.
const STILL: Duration = Duration::from_millis(100);
/// How long one waits for that: what never ends to change is looked at nevertheless.
const STILL_MAX: Duration = Duration::from_secs(2);
/// How long after its end the writes of a build may be reported. Nothing is printed before, so that no edit is mistaken for one.
const REPORTS_LAG: Duration = Duration::from_millis(50);
/// Paths that are remembered of one build: enough to recognise what it writes.
const PATHS_MAX: usize = 100;
/// What has changed between two looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// What has changed while no build ran, and chart, registration and settings at any time.
    pub(crate) changed: Changed,
    /// Sources that have changed while a build ran.
    pub(crate) in_build: BTreeSet<PathBuf>,
    /// Whether a build has ended, and no source changed while it ran.
    pub(crate) build_was_quiet: bool,
}

/// The changes of a folder, from its making on.
pub(crate) struct Changes {
    seen: Arc<Seen>,
    watcher: Box<dyn Watcher + Send>,
    /// What is watched, and which file or folder that was.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    /// What has been reported of paths that cannot be watched.
    refusals: BTreeSet<String>,
}

/// Takes from a build what [`Changes`] must know of it. Clones are the same.
#[derive(Clone)]
pub(crate) struct Builds(Arc<Seen>);

struct Seen {
    state: Mutex<State>,
    more: Notify,
}

struct State {
    folder: Folder,
    /// Whether what is to be watched may be something else than before.
    look: bool,
    changed: Changed,
    in_build: BTreeSet<PathBuf>,
    building: bool,
    /// Whether a build has ended, and no source changed while it ran.
    build_was_quiet: bool,
}

impl State {
    fn any(&self) -> bool {
        self.changed.any() || !self.in_build.is_empty()
    }

    fn waits(&self, held: bool) -> bool {
        !self.any() || (held && self.building)
    }

    fn take(&mut self, event: notify::Result<Event>) {
        match event {
            Ok(event) if !event.need_rescan() => self.take_paths(&event),
            // Events were lost: anything may have changed, and what is watched may have been replaced.
            _ => {
                self.changed = Changed::FIRST.and(Changed::SETTINGS);
                self.look = true;
            }
        }
    }

    fn take_paths(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::Access(_)) {
            return;
        }
        for path in &event.paths {
            let Some(part) = part_of(&self.folder, path) else {
                continue;
            };
            if part.sources && self.building {
                self.build_was_quiet = false;
                if self.in_build.len() < PATHS_MAX {
                    self.in_build.insert(path.clone());
                }
            } else {
                self.changed = self.changed.and(part);
            }
        }
    }
}

impl Seen {
    fn new(folder: &Folder) -> Self {
        Self {
            state: Mutex::new(State {
                folder: folder.clone(),
                look: false,
                changed: Changed::default(),
                in_build: BTreeSet::new(),
                building: false,
                build_was_quiet: false,
            }),
            more: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Builds {
    /// A build runs, until what is returned is dropped.
    pub(crate) fn begins(&self) -> Running {
        let mut state = self.0.state();
        state.building = true;
        state.build_was_quiet = true;
        Running(self.clone())
    }

    /// The folder is read in another way from now on.
    pub(crate) fn reads(&self, folder: &Folder) {
        let mut state = self.0.state();
        state.folder = folder.clone();
        state.look = true;
        drop(state);
        self.0.more.notify_one();
    }
}

/// A build that runs.
pub(crate) struct Running(Builds);

impl Running {
    /// Waits until what the build has written is reported.
    pub(crate) async fn ends(self) {
        tokio::time::sleep(REPORTS_LAG).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.state().building = false;
        self.0.0.more.notify_one();
    }
}

impl Changes {
    /// Begins to watch.
    ///
    /// # Errors
    /// The system watches no more files, or a path is not there.
    pub(crate) fn watch(folder: &Folder) -> Result<Self, Fault> {
        let seen = Arc::new(Seen::new(folder));
        let to = seen.clone();
        let report = move |event: notify::Result<Event>| {
            let mut state = to.state();
            state.take(event);
            if state.any() {
                drop(state);
                to.more.notify_one();
            }
        };
        let watcher = notify::recommended_watcher(report).map_err(|error| cannot_watch(&folder.path, &error))?;
        let mut changes = Self {
            seen,
            watcher: Box::new(watcher),
            watched: BTreeMap::new(),
            refusals: BTreeSet::new(),
        };
        changes.look()?;
        Ok(changes)
    }

    /// What builds report to.
    pub(crate) fn builds(&self) -> Builds {
        Builds(self.seen.clone())
    }

    /// Watches what is there and not watched yet. A path that cannot be watched does not hold up the others.
    ///
    /// # Errors
    /// The first of those that cannot be watched.
    fn look(&mut self) -> Result<(), Fault> {
        let wanted = wanted(&self.seen.state().folder);
        // What has gone may come again, and what was replaced is watched no more.
        self.watched.retain(|path, was| identity(path) == Some(*was));
        let mut first = Ok(());
        for (path, mode) in wanted {
            let Some(is) = identity(&path) else { continue };
            if !self.watched.contains_key(&path) {
                // Where another one was there before.
                let _ = self.watcher.unwatch(&path);
                match self.watcher.watch(&path, mode) {
                    Ok(()) => drop(self.watched.insert(path, is)),
                    Err(error) => first = first.and(Err(cannot_watch(&path, &error))),
                }
            }
        }
        first
    }

    /// Waits for the next change, and while `held` for the end of the build that runs. `report` gets what cannot be watched.
    /// Nothing is lost when this is dropped before it ends.
    pub(crate) async fn next(&mut self, held: bool, report: impl Fn(&str)) -> Batch {
        loop {
            let waits = self.seen.state().waits(held);
            if std::mem::take(&mut self.seen.state().look) {
                self.look_again(&report);
            }
            if !waits {
                break;
            }
            self.seen.more.notified().await;
        }
        let end = Instant::now() + STILL_MAX;
        while Instant::now() < end && timeout(STILL, self.seen.more.notified()).await.is_ok() {}
        self.look_again(&report);
        let mut state = self.seen.state();
        Batch {
            changed: std::mem::take(&mut state.changed),
            in_build: std::mem::take(&mut state.in_build),
            build_was_quiet: state.build_was_quiet && !state.building,
        }
    }

    /// Looks, and reports each text once: a path is tried again at each change.
    fn look_again(&mut self, report: impl Fn(&str)) {
        if let Err(fault) = self.look() {
            let text = format!("{fault}\nhint: {}", fault.hint);
            if !self.refusals.contains(&text) {
                report(&text);
                self.refusals.insert(text);
            }
        }
    }
}

fn cannot_watch(path: &Path, error: &notify::Error) -> Fault {
    Fault::user(format!("{} cannot be watched: {error}", path.display()))
        .hint("see that it is there; where the system watches too many files, raise fs.inotify.max_user_watches")
}

/// Which file or folder a path names now.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use notify::RecursiveMode;
    use notify::event::Flag;

    use super::*;
    use crate::parts::tests::folder;

    /// Watches all but one path. The system's own refuses too rarely: root may read everything.
    #[derive(Debug)]
    struct Refuses(PathBuf);

    impl Watcher for Refuses {
        fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<Self> {
            Ok(Self(PathBuf::new()))
        }

        fn watch(&mut self, path: &Path, _: RecursiveMode) -> notify::Result<()> {
            match path == self.0 {
                true => Err(notify::Error::generic("no")),
                false => Ok(()),
            }
        }

        fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
            Ok(())
        }

        fn kind() -> notify::WatcherKind {
            notify::WatcherKind::NullWatcher
        }
    }

    #[test]
    fn lost_events_count_as_a_change_of_everything() {
        let mut state = Seen::new(&folder(&[], &[])).state.into_inner().unwrap();
        state.take(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        let Changed {
            sources,
            manifests,
            settings,
        } = state.changed;
        assert!(sources && manifests && settings && state.look);
    }

    #[test]
    fn an_unwatchable_path_is_reported_once_and_delays_no_other() {
        let root = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| root.path().join(name));
        for path in &paths {
            std::fs::create_dir(path).unwrap();
        }
        let folder = Folder {
            path: root.path().to_owned(),
            ..folder(&[], &[])
        };
        let mut changes = Changes {
            seen: Arc::new(Seen::new(&folder)),
            watcher: Box::new(Refuses(paths[1].clone())),
            watched: BTreeMap::new(),
            refusals: BTreeSet::new(),
        };
        let reports = RefCell::new(Vec::new());
        for _ in 0..2 {
            changes.look_again(|text| reports.borrow_mut().push(text.to_owned()));
        }
        let watched: Vec<&Path> = changes.watched.keys().map(PathBuf::as_path).collect();
        assert_eq!(watched, [root.path(), &paths[0], &paths[2]]);
        let reports = reports.into_inner();
        assert!(
            reports.len() == 1 && reports[0].contains("/b cannot be watched: no\nhint: "),
            "{reports:?}"
        );
    }
}
