//! Cron lines of five fields and when they fire, as `ParseStandard` of github.com/robfig/cron v1.2.0, which Gardener
//! reads hibernation schedules with. It knows no clock: the time and the zone are arguments.

use api_meta::GoDuration;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

/// Years after which a line without an event is given up, as robfig/cron: 29 February may be as far away.
const YEARS_MAX: i16 = 5;

/// When something happens, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CronLine {
    /// At the minutes that all five fields allow.
    Fields(Box<Fields>),
    /// After each period since the last time, in whole seconds, at least one.
    Every(SignedDuration),
}

/// The five fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// The values that a field allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    /// One bit per value.
    values: u64,
    /// Whether `*` or `?` stands in it: then the other of the two fields of days alone decides.
    star: bool,
}

/// What a field may hold.
struct Bounds {
    name: &'static str,
    min: u64,
    max: u64,
    /// Names of values, the first is `min`.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds {
    name: "minute",
    min: 0,
    max: 59,
    names: &[],
};
const HOURS: Bounds = Bounds {
    name: "hour",
    min: 0,
    max: 23,
    names: &[],
};
const DAYS: Bounds = Bounds {
    name: "day of month",
    min: 1,
    max: 31,
    names: &[],
};
const MONTHS: Bounds = Bounds {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAYS: Bounds = Bounds {
    name: "day of week",
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// Lines with a name.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Why a text is no cron line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Another number of fields than five.
    #[error("has {0} fields, needs five: minute, hour, day of month, month, day of week")]
    Fields(usize),
    /// An unknown word behind `@`.
    #[error(
        "{0:?} is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, or @every with a duration"
    )]
    Word(String),
    /// A period behind `@every ` that cannot be read.
    #[error("the period of @every cannot be read")]
    Period(#[source] api_meta::ParseGoDurationError),
    /// A part of a field that cannot be read or lies outside of what the field allows.
    #[error("{field} {part:?} {why}")]
    Part {
        /// Name of the field.
        field: &'static str,
        /// The part between commas.
        part: String,
        /// What is wrong with it.
        why: String,
    },
}

impl CronLine {
    /// Reads five fields, or a word such as `@daily` or `@every 12h`.
    ///
    /// # Errors
    /// When robfig/cron refuses the text.
    pub(crate) fn parse(text: &str) -> Result<Self, CronError> {
        if text.starts_with('@') {
            return Self::of_word(text);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(CronError::Fields(fields.len()));
        };
        Ok(Self::Fields(Box::new(Fields {
            minutes: Field::parse(minutes, &MINUTES)?,
            hours: Field::parse(hours, &HOURS)?,
            days: Field::parse(days, &DAYS)?,
            months: Field::parse(months, &MONTHS)?,
            weekdays: Field::parse(weekdays, &WEEKDAYS)?,
        })))
    }

    fn of_word(text: &str) -> Result<Self, CronError> {
        if let Some((_, line)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Self::parse(line);
        }
        let period = text
            .strip_prefix("@every ")
            .ok_or_else(|| CronError::Word(text.to_owned()))?;
        let period: GoDuration = period.parse().map_err(CronError::Period)?;
        let seconds = SignedDuration::from_nanos(period.as_nanos()).as_secs();
        Ok(Self::Every(SignedDuration::from_secs(seconds.max(1))))
    }

    /// The first event after `after`, on a whole second; none within [`YEARS_MAX`] years.
    ///
    /// A line of fields fires whenever the wall clock of `zone` shows a matching minute: not at all for a time that a
    /// change of the clock skips, and twice for a time that it repeats.
    pub(crate) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let second = Timestamp::from_second(after.as_second()).ok()?;
        // A time before 1970 is rounded towards it.
        let second = if second > after {
            second.checked_sub(SignedDuration::from_secs(1)).ok()?
        } else {
            second
        };
        match self {
            Self::Every(period) => second.checked_add(*period).ok(),
            Self::Fields(fields) => {
                let start = second.checked_add(SignedDuration::from_secs(1)).ok()?;
                fields.first_from(start.to_zoned(zone.clone()))
            }
        }
    }

    /// The last event after `after` and not after `until`.
    ///
    /// The search takes as many steps as there are events, at most one per minute.
    pub(crate) fn latest_between(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let first = self.next_after(after, zone).filter(|first| *first <= until)?;
        if let Self::Every(period) = self {
            let periods = until.duration_since(first).as_secs() / period.as_secs();
            let since = SignedDuration::from_secs(periods * period.as_secs());
            return first.checked_add(since).ok();
        }
        let mut latest = first;
        while let Some(next) = self.next_after(latest, zone).filter(|next| *next <= until) {
            latest = next;
        }
        Some(latest)
    }
}

