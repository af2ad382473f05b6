//! Parts of times and durations, in a zone if one is named (google/cel-go v0.26 `common/types/timestamp.go`): without one in
//! UTC, however the time was written.

use chrono::{DateTime, Datelike as _, FixedOffset, Offset as _, TimeDelta, Timelike as _, Utc};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};

/// A part of a time.
type OfTime = fn(&DateTime<FixedOffset>) -> i64;
/// The same part of a duration, if it has that.
type OfDuration = Option<fn(&TimeDelta) -> i64>;

const PARTS: [(&str, OfTime, OfDuration); 10] = [
    ("getFullYear", |time| time.year().into(), None),
    ("getMonth", |time| time.month0().into(), None),
    ("getDayOfYear", |time| time.ordinal0().into(), None),
    ("getDayOfMonth", |time| time.day0().into(), None),
    ("getDate", |time| time.day().into(), None),
    (
        "getDayOfWeek",
        |time| time.weekday().num_days_from_sunday().into(),
        None,
    ),
    ("getHours", |time| time.hour().into(), Some(TimeDelta::num_hours)),
    ("getMinutes", |time| time.minute().into(), Some(TimeDelta::num_minutes)),
    ("getSeconds", |time| time.second().into(), Some(TimeDelta::num_seconds)),
    (
        "getMilliseconds",
        |time| time.timestamp_subsec_millis().into(),
        Some(|duration| duration.subsec_nanos() as i64 / 1_000_000),
    ),
];

/// Adds the functions.
pub(crate) fn register(context: &mut Context<'_>) {
    for (name, of_time, of_duration) in PARTS {
        context.add_function(
            name,
            move |This(value): This<CelValue>, Arguments(arguments): Arguments| -> ResolveResult {
                let part = match (&value, arguments.first(), of_duration) {
                    (CelValue::Timestamp(time), None, _) => of_time(&time.with_timezone(&Utc.fix())),
                    (CelValue::Timestamp(time), Some(CelValue::String(zone)), _) => {
                        let there = in_zone(time, zone)
                            .ok_or_else(|| ExecutionError::function_error(name, format!("unknown time zone {zone}")))?;
                        of_time(&there)
                    }
                    (CelValue::Duration(duration), None, Some(of_duration)) => of_duration(duration),
                    _ => return Err(ExecutionError::NoSuchOverload),
                };
                Ok(CelValue::Int(part))
            },
        );
    }
}

/// A zone is a name, or hours and minutes before or behind UTC.
fn in_zone(time: &DateTime<FixedOffset>, zone: &str) -> Option<DateTime<FixedOffset>> {
    let seconds = match zone.split_once(':') {
        Some((hours, minutes)) => {
            let is_before = hours.starts_with('-');
            let hours: i32 = hours.parse().ok()?;
            let minutes = minutes.parse::<i32>().ok()?.checked_mul(60)?;
            let minutes = if is_before { -minutes } else { minutes };
            hours.checked_mul(3600)?.checked_add(minutes)?
        }
        None => {
            let moment = jiff::Timestamp::from_second(time.timestamp()).ok()?;
            jiff::tz::TimeZone::get(zone).ok()?.to_offset(moment).seconds()
        }
    };
    Some(time.with_timezone(&FixedOffset::east_opt(seconds)?))
}
