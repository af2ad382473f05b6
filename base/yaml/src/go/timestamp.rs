//! Whether a text is a point in time by YAML 1.1's rules, as far as Go's YAML knows them: its `parseTimestamp` with the four
//! layouts that it gives to `time.Parse`.

/// Whether `time.Parse` takes `text` by one of
/// `2006-1-2T15:4:5.999999999Z07:00`, the same with `t`, `2006-1-2 15:4:5.999999999`, `2006-1-2`.
pub(super) fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 5 || bytes[4] != b'-' || !bytes[..4].iter().all(u8::is_ascii_digit) {
        return false;
    }
    parse(text).is_some()
}

fn parse(text: &str) -> Option<()> {
    let year: u32 = text[..4].parse().ok()?;
    let (month, rest) = number(&text[5..], 12)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 31)?;
    if month == 0 || day == 0 || day > days_in(month, year) {
        return None;
    }
    if rest.is_empty() {
        return Some(());
    }
    let zoned = rest.starts_with(['T', 't']);
    let rest = match zoned {
        true => &rest[1..],
        // time.Parse takes any number of blanks for one.
        false => rest.strip_prefix(' ')?.trim_start_matches(' '),
    };
    let (_, rest) = number(rest, 23)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 59)?;
    let (_, rest) = number(rest.strip_prefix(':')?, 59)?;
    let rest = after_fraction(rest);
    let ends = if zoned { is_zone(rest) } else { rest.is_empty() };
    ends.then_some(())
}

/// One or two digits, up to `most`, and what follows them.
fn number(text: &str, most: u32) -> Option<(u32, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let number = text[..count].parse().ok()?;
    (number <= most).then_some((number, &text[count..]))
}

fn after_fraction(text: &str) -> &str {
    match text.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|first: char| first.is_ascii_digit()) => {
            fraction.trim_start_matches(|digit: char| digit.is_ascii_digit())
        }
        _ => text,
    }
}

fn is_zone(text: &str) -> bool {
    if text == "Z" {
        return true;
    }
    let Some(zone) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    let digits = |part: &str, most| part.len() == 2 && number(part, most).is_some_and(|(_, rest)| rest.is_empty());
    // The bounds are Go's, which lets 24:60 pass.
    zone.split_once(':')
        .is_some_and(|(hours, minutes)| digits(hours, 24) && digits(minutes, 60))
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}
