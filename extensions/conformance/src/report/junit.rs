//! The report for build servers: XML as JUnit writes it, a test case for each rule.

use std::fmt::Write;

use super::{Outcome, Report, Verdict};

pub(super) fn junit(report: &Report) -> String {
    let mut page = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let undecided = usize::from(report.verdict == Verdict::Undecided);
    let (class, seconds) = (format!("{}.{}", report.kind, report.type_), report.took.as_secs_f64());
    let _ = writeln!(
        page,
        "<testsuite name=\"orangery conformance\" tests=\"{}\" failures=\"{}\" errors=\"{undecided}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        report.rules.len() + undecided,
        report.findings().count(),
        report.skipped().count(),
    );
    let mut case = |name: &str, inner: &str| {
        let (class, name) = (escaped(&class), escaped(name));
        let _ = match inner {
            "" => writeln!(page, "  <testcase classname=\"{class}\" name=\"{name}\"/>"),
            inner => writeln!(
                page,
                "  <testcase classname=\"{class}\" name=\"{name}\">\n{inner}  </testcase>"
            ),
        };
    };
    for result in &report.rules {
        let inner = match &result.outcome {
            Outcome::Passed => String::new(),
            Outcome::Skipped { reason } => format!("    <skipped message=\"{}\"/>\n", escaped(reason)),
            Outcome::Failed { evidence, .. } => {
                let rule = result.rule;
                let mut seen = String::new();
                for one in evidence {
                    let _ = writeln!(seen, "{}, {}: {}", one.step, one.object, one.seen);
                }
                let _ = write!(seen, "to do: {}\nsource: {}", rule.hint(), rule.source());
                let (sentence, seen) = (escaped(rule.sentence()), escaped(&seen));
                format!("    <failure message=\"{sentence}\">{seen}</failure>\n")
            }
        };
        case(result.rule.id(), &inner);
    }
    if undecided > 0 {
        let why = report.ended_early.as_deref().unwrap_or_default();
        case("run", &format!("    <error message=\"{}\"/>\n", escaped(why)));
    }
    page.push_str("</testsuite>\n");
    page
}

/// A text for an attribute or an element of XML 1.0. Characters that XML cannot hold, even as references, become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // As they are, attributes would have them as spaces.
            '\n' | '\t' | '\r' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_line_breaks_and_what_xml_cannot_hold_are_escaped() {
        assert_eq!(
            escaped("a<b> & \"c\" 'd'\n\u{0}\u{1b}é😀"),
            "a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos;&#10;\u{fffd}\u{fffd}é😀"
        );
    }
}
