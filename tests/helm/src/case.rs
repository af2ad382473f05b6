//! Cases in the files of `cases/`: one JSON object per line, a request and Helm's answer. Lines that begin with `//` are
//! comments.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Outcome;

/// Where the files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
const COMMENT: &str = "//";
/// How much of an answer is shown.
const SHOWN_CHARACTERS_MAX: usize = 3000;

/// A request, and Helm's answer once it has been recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// One of the actions of `oracle/main.go`
    #[serde(rename = "do")]
    pub action: String,
    /// Text to read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Bytes to read, as base64, where they are no text
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// A value to write, with the tags that `oracle/yaml.go` explains, or settings of the action
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// Helm's output
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Helm's error
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The output
    Output(String),
    /// The error
    Error(String),
}

impl Answer {
    /// As it is printed for the user.
    pub fn shown(&self) -> String {
        let (kind, text) = match self {
            Self::Output(text) => ("output", text),
            Self::Error(text) => ("error ", text),
        };
        let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        format!("{kind} {shown:?}")
    }
}

impl Case {
    /// A case about a text.
    pub fn of_text(action: &str, text: &str) -> Self {
        Self {
            action: action.to_owned(),
            text: Some(text.to_owned()),
            ..Self::default()
        }
    }

    /// A case about a value.
    pub fn of_value(action: &str, value: Value) -> Self {
        Self {
            action: action.to_owned(),
            value,
            ..Self::default()
        }
    }

    /// Helm's answer, if it has been recorded.
    pub fn answer(&self) -> Option<Answer> {
        match (&self.output, &self.error) {
            (Some(output), _) => Some(Answer::Output(output.clone())),
            (None, Some(error)) => Some(Answer::Error(error.clone())),
            (None, None) => None,
        }
    }

    /// Records Helm's answer.
    pub fn set_answer(&mut self, answer: &Answer) {
        (self.output, self.error) = match answer {
            Answer::Output(text) => (Some(text.clone()), None),
            Answer::Error(text) => (None, Some(text.clone())),
        };
    }

    /// As it is printed for the user, without its answer.
    pub fn shown(&self) -> String {
        let request = Self {
            output: None,
            error: None,
            ..self.clone()
        };
        serde_json::to_string(&request).unwrap_or_else(|error| error.to_string())
    }
}

/// A file of cases.
#[derive(Debug)]
pub struct File {
    /// Where it is
    pub path: PathBuf,
    /// Its lines
    pub lines: Vec<Line>,
}

/// A line of a file of cases.
#[derive(Debug)]
pub enum Line {
    /// A comment, or an empty line
    Comment(String),
    /// A case
    Case(Box<Case>),
}

impl File {
    /// The cases of the file.
    pub fn cases(&mut self) -> impl Iterator<Item = &mut Case> {
        self.lines.iter_mut().filter_map(|line| match line {
            Line::Comment(_) => None,
            Line::Case(case) => Some(&mut **case),
        })
    }

    /// Rewrites the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Outcome {
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Comment(comment) => text.push_str(comment),
                Line::Case(case) => text.push_str(&serde_json::to_string(case).map_err(|error| error.to_string())?),
            }
            text.push('\n');
        }
        fs::write(&self.path, text).map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// All files of cases in the order of their names.
///
/// # Errors
/// A file cannot be read, or is no file of cases.
pub fn files() -> Outcome<Vec<File>> {
    let folder = fs::read_dir(FOLDER).map_err(|error| format!("cannot read {FOLDER}: {error}"))?;
    let mut paths: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths.into_iter().map(file).collect()
}

fn file(path: PathBuf) -> Outcome<File> {
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let lines = text.lines().enumerate().map(|(number, line)| {
        if line.is_empty() || line.starts_with(COMMENT) {
            return Ok(Line::Comment(line.to_owned()));
        }
        let case = serde_json::from_str(line);
        let case = case.map_err(|error| format!("{}, line {}: {error}", path.display(), number + 1))?;
        Ok(Line::Case(Box::new(case)))
    });
    let lines = lines.collect::<Outcome<_>>()?;
    Ok(File { path, lines })
}
