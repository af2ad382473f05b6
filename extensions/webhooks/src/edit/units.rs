//! systemd units as lines (systemd 257 man/systemd.syntax.xml): an option is changed where it stands, and order, comments, blank
//! lines and continuations of all others stay as they are. It knows no option's meaning.

use std::fmt;

/// Between the parts of a value that is written on several lines.
const CONTINUATION: &str = " \\\n    ";

/// Why a text is no unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the unit {problem}")]
pub struct UnitError {
    line: usize,
    problem: &'static str,
}

/// A unit file. It prints as it was read, but for what was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile(Vec<Line>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Section {
        name: String,
        raw: String,
    },
    Assignment {
        name: String,
        value: String,
        raw: String,
    },
    /// A comment or nothing.
    Other(String),
}

impl Line {
    fn raw(&self) -> &str {
        match self {
            Self::Section { raw, .. } | Self::Assignment { raw, .. } | Self::Other(raw) => raw,
        }
    }

    fn assignment(name: &str, value: &str) -> Self {
        let value = value.lines().collect::<Vec<_>>().join(CONTINUATION);
        Self::Assignment {
            raw: format!("{name}={value}\n"),
            value: joined(&value),
            name: name.to_owned(),
        }
    }
}

impl UnitFile {
    /// Reads a unit.
    ///
    /// # Errors
    /// A line that is neither section, option nor comment, or an option in front of the first section.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let mut lines = Vec::new();
        let mut rest = text.split_inclusive('\n').enumerate();
        let mut in_section = false;
        while let Some((at, line)) = rest.next() {
            let wrong = |problem| Err(UnitError { line: at + 1, problem });
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                lines.push(Line::Other(line.to_owned()));
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[') {
                let Some(name) = name.strip_suffix(']') else {
                    return wrong("begins a section and does not end it");
                };
                in_section = true;
                let (name, raw) = (name.to_owned(), line.to_owned());
                lines.push(Line::Section { name, raw });
                continue;
            }
            if !in_section {
                return wrong("stands in front of the first section");
            }
            let Some((name, _)) = trimmed.split_once('=') else {
                return wrong("is no option: it has no equals sign");
            };
            let (name, mut raw) = (name.trim().to_owned(), line.to_owned());
            while goes_on(&raw) {
                match rest.next() {
                    Some((_, more)) => raw.push_str(more),
                    None => break,
                }
            }
            let value = raw.split_once('=').map_or("", |(_, value)| value);
            let value = joined(value);
            lines.push(Line::Assignment { name, value, raw });
        }
        Ok(Self(lines))
    }

    /// All values of an option, in order. A value on several lines is one, with a blank between its parts.
    #[must_use]
    pub fn values(&self, section: &str, name: &str) -> Vec<&str> {
        let places = self.places(section, name);
        places
            .into_iter()
            .filter_map(|at| match &self.0[at] {
                Line::Assignment { value, .. } => Some(value.as_str()),
                Line::Section { .. } | Line::Other(_) => None,
            })
            .collect()
    }

    /// Gives an option this value alone: it stands where it has stood first, or at the end of its section.
    pub fn set(&mut self, section: &str, name: &str, value: &str) {
        let line = Line::assignment(name, value);
        let places = self.places(section, name);
        match places.split_first() {
            None => self.insert(section, line),
            Some((first, others)) => {
                if !others.is_empty() || !self.has(section, name, value) {
                    self.0[*first] = line;
                }
                for at in others.iter().rev() {
                    self.0.remove(*at);
                }
            }
        }
    }

    /// Adds an option unless it stands there with exactly this value: for options that may be given several times.
    pub fn ensure(&mut self, section: &str, name: &str, value: &str) {
        if !self.has(section, name, value) {
            self.insert(section, Line::assignment(name, value));
        }
    }

    /// Takes all values of an option away.
    pub fn remove(&mut self, section: &str, name: &str) {
        for at in self.places(section, name).into_iter().rev() {
            self.0.remove(at);
        }
    }

    /// Changes the words of a command line, such as `ExecStart` of `Service`: of the last one, which is the one with a program. A
    /// word in quotes is one word and keeps them. Where there is no command, nothing happens.
    pub fn edit_command(&mut self, section: &str, name: &str, edit: impl FnOnce(&mut Vec<String>)) {
        let Some(at) = self.places(section, name).pop() else {
            return;
        };
        let Line::Assignment { value, .. } = &self.0[at] else {
            return;
        };
        let before = words(value);
        let mut after = before.clone();
        edit(&mut after);
        if after != before {
            self.0[at] = Line::assignment(name, &after.join("\n"));
        }
    }

    fn has(&self, section: &str, name: &str, value: &str) -> bool {
        let value = joined(&value.lines().collect::<Vec<_>>().join(CONTINUATION));
        self.values(section, name).contains(&value.as_str())
    }

    /// Where an option stands.
    fn places(&self, section: &str, name: &str) -> Vec<usize> {
        let mut inside = false;
        let mut places = Vec::new();
        for (at, line) in self.0.iter().enumerate() {
            match line {
                Line::Section { name, .. } => inside = name == section,
                Line::Assignment { name: found, .. } if inside && found == name => places.push(at),
                Line::Assignment { .. } | Line::Other(_) => {}
            }
        }
        places
    }

    /// Behind the last option of that name, or else of the section, which is made if it is not there.
    fn insert(&mut self, section: &str, line: Line) {
        let (mut inside, mut end, mut of_name) = (false, None, None);
        for (at, known) in self.0.iter().enumerate() {
            match (known, &line) {
                (Line::Section { name, .. }, _) => {
                    inside = name == section;
                    end = if inside { Some(at) } else { end };
                }
                (Line::Assignment { name: known, .. }, Line::Assignment { name, .. }) if inside => {
                    end = Some(at);
                    of_name = if known == name { Some(at) } else { of_name };
                }
                _ => {}
            }
        }
        self.end_last_line();
        match of_name.or(end) {
            Some(at) => self.0.insert(at + 1, line),
            None => {
                if !self.0.is_empty() {
                    self.0.push(Line::Other("\n".to_owned()));
                }
                let (name, raw) = (section.to_owned(), format!("[{section}]\n"));
                self.0.extend([Line::Section { name, raw }, line]);
            }
        }
    }

    fn end_last_line(&mut self) {
        if let Some(Line::Section { raw, .. } | Line::Assignment { raw, .. } | Line::Other(raw)) = self.0.last_mut()
            && !raw.ends_with('\n')
        {
            raw.push('\n');
        }
    }
}

