//! Runs a script's commands on both sides, step by step at once, and compares the output.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use base_secrets::SecretText;
use tempfile::TempDir;
use tests_conformance::Outcome;
use tests_kit::{CACHE_VARIABLE, cache_folder};
use tokio::process::Command;

use crate::mask::Masks;
use crate::script::{Comparison, Script, Step};

/// How long a command may take: many times what any of them needs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Folders of prepared clients, below the cache folder.
const PROGRAMS: [&str; 4] = ["real/kubectl", "real/helm", "real/clients", "real/python/bin"];

/// Set to the path of a kubectl that is used instead of the prepared one.
const KUBECTL_VARIABLE: &str = "ORANGERY_KUBECTL";

/// One of the two clusters, for one script: a home of its own, in which nothing is left of another.
pub(crate) struct Side {
    name: &'static str,
    home: TempDir,
    path: String,
    files: PathBuf,
    transcript: Mutex<String>,
}

/// What came of a step.
pub(crate) enum Verdict {
    Agree,
    Known,
    Differ(String),
}

/// The output of a command, masked.
struct StepOutput {
    succeeded: bool,
    text: String,
}

impl Side {
    pub(crate) fn new(name: &'static str, kubeconfig: &SecretText, scripts: &str) -> Outcome<Self> {
        let home = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        std::fs::write(home.path().join("kubeconfig"), kubeconfig.expose())
            .map_err(|error| format!("cannot write a kubeconfig: {error}"))?;
        let cache = cache_folder().ok_or_else(|| format!("no home folder is known: set {CACHE_VARIABLE}"))?;
        // A kubectl of one's own goes before the prepared one.
        let own = std::env::var_os(KUBECTL_VARIABLE).and_then(|path| Some(Path::new(&path).parent()?.to_owned()));
        let folders = own.into_iter().chain(PROGRAMS.map(|folder| cache.join(folder)));
        let mut path: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        path.extend(std::env::var("PATH"));
        Ok(Self {
            name,
            home,
            path: path.join(":"),
            files: Path::new(scripts).join("files"),
            transcript: Mutex::default(),
        })
    }

    /// All output so far, masked.
    pub(crate) fn transcript(&self) -> String {
        self.transcript
            .lock()
            .map(|transcript| transcript.clone())
            .unwrap_or_default()
    }

    async fn run(&self, step: &Step, masks: &Masks) -> Outcome<StepOutput> {
        let command = Command::new("/bin/sh")
            .args(["-c", &step.command])
            .current_dir(self.home.path())
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .env("FILES", &self.files)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let failed = |why: String| format!("line {} against {}: {why}", step.line, self.name);
        let output = tokio::time::timeout(COMMAND_TIMEOUT, command)
            .await
            .map_err(|_| failed(format!("{} does not end within {COMMAND_TIMEOUT:?}", step.command)))?
            .map_err(|error| failed(format!("no shell: {error}")))?;
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        let home = self.home.path().display().to_string();
        let text = masks.apply(&text.replace(&home, "HOME"));
        let code = output.status.code().unwrap_or(-1);
        let text = format!("{}\n(exit code {code})\n", text.trim_end());
        if let Ok(mut transcript) = self.transcript.lock() {
            *transcript += &format!("$ {}\n{text}", step.command);
        }
        Ok(StepOutput {
            succeeded: code == 0,
            text,
        })
    }
}

/// Runs all steps; the first that cannot be compared ends it.
pub(crate) async fn script(script: &Script, sides: &[Side; 2], masks: &Masks) -> Outcome<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for step in &script.steps {
        let (real, ours) = tokio::join!(sides[0].run(step, masks), sides[1].run(step, masks));
        let named = |why: String| format!("{}: {why}", script.name);
        verdicts.push(verdict(step, &real.map_err(named)?, &ours.map_err(named)?));
    }
    Ok(verdicts)
}

fn verdict(step: &Step, real: &StepOutput, ours: &StepOutput) -> Verdict {
    let same = real.text == ours.text;
    match &step.comparison {
        Comparison::Same if same => Verdict::Agree,
        Comparison::Succeeds if real.succeeded && ours.succeeded => Verdict::Agree,
        Comparison::Differs(_) if !same => Verdict::Known,
        Comparison::Differs(why) => Verdict::Differ(format!("  they agree: take the mark away ({why})")),
        _ => Verdict::Differ(difference(&real.text, &ours.text)),
    }
}

/// The lines of either that the other lacks, in their order.
fn difference(real: &str, ours: &str) -> String {
    let (real, ours): (Vec<&str>, Vec<&str>) = (real.lines().collect(), ours.lines().collect());
    let table = longest_common(&real, &ours);
    let (mut at, mut other, mut text) = (0, 0, String::new());
    while at < real.len() || other < ours.len() {
        if at < real.len() && other < ours.len() && real[at] == ours[other] {
            (at, other) = (at + 1, other + 1);
        } else if other == ours.len() || at < real.len() && table[at + 1][other] >= table[at][other + 1] {
            text += &format!("  real | {}\n", real[at]);
            at += 1;
        } else {
            text += &format!("  ours | {}\n", ours[other]);
            other += 1;
        }
    }
    text
}

/// `[i][j]`: how many lines the two have in common from there on.
fn longest_common(real: &[&str], ours: &[&str]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; ours.len() + 1]; real.len() + 1];
    for at in (0..real.len()).rev() {
        for other in (0..ours.len()).rev() {
            table[at][other] = match real[at] == ours[other] {
                true => table[at + 1][other + 1] + 1,
                false => table[at + 1][other].max(table[at][other + 1]),
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_lines_of_each() {
        let text = difference("a\nb\nc\n", "a\nx\nc\nd\n");
        assert_eq!(text, "  real | b\n  ours | x\n  ours | d\n");
    }
}
