//! The flags that a program registers, read from a table that was made from the real program. One line per flag:
//! versions, name, short form, type, the value of the flag without one, `hidden`, and the text of its deprecation; `-` for
//! nothing. Lines that begin with `#` say where it is from.

use std::collections::BTreeMap;

/// The oldest and the newest minor version of Kubernetes that the tables know.
const MINORS: (u32, u32) = (33, 36);

/// The flags of one version, by name.
#[derive(Debug)]
pub(super) struct Table<'t>(BTreeMap<&'t str, Flag<'t>>);

/// One flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flag<'t> {
    pub(super) name: &'t str,
    pub(super) short: Option<char>,
    /// As its library names it.
    pub(super) kind: &'t str,
    /// Its value where none is given; without one, the next word is its value.
    pub(super) no_value: Option<&'t str>,
    /// What to do instead.
    pub(super) deprecated: Option<&'t str>,
}

impl<'t> Table<'t> {
    /// The flags of a minor version.
    pub(super) fn of(text: &'t str, minor: u32) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let flags = lines.filter_map(|line| flag(line, minor));
        Self(flags.map(|flag| (flag.name, flag)).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&Flag<'t>> {
        self.0.get(name)
    }

    pub(super) fn by_short(&self, short: char) -> Option<&Flag<'t>> {
        self.0.values().find(|flag| flag.short == Some(short))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'t str> {
        self.0.keys().copied()
    }
}

/// The minor version of a tag such as `v1.34.2`, or the nearest that the tables know; the newest without a tag.
pub(super) fn minor(tag: Option<&str>) -> u32 {
    let (oldest, newest) = MINORS;
    let of = |tag: &str| {
        tag.trim_start_matches('v')
            .strip_prefix("1.")?
            .split('.')
            .next()?
            .parse()
            .ok()
    };
    tag.and_then(of).unwrap_or(newest).clamp(oldest, newest)
}

/// A line, if its flag is in that version.
fn flag(line: &str, minor: u32) -> Option<Flag<'_>> {
    let mut columns = line.split('\t');
    let mut next = || columns.next().filter(|column| *column != "-");
    let versions = next();
    let (name, short, kind, no_value) = (next()?, next(), next()?, next());
    let (_hidden, deprecated) = (next(), next());
    let is_in = |versions: &str| {
        let (first, last) = versions.split_once('-')?;
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some((first..=last).contains(&minor))
    };
    let is_there = versions.is_none_or(|versions| is_in(versions).unwrap_or(false));
    is_there.then_some(Flag {
        name,
        short: short.and_then(|short| short.chars().next()),
        kind,
        no_value,
        deprecated,
    })
}
