//! Places in an expression, and errors as cel-go shows them: with the line and an arrow below (google/cel-go v0.26
//! `common/error.go`, `common/errors.go`).

/// Most errors that are reported for one expression.
const ERRORS_MAX: usize = 100;

/// Longest line that is shown, in characters.
const LINE_MAX: usize = 16_384;

/// The report on one expression, in bytes: beyond it lines of source are left out, and beyond twice as much all further errors.
/// (Kubernetes has no such limit: it repeats a line of 16 KiB for each of a hundred errors.)
const WORDS_BYTES_MAX: usize = 64 * 1024;

/// Longest error at one place, in bytes: a type is shown with all its parts.
const FAULT_BYTES_MAX: usize = 4 * 1024;

/// What is wrong at one place, in characters from the start; none: of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: Option<usize>,
    pub(crate) words: String,
}

/// Gathers what is wrong with one expression.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<Fault>,
    more: usize,
}

impl Faults {
    pub(crate) fn add(&mut self, at: Option<usize>, words: impl Into<String>) {
        if self.found.len() >= ERRORS_MAX {
            self.more += 1;
            return;
        }
        let mut words = words.into();
        if words.len() > FAULT_BYTES_MAX {
            words.truncate(words.floor_char_boundary(FAULT_BYTES_MAX));
            words.push_str("...");
        }
        self.found.push(Fault { at, words });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of their places.
    pub(crate) fn report(mut self, source: &str) -> String {
        let lines: Vec<&str> = source.split('\n').collect();
        let mut starts = Vec::with_capacity(lines.len());
        let mut start = 0;
        for line in &lines {
            starts.push(start);
            start += line.chars().count() + 1;
        }
        self.found.sort_by_key(|fault| fault.at.map_or(0, |at| at + 1));
        let mut words = String::new();
        for fault in &self.found {
            if words.len() >= 2 * WORDS_BYTES_MAX {
                self.more += 1;
                continue;
            }
            if !words.is_empty() {
                words.push('\n');
            }
            let Some(at) = fault.at else {
                words.push_str(&format!("ERROR: <input>:-1:0: {}", fault.words));
                continue;
            };
            let line = starts.partition_point(|start| *start <= at).saturating_sub(1);
            let column = at - starts[line];
            words.push_str(&format!("ERROR: <input>:{}:{}: {}", line + 1, column + 1, fault.words));
            if words.len() < WORDS_BYTES_MAX {
                words.push_str(&arrow(lines[line], column));
            }
        }
        if self.more > 0 {
            words.push_str(&format!("\n{} more errors were truncated", self.more));
        }
        words
    }
}

/// The line, and below it an arrow; characters beyond ASCII are as wide as two.
fn arrow(line: &str, column: usize) -> String {
    if line.len() > LINE_MAX {
        return String::new();
    }
    let wide = |c: char| c.len_utf8() > 1;
    let mut pointer: String = line
        .chars()
        .take(column)
        .map(|c| if wide(c) { '\u{ff0e}' } else { '.' })
        .collect();
    let at_wide = line.chars().nth(column).is_some_and(wide);
    pointer.push(if at_wide { '\u{ff3e}' } else { '^' });
    format!("\n | {}\n | {pointer}", line.replace('\t', " "))
}
