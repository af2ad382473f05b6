//! What the files of an extension's folder are parts of, and which of them are to be watched. It remembers nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use notify::RecursiveMode;

use crate::folder::Folder;
use crate::manifests::{CHART, REGISTRATION};
use crate::settings::FILE;

/// Folders and files of a crate that nothing of the program is made from; the builder writes some of them itself.
const NOT_BUILT_FROM: [&str; 5] = ["target", "Cargo.lock", "examples", "tests", "README.md"];

/// What has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// What the program is built from.
    pub(crate) sources: bool,
    /// The chart, or the registration.
    pub(crate) manifests: bool,
    /// How the program is built.
    pub(crate) settings: bool,
}

impl Changed {
    /// As it is at the beginning: nothing has been built or installed.
    pub(crate) const FIRST: Self = Self {
        sources: true,
        manifests: true,
        settings: false,
    };
    pub(crate) const SOURCES: Self = Self {
        sources: true,
        manifests: false,
        settings: false,
    };
    pub(crate) const MANIFESTS: Self = Self {
        sources: false,
        manifests: true,
        settings: false,
    };
    pub(crate) const SETTINGS: Self = Self {
        sources: false,
        manifests: false,
        settings: true,
    };

    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            sources: self.sources || other.sources,
            manifests: self.manifests || other.manifests,
            settings: self.settings || other.settings,
        }
    }

    /// Whether anything has.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// What is to be watched. Of a crate the folder itself, and all folders in it that it is built from, so that what Cargo writes
/// into `target` is no event. A file is watched by its folder, because editors replace files by others of the same name.
pub(crate) fn wanted(folder: &Folder) -> BTreeMap<PathBuf, RecursiveMode> {
    let mut shallow = vec![folder.path.clone()];
    let entries = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
    // Beside the chart all folders, or those that are named.
    let is_deep = |path: &PathBuf| match part_of(folder, path) {
        Some(Changed::SOURCES) => folder.watch.is_empty(),
        part => part.is_some(),
    };
    let mut deep: Vec<PathBuf> = folders.filter(is_deep).collect();
    for path in &folder.watch {
        // The nearest that is there: below it, it may come again.
        shallow.extend(
            path.ancestors()
                .skip(1)
                .find(|above| above.is_dir())
                .map(Path::to_owned),
        );
        deep.extend(path.is_dir().then(|| path.clone()));
    }
    let covers = |all: &[PathBuf], path: &Path| all.iter().any(|above| path != above && path.starts_with(above));
    let mut wanted = BTreeMap::new();
    for path in &shallow {
        if !covers(&deep, path) {
            wanted.insert(path.clone(), RecursiveMode::NonRecursive);
        }
    }
    for path in &deep {
        if !covers(&deep, path) {
            wanted.insert(path.clone(), RecursiveMode::Recursive);
        }
    }
    wanted
}

/// What a path is a part of.
pub(crate) fn part_of(folder: &Folder, path: &Path) -> Option<Changed> {
    let inner = path.strip_prefix(&folder.path).ok();
    let first = inner
        .and_then(|inner| inner.iter().next())
        .and_then(|first| first.to_str());
    match first {
        Some(CHART | REGISTRATION) => return Some(Changed::MANIFESTS),
        Some(FILE) => return Some(Changed::SETTINGS),
        _ => {}
    }
    if path == folder.program || folder.made.iter().any(|made| path.starts_with(made)) {
        // It is what is made.
        return None;
    }
    if !folder.watch.is_empty() {
        // What is named counts whatever its name, and a folder above comes or goes with it.
        let is_part = |watched: &PathBuf| match path.strip_prefix(watched) {
            Ok(behind) => !is_hidden(behind),
            Err(_) => watched.starts_with(path),
        };
        return folder.watch.iter().any(is_part).then_some(Changed::SOURCES);
    }
    let is_source = !is_hidden(inner?) && !NOT_BUILT_FROM.contains(&first?);
    is_source.then_some(Changed::SOURCES)
}

/// Whether a part of a path has the name of what editors and tools write for themselves.
fn is_hidden(path: &Path) -> bool {
    let hidden = |name: &str| name.starts_with('.') || name.ends_with('~');
    path.iter().any(|name| name.to_str().is_none_or(hidden))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::build::Build;

    /// A folder that watches and makes these paths.
    pub(crate) fn folder(watch: &[&str], made: &[&str]) -> Folder {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect();
        Folder {
            name: "moon".to_owned(),
            path: "/moon".into(),
            program: "/moon/program".into(),
            image: "moon".to_owned(),
            watch: paths(watch),
            made: paths(made),
            build: Build::Command(Vec::new()),
        }
    }

    #[test]
    fn what_a_builder_makes_is_no_source_wherever_it_puts_it() {
        let of_crate = folder(&[], &["/moon/made"]);
        let named = folder(&["/moon/inner/source", "/sun"], &["/sun/made"]);
        let hidden = folder(&["/moon/.code"], &[]);
        for (folder, path, part) in [
            (&of_crate, "/moon/src/main.rs", Some(Changed::SOURCES)),
            (&of_crate, "/moon/made/debug/moon", None),
            (&of_crate, "/moon/target/debug/moon", None),
            (&of_crate, "/moon/program", None),
            (&of_crate, "/moon/src/.main.rs.swp", None),
            (&of_crate, "/moon/chart/values.yaml", Some(Changed::MANIFESTS)),
            (&of_crate, "/moon/orangery-extension.yaml", Some(Changed::SETTINGS)),
            (&named, "/moon/inner/source", Some(Changed::SOURCES)),
            (&named, "/moon/inner", Some(Changed::SOURCES)),
            (&named, "/moon/inner/other", None),
            (&named, "/moon/src/main.rs", None),
            (&named, "/sun/a/b", Some(Changed::SOURCES)),
            (&named, "/sun/made/x", None),
            (&named, "/sun/a/.b.swp", None),
            (&named, "/moon/inner/source/main~", None),
            (&hidden, "/moon/.code/a", Some(Changed::SOURCES)),
            (&hidden, "/moon/.code/.a.swp", None),
        ] {
            assert_eq!(part_of(folder, Path::new(path)), part, "{path}");
        }
    }
}
