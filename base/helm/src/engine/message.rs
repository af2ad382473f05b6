//! Go's errors of templates in Helm's format: `pkg/engine/engine.go` of Helm 4.1 (`cleanupParseError`,
//! `reformatExecErrorMsg`). It parses error texts, as Helm does.

use base_gotemplate::{AUTHOR_END, AUTHOR_START, ExecError};

const TEMPLATE: &str = "template: ";

/// Helm's message for a text that is no template.
pub(super) fn of_parsing(file: &str, error: &str) -> String {
    let mut parts = error.split(": ");
    let (Some(_), Some(place)) = (parts.next(), parts.next()) else {
        return format!("parse error in ({file}): {error}");
    };
    format!("parse error at ({place}): {}", parts.last().unwrap_or(place))
}

/// Helm's message for a template that fails.
pub(super) fn of_executing(file: &str, error: &ExecError) -> String {
    let text = error.to_string();
    let mut parts = text.splitn(3, ": ");
    let (Some(_), Some(place), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("execution error in ({file}): {text}");
    };
    if let Some(message) = message_of_author(rest) {
        return format!("execution error at ({place}): {message}");
    }
    let mut traced: Vec<Traced<'_>> = Vec::new();
    for one in error.chain() {
        // An error that is not a template's leaves the whole as Go prints it.
        let Some(found) = Traced::read(one) else {
            return text;
        };
        if traced.last() != Some(&found) {
            traced.push(found);
        }
    }
    let all: String = traced.iter().map(Traced::shown).collect();
    all.trim().to_owned()
}

/// The message of the chart's author: from the first mark to the last.
fn message_of_author(message: &str) -> Option<&str> {
    let (_, behind) = message.split_once(AUTHOR_START)?;
    behind.rsplit_once(AUTHOR_END).map(|(inner, _)| inner)
}

/// The parts of a template's error.
#[derive(PartialEq, Eq)]
struct Traced<'e> {
    place: &'e str,
    /// Template, and piece of it
    executing: Option<(&'e str, &'e str)>,
    message: &'e str,
}

impl<'e> Traced<'e> {
    fn read(text: &'e str) -> Option<Self> {
        let rest = text.strip_prefix(TEMPLATE)?;
        if rest.starts_with("no template ") {
            return Some(Self {
                place: "",
                executing: None,
                message: text,
            });
        }
        Self::read_executing(rest).or_else(|| {
            let (place, message) = rest.rsplit_once(": ")?;
            Some(Self {
                place,
                executing: None,
                message: alone(message),
            })
        })
    }

    /// `NAME: executing "TEMPLATE" at <PIECE>: MESSAGE`
    fn read_executing(rest: &'e str) -> Option<Self> {
        let (place, rest) = rest.split_once(": executing ")?;
        let (template, rest) = rest.strip_prefix('"')?.split_once('"')?;
        let (piece, message) = rest.strip_prefix(" at <")?.split_once(">: ")?;
        Some(Self {
            place,
            executing: Some((template, piece)),
            message: alone(message),
        })
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        if !self.place.is_empty() {
            shown = format!("{}\n  ", self.place);
        }
        if let Some((template, piece)) = self.executing {
            shown += &format!("executing \"{template}\" at <{piece}>:\n    ");
        }
        if !self.message.is_empty() {
            shown += self.message;
            shown.push('\n');
        }
        shown
    }
}

/// A message without the error that it goes on with.
fn alone(message: &str) -> &str {
    message.split_once(" template:").map_or(message, |(alone, _)| alone)
}
