//! Reading a moment by a layout: `time.ParseInLocation` of Go 1.26, with its errors.

use super::layout::{self, DAYS, MONTHS, Part, SHORT, Shape};
use super::time::{Time, days_in, is_leap};
use super::zone::Zone;

/// Digits of a fraction that are read, and the separator.
const FRACTION_MAX: usize = 10;
/// Go's mark for no offset; an offset of one second west of Greenwich is taken for none as well.
const NO_OFFSET: i64 = -1;

/// Why a part of a text does not match the layout.
enum Problem {
    /// It is something else
    Bad,
    /// It is too large or too small
    Range(&'static str),
}

type Step<T = ()> = Result<T, Problem>;

/// What has been read.
struct Reader<'t> {
    rest: &'t [u8],
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: i64,
    is_am: bool,
    is_pm: bool,
    is_utc: bool,
    offset: i64,
    zone_name: &'t [u8],
}

/// The moment that a text stands for.
///
/// # Errors
/// The text does not match the layout.
pub(crate) fn parse(layout: &[u8], text: &[u8], local: &Zone) -> Result<Time, String> {
    let mut reader = Reader::new(text);
    let mut open = layout;
    loop {
        let found = layout::next(open);
        let (before, length) = found.map_or((open.len(), 0), |(before, _, length)| (before, length));
        let prefix = open.get(..before).unwrap_or_default();
        if !reader.skip(prefix) {
            return Err(unlike(layout, text, prefix, reader.rest));
        }
        let Some((_, part, _)) = found else {
            break;
        };
        let element = open.get(before..before + length).unwrap_or_default();
        open = open.get(before + length..).unwrap_or_default();
        let hold = reader.rest;
        reader.part(part, open).map_err(|problem| match problem {
            Problem::Bad => unlike(layout, text, element, hold),
            Problem::Range(what) => parse_error(text, &format!(": {what} out of range")),
        })?;
    }
    if !reader.rest.is_empty() {
        return Err(parse_error(text, &format!(": extra text: {}", quote(reader.rest))));
    }
    reader
        .end(local)
        .map_err(|what| parse_error(text, &format!(": {what}")))
}

fn parse_error(text: &[u8], what: &str) -> String {
    format!("parsing time {}{what}", quote(text))
}

fn unlike(layout: &[u8], text: &[u8], element: &[u8], rest: &[u8]) -> String {
    let what = format!(
        " as {}: cannot parse {} as {}",
        quote(layout),
        quote(rest),
        quote(element)
    );
    parse_error(text, &what)
}

/// Package `time`'s own way to quote.
pub(crate) fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

fn digit(text: &[u8], at: usize) -> Option<i64> {
    let byte = text.get(at).filter(|byte| byte.is_ascii_digit())?;
    Some(i64::from(byte - b'0'))
}

/// Within its range.
fn within(number: i64, range: std::ops::Range<i64>, name: &'static str) -> Step<i64> {
    match range.contains(&number) {
        true => Ok(number),
        false => Err(Problem::Range(name)),
    }
}

/// Two digits and nothing else.
fn two(text: &[u8]) -> Step<i64> {
    match (digit(text, 0), digit(text, 1)) {
        (Some(high), Some(low)) => Ok(high * 10 + low),
        _ => Err(Problem::Bad),
    }
}

/// The package's own `atoi` of a few letters.
fn few(text: &[u8]) -> Step<i64> {
    let (sign, digits) = match text.split_first() {
        Some((b'-', rest)) => (-1, rest),
        Some((b'+', rest)) => (1, rest),
        _ => (1, text),
    };
    let mut number = 0;
    for at in 0..digits.len() {
        number = number * 10 + digit(digits, at).ok_or(Problem::Bad)?;
    }
    Ok(sign * number)
}

