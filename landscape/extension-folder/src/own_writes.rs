//! Builds that write into what they are built from: such a build would begin again without end. It decides from which changes
//! came while builds ran; it reads no file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::changes::Batch;
use crate::parts::Changed;
use crate::settings::FILE;

/// Builds in a row that a change while they run makes begin again, before builds are held: a person rarely saves in the middle
/// of so many.
const DISTURBED_MAX: u32 = 3;
/// Paths that a report names.
const NAMED_MAX: usize = 3;

/// What is known of a build's own writes.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// Builds in a row in which sources changed.
    disturbed: u32,
    /// Whether no change interrupts a build.
    held: bool,
    /// Builds in a row that went through and were repeated because sources changed in the one before.
    repeated: u32,
    /// Sources that have changed in a build.
    own: BTreeSet<PathBuf>,
}

/// What a change leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What is to be done; nothing if the build has made the change.
    pub(crate) due: Changed,
    /// What is to be reported.
    pub(crate) report: Option<String>,
}

impl OwnWrites {
    /// Whether no change interrupts a build.
    pub(crate) fn hold_builds(&self) -> bool {
        self.held
    }

    /// Takes what has changed. `folder`: what reported paths are relative to.
    pub(crate) fn take(&mut self, batch: Batch, folder: &Path) -> Verdict {
        let Batch {
            changed,
            in_build,
            build_was_quiet,
        } = batch;
        if build_was_quiet {
            *self = Self::default();
        }
        if in_build.is_empty() {
            // What is built for this may be repeated as well.
            self.repeated = 0;
            return Verdict {
                due: changed,
                report: None,
            };
        }
        let build = Changed {
            sources: true,
            ..changed
        };
        if self.held {
            return self.take_held(&in_build, changed, build, folder);
        }
        self.disturbed += 1;
        self.own.extend(in_build);
        self.held = self.disturbed == DISTURBED_MAX;
        Verdict {
            due: build,
            report: self.held.then(|| held(&self.own, folder)),
        }
    }

    /// Takes what has changed in a build that was not interrupted. A person may have changed it, so that it is built once more:
    /// what changes in that build too is the build's own, or is named.
    fn take_held(&mut self, in_build: &BTreeSet<PathBuf>, changed: Changed, build: Changed, folder: &Path) -> Verdict {
        let is_known = in_build.is_subset(&self.own);
        self.own.extend(in_build.iter().cloned());
        if self.repeated == 0 || (!is_known && self.repeated < DISTURBED_MAX) {
            self.repeated += 1;
            return Verdict {
                due: build,
                report: None,
            };
        }
        self.repeated = 0;
        Verdict {
            due: changed,
            report: (!changed.sources).then(|| ignored(in_build, folder)),
        }
    }
}

fn held(paths: &BTreeSet<PathBuf>, folder: &Path) -> String {
    format!(
        "{DISTURBED_MAX} builds in a row began again because {} changed while they ran; from now on no build is interrupted, and \
         one in which sources change is repeated once\nhint: if the build writes them, list in the field watch of {FILE} only \
         what the program is built from",
        named(paths, folder)
    )
}

fn ignored(paths: &BTreeSet<PathBuf>, folder: &Path) -> String {
    format!(
        "{} changed while the program was built, and in the build before: ignored\nhint: if you changed it, save it again now",
        named(paths, folder)
    )
}

/// The first of the paths, and how many more there are.
fn named(paths: &BTreeSet<PathBuf>, folder: &Path) -> String {
    let shown = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(shown).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Changed = Changed {
        sources: false,
        manifests: false,
        settings: false,
    };
    const SOURCES: Changed = Changed {
        sources: true,
        ..NOTHING
    };
    const MANIFESTS: Changed = Changed {
        manifests: true,
        ..NOTHING
    };

    fn in_build(path: &str) -> Batch {
        Batch {
            in_build: BTreeSet::from([Path::new("/moon").join(path)]),
            ..Batch::default()
        }
    }

    fn edited(build_was_quiet: bool) -> Batch {
        Batch {
            changed: SOURCES,
            build_was_quiet,
            ..Batch::default()
        }
    }

    fn take(own: &mut OwnWrites, batch: Batch) -> Verdict {
        own.take(batch, Path::new("/moon"))
    }

    /// After three builds that were disturbed by a path.
    fn held_by(path: &str) -> OwnWrites {
        let mut own = OwnWrites::default();
        for _ in 0..DISTURBED_MAX {
            assert!(!own.hold_builds());
            assert_eq!(take(&mut own, in_build(path)).due, SOURCES);
        }
        assert!(own.hold_builds());
        own
    }

    fn due(due: Changed) -> Verdict {
        Verdict { due, report: None }
    }

    #[test]
    fn the_third_consecutive_disturbed_build_names_the_path_and_holds_the_next() {
        let mut own = OwnWrites::default();
        for _ in 0..2 {
            assert_eq!(take(&mut own, in_build("gen/a")), due(SOURCES));
        }
        let third = take(&mut own, in_build("gen/a"));
        let text = third.report.unwrap();
        assert!(
            text.contains("because gen/a changed") && text.contains("watch"),
            "{text}"
        );
        assert!(third.due == SOURCES && own.hold_builds());
    }

    #[test]
    fn a_held_build_is_repeated_once_before_its_changes_are_ignored_and_named() {
        let mut own = held_by("gen/a");
        for _ in 0..2 {
            assert_eq!(
                take(&mut own, in_build("gen/a")),
                due(SOURCES),
                "a person may have saved it"
            );
            let ignored = take(&mut own, in_build("gen/a"));
            assert_eq!(ignored.due, NOTHING);
            let text = ignored.report.unwrap();
            assert!(text.starts_with("gen/a changed while"), "{text}");
            assert_eq!(take(&mut own, edited(false)), due(SOURCES));
        }
    }

    #[test]
    fn another_path_in_the_repeated_build_is_built_too() {
        let mut own = held_by("gen/a");
        assert_eq!(take(&mut own, in_build("gen/a")), due(SOURCES));
        assert_eq!(take(&mut own, in_build("src/main.rs")), due(SOURCES));
        assert_eq!(take(&mut own, in_build("gen/a")).due, NOTHING);
    }

    #[test]
    fn a_chart_that_changes_in_an_ignored_build_is_installed() {
        let mut own = held_by("gen/a");
        take(&mut own, in_build("gen/a"));
        let batch = Batch {
            changed: MANIFESTS,
            ..in_build("gen/a")
        };
        let both = take(&mut own, batch);
        assert!(both.due == MANIFESTS && both.report.is_some(), "{both:?}");
    }

    #[test]
    fn a_build_that_writes_other_names_each_time_ends_too() {
        let mut own = OwnWrites::default();
        let mut builds = 0;
        while take(&mut own, in_build(&format!("gen/{builds}"))).due == SOURCES {
            builds += 1;
            assert!(builds < 10, "it goes on without end");
        }
        assert_eq!(builds, 6);
    }

    #[test]
    fn an_undisturbed_build_forgets_what_changed_in_those_before() {
        let mut own = held_by("src/main.rs");
        assert_eq!(take(&mut own, edited(true)), due(SOURCES));
        assert!(!own.hold_builds());
        assert_eq!(take(&mut own, in_build("src/main.rs")), due(SOURCES));
        assert!(!own.hold_builds());
    }
}
