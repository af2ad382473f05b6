//! The words, redirections and here-documents of a shell script, as far as they are known without running it (POSIX
//! Shell Command Language, 2.2 to 2.7). Expands nothing and runs nothing: what would be expanded is marked.

use std::collections::VecDeque;

/// One word, quotes removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Its text; what would be expanded is missing from it.
    pub(super) text: String,
    /// Whether a shell would put something else in its place.
    pub(super) expands: bool,
    /// Whether a part of it stood in quotes: then it is no keyword.
    pub(super) quoted: bool,
}

/// What stands behind a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// The next command, whatever this one did.
    #[default]
    Next,
    /// `|`
    Pipe,
    /// `&&`
    And,
    /// `||`
    Or,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Its line, from 1.
    pub(super) line: usize,
    /// Its words, assignments and keywords among them.
    pub(super) words: Vec<Word>,
    /// The file that its output replaces.
    pub(super) into: Option<Word>,
    /// Its here-document.
    pub(super) input: Option<String>,
    /// Whether something about it is unknown: an expansion in its here-document, another redirection.
    pub(super) unclear: bool,
    /// What stands behind it.
    pub(super) end: End,
}

/// The line at which a quote or substitution begins that never ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeverEnds(pub(super) usize);

/// All commands of a script in their order.
pub(super) fn commands(script: &str) -> Result<Vec<Command>, NeverEnds> {
    let mut lexer = Lexer {
        rest: script,
        line: 1,
        commands: Vec::new(),
        command: Command::default(),
        word: None,
        next_is: NextIs::Argument,
        documents: VecDeque::new(),
    };
    while let Some(next) = lexer.take() {
        lexer.step(next)?;
    }
    lexer.end_command(End::Next);
    Ok(lexer.commands)
}

/// What the word being read is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextIs {
    Argument,
    Output,
    Delimiter { strip_tabs: bool },
    Ignored,
}

/// A here-document whose lines come after this one.
struct Document {
    /// The command that reads it: its place among all.
    command: usize,
    delimiter: Word,
    strip_tabs: bool,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    commands: Vec<Command>,
    command: Command,
    word: Option<Word>,
    next_is: NextIs,
    documents: VecDeque<Document>,
}

