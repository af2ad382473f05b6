//! kubectl as Debian ships it, unpacked from its package. Nothing is installed on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::output;
use crate::{Outcome, cache};

/// The Debian release whose packages are taken: the stable one, because its versions do not move.
const SUITE: &str = "trixie";
/// Set to the path of a kubectl that tests shall use instead of Debian's.
const KUBECTL_VARIABLE: &str = "ORANGERY_KUBECTL";
/// Test code looks for the program here, below the cache folder.
const KUBECTL_PATH: &str = "real/kubectl/kubectl";
/// The minor version that is wanted; another one in the cache is stale.
const KUBECTL_VERSION: &str = "v1.32.";

/// Unpacks kubectl into the cache when it is not there yet.
pub(super) fn prepare() -> Outcome {
    if let Some(path) = std::env::var_os(KUBECTL_VARIABLE) {
        let version = kubectl_version(Path::new(&path))?;
        println!("kubectl {version} ({KUBECTL_VARIABLE})");
        return Ok(());
    }
    let target = cache::folder()?.join(KUBECTL_PATH);
    if let Ok(version) = kubectl_version(&target)
        && version.starts_with(KUBECTL_VERSION)
    {
        println!("kubectl {version} (cached)");
        return Ok(());
    }
    let work = target.with_extension("work");
    let prepared = debian_program(&work, "kubectl", "usr/bin/kubectl").and_then(|program| install(&program, &target));
    let removed = fs::remove_dir_all(&work);
    prepared.map_err(|why| {
        format!("{why}\nset {KUBECTL_VARIABLE} to the path of a kubectl {KUBECTL_VERSION}x to use your own")
    })?;
    removed.map_err(|error| format!("cannot remove {}: {error}", work.display()))?;
    println!("kubectl {} (from Debian {SUITE})", kubectl_version(&target)?);
    Ok(())
}

fn kubectl_version(program: &Path) -> Outcome<String> {
    let answer = output(Command::new(program).args(["version", "--client", "--output=json"]))?;
    let answer: serde_json::Value =
        serde_json::from_str(&answer).map_err(|error| format!("{} printed no JSON: {error}", program.display()))?;
    answer["clientVersion"]["gitVersion"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("{} names no version", program.display()))
}

/// Downloads a Debian package of `SUITE` with apt into `work` and returns the path of one unpacked file.
fn debian_program(work: &Path, package: &str, file: &str) -> Outcome<PathBuf> {
    let _ = fs::remove_dir_all(work);
    for folder in [
        "lists/partial",
        "cache/archives/partial",
        "preferences",
        "download",
        "root",
    ] {
        fs::create_dir_all(work.join(folder))
            .map_err(|error| format!("cannot create {}: {error}", work.join(folder).display()))?;
    }
    let write = |name: &str, content: String| {
        fs::write(work.join(name), content)
            .map_err(|error| format!("cannot write {}: {error}", work.join(name).display()))
    };
    write("status", String::new())?;
    write("sources.list", format!("{}\n", debian_source()?))?;
    output(apt("apt-get", work).args(["--quiet", "update"]))?;
    output(
        apt("apt-get", work)
            .args(["--quiet", "download", package])
            .current_dir(work.join("download")),
    )?;
    let archive = fs::read_dir(work.join("download"))
        .ok()
        .and_then(|mut entries| {
            entries.find_map(|entry| {
                Some(entry.ok()?.path()).filter(|path| path.extension().is_some_and(|ending| ending == "deb"))
            })
        })
        .ok_or_else(|| format!("apt-get download {package} left no package"))?;
    output(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(archive)
            .arg(work.join("root")),
    )?;
    Ok(work.join("root").join(file))
}

/// apt with its own lists, cache and status, so that the machine's are neither read nor written.
fn apt(program: &str, work: &Path) -> Command {
    let mut command = Command::new(program);
    let settings = [
        ("Dir::Etc::SourceList", "sources.list"),
        ("Dir::State::Lists", "lists"),
        ("Dir::State::status", "status"),
        ("Dir::Cache", "cache"),
        ("Dir::Etc::PreferencesParts", "preferences"),
    ];
    for (name, path) in settings {
        command
            .arg("--option")
            .arg(format!("{name}={}", work.join(path).display()));
    }
    command.args([
        "--option",
        "Dir::Etc::SourceParts=/dev/null",
        "--option",
        "Acquire::Languages=none",
        "--option",
        "APT::Sandbox::User=root",
    ]);
    command
}

/// The machine's own Debian source with the suite changed.
fn debian_source() -> Outcome<String> {
    let listed = fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    let deb822: Vec<String> = fs::read_dir("/etc/apt/sources.list.d")
        .into_iter()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    one_line_source(&listed)
        .or_else(|| deb822.iter().find_map(|file| deb822_source(file)))
        .ok_or_else(|| "this machine names no Debian package source under /etc/apt".to_owned())
}

/// `deb [options] URI suite components` whose URI ends in `/debian`.
fn one_line_source(file: &str) -> Option<String> {
    file.lines().find_map(|line| {
        let line = line.trim();
        let rest = line.strip_prefix("deb ")?;
        let uri = rest
            .split_whitespace()
            .find(|word| word.trim_end_matches('/').ends_with("/debian"))?;
        let options = rest
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map(|(options, _)| format!("[{options}] "))
            .unwrap_or_default();
        Some(format!("deb {options}{uri} {SUITE} main"))
    })
}

/// The same from a deb822 file (`Key: value` lines).
fn deb822_source(file: &str) -> Option<String> {
    let field = |name: &str| {
        file.lines()
            .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
    };
    let uri = field("URIs")?
        .split_whitespace()
        .find(|uri| uri.trim_end_matches('/').ends_with("/debian"))?
        .to_owned();
    let signed_by = field("Signed-By")
        .map(|path| format!("[signed-by={path}] "))
        .unwrap_or_default();
    Some(format!("deb {signed_by}{uri} {SUITE} main"))
}

fn install(program: &Path, target: &Path) -> Outcome {
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    // Written beside and renamed, so that a run that is cut off leaves no half program.
    let fresh = target.with_extension("fresh");
    fs::copy(program, &fresh).map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
    fs::rename(&fresh, target).map_err(|error| format!("cannot write {}: {error}", target.display()))
}

#[cfg(test)]
mod tests {
    use super::{deb822_source, one_line_source};

    #[test]
    fn the_suite_of_the_machines_source_is_exchanged() {
        assert_eq!(
            one_line_source("# comment\ndeb [arch=amd64] http://mirror.example/debian bookworm main contrib\n")
                .as_deref(),
            Some("deb [arch=amd64] http://mirror.example/debian trixie main")
        );
        assert_eq!(
            deb822_source("Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nSigned-By: /usr/share/keyrings/k.gpg\n").as_deref(),
            Some("deb [signed-by=/usr/share/keyrings/k.gpg] http://mirror.example/debian trixie main")
        );
    }

    #[test]
    fn sources_of_other_vendors_are_passed_over() {
        assert_eq!(one_line_source("deb https://packages.example/apt cloud-sdk main"), None);
        assert_eq!(
            deb822_source("Types: deb\nURIs: http://mirror.example/debian-security\n"),
            None
        );
    }
}
