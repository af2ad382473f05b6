//! The order of keys in what Go writes: numbers in them count as numbers, and what is no letter comes before letters
//! (`sorter.go` of go.yaml.in/yaml/v2 2.4 and v3 3.0).

use std::sync::LazyLock;

use regex::Regex;

use super::super::resolve::Dialect;

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());

fn is(character: char, class: &LazyLock<Option<Regex>>) -> bool {
    let mut bytes = [0; 4];
    let text = &*character.encode_utf8(&mut bytes);
    class.as_ref().is_some_and(|class| class.is_match(text))
}

fn is_letter(character: char) -> bool {
    if character.is_ascii() {
        character.is_ascii_alphabetic()
    } else {
        is(character, &LETTER)
    }
}

fn is_digit(character: char) -> bool {
    if character.is_ascii() {
        character.is_ascii_digit()
    } else {
        is(character, &DIGIT)
    }
}

/// Whether `a` comes before `b`. Of two different keys one always does, but this is no order in the strict sense, which
/// `sort` below accepts.
pub(super) fn less(a: &str, b: &str, dialect: Dialect) -> bool {
    let mut before = 0;
    let mut digits = false;
    let mut pairs = a.chars().zip(b.chars());
    let (left, right) = loop {
        match pairs.next() {
            None => return a.len() < b.len(),
            Some((left, right)) if left == right => {
                digits = is_digit(left);
                before += left.len_utf8();
            }
            Some(pair) => break pair,
        }
    };
    match (is_letter(left), is_letter(right)) {
        (true, true) => return left < right,
        (false, false) => {}
        // v3: where a number ends in one of the keys, the shorter number comes first.
        (left_is, _) if dialect == Dialect::V3 && digits => return left_is,
        (_, right_is) => return right_is,
    }
    let zeroes = left == '0' || right == '0';
    let start = i64::from(zeroes && a[..before].chars().rev().take_while(|c| is_digit(*c)).any(|c| c != '0'));
    let (left_number, left_count) = number(&a[before..], start);
    let (right_number, right_count) = number(&b[before..], start);
    if left_number != right_number {
        return left_number < right_number;
    }
    if left_count != right_count {
        return left_count < right_count;
    }
    left < right
}

/// The number that `text` begins with, behind `start`, and how many digits it has. It wraps around, as Go's.
fn number(text: &str, start: i64) -> (i64, usize) {
    let mut number = start;
    let mut count = 0;
    for digit in text.chars().take_while(|digit| is_digit(*digit)) {
        number = number
            .wrapping_mul(10)
            .wrapping_add(i64::from(u32::from(digit)) - i64::from(u32::from('0')));
        count += 1;
    }
    (number, count)
}

/// Sorts `items` by `less`. The standard library's sorting may panic on what is no order; a merge does not.
pub(super) fn sort<T: Clone>(items: &mut Vec<T>, less: &impl Fn(&T, &T) -> bool) {
    let mut width = 1;
    while width < items.len() {
        let mut sorted = Vec::with_capacity(items.len());
        for pair in items.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([first, left_rest @ ..], [second, right_rest @ ..]) = (left, right) {
                if less(second, first) {
                    sorted.push(second.clone());
                    right = right_rest;
                } else {
                    sorted.push(first.clone());
                    left = left_rest;
                }
            }
            sorted.extend_from_slice(left);
            sorted.extend_from_slice(right);
        }
        *items = sorted;
        width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_numbers_are_sorted_by_the_numbers() {
        let mut keys = vec!["a10", "a2", "b", "a", "A", "a-b", "ab", "a_b", "1", "10", "9", "a02"];
        sort(&mut keys, &|a: &&str, b: &&str| less(a, b, Dialect::V2));
        assert_eq!(
            keys,
            ["1", "9", "10", "A", "a", "a-b", "a_b", "a2", "a02", "a10", "ab", "b"]
        );
    }
}
