//! Kubernetes' servers, etcd and its tools, built from the Go modules that `pins/` names. What was built from the same pins by the
//! same Go in the same way is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::process::output;
use crate::{Outcome, cache};

/// Test code looks for the programs here, below the cache folder.
const FOLDER: &str = "real/kubernetes";

/// A Go program of the pinned modules.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) pins: &'static Pins,
    pub(super) package: &'static str,
}

/// A `go.mod` and `go.sum` of ours that name every module of a build.
pub(super) struct Pins {
    /// From this package's folder.
    pub(super) folder: &'static str,
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
    pub(super) module: &'static str,
    /// Where the linker writes the version: a Kubernetes that does not know its own reports v0.0.0, and clients act on it.
    pub(super) stamped: &'static [&'static str],
}

/// Where Kubernetes' programs look for their version.
pub(super) const STAMPED: &[&str] = &["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

const KUBERNETES: Pins = Pins {
    folder: "pins/kubernetes",
    go_mod: include_str!("../../pins/kubernetes/go.mod"),
    go_sum: include_str!("../../pins/kubernetes/go.sum"),
    module: "k8s.io/kubernetes",
    stamped: STAMPED,
};

const ETCD: Pins = Pins {
    folder: "pins/etcd",
    go_mod: include_str!("../../pins/etcd/go.mod"),
    go_sum: include_str!("../../pins/etcd/go.sum"),
    module: "go.etcd.io/etcd/server/v3",
    stamped: &[],
};

/// Apart from etcd's own pins, so that its modules change nothing of what etcd is built from.
const ETCDCTL: Pins = Pins {
    folder: "pins/etcdctl",
    go_mod: include_str!("../../pins/etcdctl/go.mod"),
    go_sum: include_str!("../../pins/etcdctl/go.sum"),
    module: "go.etcd.io/etcd/etcdctl/v3",
    stamped: &[],
};

const PROGRAMS: [Program; 6] = [
    Program {
        name: "etcd",
        pins: &ETCD,
        package: "go.etcd.io/etcd/server/v3",
    },
    Program {
        name: "etcdctl",
        pins: &ETCDCTL,
        package: "go.etcd.io/etcd/etcdctl/v3",
    },
    Program {
        name: "etcdutl",
        pins: &ETCDCTL,
        package: "go.etcd.io/etcd/etcdutl/v3",
    },
    Program {
        name: "kube-apiserver",
        pins: &KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-apiserver",
    },
    Program {
        name: "kube-controller-manager",
        pins: &KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    Program {
        name: "kube-scheduler",
        pins: &KUBERNETES,
        package: "k8s.io/kubernetes/cmd/kube-scheduler",
    },
];

/// Builds what is missing or stale of these programs; of all when none is named.
pub(super) fn prepare(names: &[&str]) -> Outcome {
    let folder = cache::folder()?.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    for program in PROGRAMS
        .iter()
        .filter(|program| names.is_empty() || names.contains(&program.name))
    {
        build(program, &folder)?;
    }
    Ok(())
}

/// Builds a program whose sources are in the checkout: Go's own cache tells whether they have changed.
pub(super) fn build_ours(pins: &Pins, target: &Path) -> Outcome {
    go_version(pins)?;
    let mut command = go_in(pins);
    command
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"])
        .arg(target)
        .arg(".");
    output(&mut command).map(drop)
}

pub(super) fn build(program: &Program, folder: &Path) -> Outcome {
    let Program { name, pins, package } = program;
    let version = pins.version()?;
    let go = go_version(pins)?;
    let flags = pins.linker_flags(version);
    let target = folder.join(name);
    let stamp_path = folder.join(format!("{name}.pins"));
    let stamp = format!(
        "{name} {version} {go} {} {}\n{flags}\n{}{}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        pins.go_mod,
        pins.go_sum
    );
    if target.exists() && fs::read_to_string(&stamp_path).is_ok_and(|found| found == stamp) {
        println!("{name} {version} (cached)");
        return Ok(());
    }
    println!("{name} {version}: building with {go}");
    let begun = Instant::now();
    // Built beside and renamed, so that a run that is cut off leaves no program that claims to be whole.
    let fresh = folder.join(format!("{name}.fresh"));
    let mut command = go_in(pins);
    command
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags"])
        .arg(&flags)
        .arg("-o")
        .arg(&fresh)
        .arg(package);
    output(&mut command).map_err(|why| {
        format!("{why}\nbuilding {name} {version} needs its Go modules: check that `go env GOPROXY` can be reached, then run it again")
    })?;
    let write = |result: std::io::Result<()>| {
        result.map_err(|error| {
            format!(
                "cannot write {}: {error}; free the cache folder or set {} to another",
                target.display(),
                cache::VARIABLE
            )
        })
    };
    write(fs::rename(&fresh, &target))?;
    write(fs::write(&stamp_path, stamp))?;
    println!("{name} {version}: built in {} s", begun.elapsed().as_secs());
    Ok(())
}

/// The machine's Go, with the environment for what is to be built and where; proxies and caches are the machine's own.
pub(super) fn go_in(pins: &Pins) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(pins.folder))
        // Without C the same sources give the same program everywhere.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off");
    command
}

