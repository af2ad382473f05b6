//! A moment as a value that templates have: `time.Time` of Go 1.26 with its methods.

use std::sync::Arc;

use super::layout::{self, RFC3339_NANO, format};
use super::read::quote;
use super::time::{SECOND, Time};
use super::units::{DURATION, LOCATION, Location, Unit, constant, duration, duration_of, zone_of};
use super::zone::Zone;
use crate::environment::error::Fault;
use crate::sprig::args::{Answer, at, int, text};
use crate::value::function::{Body, Function, Scope};
use crate::value::{IntKind, Object, Type, Value};

/// The type of moments.
pub(super) const TIME: &str = "time.Time";

/// The moment that a value is.
pub(crate) fn time_of(value: &Value) -> Option<&Time> {
    value.object()
}

impl From<Time> for Value {
    fn from(time: Time) -> Self {
        Self::Object(Arc::new(time))
    }
}

/// A moment by a layout, which takes as many steps as both are long.
pub(super) fn formatted(time: &Time, layout: &[u8], scope: &Scope<'_>) -> Answer {
    scope.spend(layout.len())?;
    let written = format(time, layout, scope.limits.string_bytes_max);
    scope.check_length(written.len())?;
    scope.spend(written.len())?;
    Ok(Value::string(written))
}

impl Object for Time {
    fn type_name(&self) -> &'static str {
        TIME
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        let value = part(self, name).map(|value| constant(name, value));
        value
            .or_else(|| comparison(self, name))
            .or_else(|| change(self, name))
            .or_else(|| refused(name))
    }

    fn text(&self) -> Option<String> {
        Some(written(self, layout::STRING))
    }

    fn in_go(&self) -> Option<String> {
        Some(in_go(self))
    }

    fn marshalled(&self) -> Option<String> {
        Some(written(self, RFC3339_NANO))
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let wall = Value::Uint(crate::value::UintKind::Uint64, u64::from(self.nanoseconds));
        vec![
            ("wall", wall),
            ("ext", Value::Int(IntKind::Int64, self.seconds)),
            ("loc", Value::Object(Arc::new(Location(self.zone.clone())))),
        ]
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other
            .as_type()
            .is_some_and(|other: &Self| self.moment() == other.moment() && self.zone.is(&other.zone))
    }

    fn is_like(&self, other: &dyn Object) -> bool {
        other
            .as_type()
            .is_some_and(|other: &Self| self.moment() == other.moment() && self.zone.is_like(&other.zone))
    }
}

fn written(time: &Time, layout: &[u8]) -> String {
    String::from_utf8_lossy(&format(time, layout, usize::MAX)).into_owned()
}

fn in_go(time: &Time) -> String {
    let civil = time.civil();
    let zone = match &time.zone {
        Zone::Utc => "time.UTC".to_owned(),
        Zone::Local(_) => "time.Local".to_owned(),
        zone => format!("time.Location({})", quote(&zone.name())),
    };
    format!(
        "time.Date({}, time.{}, {}, {}, {}, {}, {}, {zone})",
        civil.year,
        layout::month_name(civil.month),
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        time.nanoseconds
    )
}

/// What a method without arguments returns.
fn part(time: &Time, name: &str) -> Option<Value> {
    let civil = time.civil();
    let int64 = |number| Value::Int(IntKind::Int64, number);
    Some(match name {
        "Year" => Value::int(civil.year),
        "Month" => Unit::Month(civil.month).into(),
        "Day" => Value::int(civil.day),
        "Weekday" => Unit::Weekday(civil.weekday).into(),
        "YearDay" => Value::int(civil.day_of_year),
        "Hour" => Value::int(civil.hour),
        "Minute" => Value::int(civil.minute),
        "Second" => Value::int(civil.second),
        "Nanosecond" => Value::int(i64::from(time.nanoseconds)),
        "Unix" => int64(time.unix_seconds()),
        "UnixMilli" => int64(time.unix_in(1_000)),
        "UnixMicro" => int64(time.unix_in(1_000_000)),
        "UnixNano" => int64(time.unix_in(SECOND)),
        "IsZero" => Value::Bool(time.moment() == (0, 0)),
        "IsDST" => Value::Bool(time.zone.at(time.unix_seconds()).is_summer),
        "UTC" => time.within(Zone::Utc).into(),
        "Location" => Value::Object(Arc::new(Location(time.zone.clone()))),
        "String" => Value::from(written(time, layout::STRING)),
        "GoString" => Value::from(in_go(time)),
        "MarshalText" => Value::Bytes(written(time, RFC3339_NANO).into()),
        "MarshalJSON" => Value::Bytes(format!("\"{}\"", written(time, RFC3339_NANO)).into()),
        _ => return None,
    })
}

