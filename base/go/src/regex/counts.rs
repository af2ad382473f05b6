//! How often a repetition in braces repeats: `(*parser).repeat` of Go 1.26 `regexp/syntax/parse.go`.

/// Numbers from here on are too large whatever they are.
const NUMBER_MAX: usize = 100_000_000;

/// The counts in braces that a text begins with, and the length of all that.
pub(super) fn counts(text: &[u8]) -> Option<(usize, usize, Option<usize>)> {
    let end = text.iter().position(|byte| *byte == b'}')?;
    let inner = text.get(1..end)?;
    let inner = std::str::from_utf8(inner).ok()?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let fits = is_number && (digits.len() == 1 || !digits.starts_with('0'));
        fits.then(|| digits.parse().unwrap_or(NUMBER_MAX))
    };
    let (least, most) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((end + 1, least, most))
}
