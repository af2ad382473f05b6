//! Reading TOML: the parser of github.com/BurntSushi/toml 1.6, with its errors.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::key_text::{DEPTH_MAX, push_path};
use super::lex::{END, Kind, Lexer, Wrong, is_line_end, is_space, shown};
use super::scalars;
use super::strings;
use super::tree::{Node, Table};
use crate::environment::error::{Fault, LimitError, PrintError};
use crate::environment::limits::MAP_STEPS;
use crate::text::Str;
use crate::text::quote::quoted;
use crate::value::Value;
use crate::value::function::Scope;

/// Steps that reading a byte takes.
const BYTE_STEPS: usize = 4;
/// Steps of a table: while it is read it is stored twice, each time in a tree with room for eleven entries.
const TABLE_STEPS: usize = 3 * MAP_STEPS;

/// Why a text was not read.
pub(super) enum Problem {
    /// It is no TOML
    Wrong(Wrong),
    /// A limit is met, or Go panics
    Fault(Fault),
}

pub(super) type Step<T = ()> = Result<T, Problem>;

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Reads a text as a table.
///
/// # Errors
/// A limit is reached. The inner error is the decoder's message about invalid TOML.
pub(crate) fn read(text: &[u8], scope: &Scope<'_>) -> Result<Result<Value, String>, Fault> {
    scope.spend(text.len().saturating_mul(BYTE_STEPS))?;
    let marks: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];
    let text = marks.iter().find_map(|mark| text.strip_prefix(*mark)).unwrap_or(text);
    if text.iter().take(6).any(|byte| *byte == 0) {
        let what = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8";
        return Ok(Err(format!("toml: line 1: {what}")));
    }
    let mut reader = Reader {
        lexer: Lexer::new(text),
        scope,
        context: Vec::new(),
        key: Str::default(),
        key_line: 0,
        root: Table::default(),
        implicit: HashSet::new(),
        arrays: HashMap::new(),
        nested: 0,
    };
    match reader.document() {
        Ok(()) => Ok(Ok(reader.root.value())),
        Err(Problem::Fault(fault)) => Err(fault),
        Err(Problem::Wrong(Wrong { line, what })) => Ok(Err(match reader.last_key() {
            key if key.is_empty() => format!("toml: line {line}: {what}"),
            key => format!("toml: line {line} (last key {}): {what}", quoted(&key)),
        })),
    }
}

pub(super) struct Reader<'t> {
    pub(super) lexer: Lexer<'t>,
    scope: &'t Scope<'t>,
    /// The table that keys go into
    pub(super) context: Vec<Str>,
    /// The key that is read
    key: Str,
    /// The line of its first part
    pub(super) key_line: i64,
    root: Table,
    /// Tables that are implied by others in them
    implicit: HashSet<Vec<u8>>,
    /// Whether what stands under a key is an array
    pub(super) arrays: HashMap<Vec<u8>, bool>,
    /// In how many arrays and inline tables that is
    nested: usize,
}

