//! From words to flags, as Go's two flag libraries do it: github.com/spf13/pflag v1.0.9 (flag.go) under cobra and
//! component-base v0.35 (cli/run.go, cli/flag), and `flag` of Go 1.26. Errors are in their words.

use std::collections::BTreeMap;

use base_go::{push_quoted, quoted};

use super::table::{Flag, Table};
use super::value;

/// The content of a command line.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// By name; of lists and maps all values, joined by commas, else the last one.
    pub(super) values: BTreeMap<String, String>,
    /// What the library printed on the way.
    pub(super) notes: Vec<String>,
    /// Why the program does not go on.
    pub(super) stop: Option<Stop>,
}

/// Why a program ends over its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Help was asked for.
    Help,
    /// The library refuses the command line.
    Refused(String),
    /// The program refuses what is no flag.
    Unexpected(String),
}

fn refused<T>(message: String) -> Result<T, Stop> {
    Err(Stop::Refused(message))
}

/// As pflag reads it, with `_` for `-` in names as component-base allows it.
pub(super) fn pflag(table: &Table<'_>, program: &str, args: &[String]) -> Parsed {
    let mut reader = Reader {
        table,
        words: args.iter(),
        parsed: Parsed::default(),
    };
    let stop = match reader.pflag() {
        Err(stop) => Some(stop),
        Ok(_) if reader.parsed.values.contains_key("help") => Some(Stop::Help),
        Ok(rest) if rest.iter().any(|word| !word.is_empty()) => {
            let rest: Vec<String> = rest.iter().map(|word| quoted(word)).collect();
            let rest = rest.join(" ");
            Some(Stop::Unexpected(format!(
                "{program:?} does not take any arguments, got [{rest}]"
            )))
        }
        Ok(_) => None,
    };
    Parsed { stop, ..reader.parsed }
}

/// As Go's own library reads it. Words after the first that is no flag are not read.
pub(super) fn go(table: &Table<'_>, args: &[String]) -> Parsed {
    let mut reader = Reader {
        table,
        words: args.iter(),
        parsed: Parsed::default(),
    };
    let stop = match reader.go() {
        Err(stop) => Some(stop),
        Ok(rest) => rest.map(|word| Stop::Unexpected(format!("{} is not a valid flag", quoted(word)))),
    };
    Parsed { stop, ..reader.parsed }
}

struct Reader<'a> {
    table: &'a Table<'a>,
    words: std::slice::Iter<'a, String>,
    parsed: Parsed,
}

impl<'a> Reader<'a> {
    /// Returns the words that are no flags.
    fn pflag(&mut self) -> Result<Vec<&'a str>, Stop> {
        let mut rest = Vec::new();
        while let Some(word) = self.words.next() {
            match word.strip_prefix('-') {
                None | Some("") => rest.push(word.as_str()),
                Some("-") => rest.extend(self.words.by_ref().map(String::as_str)),
                Some(long) if long.starts_with('-') => self.long(word)?,
                Some(short) => self.short(short)?,
            }
        }
        Ok(rest)
    }

    fn long(&mut self, word: &str) -> Result<(), Stop> {
        let text = &word[2..];
        if text.starts_with(['-', '=']) {
            return refused(format!("bad flag syntax: {word}"));
        }
        let (given, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let Some(flag) = self.table.get(&given.replace('_', "-")) else {
            return refused(format!("unknown flag: --{given}"));
        };
        let next = || format!("flag needs an argument: {word}");
        let value = self.value(flag, value, next)?;
        self.set(flag, &value)
    }

    /// Short forms in one word, without its dash: `v=4`, `v4`, `hv`.
    fn short(&mut self, word: &str) -> Result<(), Stop> {
        let mut left = word;
        while let Some(byte) = left.bytes().next() {
            // pflag reads bytes, and shows one as the rune of that number.
            let short = char::from(byte);
            let mark = quoted_rune(short);
            let Some(flag) = self.table.by_short(short) else {
                return refused(format!("unknown shorthand flag: {mark} in -{left}"));
            };
            let behind = &left[1..];
            let value = match (behind.strip_prefix('='), flag.no_value) {
                (Some(value), _) if !value.is_empty() => Some(value),
                (_, Some(value)) => {
                    self.set(flag, value)?;
                    left = behind;
                    continue;
                }
                _ => Some(behind).filter(|value| !value.is_empty()),
            };
            let next = || format!("flag needs an argument: {mark} in -{left}");
            let value = self.value(flag, value, next)?;
            return self.set(flag, &value);
        }
        Ok(())
    }

    /// The value that is given, that of the flag without one, or the next word.
    fn value(&mut self, flag: &Flag<'_>, given: Option<&str>, missing: impl Fn() -> String) -> Result<String, Stop> {
        if let Some(value) = given.or(flag.no_value) {
            return Ok(value.to_owned());
        }
        self.words.next().cloned().ok_or_else(|| Stop::Refused(missing()))
    }

    fn set(&mut self, flag: &Flag<'_>, value: &str) -> Result<(), Stop> {
        let Flag { name, deprecated, .. } = flag;
        if let Err(why) = value::check(flag.kind, value) {
            let shown = match flag.short {
                Some(short) => format!("-{short}, --{name}"),
                None => format!("--{name}"),
            };
            let (value, shown) = (quoted(value), quoted(&shown));
            return refused(format!("invalid argument {value} for {shown} flag: {why}"));
        }
        if let Some(deprecated) = deprecated {
            let note = format!("Flag --{name} has been deprecated, {deprecated}");
            self.parsed.notes.push(note);
        }
        self.keep(flag, value);
        Ok(())
    }

    fn keep(&mut self, flag: &Flag<'_>, value: &str) {
        let values = &mut self.parsed.values;
        match values.get_mut(flag.name) {
            Some(list) if value::is_list(flag.kind) => {
                list.push(',');
                list.push_str(value);
            }
            _ => {
                values.insert(flag.name.to_owned(), value.to_owned());
            }
        }
    }

    /// Returns the first word that is no flag.
    fn go(&mut self) -> Result<Option<&'a str>, Stop> {
        while let Some(word) = self.words.next() {
            let Some(text) = word.strip_prefix('-').filter(|text| !text.is_empty()) else {
                return Ok(Some(word));
            };
            let text = text.strip_prefix('-').unwrap_or(text);
            if text.is_empty() {
                break;
            }
            if text.starts_with(['-', '=']) {
                return refused(format!("bad flag syntax: {word}"));
            }
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let Some(flag) = self.table.get(name) else {
                if matches!(name, "help" | "h") {
                    return Err(Stop::Help);
                }
                return refused(format!("flag provided but not defined: -{name}"));
            };
            let missing = || format!("flag needs an argument: -{name}");
            let value = self.value(flag, value, missing)?;
            if let Err(why) = value::check_go(flag.kind, &value) {
                let sort = if flag.kind == "bool" { "boolean value" } else { "value" };
                let flag = if flag.kind == "bool" { "" } else { "flag " };
                return refused(format!("invalid {sort} {} for {flag}-{name}: {why}", quoted(&value)));
            }
            self.parsed.notes.extend(flag.deprecated.map(str::to_owned));
            self.keep(flag, &value);
        }
        Ok(self.words.next().map(String::as_str))
    }
}

fn quoted_rune(rune: char) -> String {
    let mut text = String::from('\'');
    push_quoted(&mut text, rune, '\'', false);
    text.push('\'');
    text
}
