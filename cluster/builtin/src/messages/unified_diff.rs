//! What differs between two texts, line by line, as Kubernetes shows it in messages: a unified diff with three lines around
//! each change. Lines are matched as Python's difflib does (github.com/pmezard/go-difflib), longest blocks first: other diffs
//! would be as correct, but look different.

use std::collections::HashMap;
use std::fmt::Write;

/// Lines around a change.
const CONTEXT: usize = 3;
/// In texts of at least so many lines, no match begins at a line that occurs too often.
const POPULAR_LINES_MIN: usize = 200;

/// Longer texts are matched only in their common beginning and end: matching all lines takes time that grows with the square of
/// their number, and the author of an object chooses that number.
const MATCHED_LINES_MAX: usize = 1000;

/// Where lines are the same: places in both, and how many.
type Block = (usize, usize, usize);

/// What is done to get from one to the other; places in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    same: bool,
    old: (usize, usize),
    new: (usize, usize),
}

/// The difference; empty when there is none.
pub(crate) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let mut text = String::new();
    for group in grouped(steps(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let span = |from: usize, to: usize| match to - from {
            0 => format!("{from},0"),
            1 => format!("{}", from + 1),
            count => format!("{},{count}", from + 1),
        };
        let (before, after) = (span(first.old.0, last.old.1), span(first.new.0, last.new.1));
        let _ = writeln!(text, "@@ -{before} +{after} @@");
        for step in group {
            let mut lines = |mark: char, lines: &[&str]| {
                for line in lines {
                    let _ = writeln!(text, "{mark}{line}");
                }
            };
            let (removed, added) = (
                old.get(step.old.0..step.old.1).unwrap_or_default(),
                new.get(step.new.0..step.new.1).unwrap_or_default(),
            );
            if step.same {
                lines(' ', removed);
            } else {
                lines('-', removed);
                lines('+', added);
            }
        }
    }
    text
}

/// The longest block between these places, the first of them.
fn longest(
    old: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    (old_from, old_to): (usize, usize),
    (new_from, new_to): (usize, usize),
) -> Block {
    let mut best = (old_from, new_from, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (at, line) in old.iter().enumerate().take(old_to).skip(old_from) {
        let mut next = HashMap::new();
        for &place in places.get(line).into_iter().flatten() {
            if place < new_from || place >= new_to {
                continue;
            }
            let before = place.checked_sub(1).and_then(|before| lengths.get(&before));
            let length = before.copied().unwrap_or_default() + 1;
            next.insert(place, length);
            if length > best.2 {
                best = (at + 1 - length, place + 1 - length, length);
            }
        }
        lengths = next;
    }
    best
}

/// A block with the same lines before and behind it.
fn widened(old: &[&str], new: &[&str], block: Block, old_span: (usize, usize), new_span: (usize, usize)) -> Block {
    let (mut at, mut place, mut length) = block;
    while at > old_span.0 && place > new_span.0 && old.get(at - 1) == new.get(place - 1) {
        (at, place, length) = (at - 1, place - 1, length + 1);
    }
    while at + length < old_span.1 && place + length < new_span.1 && old.get(at + length) == new.get(place + length) {
        length += 1;
    }
    (at, place, length)
}

/// All blocks, in order.
fn blocks(old: &[&str], new: &[&str]) -> Vec<Block> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(place);
    }
    if new.len() >= POPULAR_LINES_MIN {
        let most = new.len() / 100 + 1;
        places.retain(|_, places| places.len() <= most);
    }
    let mut found = Vec::new();
    // Each span is smaller than the one it is taken from.
    let mut spans = vec![((0, old.len()), (0, new.len()))];
    while let Some((old_span, new_span)) = spans.pop() {
        let block = longest(old, &places, old_span, new_span);
        let (at, place, length) = widened(old, new, block, old_span, new_span);
        if length > 0 {
            found.push((at, place, length));
            spans.push(((old_span.0, at), (new_span.0, place)));
            spans.push(((at + length, old_span.1), (place + length, new_span.1)));
        }
    }
    found.sort_unstable();
    found
}

