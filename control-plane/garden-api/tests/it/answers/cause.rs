//! Sorts differences by cause, for the report. A case is followed to its first step with another code: what comes after
//! depends on it.

use std::collections::BTreeSet;

use super::compare::differences;
use super::normal::Answer;
use super::text_at;

/// A group, and what it is about.
pub(super) type Cause = (String, String);

pub(super) fn of_case(expected: &[Option<Answer>], got: &[Answer]) -> BTreeSet<Cause> {
    let mut causes = BTreeSet::new();
    for (want, have) in expected.iter().zip(got) {
        let lines = differences(want, have);
        let Some(want) = want else { continue };
        if want.code == have.code && want.reason == have.reason {
            causes.extend(lines.iter().map(|line| of_line(text_at(&want.object, "/kind"), line)));
            continue;
        }
        let (group, answer) = match (want.code < 300, have.code < 300) {
            (true, false) => ("refused, Gardener accepts", have),
            (false, true) => ("accepted, Gardener refuses", want),
            (false, false) => ("refused by both, another code", want),
            (true, true) => ("answered in another form", want),
        };
        let fields: BTreeSet<String> = answer.causes.iter().map(|(field, _)| plain(field)).collect();
        if fields.is_empty() {
            let message: String = have.message.chars().take(90).collect();
            causes.insert((group.to_owned(), format!("{} {message}", want.code)));
        }
        causes.extend(
            fields
                .into_iter()
                .map(|field| (group.to_owned(), format!("{} {field}", want.code))),
        );
        break;
    }
    causes
}

fn of_line(kind: &str, line: &str) -> Cause {
    let (path, rest) = line.split_once(": ").unwrap_or((line, ""));
    if path.starts_with("cause ") {
        return (
            "refused by both, other fields".to_owned(),
            format!("{} {path}", plain(rest)),
        );
    }
    let sort = match rest.split([' ', ',']).next() {
        Some("missing") => "missing",
        Some("added") => "added",
        _ => "another value",
    };
    (format!("object {kind}"), format!("{} {sort}", plain(path)))
}

/// A path without its indices.
fn plain(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        let (inside, behind) = after.split_once(']').unwrap_or((after, ""));
        let index = inside.bytes().all(|byte| byte.is_ascii_digit());
        out.push_str(&if index { "[]".to_owned() } else { format!("[{inside}]") });
        rest = behind;
    }
    out + rest
}