impl Reader<'_> {
    fn last_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        push_path(&mut key, &self.context);
        if !key.is_empty() && !self.key.is_empty() {
            key.push(b'.');
        }
        key.extend_from_slice(&self.key);
        key
    }

    /// The path by which a key is known, which takes steps by its length.
    pub(super) fn path(&self, context: &[Str], last: Option<&Str>) -> Step<Vec<u8>> {
        let mut path = Vec::new();
        push_path(&mut path, context);
        if let Some(last) = last {
            if !context.is_empty() {
                path.push(b'.');
            }
            push_path(&mut path, std::slice::from_ref(last));
        }
        self.scope.spend(1 + context.len())?;
        self.scope.spend_bytes(path.len())?;
        Ok(path)
    }

    /// The key that is read; one without letters is that of its table, if it is in one.
    fn path_of_key(&self) -> Step<Vec<u8>> {
        let is_own = !self.key.is_empty() || self.context.is_empty();
        self.path(&self.context, Some(&self.key).filter(|_| is_own))
    }

    fn new_table(&self) -> Step<Table> {
        self.scope.spend(TABLE_STEPS)?;
        Ok(Table::default())
    }

    pub(super) fn check_depth(&self, depth: usize) -> Step {
        if depth > DEPTH_MAX {
            return Err(Fault::Limit(LimitError::Value(PrintError::TooDeep)).into());
        }
        Ok(())
    }

    /// An error about a key.
    fn unfit<T>(&self, what: &str, path: &[u8], behind: &str) -> Step<T> {
        let what = format!("{what}{}{behind}", String::from_utf8_lossy(path));
        Err(Problem::Wrong(Wrong {
            line: self.key_line,
            what,
        }))
    }

    fn defined<T>(&self, path: &[u8]) -> Step<T> {
        self.unfit("Key '", path, "' has already been defined.")
    }

    fn document(&mut self) -> Step {
        loop {
            let letter = self.lexer.next()?;
            match letter {
                letter if is_space(letter) || is_line_end(letter) => self.lexer.ignore(),
                '#' => self.lexer.comment()?,
                END => return Ok(()),
                '[' => {
                    self.header()?;
                    self.end_of_line()?;
                }
                _ => {
                    self.lexer.back();
                    self.entry()?;
                    self.end_of_line()?;
                }
            }
        }
    }

    /// What may stand behind a table's name or a value.
    fn end_of_line(&mut self) -> Step {
        loop {
            match self.lexer.next()? {
                '#' => return Ok(self.lexer.comment()?),
                letter if is_space(letter) => {}
                letter if is_line_end(letter) || letter == END => {
                    self.lexer.ignore();
                    // The caller reads the end again.
                    if letter == END {
                        self.lexer.back();
                    }
                    return Ok(());
                }
                letter => {
                    let letter = shown(letter);
                    let what = format!(
                        "expected a top-level item to end with a newline, comment, or EOF, but got {letter} instead"
                    );
                    return Err(self.lexer.unfit(what).into());
                }
            }
        }
    }

    /// A key with its value, in the table that is read.
    fn entry(&mut self) -> Step {
        let outer = self.context.clone();
        self.key_and_value()?;
        self.context = outer;
        self.key = Str::default();
        Ok(())
    }

    /// A key with its value: what stands before the last part of the key, and the value.
    fn key_and_value(&mut self) -> Step<(Vec<Str>, Node)> {
        let mut path = self.read_key()?;
        self.key = path.pop().unwrap_or_default();
        for part in &path {
            let mut context = self.context.clone();
            context.push(part.clone());
            let known = self.path(&context, None)?;
            self.implicit.insert(known);
            self.enter(&context, false)?;
        }
        let (node, is_array) = self.value(false)?;
        self.set(&self.key.clone(), node.clone())?;
        let known = self.path_of_key()?;
        self.arrays.insert(known, is_array);
        Ok((path, node))
    }

    /// The parser's `addContext`: what follows goes into that table.
    pub(super) fn enter(&mut self, path: &[Str], is_array: bool) -> Step {
        self.check_depth(path.len() + self.nested)?;
        self.scope.spend(path.len())?;
        let Some((last, parents)) = path.split_last() else {
            return Ok(());
        };
        let mut table = self.root.clone();
        for (at, part) in parents.iter().enumerate() {
            let found = match table.get(part) {
                Some(found) => found,
                None => {
                    let known = self.path(parents.get(..=at).unwrap_or_default(), None)?;
                    self.implicit.insert(known);
                    let made = Node::Table(self.new_table()?);
                    table.set(part.clone(), made.clone());
                    made
                }
            };
            table = match found.table() {
                Some(table) => table,
                None => {
                    let known = self.path(parents.get(..=at).unwrap_or_default(), None)?;
                    return self.unfit("Key '", &known, "' was already created as a hash.");
                }
            };
        }
        self.context = parents.to_vec();
        if !is_array {
            self.set(last, Node::Table(self.new_table()?))?;
        } else {
            let found = table.get(last).unwrap_or_else(|| {
                let made = Node::Tables(Rc::new(RefCell::new(Vec::new())));
                table.set(last.clone(), made.clone());
                made
            });
            match found {
                Node::Tables(tables) => tables.borrow_mut().push(self.new_table()?),
                _ => {
                    let known = self.path(path, None)?;
                    return self.unfit("Key '", &known, "' was already created and cannot be used as an array.");
                }
            }
        }
        self.context.push(last.clone());
        Ok(())
    }

    /// The parser's `setValue`: a value in the table that is read.
    fn set(&mut self, key: &Str, node: Node) -> Step {
        self.scope.spend(self.context.len())?;
        let mut table = self.root.clone();
        for (at, part) in self.context.iter().enumerate() {
            let known = || self.path(self.context.get(..=at).unwrap_or_default(), None);
            let Some(found) = table.get(part) else {
                let known = String::from_utf8_lossy(&known()?).into_owned();
                let what = format!("BUG: Context for key '{known}' has not been established.\n\n");
                return Err(Fault::Message(what).into());
            };
            table = match found.table() {
                Some(table) => table,
                None => return self.defined(&known()?),
            };
        }
        if table.get(key).is_none() {
            table.set(key.clone(), node);
            return Ok(());
        }
        let known = self.path(&self.context, Some(key))?;
        if !self.implicit.remove(&known) {
            return self.defined(&known);
        }
        // A table that was implied by others in it is now defined.
        if self.arrays.get(&known) == Some(&true) {
            table.set(key.clone(), node);
        }
        Ok(())
    }

    /// A value, and whether it is an array.
    fn value(&mut self, is_in_array: bool) -> Step<(Node, bool)> {
        self.lexer.skip(is_space)?;
        let first = self.lexer.peek()?;
        match first {
            '[' => {
                self.lexer.next()?;
                self.nested += 1;
                self.check_depth(self.nested)?;
                let items = self.array()?;
                self.nested -= 1;
                Ok((Node::Array(Rc::new(items)), true))
            }
            '{' => {
                self.lexer.next()?;
                self.nested += 1;
                self.check_depth(self.nested)?;
                let table = self.inline_table(is_in_array)?;
                self.nested -= 1;
                Ok((Node::Table(table), false))
            }
            '"' | '\'' => {
                let text = self.string(first)?;
                Ok((Node::Plain(Value::Str(text)), false))
            }
            _ => {
                let kind = self.lexer.scalar()?;
                let line = self.lexer.line;
                let piece = self.lexer.piece();
                let value = match kind {
                    Kind::Bool => Value::Bool(piece == b"true"),
                    Kind::Integer => scalars::integer(piece).map_err(|what| Wrong { line, what })?,
                    Kind::Float => scalars::float(piece).map_err(|what| Wrong { line, what })?,
                    Kind::DateTime => scalars::date_time(piece, self.scope)?.map_err(|what| Wrong { line, what })?,
                };
                Ok((Node::Plain(value), false))
            }
        }
    }

    fn string(&mut self, mark: char) -> Step<Str> {
        self.lexer.next()?;
        if !self.lexer.accept(mark)? {
            let raw = self.lexer.line_string(mark)?;
            return self.unescaped(&raw, raw.text);
        }
        if !self.lexer.accept(mark)? {
            // Two marks are an empty string.
            self.lexer.back();
            let raw = self.lexer.line_string(mark)?;
            return self.unescaped(&raw, raw.text);
        }
        let raw = self.lexer.long_string(mark)?;
        let text = strings::without_first_line_end(raw.text);
        match mark {
            '"' => self.unescaped(&raw, &strings::without_escaped_line_ends(text)),
            _ => Ok(text.into()),
        }
    }

    /// An array whose first letter has been read.
    fn array(&mut self) -> Step<Vec<Node>> {
        self.lexer.ignore();
        let known = self.path_of_key()?;
        self.arrays.insert(known, true);
        let mut items = Vec::new();
        loop {
            match self.lexer.next()? {
                letter if is_space(letter) || is_line_end(letter) => self.lexer.ignore(),
                '#' => self.lexer.comment()?,
                ',' => return Err(self.lexer.unfit("unexpected comma").into()),
                ']' => break,
                _ => {
                    self.lexer.back();
                    items.push(self.value(true)?.0);
                    if self.is_last(']', "expected a comma (',') or array terminator (']'), but got ", "")? {
                        break;
                    }
                }
            }
        }
        self.lexer.ignore();
        Ok(items)
    }

    /// Reads what follows a value in an array or an inline table, and returns whether that is its end.
    fn is_last(&mut self, end: char, expected: &str, behind: &str) -> Step<bool> {
        loop {
            match self.lexer.next()? {
                letter if is_space(letter) || is_line_end(letter) => self.lexer.ignore(),
                '#' => self.lexer.comment()?,
                ',' => {
                    self.lexer.ignore();
                    return Ok(false);
                }
                letter if letter == end => return Ok(true),
                letter => {
                    let letter = match letter {
                        END => "end of file".to_owned(),
                        letter => format!("'{letter}'"),
                    };
                    return Err(self.lexer.unfit(format!("{expected}{letter}{behind}")).into());
                }
            }
        }
    }

    /// An inline table whose first letter has been read.
    fn inline_table(&mut self, is_in_array: bool) -> Step<Table> {
        self.lexer.ignore();
        let all = self.new_table()?;
        let (outer, outer_key) = (self.context.clone(), self.key.clone());
        let mut own = outer.clone();
        own.push(outer_key.clone());
        self.context.clone_from(&own);
        self.key = Str::default();
        let known = self.path(&own, None)?;
        self.implicit.insert(known);
        self.enter(&own, is_in_array)?;
        loop {
            match self.lexer.next()? {
                letter if is_space(letter) || is_line_end(letter) => self.lexer.ignore(),
                '#' => self.lexer.comment()?,
                ',' => return Err(self.lexer.unfit("unexpected comma").into()),
                '}' => break,
                _ => {
                    self.lexer.back();
                    self.inline_entry(&all)?;
                    self.context.clone_from(&own);
                    let expected = "expected a comma or an inline table terminator '}', but got ";
                    if self.is_last('}', expected, " instead")? {
                        break;
                    }
                }
            }
        }
        self.lexer.ignore();
        self.context = outer;
        self.key = outer_key;
        Ok(all)
    }

    fn inline_entry(&mut self, all: &Table) -> Step {
        let (path, node) = self.key_and_value()?;
        let mut table = all.clone();
        for part in path {
            table = match table.get(&part) {
                Some(Node::Table(table)) => table,
                None => {
                    let made = self.new_table()?;
                    table.set(part, Node::Table(made.clone()));
                    made
                }
                Some(_) => {
                    let known = quoted(&self.path(&self.context, None)?);
                    return self.unfit("", known.as_bytes(), " is not a table");
                }
            };
        }
        table.set(self.key.clone(), node);
        Ok(())
    }
}
