//! Runs the fuzzers of `fuzz/` one after the other and prints what they found. They need a nightly compiler and
//! cargo-fuzz, which is installed into the cache folder; what they learn stays there, what they find is printed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::process::{call, output};
use crate::{Outcome, cache};

const CARGO_FUZZ: &str = "0.13.2";
const TOOLCHAIN: &str = "nightly";
/// Cargo's variable for where results of builds lie; those of the fuzzers, a workspace of its own, lie in a folder there.
const TARGET_FOLDER: &str = "CARGO_TARGET_DIR";
/// One input may take so many seconds: a request that takes longer holds up others.
const INPUT_SECONDS_MAX: u32 = 2;
/// Memory of one fuzzer, in MiB: what an input of a few KiB may need is far less.
const MEMORY_MIB_MAX: u32 = 1024;
/// Longer inputs find nothing that shorter ones do not, only later.
const INPUT_BYTES_MAX: u32 = 16 << 10;

/// Which fuzzer, and for how long.
#[derive(clap::Args)]
pub(crate) struct Fuzz {
    /// The fuzzer; all, one after the other, when absent
    target: Option<Target>,
    /// How long each of them runs
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
}

/// A fuzzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Target {
    /// JSON patch, merge patch, strategic merge patch, server-side apply
    Patch,
    /// Schemas of custom resources, objects held against them, CEL
    Schema,
    /// Label and field selectors
    Selector,
    /// Bodies: JSON, YAML, protobuf
    Json,
    /// Methods, targets, headers
    RequestLine,
    /// YAML as Go reads it
    Yaml,
    /// Templates of charts
    Template,
    /// Archives of charts, rendered
    Chart,
    /// Files of values, arguments of `--set` and its sisters
    Values,
}

pub(crate) fn run(fuzz: &Fuzz) -> Outcome {
    let cargo_fuzz = prepare()?;
    let targets = match &fuzz.target {
        Some(target) => std::slice::from_ref(target),
        None => Target::value_variants(),
    };
    let mut lines = Vec::new();
    let mut broken = Vec::new();
    for target in targets {
        let name = target.to_possible_value();
        let name = name.as_ref().map(|name| name.get_name()).unwrap_or_default();
        let seen = fuzz_one(&cargo_fuzz, name, fuzz.minutes)?;
        if !seen.whole {
            broken.push(name.to_owned());
        }
        lines.push(format!("{name}: {}", seen.text()));
    }
    println!("\n{}", lines.join("\n"));
    match broken.as_slice() {
        [] => Ok(()),
        broken => Err(format!(
            "found something: {}. The inputs are in fuzz/artifacts: fix what they show, and keep each as a file of fuzz/found/TARGET",
            broken.join(", ")
        )),
    }
}