impl fmt::Display for UnitFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| f.write_str(line.raw()))
    }
}

/// Whether the next line belongs to the value: the last one ends in a backslash, or is a comment between such lines.
fn goes_on(raw: &str) -> bool {
    let mut last = None;
    for (at, line) in raw.lines().enumerate() {
        if at == 0 || !line.trim_start().starts_with(['#', ';']) {
            last = Some(line);
        }
    }
    raw.ends_with('\n') && last.is_some_and(|line| line.ends_with('\\'))
}

/// A value whose lines are one, without the comments between them.
fn joined(value: &str) -> String {
    let lines = value.lines().enumerate();
    let lines = lines.filter(|(at, line)| *at == 0 || !line.trim_start().starts_with(['#', ';']));
    let parts: Vec<&str> = lines
        .map(|(_, line)| line.trim_end().strip_suffix('\\').unwrap_or(line).trim())
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" ")
}

/// The words of a command line, with their quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => {
                word.push(letter);
                word.extend(letters.next());
                continue;
            }
            (letter, None) if letter.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
        word.push(letter);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBELET: &str = "# of the kubelet
[Unit]
Description=kubelet daemon
After=containerd.service

[Service]
; restarts
Restart=always
Environment=A=1
Environment = B=2
ExecStart=/opt/bin/kubelet --config=/c \\
  # a comment in between
  --kubeconfig=/k \\
  --node-labels=\"a=b c\"
