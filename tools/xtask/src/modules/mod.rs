//! The modules of a crate that states layers: which file is in which layer, and which file imports which. Reads texts alone.
//!
//! A crate states its layers in the documentation of its `src/lib.rs`, as a table below the heading `# Layers` whose first
//! column names the folders of `src`: a layer stands on those earlier in the table. Imports by `crate::`, `super::` and the names
//! of child modules count, those in tests do not.

mod circles;
mod paths;
#[cfg(test)]
mod picture;
mod test_items;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use circles::circles;

use crate::tidy::Source;

/// A crate that states layers.
pub(crate) struct LayeredCrate {
    /// Its folder, relative to the root: `cluster/apiserver`.
    pub(crate) folder: String,
    /// The names of its layers, in the order of the table.
    pub(crate) layers: Vec<String>,
    /// Every module of `src` but the root, with its file relative to the root of the workspace.
    pub(crate) modules: BTreeMap<ModulePath, String>,
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
    /// The crate in `folder`, if its `lib.rs` states layers.
    pub(crate) fn read(folder: &str, sources: &[Source]) -> Option<Self> {
        let source = format!("{folder}/src/");
        let mut files: BTreeMap<ModulePath, (&str, &str)> = BTreeMap::new();
        for Source { path, text } in sources {
            if let Some(module) = path.strip_prefix(&source).and_then(module_path) {
                files.insert(module, (path, text));
            }
        }
        let (_, lib) = files.remove(&ModulePath::new())?;
        let layers = stated_layers(lib)?;
        let paths = files
            .iter()
            .map(|(module, (path, _))| (module.clone(), (*path).to_owned()));
        let modules: BTreeMap<ModulePath, String> = paths.collect();
        let imports = files
            .iter()
            .flat_map(|(from, (_, text))| imports_of(from, text, &modules))
            .collect();
        Some(Self {
            folder: folder.to_owned(),
            layers,
            modules,
            imports,
        })
    }

    /// Where a module's layer stands in the table; the first is 0.
    pub(crate) fn place(&self, module: &[String]) -> Option<usize> {
        let layer = module.first()?;
        self.layers.iter().position(|known| known == layer)
    }

    /// The file of a module, relative to the root; that of the root module where there is none.
    pub(crate) fn file(&self, module: &[String]) -> String {
        let known = self.modules.get(module).cloned();
        known.unwrap_or_else(|| format!("{}/src/lib.rs", self.folder))
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

fn imports_of(from: &ModulePath, text: &str, modules: &BTreeMap<ModulePath, String>) -> Vec<Import> {
    let is_child = |name: &str| modules.contains_key(&[from.as_slice(), &[name.to_owned()]].concat());
    let mut found = Vec::new();
    for (line, path) in paths::of(text, is_child) {
        let Some(path) = absolute(from, &path) else { continue };
        let to = (0..=path.len())
            .rev()
            .map(|length| path[..length].to_vec())
            .find(|prefix| prefix.is_empty() || modules.contains_key(prefix))
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
    let (mut at, mut rest) = match path.split_first()? {
        (first, rest) if first == "crate" => (ModulePath::new(), rest),
        _ => (from.clone(), path),
    };
    while let Some((first, behind)) = rest.split_first() {
        match first.as_str() {
            "self" => {}
            "super" => drop(at.pop()?),
            _ => break,
        }
        rest = behind;
    }
    Some([at, rest.to_vec()].concat())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A crate of two layers, `first` and `second`.
    pub(crate) fn layered(files: &[(&str, &str)]) -> LayeredCrate {
        let lib = "//! A crate.\n//!\n//! # Layers\n//! | layer | what |\n//! |---|---|\n//! | `first` | a |\n//! | `second` | b |\n";
        let files = files.iter().copied().chain([("lib.rs", lib)]);
        let sources = files.map(|(path, text)| Source {
            path: format!("cluster/a/src/{path}"),
            text: text.to_owned(),
        });
        LayeredCrate::read("cluster/a", &sources.collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn layers_are_the_first_column_below_their_heading() {
        assert_eq!(layered(&[]).layers, ["first", "second"]);
        assert_eq!(stated_layers("//! | `first` | a |\n"), None);
    }

    #[test]
    fn an_import_leads_to_the_longest_path_that_is_a_file() {
        let read = layered(&[
            ("first/mod.rs", "pub(crate) mod kind;\n"),
            ("first/kind.rs", "pub struct Kind;\n"),
            (
                "second/verb.rs",
                "use crate::first::kind::{Kind, Call};\nfn f() { super::other::g(); }\n",
            ),
            ("second/other.rs", ""),
        ]);
        let found: Vec<(usize, &str, String)> = read
            .imports
            .iter()
            .map(|import| (import.line, import.path.as_str(), import.to.join("/")))
            .collect();
        assert_eq!(
            found,
            [
                (1, "crate::first::kind::Kind", "first/kind".to_owned()),
                (1, "crate::first::kind::Call", "first/kind".to_owned()),
                (2, "crate::second::other::g", "second/other".to_owned()),
            ]
        );
    }

    #[test]
    fn a_path_leads_upwards_by_self_and_super_in_any_order() {
        let from = ["a", "b", "c"].map(str::to_owned).to_vec();
        for (path, wanted) in [
            ("self::super::x", "a::b::x"),
            ("super::super::x", "a::x"),
            ("self::x", "a::b::c::x"),
            ("x::y", "a::b::c::x::y"),
            ("crate::x", "x"),
        ] {
            let path: Vec<String> = path.split("::").map(str::to_owned).collect();
            assert_eq!(absolute(&from, &path).unwrap().join("::"), wanted, "{path:?}");
        }
        let beyond = ["super"; 4].map(str::to_owned);
        assert_eq!(absolute(&from, &beyond), None);
    }

    #[test]
    fn a_parent_modules_file_is_inside_its_folder_or_beside_it() {
        let read = layered(&[("first/mod.rs", ""), ("first/kind.rs", ""), ("first/kind/part.rs", "")]);
        for (module, file) in [
            ("first", "first/mod.rs"),
            ("first/kind", "first/kind.rs"),
            ("first/kind/part", "first/kind/part.rs"),
        ] {
            let module: ModulePath = module.split('/').map(str::to_owned).collect();
            assert_eq!(read.file(&module), format!("cluster/a/src/{file}"));
        }
    }
}
