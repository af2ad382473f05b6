//! Builds that write into what they are built from: such a build would begin again without end. It decides from which changes
//! came while builds ran; it reads no file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::changes::{Batch, Changed};
use crate::settings::FILE;

/// Builds in a row that a change while they run makes begin again, before such changes are taken for the build's own: a person
/// rarely saves in the middle of so many.
const DISTURBED_MAX: u32 = 3;
/// Paths that a report names.
const NAMED_MAX: usize = 3;

/// What is known of a build's own writes.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    /// Builds in a row in which sources changed.
    disturbed: u32,
    /// Those sources.
    paths: BTreeSet<PathBuf>,
    /// Sources that are taken for the build's own.
    own: BTreeSet<PathBuf>,
}

/// What a change leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the build has made it.
    Ignored,
    /// This is due.
    Due(Changed),
    /// This is due, and this is to be reported.
    Reported(Changed, String),
}

impl OwnWrites {
    /// Whether no change interrupts a build.
    pub(crate) fn hold_builds(&self) -> bool {
        !self.own.is_empty()
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
        let due = Changed {
            sources: true,
            ..changed
        };
        if in_build.is_subset(&self.own) {
            return match changed == Changed::default() {
                true => Verdict::Ignored,
                false => Verdict::Due(changed),
            };
        }
        self.disturbed += 1;
        self.paths.extend(in_build);
        if self.disturbed < DISTURBED_MAX {
            return Verdict::Due(due);
        }
        self.disturbed = 0;
        let is_known = self.hold_builds();
        let paths = std::mem::take(&mut self.paths);
        let text = report(&paths, folder);
        self.own.extend(paths);
        match (is_known, changed == Changed::default()) {
            (false, _) => Verdict::Reported(due, text),
            // It writes others each time, and the last build went through.
            (true, true) => Verdict::Ignored,
            (true, false) => Verdict::Due(changed),
        }
    }
}

fn report(paths: &BTreeSet<PathBuf>, folder: &Path) -> String {
    let shown = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(shown).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{DISTURBED_MAX} builds in a row began again because {}{more} changed while they ran; the next one is not interrupted, and \
         such changes are ignored while a build runs\nhint: if the build writes them, list in the field watch of {FILE} only what \
         the program is built from",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: Changed = Changed {
        sources: true,
        manifests: false,
        settings: false,
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

    #[test]
    fn the_third_disturbed_build_in_a_row_names_the_path_and_the_next_goes_through() {
        let mut own = OwnWrites::default();
        for _ in 0..2 {
            assert_eq!(take(&mut own, in_build("gen/a")), Verdict::Due(SOURCES));
            assert!(!own.hold_builds());
        }
        let Verdict::Reported(due, text) = take(&mut own, in_build("gen/a")) else {
            unreachable!("the third is reported")
        };
        assert!(
            text.contains("because gen/a changed") && text.contains("watch"),
            "{text}"
        );
        assert!(due == SOURCES && own.hold_builds());
        assert_eq!(take(&mut own, in_build("gen/a")), Verdict::Ignored);
        assert_eq!(take(&mut own, edited(false)), Verdict::Due(SOURCES));
    }

    #[test]
    fn a_build_that_writes_other_names_each_time_ends_too() {
        let mut own = OwnWrites::default();
        let mut builds = 0;
        while take(&mut own, in_build(&format!("gen/{builds}"))) != Verdict::Ignored {
            builds += 1;
            assert!(builds < 10, "it goes on without end");
        }
        assert_eq!(builds, 5);
    }

    #[test]
    fn an_undisturbed_build_forgets_what_was_taken_for_own() {
        let mut own = OwnWrites::default();
        for _ in 0..3 {
            take(&mut own, in_build("src/main.rs"));
        }
        assert_eq!(take(&mut own, edited(true)), Verdict::Due(SOURCES));
        assert!(!own.hold_builds());
        assert_eq!(take(&mut own, in_build("src/main.rs")), Verdict::Due(SOURCES));
    }
}
