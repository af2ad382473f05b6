//! Holds the import table of ARCHITECTURE.md: a package is named after its path and imports only what its layer may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, Package};

use super::{Finding, folder_of};

/// Which packages a layer may import, as prefixes of package names. The order is the order of the layers.
const LAYERS: [(&str, &[&str]); 10] = [
    ("api", &["api-"]),
    ("base", &["base-", "api-meta"]),
    ("cluster", &["cluster-", "base-", "api-meta"]),
    ("components", &["api-", "base-secrets"]),
    ("control-plane", &["components-", "base-", "api-"]),
    (
        "extensions",
        &[
            "extensions-sdk",
            "extensions-machines",
            "extensions-webhooks",
            "base-",
            "api-",
        ],
    ),
    (
        "landscape",
        &[
            "api-",
            "base-",
            "cluster-",
            "components-",
            "control-plane-",
            "extensions-",
            "landscape-",
        ],
    ),
    (
        "programs",
        &[
            "api-",
            "base-",
            "cluster-",
            "components-",
            "control-plane-",
            "extensions-",
            "landscape-",
        ],
    ),
    ("tests", &[""]),
    ("tools", &[""]),
];

/// Imports beyond a layer's row: the named crate may, others of its layer may not.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("control-plane-gardenlet", "control-plane-shoot-flow"),
    ("control-plane-gardenlet", "control-plane-readiness"),
    ("control-plane-diagnosis", "control-plane-shoot-flow"),
    ("control-plane-diagnosis", "control-plane-readiness"),
    ("control-plane-garden-api", "cluster-apiserver"),
];

/// Crates that may import less than their layer.
const NARROWER: [(&str, &[&str]); 1] = [("landscape-terminal", &["api-", "base-"])];

/// Layers that may not use the test kit: it is built from crates of them.
const BELOW_THE_KIT: [&str; 2] = ["api-", "base-"];
const KIT: &str = "tests-kit";

pub(super) fn check(root: &Path, metadata: &Metadata) -> Vec<Finding> {
    let packages = metadata.workspace_packages();
    let imports = packages
        .iter()
        .map(|package| (package.name.as_str(), imports(package)))
        .collect();
    let parts = parts(KIT, &imports);
    packages
        .iter()
        .flat_map(|package| check_package(root, package, &parts))
        .collect()
}

/// The packages of the repository that ship in a package.
fn imports(package: &Package) -> Vec<&str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some() && dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect()
}

/// All packages that a package is built from.
fn parts<'p>(package: &'p str, imports: &BTreeMap<&'p str, Vec<&'p str>>) -> BTreeSet<&'p str> {
    let mut found = BTreeSet::new();
    let mut open = vec![package];
    while let Some(package) = open.pop() {
        let new = imports.get(package).into_iter().flatten();
        open.extend(new.filter(|import| found.insert(**import)));
    }
    found
}

/// `kit_parts`: all packages that the test kit is built from, which can not use it, not even in tests. Crates of `cluster/` that are
/// not among them may.
fn check_package(root: &Path, package: &Package, kit_parts: &BTreeSet<&str>) -> Vec<Finding> {
    let path = folder_of(root, package);
    let place = format!("{path}/Cargo.toml");
    let name = package.name.as_str();
    let mut findings = Vec::new();
    if path.replace('/', "-") != name {
        findings.push(Finding::new(
            &place,
            format!(
                "package `{name}` must be named after its path: `{}`",
                path.replace('/', "-")
            ),
        ));
    }
    for dependency in package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some())
    {
        let refusal = match dependency.name == KIT {
            true => refuse_kit(name, dependency.kind, kit_parts),
            false => refuse(name, &dependency.name, dependency.kind),
        };
        findings.extend(refusal.map(|text| Finding::new(&place, text)));
    }
    findings
}

/// What is wrong with an import of the test kit.
fn refuse_kit(package: &str, kind: DependencyKind, kit_parts: &BTreeSet<&str>) -> Option<String> {
    let is_below = kit_parts.contains(package) || BELOW_THE_KIT.iter().any(|layer| package.starts_with(layer));
    let fine = kind == DependencyKind::Development && !is_below || package.starts_with("tests-");
    (!fine).then(|| {
        format!("`{package}` may not import `{KIT}`: it is a dev-dependency of crates that are built on cluster/apiserver, never of those it is built from")
    })
}

