//! An answer as text of a given width. It adds nothing to what the plan says.

use jiff::Timestamp;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::plan::{Answer, Blocker, State};

/// Columns before a blocker's lines.
const INDENT: usize = 4;
/// Columns of a label with the space behind it.
const LABEL: usize = 10;
/// Narrower than this nothing can be read; lines become longer than the terminal then.
const WIDTH_MIN: usize = 40;
/// Wider than this a line is hard to read.
const WIDTH_MAX: usize = 120;

/// A space at which no line is broken.
const UNBROKEN: &str = "\u{a0}";

/// What is printed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Columns.
    pub width: usize,
    /// Whether colours are shown.
    pub colour: bool,
}

impl Default for Page {
    /// What is read by a program, or kept in a file.
    fn default() -> Self {
        Self {
            width: 80,
            colour: false,
        }
    }
}

/// The colours, as ANSI codes.
#[derive(Clone, Copy)]
enum Style {
    Bold,
    Red,
    Green,
    Yellow,
    Dim,
}

impl Page {
    fn paint(self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => "1",
            Style::Red => "1;31",
            Style::Green => "1;32",
            Style::Yellow => "1;33",
            Style::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    fn columns(self) -> usize {
        self.width.clamp(WIDTH_MIN, WIDTH_MAX)
    }
}

/// The answer as lines.
#[must_use]
pub fn text(answer: &Answer, page: &Page) -> String {
    let mut lines = Vec::new();
    let style = match answer.state {
        State::Healthy => Style::Green,
        State::Working | State::Unknown => Style::Yellow,
        State::Blocked => Style::Red,
    };
    for line in wrap(&heading(answer), page.columns()) {
        lines.push(page.paint(style, &line));
    }
    for (index, blocker) in answer.blockers.iter().enumerate() {
        lines.push(String::new());
        add(&mut lines, index + 1, blocker, answer.seen, *page);
    }
    if !answer.unknown.is_empty() {
        lines.push(String::new());
    }
    for unknown in &answer.unknown {
        for line in wrap(&format!("not seen: {unknown}"), page.columns()) {
            lines.push(page.paint(Style::Yellow, &line));
        }
    }
    lines.join("\n") + "\n"
}

fn heading(answer: &Answer) -> String {
    let about = &answer.about;
    let since = |since: Option<Timestamp>| match since {
        Some(at) => format!(" since {}", moment(at, answer.seen)),
        None => String::new(),
    };
    let succeeded = answer.operation.as_ref().is_some_and(|last| last.state == "Succeeded");
    let operation = match &answer.operation {
        Some(last) if succeeded => format!("; its last operation, {}, has succeeded", last.type_),
        Some(last) => format!(": {} {} at {} %", last.type_, last.state, last.progress),
        None => String::new(),
    };
    match answer.state {
        State::Healthy => format!("{about} is healthy{}", since(answer.since)),
        State::Unknown => format!("{about} shows no trouble, and not everything could be seen"),
        State::Working => format!("{about} is being worked on{}{operation}", since(answer.since)),
        State::Blocked if succeeded => format!("{about} is in trouble{operation}"),
        State::Blocked => {
            let tried = match answer.since {
                Some(at) => format!(", tried since {}", moment(at, answer.seen)),
                None => String::new(),
            };
            format!("{about} is blocked{operation}{tried}")
        }
    }
}

fn add(lines: &mut Vec<String>, number: usize, blocker: &Blocker, now: Timestamp, page: Page) {
    let width = page.columns() - INDENT;
    for (index, line) in wrap(&blocker.message, width).iter().enumerate() {
        let before = match index {
            0 => format!("{number:>2}  "),
            _ => " ".repeat(INDENT),
        };
        lines.push(format!("{before}{}", page.paint(Style::Bold, line)));
    }
    let mut field = |label: &str, values: &[String], command: bool| {
        let room = width - LABEL;
        let wrapped = values.iter().flat_map(|value| match command {
            true => wrap_command(value, room),
            false => wrap(value, room),
        });
        for (index, line) in wrapped.enumerate() {
            let label = if index == 0 { label } else { "" };
            let label = page.paint(Style::Dim, &format!("{label:<LABEL$}"));
            lines.push(format!("{}{label}{line}", " ".repeat(INDENT)));
        }
    };
    let one = |text: &str| [text.to_owned()];
    let error = [blocker.class.map(str::to_owned)]
        .into_iter()
        .flatten()
        .chain(blocker.codes.iter().map(ToString::to_string))
        .collect::<Vec<_>>()
        .join(", ");
    let objects: Vec<String> = blocker.objects.iter().map(ToString::to_string).collect();
    field("object", &objects, false);
    field("task", &blocker.tasks, false);
    field("who", &one(&blocker.who), false);
    field("details", &blocker.details, false);
    let error = (!error.is_empty()).then_some(error);
    field("class", error.as_slice(), false);
    let since = blocker.since.map(|at| moment(at, now));
    field("since", since.as_slice(), false);
    field("next try", &one(&blocker.next_try), false);
    field("to do", &one(&blocker.to_do), false);
    field("then", blocker.command.as_slice(), true);
}

/// A moment and how long ago it was.
fn moment(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
    let ago = match seconds {
        ..0 => "to come".to_owned(),
        0..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    };
    format!("{whole} ({ago})").replace(' ', UNBROKEN)
}

/// Lines of at most `width` columns, broken at spaces; a word that is longer is broken within. What would steer a
/// terminal is taken out: extensions write these texts.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let words = words(text).flat_map(|word| match word.width() > width {
        // Rather there than within.
        true => word.split(UNBROKEN).map(str::to_owned).collect(),
        false => vec![word.replace(UNBROKEN, " ")],
    });
    fill(words.flat_map(|word| pieces(&word, width)), width)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| letter.is_control() || letter.is_whitespace() && !UNBROKEN.contains(letter))
}

