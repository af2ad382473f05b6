//! The report for people: what they read first comes first.

use std::fmt::Write;

use super::{Outcome, Report, Verdict};
use crate::rule::Rule;

/// Lines are broken before this column.
const WIDTH: usize = 80;

pub(super) fn text(report: &Report) -> String {
    let mut page = String::new();
    let (findings, skipped) = (report.findings().count(), report.skipped().count());
    let passed = report.passed().count();
    let verdict = match report.verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "FAILED",
        Verdict::Undecided => "could not be validated",
    };
    let counts = format!(
        "{findings} {} broken, {passed} passed, {skipped} skipped, in {:.1} s",
        if findings == 1 { "rule" } else { "rules" },
        report.took.as_secs_f64()
    );
    line(
        &mut page,
        0,
        &format!("{} {:?} (class {}): {verdict}", report.kind, report.type_, report.class),
    );
    line(&mut page, 0, &counts);
    if let Some(why) = &report.ended_early {
        line(&mut page, 0, &format!("The run ended early: {why}"));
    }
    for one in &report.left_behind {
        line(&mut page, 0, &format!("Left behind: {one}"));
    }
    for result in &report.rules {
        let Outcome::Failed { evidence, more } = &result.outcome else {
            continue;
        };
        page.push('\n');
        line(&mut page, 0, &format!("FAILED  {}", result.rule));
        line(&mut page, 2, result.rule.sentence());
        for one in evidence {
            line(
                &mut page,
                2,
                &format!("seen:   {}, {}: {}", one.step, one.object, one.seen),
            );
        }
        if *more > 0 {
            line(&mut page, 2, &format!("        and {more} more"));
        }
        line(&mut page, 2, &format!("to do:  {}", result.rule.hint()));
        line(&mut page, 2, &format!("source: {}", result.rule.source()));
    }
    let not_reached = report.ended_early.as_deref().map(not_reached);
    for (reason, rules) in by_reason(report) {
        page.push('\n');
        if not_reached.as_deref() == Some(reason) {
            // Why stands above.
            line(&mut page, 0, &format!("not reached: {} rules", rules.len()));
            continue;
        }
        line(&mut page, 0, &format!("skipped: {reason}"));
        rules.iter().for_each(|rule| line(&mut page, 2, rule.id()));
    }
    if passed > 0 {
        page.push_str("\npassed:\n");
        report.passed().for_each(|rule| line(&mut page, 2, rule.id()));
    }
    page
}

/// Why a rule was not looked at when the run ended early for this reason.
pub(crate) fn not_reached(why: &str) -> String {
    format!("not reached: {why}")
}

/// The rules that were skipped, those with the same reason together.
fn by_reason(report: &Report) -> Vec<(&str, Vec<Rule>)> {
    let mut all: Vec<(&str, Vec<Rule>)> = Vec::new();
    for (rule, reason) in report.skipped() {
        match all.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, rules)) => rules.push(rule),
            None => all.push((reason, vec![rule])),
        }
    }
    all
}

/// Adds a line, broken between words; what follows the break is indented by eight more.
fn line(page: &mut String, indent: usize, text: &str) {
    // A value that was seen may hold anything.
    let text: String = text
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one })
        .collect();
    let mut rest = text.as_str();
    let mut indent = indent;
    let further = indent + 8;
    loop {
        let (now, then) = cut(rest, WIDTH.saturating_sub(indent));
        let _ = writeln!(page, "{:indent$}{now}", "");
        if then.is_empty() {
            return;
        }
        (rest, indent) = (then, further);
    }
}

/// Cuts at the last space within `width` characters; a longer word stays whole.
fn cut(text: &str, width: usize) -> (&str, &str) {
    if text.chars().count() <= width {
        return (text, "");
    }
    let mut best = None;
    for (count, (at, letter)) in text.char_indices().enumerate() {
        if letter == ' ' && at > 0 && !text[..at].trim().is_empty() {
            if count <= width {
                best = Some(at);
            } else {
                best = best.or(Some(at));
                break;
            }
        }
    }
    match best {
        Some(at) => (text[..at].trim_end(), text[at..].trim_start()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_long_words_stay_whole() {
        let mut page = String::new();
        line(
            &mut page,
            2,
            &format!("{} {}", "word ".repeat(20).trim(), "x".repeat(120)),
        );
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 3, "{page}");
        assert!(lines[0].starts_with("  word") && lines[0].len() <= WIDTH, "{page}");
        assert_eq!(lines[2].trim(), "x".repeat(120));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut page = String::new();
        line(&mut page, 0, "a\u{1b}[31m\nb");
        assert_eq!(page, "a [31m b\n");
    }
}