fn refuse(package: &str, import: &str, kind: DependencyKind) -> Option<String> {
    let layer = LAYERS
        .iter()
        .find(|(layer, _)| package.starts_with(&format!("{layer}-")));
    let Some((layer, allowed)) = layer else {
        return Some(format!("package `{package}` is in no layer of ARCHITECTURE.md"));
    };
    if import.starts_with("tests-") && *layer == "tests" {
        return None;
    }
    if import.starts_with("tests-") || import.starts_with("tools-") {
        return Some(format!(
            "`{import}` must not be imported: nothing imports tests and tools, but tests each other"
        ));
    }
    // Tests of a crate may stand on a server that is later in the table; what ships may not.
    if kind == DependencyKind::Development {
        return None;
    }
    let narrower = NARROWER.iter().find(|(name, _)| *name == package);
    let (who, allowed) = match narrower {
        Some((_, allowed)) => ("it".to_owned(), allowed),
        None => (format!("the layer `{layer}`"), allowed),
    };
    let fine = allowed.iter().any(|prefix| import.starts_with(prefix)) || EXCEPTIONS.contains(&(package, import));
    (!fine).then(|| {
        format!(
            "`{package}` may not import `{import}`: {who} imports {}",
            allowed.join("*, ") + "*"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cargo_metadata::DependencyKind::{Development, Normal};

    #[test]
    fn a_layer_imports_only_what_its_row_names() {
        assert!(refuse("base-flow", "api-meta", Normal).is_none());
        assert!(refuse("base-flow", "api-core", Normal).is_some());
        assert!(refuse("api-core", "base-flow", Normal).is_some());
        assert!(refuse("control-plane-gardenlet", "extensions-sdk", Normal).is_some());
        assert!(refuse("extensions-provider-local", "extensions-sdk", Normal).is_none());
        assert!(refuse("extensions-provider-local", "extensions-webhooks", Normal).is_none());
        assert!(refuse("extensions-sdk", "extensions-provider-local", Normal).is_some());
        assert!(refuse("cluster-node", "cluster-store", Normal).is_none());
    }

    #[test]
    fn a_landscape_imports_earlier_layers_and_only_programs_and_tests_import_it() {
        assert!(refuse("landscape-local", "extensions-provider-local", Normal).is_none());
        assert!(refuse("landscape-local", "landscape-images", Normal).is_none());
        assert!(refuse("landscape-local", "programs-orangery", Normal).is_some());
        assert!(refuse("programs-orangery", "landscape-local", Normal).is_none());
        assert!(refuse("tests-scenarios", "landscape-local", Normal).is_none());
        for earlier in ["control-plane-gardenlet", "extensions-provider-local", "cluster-bare"] {
            assert!(refuse(earlier, "landscape-images", Normal).is_some(), "{earlier}");
        }
    }

    #[test]
    fn a_narrower_crate_imports_less_than_its_layer() {
        assert!(refuse("landscape-terminal", "base-flow-run", Normal).is_none());
        assert!(refuse("landscape-terminal", "cluster-node", Normal).is_some());
    }

    #[test]
    fn exceptions_hold_for_the_named_crate_alone() {
        assert!(refuse("control-plane-gardenlet", "control-plane-shoot-flow", Normal).is_none());
        assert!(refuse("control-plane-scheduler", "control-plane-shoot-flow", Normal).is_some());
        assert!(refuse("control-plane-diagnosis", "control-plane-gardenlet", Normal).is_some());
    }

    #[test]
    fn the_test_kit_is_for_tests_of_what_it_is_not_built_from() {
        let parts = BTreeSet::from(["cluster-apiserver", "cluster-streams"]);
        let refuse = |package, kind| refuse_kit(package, kind, &parts);
        for package in ["control-plane-gardenlet", "landscape-terminal", "cluster-controllers"] {
            assert!(refuse(package, Development).is_none(), "{package}");
        }
        assert!(refuse("control-plane-gardenlet", Normal).is_some());
        for package in ["cluster-apiserver", "cluster-streams", "base-flow", "api-meta"] {
            assert!(refuse(package, Development).is_some(), "{package}");
        }
        assert!(refuse("tests-scenarios", Normal).is_none());
    }

    #[test]
    fn parts_of_a_package_include_imports_of_its_imports() {
        let imports = BTreeMap::from([
            ("kit", vec!["server"]),
            ("server", vec!["streams", "server"]),
            ("streams", vec!["base"]),
            ("node", vec!["server"]),
        ]);
        assert_eq!(parts("kit", &imports), BTreeSet::from(["base", "server", "streams"]));
    }

    #[test]
    fn only_tests_import_tests() {
        assert!(refuse("tests-soak", "tests-crash", Normal).is_none());
        assert!(refuse("programs-orangery", "tests-crash", Development).is_some());
        assert!(refuse("tests-soak", "tools-xtask", Normal).is_some());
    }
}