impl Fields {
    /// The first matching minute from `now` on.
    fn first_from(&self, now: Zoned) -> Option<Timestamp> {
        let last_year = now.year().checked_add(YEARS_MAX)?;
        let seconds = (60 - i64::from(now.second())) % 60;
        let mut now = now.checked_add(seconds.seconds()).ok()?;
        // Each step skips what cannot match and nothing else. Steps over days go by the calendar, since a day may
        // begin later than at midnight; those over hours and minutes go by elapsed time, since an hour may come twice.
        while now.year() <= last_year {
            let date = now.date();
            now = if !self.months.has(date.month()) {
                let month = date.first_of_month().checked_add(1.month()).ok()?;
                month.to_zoned(now.time_zone().clone()).ok()?
            } else if !self.has_day(&now) {
                date.tomorrow().ok()?.to_zoned(now.time_zone().clone()).ok()?
            } else if !self.hours.has(now.hour()) {
                let rest = 60 - i64::from(now.minute());
                now.checked_add(rest.minutes()).ok()?
            } else if !self.minutes.has(now.minute()) {
                now.checked_add(1.minute()).ok()?
            } else {
                return Some(now.timestamp());
            };
        }
        None
    }

    /// With a star in either field of days both must match, without any one suffices.
    fn has_day(&self, now: &Zoned) -> bool {
        let in_month = self.days.has(now.day());
        let in_week = self.weekdays.has(now.weekday().to_sunday_zero_offset());
        if self.days.star || self.weekdays.star {
            in_month && in_week
        } else {
            in_month || in_week
        }
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value)
            .ok()
            .and_then(|value| 1_u64.checked_shl(value))
            .is_some_and(|bit| self.values & bit != 0)
    }

    /// Parts between commas. Empty ones allow nothing, as in robfig/cron.
    fn parse(text: &str, bounds: &Bounds) -> Result<Self, CronError> {
        let mut field = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let read = Self::part(part, bounds).map_err(|why| CronError::Part {
                field: bounds.name,
                part: part.to_owned(),
                why,
            })?;
            field.values |= read.values;
            field.star |= read.star;
        }
        Ok(field)
    }

    /// `VALUE`, `FROM-TO` or a star, and behind it `/STEP`. A single value with a step reaches to the end.
    fn part(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(number(step)?)),
            None => (text, None),
        };
        let mut ends = range.split('-');
        let first = ends.next().unwrap_or_default();
        let star = matches!(first, "*" | "?");
        let (from, to) = if star {
            // robfig/cron does not look at what stands behind the star.
            (bounds.min, bounds.max)
        } else {
            let from = value(first, bounds)?;
            let to = match (ends.next(), step) {
                (Some(last), _) => value(last, bounds)?,
                (None, Some(_)) => bounds.max,
                (None, None) => from,
            };
            if ends.next().is_some() {
                return Err("has more than one hyphen".to_owned());
            }
            (from, to)
        };
        let (min, max) = (bounds.min, bounds.max);
        if from < min || to > max {
            return Err(format!("is not within {min} to {max}"));
        }
        if from > to {
            return Err("ends before it begins".to_owned());
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX);
        if step == 0 {
            return Err("has a step of 0, needs 1 or more".to_owned());
        }
        let values = (from..=to).step_by(step).fold(0, |values, value| values | 1 << value);
        Ok(Self { values, star })
    }
}

/// A number, or a name of the field in any case.
fn value(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match (bounds.min..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((value, _)) => Ok(value),
        None => number(text),
    }
}

