//! Files of about 500 lines before their tests, functions of about 70: what is larger stands in `tools/xtask/ratchet.txt`
//! with today's size and may only shrink.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Finding, Source};
use crate::Outcome;

/// Lines of a file before its tests: what one can hold in mind.
const FILE_LINES_MAX: usize = 500;
/// Lines of a function: about one screen.
const FUNCTION_LINES_MAX: usize = 70;
const RATCHET: &str = "tools/xtask/ratchet.txt";

pub(super) fn check(root: &Path, sources: &[Source], update: bool) -> Outcome<Vec<Finding>> {
    let sizes: BTreeMap<String, usize> = sources
        .iter()
        .filter(|source| source.path.ends_with(".rs"))
        .flat_map(oversized)
        .collect();
    let allowed = parse(&std::fs::read_to_string(root.join(RATCHET)).unwrap_or_default());
    if update {
        let lowered: BTreeMap<&String, usize> = sizes
            .iter()
            .filter_map(|(place, size)| Some((place, (*size).min(*allowed.get(place)?))))
            .collect();
        let text: String = lowered
            .iter()
            .map(|(place, size)| format!("{size} {place}\n"))
            .collect();
        std::fs::write(root.join(RATCHET), text).map_err(|error| format!("cannot write {RATCHET}: {error}"))?;
    }
    Ok(compare(&sizes, &allowed))
}

fn compare(sizes: &BTreeMap<String, usize>, allowed: &BTreeMap<String, usize>) -> Vec<Finding> {
    let grown = sizes.iter().filter_map(|(place, size)| {
        let limit = if place.contains("::") {
            FUNCTION_LINES_MAX
        } else {
            FILE_LINES_MAX
        };
        let limit = *allowed.get(place).unwrap_or(&limit);
        (*size > limit).then(|| Finding::new(place, format!("{size} lines, at most {limit}: split it")))
    });
    let stale = allowed.iter().filter_map(|(place, limit)| {
        let size = sizes.get(place).copied().unwrap_or(0);
        (size < *limit).then(|| {
            Finding::new(
                place,
                format!("shrank from {limit} lines to {size}: run `cargo xtask tidy --update-ratchet`"),
            )
        })
    });
    grown.chain(stale).collect()
}

fn parse(ratchet: &str) -> BTreeMap<String, usize> {
    ratchet
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(size, place)| Some((place.to_owned(), size.parse().ok()?)))
        .collect()
}

/// The file itself and its functions, as far as they are over a limit.
fn oversized(source: &Source) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let tests = lines
        .iter()
        .position(|line| line.starts_with("#[cfg(test)]"))
        .unwrap_or(lines.len());
    let mut found = Vec::new();
    // A file of tests has nothing before its tests.
    let is_tests = source.path.contains("/tests/") || source.path.starts_with("tests/");
    if tests > FILE_LINES_MAX && !is_tests {
        found.push((source.path.clone(), tests));
    }
    let code = lines.get(..tests).unwrap_or(&lines);
    found.extend(
        functions(code)
            .into_iter()
            .filter(|(_, size)| *size > FUNCTION_LINES_MAX)
            .map(|(name, size)| (format!("{}::{name}", source.path), size)),
    );
    found
}

/// Names and lengths of functions, by the indentation that rustfmt gives: a function ends at the brace below its `fn`.
fn functions(lines: &[&str]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", " ".repeat(indent));
        let end = lines
            .iter()
            .skip(start)
            .position(|line| *line == closing || line.ends_with(';') && line.len() - line.trim_start().len() == indent);
        if let Some(length) = end {
            found.push((name, length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let mut words = rest.split_whitespace();
    let modifiers = ["pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let mut word = words.next()?;
    while modifiers.contains(&word) {
        word = words.next()?;
    }
    (word == "fn").then(|| {
        words
            .next()
            .map(|name| name.split(['(', '<']).next().unwrap_or(name).to_owned())
    })?
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{compare, functions};

    #[test]
    fn a_function_is_measured_to_its_closing_brace() {
        let code = [
            "pub(crate) async fn drain<T>(",
            "    pool: T,",
            ") {",
            "    work();",
            "}",
            "fn next();",
        ];
        assert_eq!(functions(&code), vec![("drain".to_owned(), 5), ("next".to_owned(), 1)]);
    }

    #[test]
    fn what_is_listed_may_shrink_but_not_grow() {
        let sizes = |size| BTreeMap::from([("a.rs".to_owned(), size)]);
        assert_eq!(compare(&sizes(600), &sizes(600)).len(), 0);
        assert_eq!(compare(&sizes(601), &sizes(600)).len(), 1);
        assert_eq!(compare(&sizes(590), &sizes(600)).len(), 1);
        assert_eq!(compare(&sizes(501), &BTreeMap::new()).len(), 1);
    }
}