fn comparison(time: &Time, name: &str) -> Option<Arc<Function>> {
    let compare: fn(&Time, &Time) -> Value = match name {
        "After" => |one, other| Value::Bool(one.moment() > other.moment()),
        "Before" => |one, other| Value::Bool(one.moment() < other.moment()),
        "Equal" => |one, other| Value::Bool(one.moment() == other.moment()),
        "Compare" => |one, other| Value::int(i64::from(one.moment().cmp(&other.moment()) as i8)),
        "Sub" => |one, other| duration(one.since(other)),
        _ => return None,
    };
    let time = time.clone();
    let function = Function::new(name, [Type::Named(TIME)], move |_, args| {
        let other = time_of(at(args, 0)).ok_or("there is no time to compare with")?;
        Ok(compare(&time, other))
    });
    Some(Arc::new(function))
}

/// Methods that make a value of the moment and their arguments.
fn change(time: &Time, name: &str) -> Option<Arc<Function>> {
    const INT: Type = Type::INT;
    let time = time.clone();
    let by_duration = |change: fn(&Time, i64) -> Time| {
        let time = time.clone();
        Function::new(name, [Type::Named(DURATION)], move |_, args| {
            Ok(change(&time, duration_of(at(args, 0))).into())
        })
    };
    let function = match name {
        "Add" => by_duration(Time::add),
        "Truncate" => by_duration(truncated),
        "Round" => by_duration(rounded),
        "AddDate" => Function::new(name, [INT, INT, INT], move |_, args| {
            Ok(time.add_date(int(args, 0), int(args, 1), int(args, 2)).into())
        }),
        "Format" => Function::new(name, [Type::Str], move |scope, args| {
            formatted(&time, text(args, 0), scope)
        }),
        "In" => Function::new(name, [Type::Named(LOCATION)], move |_, args| {
            Ok(time.within(zone_of(at(args, 0))?).into())
        }),
        "Local" => Function::new(name, [], move |scope, _| {
            Ok(time.within(Zone::Local(super::local(scope))).into())
        }),
        _ => return None,
    };
    Some(Arc::new(function))
}

fn truncated(time: &Time, unit: i64) -> Time {
    match unit {
        ..=0 => time.clone(),
        unit => time.add(time.beyond(unit).wrapping_neg()),
    }
}

/// Halves up.
fn rounded(time: &Time, unit: i64) -> Time {
    if unit <= 0 {
        return time.clone();
    }
    let beyond = time.beyond(unit);
    match beyond.unsigned_abs() * 2 < unit.unsigned_abs() {
        true => time.add(-beyond),
        false => time.add(unit - beyond),
    }
}

/// Methods that Go has: those that no template can call, and those that are not supported.
fn refused(name: &str) -> Option<Arc<Function>> {
    let why = match name {
        "Clock" | "Date" | "ISOWeek" | "Zone" | "ZoneBounds" => return Some(with_many_results(name)),
        "AppendBinary" | "AppendFormat" | "AppendText" | "GobEncode" | "MarshalBinary" => {
            format!("method {name} of time.Time is not here: Format writes texts")
        }
        _ => return None,
    };
    Some(Arc::new(Function::variadic(name, [], Type::Any, move |_, _| {
        Err(Fault::Message(why.clone()))
    })))
}

fn with_many_results(name: &str) -> Arc<Function> {
    let why = match name {
        "Clock" | "Date" => format!("function {name} has 3 return values; should be 1 or 2"),
        _ => {
            let second = match name {
                "ISOWeek" | "Zone" => "int",
                _ => TIME,
            };
            format!("invalid function signature for {name}: second return value should be error; is {second}")
        }
    };
    Arc::new(Function::with_body(name, Vec::new(), None, Body::Uncallable(why)))
}