/// As many words in a line as have room.
fn fill(words: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The same for what is typed: a broken line ends in a backslash and no word is broken, so that it can be copied as it
/// stands. A word that has no room is left to the terminal.
fn wrap_command(text: &str, width: usize) -> Vec<String> {
    let lines = |width| fill(words(text).map(|word| word.replace(UNBROKEN, " ")), width);
    let short = lines(width);
    if short.len() < 2 {
        return short;
    }
    let mut lines = lines(width.saturating_sub(2));
    let last = lines.len() - 1;
    for line in &mut lines[..last] {
        line.push_str(" \\");
    }
    lines
}

/// A word in pieces of at most `width` columns; none of an empty one.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut room = 0;
    for letter in word.chars() {
        let columns = letter.width().unwrap_or(0);
        if columns > room {
            all.push(String::new());
            room = width;
        }
        room = room.saturating_sub(columns);
        if let Some(piece) = all.last_mut() {
            piece.push(letter);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use api_meta::ObjectName;

    use super::*;
    use crate::plan::{About, Cause, Located, OperationView};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn answer(state: State, blockers: Vec<Blocker>) -> Answer {
        Answer {
            about: About::Shoot(ObjectName::new("Shoot", Some("garden-local"), "stuck")),
            state,
            since: Some(at("2026-01-01T00:00:00.25Z")),
            seen: at("2026-01-01T00:03:20Z"),
            operation: Some(OperationView {
                type_: "Create".to_owned(),
                state: "Processing".to_owned(),
                progress: 24,
                updated: at("2026-01-01T00:01:00Z"),
                trying_since: None,
            }),
            blockers,
            unknown: Vec::new(),
        }
    }

    fn blocker() -> Blocker {
        Blocker {
            cause: Cause::ExtensionSilent,
            message: "extension \"local\" has not picked up the operation \"reconcile\" yet".to_owned(),
            details: vec!["Deployment extension-provider-local-abcde/provider-local wants 0 pods".to_owned()],
            tasks: vec!["Waiting until Shoot infrastructure has been reconciled".to_owned()],
            objects: vec![Located::in_seed(
                ObjectName::new("Infrastructure", Some("shoot--local--stuck"), "stuck"),
                "local",
            )],
            who: "extension \"local\", registration provider-local".to_owned(),
            class: Some("dependency"),
            codes: Vec::new(),
            since: Some(at("2026-01-01T00:01:00Z")),
            next_try: "at once when the object's status changes".to_owned(),
            to_do: "let the Deployment run a pod".to_owned(),
            command: Some(
                "kubectl annotate shoot -n garden-local-of-many-words stuck gardener.cloud/operation=retry".to_owned(),
            ),
        }
    }

    #[test]
    fn a_healthy_shoot_is_one_line() {
        assert_eq!(
            text(&answer(State::Healthy, Vec::new()), &Page::default()),
            "Shoot garden-local/stuck is healthy since 2026-01-01T00:00:00Z (3 min ago)\n"
        );
    }

    #[test]
    fn a_blocker_is_aligned_and_a_command_can_be_copied() {
        let printed = text(&answer(State::Blocked, vec![blocker()]), &Page::default());
        let expected = "\
Shoot garden-local/stuck is blocked: Create Processing at 24 %, tried since
2026-01-01T00:00:00Z (3 min ago)

 1  extension \"local\" has not picked up the operation \"reconcile\" yet
    object    Infrastructure shoot--local--stuck/stuck in seed local
    task      Waiting until Shoot infrastructure has been reconciled
    who       extension \"local\", registration provider-local
    details   Deployment extension-provider-local-abcde/provider-local wants 0
              pods
    class     dependency
    since     2026-01-01T00:01:00Z (2 min ago)
    next try  at once when the object's status changes
    to do     let the Deployment run a pod
    then      kubectl annotate shoot -n garden-local-of-many-words stuck \\
              gardener.cloud/operation=retry
";
        assert_eq!(printed, expected);
    }

    #[test]
    fn a_moment_breaks_at_its_spaces_and_a_command_never_within_a_word() {
        let page = Page {
            width: 40,
            colour: false,
        };
        let printed = text(&answer(State::Blocked, vec![blocker()]), &page);
        for expected in [
            "    since     2026-01-01T00:01:00Z (2\n              min ago)\n",
            "stuck \\\n              gardener.cloud/operation=retry\n",
        ] {
            assert!(printed.contains(expected), "{expected:?} is not in {printed}");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_steers_it() {
        let hostile = Blocker {
            message: format!(
                "\u{1b}[2J\u{7}{} \u{65e5}\u{672c}\u{8a9e}\n{}",
                "x".repeat(300),
                "y ".repeat(90)
            ),
            who: "\u{65e5}".repeat(99),
            ..blocker()
        };
        for width in [40, 80, 81, 120] {
            let page = Page { width, colour: false };
            let printed = text(&answer(State::Blocked, vec![hostile.clone()]), &page);
            // What is typed is never broken within a word.
            for line in printed.lines().take_while(|line| !line.starts_with("    then")) {
                assert!(line.width() <= width, "{width}: {line:?}");
            }
            assert!(!printed.contains('\u{1b}') && !printed.contains('\u{7}'));
        }
        let coloured = Page {
            width: 80,
            colour: true,
        };
        assert!(text(&answer(State::Blocked, vec![blocker()]), &coloured).contains("\u{1b}[1;31m"));
    }

    #[test]
    fn what_was_not_seen_is_printed() {
        let mut blind = answer(State::Unknown, Vec::new());
        blind.unknown.push("what is in the seed: no file".to_owned());
        assert!(text(&blind, &Page::default()).ends_with("\n\nnot seen: what is in the seed: no file\n"));
    }
}
