//! Cases as they stand in the files of `cases/`: a template, what it is executed on, and what Go makes of it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::Outcome;

/// Where the files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
const NAME: &str = "=== ";
const SECTION: &str = "--- ";
/// What the names of files begin with whose cases have Sprig's functions.
const SPRIG: &str = "sprig";
/// What the names of files begin with that are Helm's to answer.
const HELM: &str = "helm";
/// What the names of files begin with whose cases make what is random: keys, certificates.
const KEYS: &str = "sprig-keys";
/// How much of an answer a person is shown.
const SHOWN_MAX: usize = 2000;
/// Begins the data of all cases of a file that have none of their own.
const SHARED_DATA: &str = "\n--- data\n";

/// A template and what it is executed on.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// What the case shows; unique in its file.
    pub name: String,
    /// text/template's option: default, zero or error
    pub missing_key: String,
    /// Whether there are Sprig's functions: in files whose name begins with `sprig`
    pub sprig: bool,
    /// Whether Helm's engine is asked, with the data as a chart's values: in files whose name begins with `helm`
    pub helm: bool,
    /// Whether the answer is what Go says of the text that the template makes: in files whose name begins with `sprig-keys`
    pub is_random: bool,
    /// The SHA-256 of what our template makes of a seed, of which Go has said so
    pub seen: Option<String>,
    /// JSON, with the tags that `oracle/main.go` explains
    pub data: String,
    /// The template
    pub template: String,
    /// Go's answer, once it has been asked
    pub answer: Option<Answer>,
}

/// What becomes of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What is written
    Output(Vec<u8>),
    /// The error
    Error(String),
}

impl Case {
    /// What is kept of an answer of ours that is random and that Go has looked at.
    pub fn seen_of(ours: &Answer) -> Option<String> {
        match ours {
            Answer::Output(text) => {
                let sum = Sha256::digest(text);
                Some(sum.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            Answer::Error(_) => None,
        }
    }

    /// Whether an answer of ours is the one that the case has; of what is random, whether it is what Go has looked at. Helm writes errors in a form of its own: of them the last
    /// words have to be ours.
    pub fn agrees_with(&self, ours: &Answer) -> bool {
        match (&self.answer, ours) {
            (Some(Answer::Output(_)), Answer::Output(_)) if self.is_random => Self::seen_of(ours) == self.seen,
            (Some(Answer::Error(theirs)), Answer::Error(ours)) if self.helm => {
                let words = ours.rsplit(": ").next().unwrap_or_default();
                let words = words.strip_prefix("HELM_ERR_START").unwrap_or(words);
                theirs.contains(words.strip_suffix("HELM_ERR_END").unwrap_or(words))
            }
            (theirs, ours) => theirs.as_ref() == Some(ours),
        }
    }
}

impl Answer {
    /// For a person.
    pub fn shown(&self) -> String {
        let (kind, text) = match self {
            Self::Output(output) => ("output", String::from_utf8_lossy(output).into_owned()),
            Self::Error(why) => ("error", why.clone()),
        };
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        format!("{kind} {shown:?} ({} bytes)", text.len())
    }
}

/// A file of cases.
#[derive(Debug)]
pub struct File {
    /// Where it is
    pub path: PathBuf,
    /// What it says before its first case: what the file is about, and the data of cases that have none of their own
    pub preface: String,
    /// Its cases
    pub cases: Vec<Case>,
}

/// All files of cases in the order of their names.
///
/// # Errors
/// A file cannot be read, or is not written as cases are.
pub fn files() -> Outcome<Vec<File>> {
    let folder = fs::read_dir(FOLDER).map_err(|error| format!("cannot read {FOLDER}: {error}"))?;
    let mut paths: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let (preface, mut cases) = read(&text).map_err(|why| format!("{}: {why}", path.display()))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            for case in &mut cases {
                case.sprig = name.starts_with(SPRIG);
                case.helm = name.starts_with(HELM);
                case.is_random = name.starts_with(KEYS);
            }
            Ok(File { path, preface, cases })
        })
        .collect()
}

fn read(text: &str) -> Outcome<(String, Vec<Case>)> {
    // The end of the file is no part of its last answer.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let begin = format!("\n{NAME}");
    let mut parts = text.split(&begin);
    let preface = parts.next().unwrap_or_default().to_owned();
    let data = preface
        .split_once(SHARED_DATA)
        .map_or("null", |(_, data)| data)
        .to_owned();
    let cases = parts.map(|part| case(part, &data)).collect::<Outcome<_>>()?;
    Ok((preface, cases))
}

fn case(text: &str, data: &str) -> Outcome<Case> {
    let begin = format!("\n{SECTION}");
    let mut sections = text.split(&begin);
    let mut case = Case {
        name: sections.next().unwrap_or_default().trim_end().to_owned(),
        missing_key: "default".to_owned(),
        data: data.to_owned(),
        ..Case::default()
    };
    for section in sections {
        let (kind, body) = section.split_once('\n').unwrap_or((section, ""));
        match kind {
            "data" => case.data = body.to_owned(),
            "seen" => case.seen = Some(body.to_owned()),
            "template" => case.template = body.to_owned(),
            "output" => case.answer = Some(Answer::Output(body.as_bytes().to_vec())),
            "output in base64" => {
                let bytes = BASE64_STANDARD.decode(body.trim());
                let bytes = bytes.map_err(|error| format!("case {}: output: {error}", case.name))?;
                case.answer = Some(Answer::Output(bytes));
            }
            "error" => case.answer = Some(Answer::Error(body.to_owned())),
            other => match other.strip_prefix("missingkey ") {
                Some(option) => case.missing_key = option.to_owned(),
                None => return Err(format!("case {}: there is no section {other:?}", case.name)),
            },
        }
    }
    Ok(case)
}

impl File {
    /// Writes the file again.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Outcome {
        let mut text = self.preface.clone();
        let data = self.preface.split_once(SHARED_DATA).map_or("null", |(_, data)| data);
        for case in &self.cases {
            case.write(data, &mut text);
        }
        text.push('\n');
        fs::write(&self.path, text).map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

impl Case {
    fn write(&self, shared_data: &str, text: &mut String) {
        let mut section = |kind: &str, body: &str| {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{kind}");
            if !body.is_empty() {
                let _ = write!(text, "\n{body}");
            }
        };
        section(&format!("{NAME}{}", self.name), "");
        if self.missing_key != "default" {
            section(&format!("{SECTION}missingkey {}", self.missing_key), "");
        }
        if self.data != shared_data {
            section(&format!("{SECTION}data"), &self.data);
        }
        section(&format!("{SECTION}template"), &self.template);
        if let Some(seen) = &self.seen {
            section(&format!("{SECTION}seen"), seen);
        }
        match &self.answer {
            None => {}
            Some(Answer::Error(why)) => section(&format!("{SECTION}error"), why),
            Some(Answer::Output(output)) => match std::str::from_utf8(output) {
                Ok(output) if is_plain(output) => section(&format!("{SECTION}output"), output),
                _ => section(&format!("{SECTION}output in base64"), &BASE64_STANDARD.encode(output)),
            },
        }
    }
}

/// Whether a text can stand in a file of cases and be read again: it has no line that begins another section, no carriage
/// return, and does not end where a file may lose what stands there.
fn is_plain(text: &str) -> bool {
    let begins = |line: &str| line.starts_with(NAME) || line.starts_with(SECTION);
    !text.lines().any(begins) && !text.contains(['\r', '\0']) && !text.ends_with(['\n', ' ', '\t'])
}