impl<'t> Reader<'t> {
    fn new(rest: &'t [u8]) -> Self {
        Self {
            rest,
            year: 0,
            month: None,
            day: None,
            day_of_year: None,
            hour: 0,
            minute: 0,
            second: 0,
            nanoseconds: 0,
            is_am: false,
            is_pm: false,
            is_utc: false,
            offset: NO_OFFSET,
            zone_name: b"",
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn take(&mut self, bytes: usize) -> Step<&'t [u8]> {
        let taken = self.rest.get(..bytes).ok_or(Problem::Bad)?;
        self.advance(bytes);
        Ok(taken)
    }

    fn skip_spaces(&mut self) {
        let spaces = self.rest.iter().take_while(|byte| **byte == b' ').count();
        self.advance(spaces);
    }

    /// Skips the text between parts: any number of spaces matches any other, and none only at the end.
    fn skip(&mut self, mut prefix: &[u8]) -> bool {
        while let Some(first) = prefix.first() {
            if *first == b' ' {
                if self.rest.first().is_some_and(|byte| *byte != b' ') {
                    return false;
                }
                let spaces = prefix.iter().take_while(|byte| **byte == b' ').count();
                prefix = prefix.get(spaces..).unwrap_or_default();
                self.skip_spaces();
                continue;
            }
            if self.rest.first() != Some(first) {
                return false;
            }
            prefix = prefix.get(1..).unwrap_or_default();
            self.advance(1);
        }
        true
    }

    /// One or two digits.
    fn number(&mut self, is_fixed: bool) -> Step<i64> {
        let first = digit(self.rest, 0).ok_or(Problem::Bad)?;
        match digit(self.rest, 1) {
            Some(second) => {
                self.advance(2);
                Ok(first * 10 + second)
            }
            None if is_fixed => Err(Problem::Bad),
            None => {
                self.advance(1);
                Ok(first)
            }
        }
    }

    /// One of some names, in letters of either case.
    fn name(&mut self, names: &[&str], length: Option<usize>) -> Step<i64> {
        let found = names.iter().position(|name| {
            let name = name.as_bytes();
            let name = length.and_then(|length| name.get(..length)).unwrap_or(name);
            let there = self.rest.get(..name.len());
            there.is_some_and(|there| there.eq_ignore_ascii_case(name))
        });
        let place = found.ok_or(Problem::Bad)?;
        self.advance(length.unwrap_or_else(|| names.get(place).map_or(0, |name| name.len())));
        Ok(i64::try_from(place).unwrap_or(0))
    }

    fn half(&mut self, am: &[u8], pm: &[u8]) -> Step {
        let taken = self.take(2)?;
        self.is_pm |= taken == pm;
        self.is_am |= taken == am;
        if taken == pm || taken == am {
            Ok(())
        } else {
            Err(Problem::Bad)
        }
    }

    /// Reads a part. What follows in the layout decides whether a fraction belongs to the seconds.
    fn part(&mut self, part: Part, open: &[u8]) -> Step {
        match part {
            Part::Year => {
                let year = few(self.take(2)?)?;
                self.year = if year >= 69 { 1900 + year } else { 2000 + year };
            }
            Part::LongYear => {
                if digit(self.rest, 0).is_none() {
                    return Err(Problem::Bad);
                }
                self.year = few(self.take(4)?)?;
            }
            Part::Month => self.month = Some(self.name(&MONTHS, Some(SHORT))? + 1),
            Part::LongMonth => self.month = Some(self.name(&MONTHS, None)? + 1),
            Part::NumMonth | Part::ZeroMonth => {
                let month = self.number(part == Part::ZeroMonth)?;
                self.month = Some(within(month, 1..13, "month")?);
            }
            Part::Weekday => self.name(&DAYS, Some(SHORT)).map(drop)?,
            Part::LongWeekday => self.name(&DAYS, None).map(drop)?,
            Part::Day | Part::UnderDay | Part::ZeroDay => {
                if part == Part::UnderDay && self.rest.first() == Some(&b' ') {
                    self.advance(1);
                }
                self.day = Some(self.number(part == Part::ZeroDay)?);
            }
            Part::UnderYearDay | Part::ZeroYearDay => self.read_day_of_year(part == Part::UnderYearDay)?,
            Part::Hour => self.hour = within(self.number(false)?, 0..24, "hour")?,
            Part::Hour12 | Part::ZeroHour12 => {
                self.hour = within(self.number(part == Part::ZeroHour12)?, 0..13, "hour")?;
            }
            Part::Minute | Part::ZeroMinute => {
                self.minute = within(self.number(part == Part::ZeroMinute)?, 0..60, "minute")?;
            }
            Part::Second | Part::ZeroSecond => {
                self.second = within(self.number(part == Part::ZeroSecond)?, 0..60, "second")?;
                let is_next = matches!(layout::next(open), Some((_, Part::Fraction { .. }, _)));
                if !is_next {
                    self.fraction_if_any()?;
                }
            }
            Part::Upper => self.half(b"AM", b"PM")?,
            Part::Lower => self.half(b"am", b"pm")?,
            Part::ZoneName => self.read_zone_name()?,
            Part::Offset { is_iso: true, .. } if self.rest.first() == Some(&b'Z') => {
                self.advance(1);
                self.is_utc = true;
            }
            Part::Offset { shape, .. } => self.read_offset(shape)?,
            Part::Fraction { is_trimmed: true, .. } => self.fraction_if_any()?,
            Part::Fraction { digits, .. } => {
                let taken = self.take(digits + 1)?;
                self.fraction(taken)?;
            }
        }
        Ok(())
    }

    fn read_day_of_year(&mut self, is_padded: bool) -> Step {
        for _ in 0..2 {
            if is_padded && self.rest.first() == Some(&b' ') {
                self.advance(1);
            }
        }
        let digits = (0..3).map_while(|at| digit(self.rest, at)).collect::<Vec<i64>>();
        if digits.is_empty() || (!is_padded && digits.len() < 3) {
            return Err(Problem::Bad);
        }
        self.advance(digits.len());
        self.day_of_year = Some(digits.iter().fold(0, |number, digit| number * 10 + digit));
        Ok(())
    }

    /// The fraction that stands there, with as many digits as it has.
    fn fraction_if_any(&mut self) -> Step {
        let is_there = matches!(self.rest.first(), Some(b'.' | b',')) && digit(self.rest, 1).is_some();
        if !is_there {
            return Ok(());
        }
        let behind = self.rest.iter().skip(1);
        let digits = behind.take_while(|byte| byte.is_ascii_digit()).count();
        let taken = self.take(digits + 1)?;
        self.fraction(taken)
    }

    fn fraction(&mut self, text: &[u8]) -> Step {
        let text = text.get(..FRACTION_MAX).unwrap_or(text);
        let Some((b'.' | b',', digits)) = text.split_first() else {
            return Err(Problem::Bad);
        };
        let number = few(digits)?;
        let zeros = u32::try_from(FRACTION_MAX - text.len()).unwrap_or(0);
        let number = within(number, 0..i64::MAX, "fractional second")?;
        self.nanoseconds = number * 10_i64.pow(zeros);
        Ok(())
    }

    fn read_offset(&mut self, shape: Shape) -> Step {
        let (length, colons, places): (usize, &[usize], [Option<usize>; 3]) = match shape {
            Shape::Hours => (3, &[], [Some(1), None, None]),
            Shape::Minutes => (5, &[], [Some(1), Some(3), None]),
            Shape::ColonMinutes => (6, &[3], [Some(1), Some(4), None]),
            Shape::Seconds => (7, &[], [Some(1), Some(3), Some(5)]),
            Shape::ColonSeconds => (9, &[3, 6], [Some(1), Some(4), Some(7)]),
        };
        let text = self.take(length)?;
        if colons.iter().any(|at| text.get(*at) != Some(&b':')) {
            return Err(Problem::Bad);
        }
        let (mut numbers, mut problem) = ([0; 3], None);
        for (number, at) in numbers.iter_mut().zip(places.into_iter().flatten()) {
            match two(text.get(at..).unwrap_or_default()) {
                Ok(read) => *number = read,
                Err(why) => {
                    problem = Some(why);
                    break;
                }
            }
        }
        // A part out of range is reported before one that is no number, and of several the last.
        let [hours, minutes, seconds] = numbers;
        within(seconds, 0..61, "time zone offset second")?;
        within(minutes, 0..61, "time zone offset minute")?;
        within(hours, 0..25, "time zone offset hour")?;
        problem.map_or(Ok(()), Err)?;
        let all = (hours * 60 + minutes) * 60 + seconds;
        self.offset = match text.first() {
            Some(b'+') => all,
            Some(b'-') => -all,
            _ => return Err(Problem::Bad),
        };
        Ok(())
    }

    fn read_zone_name(&mut self) -> Step {
        if self.rest.starts_with(b"UTC") {
            self.advance(3);
            self.is_utc = true;
            return Ok(());
        }
        let length = zone_name(self.rest).ok_or(Problem::Bad)?;
        self.zone_name = self.take(length)?;
        Ok(())
    }

    /// The moment, when all parts are there.
    fn end(self, local: &Zone) -> Result<Time, &'static str> {
        let hour = match self.hour {
            hour if self.is_pm && hour < 12 => hour + 12,
            12 if self.is_am => 0,
            hour => hour,
        };
        let (month, day) = self.date()?;
        if day < 1 || day > days_in(month, self.year) {
            return Err("day out of range");
        }
        let at = |zone: Zone| {
            let nanoseconds = u32::try_from(self.nanoseconds).unwrap_or(0);
            let clock = (hour, self.minute, self.second);
            Time::date((self.year, month, day), clock, nanoseconds, zone)
        };
        if self.is_utc {
            return Ok(at(Zone::Utc));
        }
        if self.offset != NO_OFFSET {
            let time = at(Zone::Utc).add(-self.offset * super::time::SECOND);
            let there = local.at(time.unix_seconds());
            let is_local =
                there.offset == self.offset && (self.zone_name.is_empty() || there.name.bytes() == self.zone_name);
            return Ok(match is_local {
                true => time.within(local.clone()),
                false => time.within(Zone::fixed(self.zone_name, self.offset)),
            });
        }
        if self.zone_name.is_empty() {
            return Ok(at(local.clone()));
        }
        let time = at(Zone::Utc);
        if let Some(offset) = local.offset_of(self.zone_name, time.unix_seconds()) {
            return Ok(time.add(-offset * super::time::SECOND).within(local.clone()));
        }
        let hours = self.zone_name.strip_prefix(b"GMT").filter(|rest| !rest.is_empty());
        let hours = hours.map_or(0, |rest| few(rest).unwrap_or(0));
        Ok(time.within(Zone::fixed(self.zone_name, hours * 3600)))
    }