/// The program cargo-fuzz of the pinned version, installed when it is not there.
fn prepare() -> Outcome<PathBuf> {
    let hint = format!("install it with `rustup toolchain install {TOOLCHAIN}`: only `cargo xtask fuzz` needs it");
    output(Command::new("rustup").args(["run", TOOLCHAIN, "rustc", "--version"]))
        .map_err(|why| format!("{why}\n{hint}"))?;
    let folder = cache::folder()?.join("tools");
    let program = folder.join("bin/cargo-fuzz");
    let version = output(Command::new(&program).arg("--version"));
    if version.is_ok_and(|version| version.trim().ends_with(CARGO_FUZZ)) {
        println!("cargo-fuzz {CARGO_FUZZ} (cached)");
        return Ok(program);
    }
    let mut install = nightly("cargo");
    install.args(["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ, "--root"]);
    call(install.arg(&folder))?;
    Ok(program)
}

/// A program with the nightly toolchain, whichever has started this one.
fn nightly(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", TOOLCHAIN]).arg(program);
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command
}

/// Fuzzes for so many minutes, or until something is found.
fn fuzz_one(cargo_fuzz: &Path, name: &str, minutes: u32) -> Outcome<Seen> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let learned = cache::folder()?.join("fuzz").join(name);
    fs::create_dir_all(&learned).map_err(|error| format!("cannot create {}: {error}", learned.display()))?;
    println!("{name}: {minutes} min");
    let (begun, whole_time) = (Instant::now(), Duration::from_secs(60) * minutes);
    let mut seen = Seen::default();
    loop {
        let left = whole_time.saturating_sub(begun.elapsed());
        let mut command = fuzzer(cargo_fuzz, &root, name);
        command.arg(&learned).arg(format!("fuzz/seeds/{name}"));
        let found = format!("fuzz/found/{name}");
        if root.join(&found).exists() {
            command.arg(found);
        }
        command.arg("--").args(bounds(name)).args([
            format!("-max_total_time={}", left.as_secs().max(1)),
            "-print_final_stats=1".to_owned(),
        ]);
        let now = watch(&mut command)?;
        if !now.whole && now.found.is_none() {
            return Err(format!(
                "the fuzzer {name} did not run: what it, or its build, printed is above"
            ));
        }
        let slow = now.slow_input();
        seen.add(now);
        let Some(slow) = slow.filter(|_| begun.elapsed() < whole_time) else {
            return Ok(seen);
        };
        // A machine that stands still for a moment makes any input slow: one that is slow is so again.
        let mut again = fuzzer(cargo_fuzz, &root, name);
        again.arg(&slow).arg("--").args(bounds(name));
        if !watch(&mut again)?.whole {
            return Ok(seen);
        }
        println!("{name}: that input is not slow when it is run alone; going on");
        fs::remove_file(root.join(&slow)).map_err(|error| format!("cannot remove {}: {error}", slow.display()))?;
    }
}

/// A fuzzer, to which folders or one input, `--` and [`bounds`] are still to be given.
fn fuzzer(cargo_fuzz: &Path, root: &Path, name: &str) -> Command {
    let target_folder = env::var_os(TARGET_FOLDER)
        .map(PathBuf::from)
        .unwrap_or(root.join("target"));
    let mut command = nightly(cargo_fuzz);
    // Nothing here is unsafe: the sanitizers would only make it slow.
    command
        .args(["run", name, "--fuzz-dir", "fuzz", "--sanitizer", "none"])
        .arg("--target-dir")
        .arg(target_folder.join("fuzz"))
        .current_dir(root);
    command
}

/// What one input may cost.
fn bounds(name: &str) -> [String; 4] {
    [
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-dict=fuzz/dictionaries/{name}"),
    ]
}

/// What a fuzzer printed last.
#[derive(Default)]
struct Seen {
    whole: bool,
    runs: u64,
    coverage: u64,
    corpus: String,
    memory_mib: u64,
    /// The input that broke it
    found: Option<PathBuf>,
}

impl Seen {
    fn read(&mut self, line: &str) {
        let number = |text: &str| text.trim().parse().unwrap_or_default();
        if let Some(rest) = line.strip_prefix("stat::number_of_executed_units:") {
            self.runs = number(rest);
        } else if let Some(rest) = line.strip_prefix("stat::peak_rss_mb:") {
            self.memory_mib = number(rest);
        } else if let Some((_, file)) = line.split_once("Test unit written to ") {
            self.found = Some(PathBuf::from(file.trim()));
        } else if line.starts_with('#') {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after = |name: &str| {
                words
                    .iter()
                    .position(|word| *word == name)
                    .and_then(|at| words.get(at + 1))
            };
            if let Some(coverage) = after("cov:") {
                self.coverage = number(coverage);
            }
            if let Some(corpus) = after("corp:") {
                self.corpus = (*corpus).to_owned();
            }
        }
    }

    /// What broke it, if it took too long.
    fn slow_input(&self) -> Option<PathBuf> {
        let name = self.found.as_deref()?.file_name()?.to_str()?;
        self.found.clone().filter(|_| name.starts_with("timeout-"))
    }

    /// What was seen after this.
    fn add(&mut self, later: Self) {
        let (runs, memory_mib) = (self.runs + later.runs, self.memory_mib.max(later.memory_mib));
        *self = Self {
            runs,
            memory_mib,
            ..later
        };
    }

    fn text(&self) -> String {
        format!(
            "{} inputs, {} edges, corpus {}, {} MiB at most, {}",
            self.runs,
            self.coverage,
            self.corpus,
            self.memory_mib,
            if self.whole { "nothing found" } else { "BROKEN" }
        )
    }
}

/// Runs a fuzzer, shows what is not mere progress, and keeps its figures.
fn watch(command: &mut Command) -> Outcome<Seen> {
    let failed = |error: std::io::Error| format!("cannot run cargo-fuzz: {error}");
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut seen = Seen::default();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).split(b'\n') {
            let line = line.map_err(failed)?;
            let line = String::from_utf8_lossy(&line);
            seen.read(&line);
            let progress =
                line.starts_with('#') && [" NEW ", " REDUCE ", " RELOAD "].iter().any(|word| line.contains(word));
            if !progress {
                println!("{line}");
            }
        }
    }
    seen.whole = child.wait().map_err(failed)?.success();
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fuzzer_s_figures_are_read() {
        let mut seen = Seen::default();
        for line in [
            "#5\tINITED cov: 12 ft: 13 corp: 3/22b exec/s: 0 rss: 40Mb",
            "#88\tDONE   cov: 120 ft: 130 corp: 30/2200b lim: 163 exec/s: 44 rss: 41Mb",
            "stat::number_of_executed_units: 88",
            "stat::peak_rss_mb:              41",
        ] {
            seen.read(line);
        }
        seen.whole = true;
        assert_eq!(
            seen.text(),
            "88 inputs, 120 edges, corpus 30/2200b, 41 MiB at most, nothing found"
        );
    }

    #[test]
    fn only_an_input_that_took_too_long_is_run_again() {
        let mut seen = Seen {
            runs: 5,
            memory_mib: 60,
            ..Seen::default()
        };
        let mut later = Seen::default();
        for line in [
            "stat::number_of_executed_units: 88",
            "stat::peak_rss_mb:              41",
            "artifact_prefix='/a/'; Test unit written to /a/timeout-3f",
        ] {
            later.read(line);
        }
        seen.add(later);
        assert_eq!(seen.text(), "93 inputs, 0 edges, corpus , 60 MiB at most, BROKEN");
        assert_eq!(seen.slow_input(), Some(PathBuf::from("/a/timeout-3f")));

        seen.read("artifact_prefix='/a/'; Test unit written to /a/crash-3f");
        assert_eq!(seen.slow_input(), None);
    }
}
