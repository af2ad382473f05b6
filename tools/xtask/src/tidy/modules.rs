//! Holds the layers that a crate states in its `src/lib.rs`: a file imports from its own layer and from those earlier in the
//! table, and few files import each other in a circle.

use std::path::Path;

use cargo_metadata::Metadata;

use super::{Finding, Source, folder_of};
use crate::modules::{Import, LayeredCrate, circles};

/// Files that may import each other in a circle: what one can still read as one.
const CIRCLE_FILES_MAX: usize = 5;

pub(super) fn check(root: &Path, metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    metadata
        .workspace_packages()
        .into_iter()
        .filter_map(|package| LayeredCrate::read(&folder_of(root, package), sources))
        .flat_map(|layered| check_crate(&layered))
        .collect()
}

fn check_crate(layered: &LayeredCrate) -> Vec<Finding> {
    let table = format!("the table of {}/src/lib.rs", layered.folder);
    let mut findings = Vec::new();
    for module in layered.modules.keys() {
        if layered.place(module).is_none() {
            findings.push(Finding::new(
                layered.file(module),
                format!("is in no layer: move it into the folder of one, or add its folder to {table}"),
            ));
        }
    }
    for layer in &layered.layers {
        if !layered.modules.keys().any(|module| module.first() == Some(layer)) {
            findings.push(Finding::new(
                format!("{}/src/lib.rs", layered.folder),
                format!("layer `{layer}` has no file: take it out of the table"),
            ));
        }
    }
    findings.extend(
        layered
            .imports
            .iter()
            .filter_map(|import| check_import(layered, import, &table)),
    );
    for circle in circles(&layered.edges()) {
        if circle.len() > CIRCLE_FILES_MAX
            && let Some(first) = circle.first()
        {
            let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
            findings.push(Finding::new(
                layered.file(first),
                format!(
                    "{} files import each other in a circle, at most {CIRCLE_FILES_MAX} may: {}; move what two of them need \
                     into a file of its own",
                    files.len(),
                    files.join(", ")
                ),
            ));
        }
    }
    findings
}

fn check_import(layered: &LayeredCrate, import: &Import, table: &str) -> Option<Finding> {
    let Import { from, line, path, to } = import;
    let place = format!("{}:{line}", layered.file(from));
    let own = from.first()?;
    let Some(target) = to.first() else {
        return Some(Finding::new(
            place,
            format!("layer `{own}` imports `{path}` from the root of the crate: import it from where it is defined"),
        ));
    };
    // A module without a layer is a finding of its own.
    let (place_of_own, place_of_target) = (layered.place(from)?, layered.place(to)?);
    (place_of_target > place_of_own).then(|| {
        Finding::new(
            place,
            format!(
                "layer `{own}` imports `{path}` of layer `{target}`, which is later in {table}: move what both need to `{own}` or \
                 to an earlier layer, or take it as an argument or a trait"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::check_crate;
    use crate::modules::tests::layered;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check_crate(&layered(files));
        findings
            .into_iter()
            .map(|finding| format!("{}: {}", finding.place, finding.text))
            .collect()
    }

    #[test]
    fn imports_of_the_own_layer_and_of_earlier_ones_pass() {
        let files = [
            ("first/a.rs", "use crate::first::b::B;\n"),
            ("first/b.rs", ""),
            ("second/c.rs", "use crate::first::a::A;\nuse std::sync::Arc;\n"),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn an_import_of_a_later_layer_names_file_line_and_both_layers() {
        let files = [
            ("first/a.rs", "//! A.\n\nuse crate::second::c::C;\n"),
            ("second/c.rs", "pub struct C;\n"),
        ];
        assert_eq!(
            findings(&files),
            [
                "cluster/a/src/first/a.rs:3: layer `first` imports `crate::second::c::C` of layer `second`, which is later in the table of \
                 cluster/a/src/lib.rs: move what both need to `first` or to an earlier layer, or take it as an argument or a trait"
            ]
        );
    }

    #[test]
    fn an_import_of_a_later_layer_in_tests_passes() {
        let files = [
            (
                "first/a.rs",
                "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::second::c::C;\n}\n",
            ),
            ("second/c.rs", "pub struct C;\n"),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn a_name_of_the_root_is_imported_from_where_it_is_defined() {
        let files = [("first/a.rs", "use crate::User;\n"), ("second/c.rs", "")];
        assert_eq!(
            findings(&files),
            [
                "cluster/a/src/first/a.rs:1: layer `first` imports `crate::User` from the root of the crate: import it from where it \
              is defined"
            ]
        );
    }

    #[test]
    fn files_and_layers_must_belong_to_each_other() {
        let files = [("first/a.rs", ""), ("other/d.rs", "")];
        assert_eq!(
            findings(&files),
            [
                "cluster/a/src/other/d.rs: is in no layer: move it into the folder of one, or add its folder to the table of \
                 cluster/a/src/lib.rs",
                "cluster/a/src/lib.rs: layer `second` has no file: take it out of the table"
            ]
        );
    }

    #[test]
    fn a_circle_of_six_files_is_refused_and_one_of_five_passes() {
        let circle = |count: usize| -> Vec<(String, String)> {
            let file = |at: usize| {
                let next = (at + 1) % count;
                (format!("first/f{at}.rs"), format!("use crate::first::f{next}::F;\n"))
            };
            (0..count).map(file).collect()
        };
        let found = |count| {
            let files = circle(count);
            let mut files: Vec<(&str, &str)> = files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str()))
                .collect();
            files.push(("second/c.rs", ""));
            findings(&files)
        };
        assert_eq!(found(5), [""; 0]);
        assert_eq!(
            found(6),
            [
                "cluster/a/src/first/f0.rs: 6 files import each other in a circle, at most 5 may: first/f0, first/f1, first/f2, first/f3, \
              first/f4, first/f5; move what two of them need into a file of its own"
            ]
        );
    }
}