    fn date(&self) -> Result<(i64, i64), &'static str> {
        let Some(mut day_of_year) = self.day_of_year else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        let mut found = None;
        if is_leap(self.year) {
            if day_of_year == 31 + 29 {
                found = Some((2, 29));
            } else if day_of_year > 31 + 29 {
                day_of_year -= 1;
            }
        }
        if !(1..=365).contains(&day_of_year) {
            return Err("day-of-year out of range");
        }
        let (month, day) = found.unwrap_or_else(|| {
            // The day is counted in a year without a February 29.
            let (mut month, mut day) = (1, day_of_year);
            while day > days_in(month, 1) {
                day -= days_in(month, 1);
                month += 1;
            }
            (month, day)
        });
        if self.month.is_some_and(|stated| stated != month) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|stated| stated != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }
}

/// The length of the short name of a zone at the beginning.
fn zone_name(text: &[u8]) -> Option<usize> {
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_hours(rest));
    }
    if text.len() >= 3 && matches!(text.first(), Some(b'+' | b'-')) {
        return Some(signed_hours(text)).filter(|length| *length > 0);
    }
    let letters = text.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    match letters {
        5 if text.get(4) == Some(&b'T') => Some(5),
        4 if text.get(3) == Some(&b'T') || text.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

/// How many bytes a sign and hours take: none if there are no hours.
fn signed_hours(text: &[u8]) -> usize {
    let Some((b'+' | b'-', rest)) = text.split_first() else {
        return 0;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let hours = rest.get(..digits).unwrap_or_default();
    let hours = hours.iter().fold(0_i64, |number, byte| {
        number.saturating_mul(10).saturating_add(i64::from(byte - b'0'))
    });
    if digits == 0 || hours > 23 {
        return 0;
    }
    1 + digits
}
