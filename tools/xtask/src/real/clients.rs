//! Clients of Kubernetes beside kubectl: Helm and a client-go program, built from pinned Go modules, and Python's client in
//! an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kubernetes::{Pins, Program, STAMPED, build, build_ours};
use crate::process::output;
use crate::{Outcome, cache};

/// Test code looks for the programs here, below the cache folder.
const HELM_FOLDER: &str = "real/helm";
const CLIENTS_FOLDER: &str = "real/clients";
const PYTHON_FOLDER: &str = "real/python";
const KUBECTL_FOLDER: &str = "real/kubectl-newest";

const HELM: Program = Program {
    name: "helm",
    pins: &Pins {
        folder: "pins/helm",
        go_mod: include_str!("../../pins/helm/go.mod"),
        go_sum: include_str!("../../pins/helm/go.sum"),
        module: "helm.sh/helm/v4",
        stamped: &[],
    },
    package: "helm.sh/helm/v4/cmd/helm",
};

/// Beside Debian's kubectl, the one of the Kubernetes that is built.
const KUBECTL: Program = Program {
    name: "kubectl",
    pins: &Pins {
        folder: "pins/kubectl",
        go_mod: include_str!("../../pins/kubectl/go.mod"),
        go_sum: include_str!("../../pins/kubectl/go.sum"),
        module: "k8s.io/kubernetes",
        stamped: STAMPED,
    },
    package: "k8s.io/kubernetes/cmd/kubectl",
};

/// A program of ours: its sources are in the checkout, Go's own cache tells whether they have changed.
const CLIENT_GO: Pins = Pins {
    folder: "../../tests/clients/go",
    go_mod: include_str!("../../../../tests/clients/go/go.mod"),
    go_sum: include_str!("../../../../tests/clients/go/go.sum"),
    module: "k8s.io/client-go",
    stamped: &[],
};
const CLIENT_GO_PROGRAM: &str = "client-go-program";

/// The example extension in Go, likewise.
const EXTENSION_GO: Pins = Pins {
    folder: "../../examples/extension-go",
    go_mod: include_str!("../../../../examples/extension-go/go.mod"),
    go_sum: include_str!("../../../../examples/extension-go/go.sum"),
    module: "sigs.k8s.io/controller-runtime",
    stamped: &[],
};
const EXTENSION_GO_PROGRAM: &str = "extension-go";

/// What Python's client consists of, each with its version.
const REQUIREMENTS: &str = include_str!("../../pins/python/requirements.txt");

/// Builds and installs what is missing or stale.
pub(super) fn prepare() -> Outcome {
    helm()?;
    build(&KUBECTL, &folder(KUBECTL_FOLDER)?)?;
    client_go()?;
    python()
}

/// Helm alone.
pub(crate) fn helm() -> Outcome {
    build(&HELM, &folder(HELM_FOLDER)?)
}

/// The kubectl of the Kubernetes that is built.
pub(crate) fn newest_kubectl() -> Outcome<PathBuf> {
    Ok(folder(KUBECTL_FOLDER)?.join(KUBECTL.name))
}

/// Runs the tests of the Go controller in `examples/` on the assets of that folder.
pub(crate) fn envtest_example(assets: &Path) -> Command {
    let mut command = go_test("../../examples/controller-go");
    command.env("KUBEBUILDER_ASSETS", assets);
    command
}

/// A folder below the cache folder, created when missing.
pub(super) fn folder(name: &str) -> Outcome<PathBuf> {
    let folder = cache::folder()?.join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    Ok(folder)
}

fn client_go() -> Outcome {
    build_ours(&CLIENT_GO, &folder(CLIENTS_FOLDER)?.join(CLIENT_GO_PROGRAM))?;
    println!("{CLIENT_GO_PROGRAM}: client-go {}", CLIENT_GO.version()?);
    Ok(())
}

/// Tests and builds the example extension in Go.
pub(crate) fn extension_go() -> Outcome {
    build_ours(&EXTENSION_GO, &folder(CLIENTS_FOLDER)?.join(EXTENSION_GO_PROGRAM))?;
    output(&mut go_test(EXTENSION_GO.folder))?;
    println!("{EXTENSION_GO_PROGRAM}: controller-runtime {}", EXTENSION_GO.version()?);
    Ok(())
}

/// Go's tests of a folder, which is named from that of this package.
fn go_test(folder: &str) -> Command {
    let mut command = Command::new("go");
    command
        // Built as the programs are: what both consist of is built once.
        .args(["test", "-count=1", "-trimpath", "./..."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .env("GOWORK", "off");
    command
}

fn python() -> Outcome {
    let folder = cache::folder()?.join(PYTHON_FOLDER);
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == REQUIREMENTS) {
        println!("Python's client (cached)");
        return Ok(());
    }
    let hint = "install Python 3 with its module venv, and check that pip reaches a package index";
    let run = |command: &mut Command| output(command).map_err(|why| format!("{why}\n{hint}"));
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("pins/python/requirements.txt");
    run(Command::new(folder.join("bin/pip"))
        .args(["install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    fs::write(&stamp, REQUIREMENTS).map_err(|error| format!("cannot write {}: {error}", stamp.display()))?;
    println!("Python's client: installed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pins_name_the_versions_of_the_clients() {
        assert_eq!(HELM.pins.version().as_deref(), Ok("4.1.4"));
        assert_eq!(KUBECTL.pins.version().as_deref(), Ok("1.35.4"));
        assert_eq!(CLIENT_GO.version().as_deref(), Ok("0.35.0"));
        assert_eq!(EXTENSION_GO.version().as_deref(), Ok("0.23.3"));
        assert!(REQUIREMENTS.lines().any(|line| line == "kubernetes==35.0.0"));
    }
}