impl Lexer<'_> {
    fn take(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn take_if(&mut self, wanted: &str) -> bool {
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn word(&mut self) -> &mut Word {
        if self.word.is_none() && self.command.words.is_empty() {
            self.command.line = self.line;
        }
        self.word.get_or_insert_default()
    }

    fn step(&mut self, next: char) -> Result<(), NeverEnds> {
        match next {
            ' ' | '\t' | '\r' => self.end_word(),
            '\n' => {
                self.end_command(End::Next);
                self.read_documents();
            }
            '#' if self.word.is_none() => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
            }
            '\\' => match self.take() {
                Some('\n') | None => {}
                Some(escaped) => self.push_quoted(escaped),
            },
            '\'' => self.single_quoted()?,
            '"' => self.double_quoted()?,
            '$' | '`' => self.expansion(next)?,
            '<' => self.input(),
            '>' => self.output(),
            '|' if self.take_if("|") => self.end_command(End::Or),
            '|' => {
                self.take_if("&");
                self.end_command(End::Pipe);
            }
            '&' if self.take_if("&") => self.end_command(End::And),
            '&' if self.take_if(">") => {
                self.take_if(">");
                self.redirect(NextIs::Ignored, true);
            }
            '&' | ';' => self.end_command(End::Next),
            '(' | ')' => self.parenthesis(next),
            other => self.word().text.push(other),
        }
        Ok(())
    }

    fn push_quoted(&mut self, text: char) {
        let word = self.word();
        word.quoted = true;
        word.text.push(text);
    }

    fn single_quoted(&mut self) -> Result<(), NeverEnds> {
        let begun = self.line;
        self.word().quoted = true;
        loop {
            match self.take() {
                None => return Err(NeverEnds(begun)),
                Some('\'') => return Ok(()),
                Some(text) => self.word().text.push(text),
            }
        }
    }

    fn double_quoted(&mut self) -> Result<(), NeverEnds> {
        let begun = self.line;
        self.word().quoted = true;
        loop {
            match self.take() {
                None => return Err(NeverEnds(begun)),
                Some('"') => return Ok(()),
                Some('\\') => match self.take() {
                    Some('\n') => {}
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => self.push_quoted(escaped),
                    Some(other) => {
                        self.push_quoted('\\');
                        self.push_quoted(other);
                    }
                    None => return Err(NeverEnds(begun)),
                },
                Some(sign @ ('$' | '`')) => self.expansion(sign)?,
                Some(text) => self.word().text.push(text),
            }
        }
    }

    /// Reads over what `sign` begins. Brackets inside are counted, and quotes inside keep theirs from it.
    fn expansion(&mut self, sign: char) -> Result<(), NeverEnds> {
        let begun = self.line;
        self.word().expands = true;
        let (open, close) = match (sign, self.rest.chars().next()) {
            ('`', _) => ('`', '`'),
            (_, Some('(')) => ('(', ')'),
            (_, Some('{')) => ('{', '}'),
            _ => return Ok(()),
        };
        let mut depth = usize::from(sign == '`');
        let mut quote = None;
        loop {
            let next = self.take().ok_or(NeverEnds(begun))?;
            match (quote, next) {
                (_, '\\') if quote != Some('\'') => {
                    self.take();
                }
                (Some(quoted), _) if quoted == next => quote = None,
                (None, '\'' | '"') if sign != '`' => quote = Some(next),
                (None, _) if next == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (None, _) if next == open => depth += 1,
                _ => {}
            }
        }
    }

    fn input(&mut self) {
        if self.take_if("<<") {
            return self.redirect(NextIs::Ignored, true);
        }
        if self.take_if("<") {
            let strip_tabs = self.take_if("-");
            return self.redirect(NextIs::Delimiter { strip_tabs }, false);
        }
        self.redirect(NextIs::Ignored, true);
    }

    fn output(&mut self) {
        // A number directly before it selects the output; only the first one counts here.
        let numbered = |word: &Word| !word.quoted && word.text.bytes().all(|byte| byte.is_ascii_digit());
        let number = self.word.take_if(|word| numbered(word));
        let first = number.is_none_or(|number| number.text == "1");
        let elsewhere = self.take_if(">") || self.take_if("&");
        self.take_if("|");
        match (first, elsewhere) {
            (true, false) => self.redirect(NextIs::Output, false),
            (first, _) => self.redirect(NextIs::Ignored, first),
        }
    }

    fn redirect(&mut self, next_is: NextIs, unclear: bool) {
        self.end_word();
        self.command.unclear |= unclear;
        self.next_is = next_is;
    }

    /// Parentheses are words of their own and end what stands before them.
    fn parenthesis(&mut self, which: char) {
        if which == ')' {
            self.end_command(End::Next);
        }
        self.end_word();
        self.word().text.push(which);
        self.end_command(End::Next);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::replace(&mut self.next_is, NextIs::Argument) {
            NextIs::Argument => self.command.words.push(word),
            NextIs::Output => self.command.into = Some(word),
            NextIs::Ignored => {}
            NextIs::Delimiter { strip_tabs } => self.documents.push_back(Document {
                command: self.commands.len(),
                delimiter: word,
                strip_tabs,
            }),
        }
    }

    fn end_command(&mut self, end: End) {
        self.end_word();
        self.next_is = NextIs::Argument;
        let mut command = std::mem::take(&mut self.command);
        let waits = self
            .documents
            .back()
            .is_some_and(|document| document.command == self.commands.len());
        if command.words.is_empty() && command.into.is_none() && !waits {
            // `a &&` and a new line, or `) |`: it stands behind what came before.
            if let (Some(last), true) = (self.commands.last_mut(), end != End::Next) {
                last.end = end;
            }
            return;
        }
        command.end = end;
        self.commands.push(command);
    }

    /// The here-documents that the line just ended has announced. One that never ends has all the rest, as in a shell.
    fn read_documents(&mut self) {
        while let Some(document) = self.documents.pop_front() {
            let (mut body, mut expands) = (String::new(), false);
            while !self.rest.is_empty() {
                let end = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
                let (line, rest) = self.rest.split_at(end);
                self.rest = rest;
                self.line += 1;
                let line = match document.strip_tabs {
                    true => line.trim_start_matches('\t'),
                    false => line,
                };
                if line.trim_end_matches(['\n', '\r']) == document.delimiter.text {
                    break;
                }
                body.push_str(line);
            }
            if !document.delimiter.quoted {
                (body, expands) = unescaped(&body);
            }
            if let Some(command) = self.commands.get_mut(document.command) {
                command.input = Some(body);
                command.unclear |= expands;
            }
        }
    }
}

