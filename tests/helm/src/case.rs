//! Cases as they stand in the files of `cases/`: one JSON object per line, the question and Helm's answer to it. Lines that
//! begin with `//` say what follows is about.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Outcome;

/// Where the files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/cases");
const REMARK: &str = "//";
/// How much of an answer a person is shown.
const SHOWN_CHARACTERS_MAX: usize = 3000;

/// A question, and Helm's answer once it was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What is asked: one of the actions of `oracle/main.go`
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
    /// What Helm makes of it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why Helm refuses it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What becomes of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What is made of it
    Output(String),
    /// The error
    Error(String),
}

impl Answer {
    /// For a person.
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
    /// A question about a text.
    pub fn of_text(action: &str, text: &str) -> Self {
        Self {
            action: action.to_owned(),
            text: Some(text.to_owned()),
            ..Self::default()
        }
    }

    /// A question about a value.
    pub fn of_value(action: &str, value: Value) -> Self {
        Self {
            action: action.to_owned(),
            value,
            ..Self::default()
        }
    }

    /// Helm's answer, if it was asked.
    pub fn answer(&self) -> Option<Answer> {
        match (&self.output, &self.error) {
            (Some(output), _) => Some(Answer::Output(output.clone())),
            (None, Some(error)) => Some(Answer::Error(error.clone())),
            (None, None) => None,
        }
    }

    /// Keeps Helm's answer.
    pub fn set_answer(&mut self, answer: &Answer) {
        (self.output, self.error) = match answer {
            Answer::Output(text) => (Some(text.clone()), None),
            Answer::Error(text) => (None, Some(text.clone())),
        };
    }

    /// For a person.
    pub fn shown(&self) -> String {
        let question = Self {
            output: None,
            error: None,
            ..self.clone()
        };
        serde_json::to_string(&question).unwrap_or_else(|error| error.to_string())
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
    /// What the following is about, or nothing
    Remark(String),
    /// A case
    Case(Box<Case>),
}

impl File {
    /// The cases of the file.
    pub fn cases(&mut self) -> impl Iterator<Item = &mut Case> {
        self.lines.iter_mut().filter_map(|line| match line {
            Line::Remark(_) => None,
            Line::Case(case) => Some(&mut **case),
        })
    }

    /// Writes the file again.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Outcome {
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Remark(remark) => text.push_str(remark),
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
/// A file cannot be read, or is not written as cases are.
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
        if line.is_empty() || line.starts_with(REMARK) {
            return Ok(Line::Remark(line.to_owned()));
        }
        let case = serde_json::from_str(line);
        let case = case.map_err(|error| format!("{}, line {}: {error}", path.display(), number + 1))?;
        Ok(Line::Case(Box::new(case)))
    });
    let lines = lines.collect::<Outcome<_>>()?;
    Ok(File { path, lines })
}