[Install]
WantedBy=multi-user.target";

    fn changed(change: impl Fn(&mut UnitFile)) -> String {
        let mut unit = UnitFile::parse(KUBELET).unwrap();
        change(&mut unit);
        let once = unit.to_string();
        change(&mut unit);
        assert_eq!(unit.to_string(), once);
        assert_eq!(UnitFile::parse(&once).unwrap().to_string(), once);
        once
    }

    /// What differs from the unit as it was: its own lines, and those that took their place.
    fn lines(change: impl Fn(&mut UnitFile)) -> (Vec<String>, Vec<String>) {
        let after = changed(change);
        let without = |text: &str, other: &str| -> Vec<String> {
            let other: Vec<&str> = other.lines().collect();
            text.lines()
                .filter(|line| !other.contains(line))
                .map(str::to_owned)
                .collect()
        };
        (without(KUBELET, &after), without(&after, KUBELET))
    }

    #[test]
    fn a_unit_prints_as_it_was_read() {
        for text in [KUBELET, "", "\n", "[A]\n", "[A]\nb=\n\n", "[A]\r\nb=c \\\r\n d\r\n"] {
            assert_eq!(UnitFile::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn values_are_read_by_section_and_name() {
        let unit = UnitFile::parse(KUBELET).unwrap();
        assert_eq!(unit.values("Service", "Environment"), ["A=1", "B=2"]);
        assert_eq!(
            unit.values("Service", "ExecStart"),
            ["/opt/bin/kubelet --config=/c --kubeconfig=/k --node-labels=\"a=b c\""]
        );
        assert_eq!(unit.values("Unit", "Restart"), Vec::<&str>::new());
    }

    #[test]
    fn a_changed_option_keeps_its_place_and_other_lines_stay_unchanged() {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let set = lines(|unit| unit.set("Service", "Restart", "no"));
        assert_eq!(set, (strings(&["Restart=always"]), strings(&["Restart=no"])));
        let one = lines(|unit| unit.set("Service", "Environment", "B=2"));
        assert_eq!(
            one,
            (
                strings(&["Environment=A=1", "Environment = B=2"]),
                strings(&["Environment=B=2"])
            )
        );
        assert_eq!(
            lines(|unit| unit.set("Unit", "After", "containerd.service")),
            (vec![], vec![])
        );
        assert_eq!(lines(|unit| unit.remove("Service", "Restart")).0, ["Restart=always"]);
        assert_eq!(lines(|unit| unit.remove("Unit", "Restart")), (vec![], vec![]));
        assert_eq!(
            lines(|unit| unit.ensure("Service", "Environment", "B=2")),
            (vec![], vec![])
        );
    }

    #[test]
    fn new_options_stand_behind_their_like_or_at_the_end_of_their_section() {
        let after = changed(|unit| unit.ensure("Service", "Environment", "C=3"));
        assert!(
            after.contains("Environment = B=2\nEnvironment=C=3\nExecStart="),
            "{after}"
        );
        let after = changed(|unit| unit.set("Unit", "Wants", "x"));
        assert!(
            after.contains("After=containerd.service\nWants=x\n\n[Service]"),
            "{after}"
        );
        let after = changed(|unit| unit.set("Install", "Alias", "k"));
        assert!(after.ends_with("WantedBy=multi-user.target\nAlias=k\n"), "{after}");
        let after = changed(|unit| unit.set("Slice", "A", "b\nc"));
        assert!(after.ends_with("target\n\n[Slice]\nA=b \\\n    c\n"), "{after}");
    }

    #[test]
    fn words_of_a_command_are_edited_and_quotes_hold_them_together() {
        let after = changed(|unit| {
            unit.edit_command("Service", "ExecStart", |words| {
                words.retain(|word| !word.starts_with("--kubeconfig"));
                if !words.iter().any(|word| word == "--v=2") {
                    words.push("--v=2".to_owned());
                }
            });
        });
        let command =
            "ExecStart=/opt/bin/kubelet \\\n    --config=/c \\\n    --node-labels=\"a=b c\" \\\n    --v=2\n[Install]";
        assert!(after.contains(command), "{after}");
        assert_eq!(
            changed(|unit| unit.edit_command("Service", "ExecStart", |_| {})),
            KUBELET
        );
        assert_eq!(
            changed(|unit| unit.edit_command("Service", "ExecStop", |words| words.clear())),
            KUBELET
        );
    }

    #[test]
    fn what_is_no_unit_is_refused_by_line() {
        for (text, expected) in [
            ("a=b\n", "line 1 of the unit stands in front of the first section"),
            ("[A\n", "line 1 of the unit begins a section and does not end it"),
            (
                "[A]\n\nword\n",
                "line 3 of the unit is no option: it has no equals sign",
            ),
        ] {
            assert_eq!(UnitFile::parse(text).unwrap_err().to_string(), expected);
        }
        // A backslash at the end has nothing to go on with.
        assert_eq!(UnitFile::parse("[A]\nb=c\\").unwrap().values("A", "b"), ["c"]);
    }
}