/// The Go that will build these pins, `go1.26.8`. An older one that may fetch its successor does so here.
pub(super) fn go_version(pins: &Pins) -> Outcome<String> {
    let wanted = pins
        .line("go ")
        .ok_or_else(|| format!("{}/go.mod names no Go version", pins.folder))?;
    let hint = format!(
        "install Go {wanted} or newer and put it on the PATH: it builds the Kubernetes that tests compare with"
    );
    let found = output(go_in(pins).args(["env", "GOVERSION"])).map_err(|why| format!("{why}\n{hint}"))?;
    let found = found.trim();
    if is_older(found, wanted) {
        return Err(format!(
            "{} is to be built with Go {wanted}, the machine has {found}\n{hint}",
            pins.module
        ));
    }
    Ok(found.to_owned())
}

/// Whether `go1.24.9` is older than `1.26.0`. What cannot be read (a Go built from its repository) is not.
fn is_older(found: &str, wanted: &str) -> bool {
    let numbers = |version: &str| -> Option<Vec<u32>> {
        let plain = version.trim_start_matches("go").split([' ', '-']).next()?;
        plain.split('.').map(|number| number.parse().ok()).collect()
    };
    match (numbers(found), numbers(wanted)) {
        (Some(found), Some(wanted)) => found < wanted,
        _ => false,
    }
}

impl Pins {
    /// The rest of the first line of `go.mod` that begins so.
    fn line(&self, beginning: &str) -> Option<&'static str> {
        self.go_mod
            .lines()
            .find_map(|line| line.trim().strip_prefix(beginning))
            .map(str::trim)
    }

    /// The version that the main module is pinned to.
    pub(super) fn version(&self) -> Outcome<&'static str> {
        self.line(&format!("{} v", self.module))
            .or_else(|| self.line(&format!("require {} v", self.module)))
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or_else(|| format!("{}/go.mod does not pin {}", self.folder, self.module))
    }

    fn linker_flags(&self, version: &str) -> String {
        let mut flags = "-s -w".to_owned();
        let mut numbers = version.split('.');
        let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
        for package in self.stamped {
            for (name, value) in [
                ("gitVersion", format!("v{version}").as_str()),
                ("gitMajor", major),
                ("gitMinor", minor),
                ("gitTreeState", "clean"),
                ("gitCommit", "built-from-module"),
                ("buildDate", "1970-01-01T00:00:00Z"),
            ] {
                flags += &format!(" -X {package}.{name}={value}");
            }
        }
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::{ETCD, KUBERNETES, is_older};

    #[test]
    fn the_pins_name_the_versions_that_are_built() {
        assert_eq!(KUBERNETES.version().as_deref(), Ok("1.35.4"));
        assert_eq!(ETCD.version().as_deref(), Ok("3.6.16"));
        let flags = KUBERNETES.linker_flags("1.35.4");
        assert!(
            flags.contains(" -X k8s.io/component-base/version.gitVersion=v1.35.4 "),
            "{flags}"
        );
        assert!(
            flags.contains(" -X k8s.io/client-go/pkg/version.gitMinor=35 "),
            "{flags}"
        );
    }

    #[test]
    fn an_old_go_is_seen_before_it_stumbles() {
        assert!(is_older("go1.24.9", "1.26.0"));
        assert!(is_older("go1.9", "1.26.0"));
        assert!(!is_older("go1.26.8", "1.26.0"));
        assert!(!is_older("go1.27.0-X:jsonv2", "1.26.0"));
        assert!(!is_older("devel go1.28-abc", "1.26.0"));
    }
}
