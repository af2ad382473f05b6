//! The modules of a crate that states layers: which file is in which layer, and which file imports which. Reads texts alone.
//!
//! A crate states its layers in the documentation of its `src/lib.rs`, as a table below the heading `# Layers` whose first
//! column names the folders of `src`, the lowest layer first. Imports by `crate::`, `super::` and the names of child modules
//! count, those in tests do not.

mod circles;
mod paths;
#[cfg(test)]
mod picture;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use circles::circles;

/// A crate that states layers.
pub(crate) struct LayeredCrate {
    /// Its folder, relative to the root: `cluster/apiserver`.
    pub(crate) folder: String,
    /// The names of its layers, the lowest first.
    pub(crate) layers: Vec<String>,
    /// Every file of `src` but `lib.rs`.
    pub(crate) modules: BTreeSet<ModulePath>,
    pub(crate) imports: Vec<Import>,
}

/// `["kinds", "registry"]` for `src/kinds/registry.rs`.
pub(crate) type ModulePath = Vec<String>;

/// One file uses something of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) from: ModulePath,
    pub(crate) line: usize,
    /// The path as it resolves: `crate::kinds::registry::Served`.
    pub(crate) path: String,
    /// The file that has it; empty where the root of the crate has it.
    pub(crate) to: ModulePath,
}

impl LayeredCrate {
    /// The crate in `folder`, if its `lib.rs` states layers. `texts`: paths relative to the root, and what they hold.
    pub(crate) fn read<'t>(folder: &str, texts: impl Iterator<Item = (&'t str, &'t str)>) -> Option<Self> {
        let source = format!("{folder}/src/");
        let mut files: BTreeMap<ModulePath, &str> = BTreeMap::new();
        for (path, text) in texts {
            if let Some(module) = path.strip_prefix(&source).and_then(module_path) {
                files.insert(module, text);
            }
        }
        let layers = stated_layers(files.remove(&ModulePath::new())?)?;
        let modules: BTreeSet<ModulePath> = files.keys().cloned().collect();
        let imports = files
            .iter()
            .flat_map(|(from, text)| imports_of(from, text, &modules))
            .collect();
        Some(Self {
            folder: folder.to_owned(),
            layers,
            modules,
            imports,
        })
    }

    /// Where a layer stands; the lowest is 0.
    pub(crate) fn height(&self, module: &[String]) -> Option<usize> {
        let layer = module.first()?;
        self.layers.iter().position(|known| known == layer)
    }

    /// The file of a module, relative to the root.
    pub(crate) fn file(&self, module: &[String]) -> String {
        let path = module.join("/");
        let is_folder = self
            .modules
            .iter()
            .any(|other| other.len() > module.len() && other.starts_with(module));
        match is_folder {
            true => format!("{}/src/{path}/mod.rs", self.folder),
            false => format!("{}/src/{path}.rs", self.folder),
        }
    }

    /// Which files import which, without repetition.
    pub(crate) fn edges(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for import in self.imports.iter().filter(|import| !import.to.is_empty()) {
            edges.entry(import.from.clone()).or_default().insert(import.to.clone());
        }
        edges
    }
}

/// The module of a file below `src`; empty for `lib.rs`.
fn module_path(path: &str) -> Option<ModulePath> {
    let path = path.strip_suffix(".rs")?;
    let mut module: ModulePath = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| name == "mod") || path == "lib" {
        module.pop();
    }
    Some(module)
}

/// The first column of the table below `# Layers`.
fn stated_layers(lib: &str) -> Option<Vec<String>> {
    let docs = lib.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let rows = docs.skip_while(|line| *line != "# Layers").skip(1);
    let layers: Vec<String> = rows
        .take_while(|line| !line.starts_with("# "))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect();
    (!layers.is_empty()).then_some(layers)
}

fn imports_of(from: &ModulePath, text: &str, modules: &BTreeSet<ModulePath>) -> Vec<Import> {
    let is_child = |name: &str| modules.contains(&[from.as_slice(), &[name.to_owned()]].concat());
    let mut found = Vec::new();
    for (line, path) in paths::of(paths::before_tests(text), is_child) {
        let Some(path) = absolute(from, &path) else { continue };
        let to = (0..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|prefix| prefix.is_empty() || modules.contains(prefix))
            .unwrap_or_default();
        if to != *from {
            found.push(Import {
                from: from.clone(),
                line,
                path: format!("crate::{}", path.join("::")),
                to,
            });
        }
    }
    found
}

/// A path from the root of the crate.
fn absolute(from: &ModulePath, path: &[String]) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "super" => {
            let (_, parent) = from.split_last()?;
            let parent = parent.to_vec();
            match rest.first().map(String::as_str) {
                Some("super") => absolute(&parent, rest),
                _ => Some([parent, rest.to_vec()].concat()),
            }
        }
        "self" => Some([from.as_slice(), rest].concat()),
        _ => Some([from.as_slice(), path].concat()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A crate of two layers, `low` below `high`.
    pub(crate) fn layered(files: &[(&str, &str)]) -> LayeredCrate {
        let lib = "//! A crate.\n//!\n//! # Layers\n//! | layer | what |\n//! |---|---|\n//! | `low` | a |\n//! | `high` | b |\n";
        let mut texts = vec![("cluster/a/src/lib.rs".to_owned(), lib.to_owned())];
        texts.extend(
            files
                .iter()
                .map(|(path, text)| (format!("cluster/a/src/{path}"), (*text).to_owned())),
        );
        let texts = texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        LayeredCrate::read("cluster/a", texts).unwrap()
    }

    #[test]
    fn layers_are_the_first_column_below_their_heading() {
        assert_eq!(layered(&[]).layers, ["low", "high"]);
        assert_eq!(stated_layers("//! | `low` | a |\n"), None);
    }

    #[test]
    fn an_import_leads_to_the_longest_path_that_is_a_file() {
        let read = layered(&[
            ("low/mod.rs", "pub(crate) mod kind;\n"),
            ("low/kind.rs", "pub struct Kind;\n"),
            (
                "high/verb.rs",
                "use crate::low::kind::{Kind, Call};\nfn f() { super::other::g(); }\n",
            ),
            ("high/other.rs", ""),
        ]);
        let found: Vec<(usize, &str, String)> = read
            .imports
            .iter()
            .map(|import| (import.line, import.path.as_str(), import.to.join("/")))
            .collect();
        assert_eq!(
            found,
            [
                (1, "crate::low::kind::Kind", "low/kind".to_owned()),
                (1, "crate::low::kind::Call", "low/kind".to_owned()),
                (2, "crate::high::other::g", "high/other".to_owned()),
            ]
        );
    }

    #[test]
    fn a_folder_has_its_file_inside() {
        let read = layered(&[("low/mod.rs", ""), ("low/kind.rs", "")]);
        assert_eq!(read.file(&["low".to_owned()]), "cluster/a/src/low/mod.rs");
        assert_eq!(
            read.file(&["low".to_owned(), "kind".to_owned()]),
            "cluster/a/src/low/kind.rs"
        );
    }
}