/// A number that fits Go's `int`; it may have a plus sign.
fn number(text: &str) -> Result<u64, String> {
    let read: Option<i64> = text.parse().ok();
    read.and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| format!("holds {text:?}, which is no number or name of this field"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hibernation::zone;

    /// What robfig/cron v1.2.0 makes of lines; its header describes the rows.
    const ANSWERS: &str = include_str!("../tests/golden/cron.txt");

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn events(line: &str, zone_name: &str, from: &str, count: usize) -> Vec<String> {
        let (line, zone) = (CronLine::parse(line).unwrap(), zone(Some(zone_name)).unwrap());
        let mut now = at(from);
        let mut found = Vec::new();
        for _ in 0..count {
            match line.next_after(now, &zone) {
                Some(next) => now = next,
                None => return [found, vec!["never".to_owned()]].concat(),
            }
            found.push(now.to_string());
        }
        found
    }

    #[test]
    fn lines_are_read_and_fire_as_in_robfig_cron() {
        let (mut refused, mut fired, mut zones) = (0, 0, 0);
        for row in ANSWERS.lines().filter(|row| !row.starts_with('#')) {
            let cells: Vec<&str> = row.split('\t').collect();
            let quoted = |cell: &str| serde_json::from_str::<String>(cell).unwrap();
            match cells.as_slice() {
                [line, "refused"] => {
                    refused += 1;
                    assert!(CronLine::parse(&quoted(line)).is_err(), "{row}");
                }
                ["zone", name, known] => {
                    zones += 1;
                    assert_eq!(zone(Some(&quoted(name))).is_some(), *known == "true", "{row}");
                }
                [line, zone, from, expected] => {
                    fired += 1;
                    let expected: Vec<&str> = expected.split(' ').collect();
                    assert_eq!(events(&quoted(line), zone, from, expected.len()), expected, "{row}");
                }
                _ => unreachable!("{row}"),
            }
        }
        assert_eq!((refused, fired, zones), (53, 260, 21), "the file was read");
    }

    #[test]
    fn a_day_that_begins_after_midnight_keeps_its_other_events() {
        // robfig/cron misses the whole day here: Havana puts the clock forward from 00:00 to 01:00.
        let found = events("30 0,9 * * *", "America/Havana", "2026-03-07T20:00:00Z", 2);
        assert_eq!(found, ["2026-03-08T13:30:00Z", "2026-03-09T04:30:00Z"]);
        let weekly = events("0 9 * * SUN", "America/Havana", "2026-03-07T20:00:00Z", 1);
        assert_eq!(weekly, ["2026-03-08T13:00:00Z"]);
    }

    #[test]
    fn a_clock_that_moves_by_half_an_hour_loses_no_event() {
        // On Lord Howe Island 02:00 becomes 02:30; robfig/cron then misses 05:15.
        let found = events("15 5 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", 1);
        assert_eq!(found, ["2026-10-03T18:15:00Z"]);
    }

    #[test]
    fn the_latest_event_lies_within_both_ends() {
        let utc = TimeZone::UTC;
        let latest = |line: &str, after: &str, until: &str| {
            let line = CronLine::parse(line).unwrap();
            line.latest_between(at(after), at(until), &utc)
                .map(|event| event.to_string())
        };
        let cases = [
            (
                "2026-01-02T00:00:00Z",
                "2026-01-04T00:00:00Z",
                Some("2026-01-03T20:00:00Z"),
            ),
            ("2026-01-03T20:00:00Z", "2026-01-04T19:59:59Z", None),
            (
                "2026-01-02T20:00:00Z",
                "2026-01-03T20:00:00Z",
                Some("2026-01-03T20:00:00Z"),
            ),
            ("2026-01-04T20:00:00Z", "2026-01-03T20:00:00Z", None),
        ];
        for (after, until, expected) in cases {
            assert_eq!(latest("0 20 * * *", after, until).as_deref(), expected, "{after}");
        }
        let often = latest("@every 1s", "2026-01-01T00:00:00Z", "2026-01-08T00:00:00.5Z");
        assert_eq!(often.as_deref(), Some("2026-01-08T00:00:00Z"));
        let period = latest("@every 7h", "2026-01-01T00:00:00Z", "2026-01-01T20:00:00Z");
        assert_eq!(period.as_deref(), Some("2026-01-01T14:00:00Z"));
        assert_eq!(
            latest("0 0 31 2 *", "2026-01-01T00:00:00Z", "2026-01-08T00:00:00Z"),
            None
        );
    }

    #[test]
    fn an_error_names_the_field_and_what_it_allows() {
        let message = |line: &str| CronLine::parse(line).unwrap_err().to_string();
        assert_eq!(message("0 24 * * *"), "hour \"24\" is not within 0 to 23");
        assert_eq!(
            message("0 0 * * FRI-MON"),
            "day of week \"FRI-MON\" ends before it begins"
        );
        assert_eq!(
            message("0 0 L * *"),
            "day of month \"L\" holds \"L\", which is no number or name of this field"
        );
        assert!(message("0 20 * *").starts_with("has 4 fields, needs five: minute"));
        assert!(message("@reboot").contains("@daily"));
    }
}