/// A here-document with its escapes removed, and whether a shell would expand something in it.
fn unescaped(body: &str) -> (String, bool) {
    let (mut text, mut expands) = (String::with_capacity(body.len()), false);
    let mut rest = body.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            ('\\', Some('\n')) => {
                rest.next();
            }
            ('\\', Some('\\' | '$' | '`')) => text.extend(rest.next()),
            ('$', Some(name)) if name.is_ascii_alphanumeric() || "_({@*#?-!$".contains(*name) => {
                expands = true;
                text.push(next);
            }
            ('`', _) => {
                expands = true;
                text.push(next);
            }
            _ => text.push(next),
        }
    }
    (text, expands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(script: &str) -> Vec<String> {
        let tell = |command: &Command| {
            let words: Vec<_> = command.words.iter().map(|word| word.text.as_str()).collect();
            let into = command.into.as_ref().map(|into| format!(" into {}", into.text));
            let input = command.input.as_ref().map(|input| format!(" from {input:?}"));
            let unclear = if command.unclear { " unclear" } else { "" };
            format!(
                "{} {words:?}{}{}{unclear} {:?}",
                command.line,
                into.unwrap_or_default(),
                input.unwrap_or_default(),
                command.end
            )
        };
        commands(script).unwrap().iter().map(tell).collect()
    }

    #[test]
    fn words_are_split_and_unquoted_as_a_shell_does() {
        assert_eq!(
            parsed("a 'b c' \"d\\\"e\" f\\ g # no\n\n h\\\ni; j&&k||l | m\n"),
            [
                "1 [\"a\", \"b c\", \"d\\\"e\", \"f g\"] Next",
                "3 [\"hi\"] Next",
                "4 [\"j\"] And",
                "4 [\"k\"] Or",
                "4 [\"l\"] Pipe",
                "4 [\"m\"] Next",
            ]
        );
    }

    #[test]
    fn here_documents_belong_to_their_command_wherever_its_words_stand() {
        assert_eq!(
            parsed(
                "cat << EOF | base64 -d > \"/a b\"\nfi\nEOF\ncat >/c <<-'X'\n\t$y\n\tX\ncat << E > /d\n$y \\$z\nE\n"
            ),
            [
                "1 [\"cat\"] from \"fi\\n\" Pipe",
                "1 [\"base64\", \"-d\"] into /a b Next",
                "4 [\"cat\"] into /c from \"$y\\n\" Next",
                "7 [\"cat\"] into /d from \"$y $z\\n\" unclear Next",
            ]
        );
    }

    #[test]
    fn expansions_are_marked_and_read_over() {
        let script = "nslookup $(hostname \")\" $(x)) || y `z` ${a:-}}\n";
        let commands = commands(script).unwrap();
        assert!(commands[0].words[1].expands && !commands[0].words[0].expands);
        assert_eq!(commands[0].end, End::Or);
        assert!(commands[1].words[1].expands && commands[1].words[2].expands);
    }

    #[test]
    fn other_redirections_make_a_command_unclear_but_those_of_errors() {
        assert_eq!(
            parsed("a >>/b\na 2>/dev/null >/c\na <b\na >&2\na 2>&1\n"),
            [
                "1 [\"a\"] unclear Next",
                "2 [\"a\"] into /c Next",
                "3 [\"a\"] unclear Next",
                "4 [\"a\"] unclear Next",
                "5 [\"a\"] Next",
            ]
        );
    }

    #[test]
    fn what_never_ends_is_named_with_its_line() {
        assert_eq!(commands("a\n'b\n\n"), Err(NeverEnds(2)));
        assert_eq!(commands("a \"$(b"), Err(NeverEnds(1)));
        assert_eq!(parsed("cat <<E >/a\nx"), ["1 [\"cat\"] into /a from \"x\" Next"]);
    }
}