/// What both begin and end with.
fn ends(old: &[&str], new: &[&str]) -> Vec<Block> {
    let alike = |(one, other): &(&&str, &&str)| one == other;
    let head = old.iter().zip(new).take_while(alike).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = tail.take_while(alike).count();
    let both = [(0, 0, head), (old.len() - tail, new.len() - tail, tail)];
    both.into_iter().filter(|(_, _, length)| *length > 0).collect()
}

fn steps(old: &[&str], new: &[&str]) -> Vec<Step> {
    let (mut at, mut place) = (0, 0);
    let mut steps: Vec<Step> = Vec::new();
    let end = (old.len(), new.len(), 0);
    let blocks = match old.len().max(new.len()) > MATCHED_LINES_MAX {
        true => ends(old, new),
        false => blocks(old, new),
    };
    for (next, next_place, length) in blocks.into_iter().chain([end]) {
        if at < next || place < next_place {
            steps.push(Step {
                same: false,
                old: (at, next),
                new: (place, next_place),
            });
        }
        if length > 0 {
            let step = Step {
                same: true,
                old: (next, next + length),
                new: (next_place, next_place + length),
            };
            match steps.last_mut() {
                // Blocks that touch are one.
                Some(last) if last.same => (last.old.1, last.new.1) = (step.old.1, step.new.1),
                _ => steps.push(step),
            }
        }
        (at, place) = (next + length, next_place + length);
    }
    steps
}

/// Steps in groups, with at most the lines around them that are shown.
fn grouped(steps: Vec<Step>) -> Vec<Vec<Step>> {
    if steps.iter().all(|step| step.same) {
        return Vec::new();
    }
    let last = steps.len() - 1;
    let mut groups = vec![Vec::new()];
    for (index, mut step) in steps.into_iter().enumerate() {
        let tail = |step: Step| Step {
            old: (step.old.0.max(step.old.1.saturating_sub(CONTEXT)), step.old.1),
            new: (step.new.0.max(step.new.1.saturating_sub(CONTEXT)), step.new.1),
            ..step
        };
        let head = |step: Step| Step {
            old: (step.old.0, step.old.1.min(step.old.0 + CONTEXT)),
            new: (step.new.0, step.new.1.min(step.new.0 + CONTEXT)),
            ..step
        };
        if step.same && index == 0 {
            step = tail(step);
        } else if step.same && index == last {
            step = head(step);
        } else if step.same && step.old.1 - step.old.0 > 2 * CONTEXT {
            groups.last_mut().into_iter().for_each(|group| group.push(head(step)));
            groups.push(Vec::new());
            step = tail(step);
        }
        groups.last_mut().into_iter().for_each(|group| group.push(step));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_with_three_lines_around_them_and_far_ones_apart() {
        assert_eq!(diff("a\nb", "a\nb"), "");
        let old: Vec<String> = (1..=20).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[3] = "four".to_owned();
        new.remove(15);
        let text = diff(&old.join("\n"), &new.join("\n"));
        assert_eq!(
            text,
            "@@ -1,7 +1,7 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n@@ -13,7 +13,6 @@\n 13\n 14\n 15\n-16\n 17\n 18\n 19\n"
        );
        assert_eq!(diff("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(diff("a\nb", "b"), "@@ -1,2 +1 @@\n-a\n b\n");
    }

    #[test]
    fn very_long_texts_differ_between_their_common_ends() {
        let old: Vec<String> = (0..=MATCHED_LINES_MAX).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[10] = "ten".to_owned();
        new.remove(12);
        let text = diff(&old.join("\n"), &new.join("\n"));
        assert_eq!(
            text,
            "@@ -8,9 +8,8 @@\n 7\n 8\n 9\n-10\n-11\n-12\n+ten\n+11\n 13\n 14\n 15\n"
        );
        assert_eq!(diff(&old.join("\n"), &old.join("\n")), "");
    }
}
