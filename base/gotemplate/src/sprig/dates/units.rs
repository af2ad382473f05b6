//! Values of package `time` beside the moment itself: months, days of the week, lengths of time, and zones.

use std::sync::Arc;

use super::duration_text::written;
use super::layout::{day_name, month_name};
use super::time::SECOND;
use super::zone::Zone;
use crate::environment::error::Fault;
use crate::value::function::Function;
use crate::value::{IntKind, Object, Type, Value};

/// The type of lengths of time.
pub(crate) const DURATION: &str = "time.Duration";
pub(super) const LOCATION: &str = "*time.Location";

/// A number with a name.
#[derive(Debug)]
pub(super) enum Unit {
    /// From 1
    Month(i64),
    /// From 0, which is Sunday
    Weekday(i64),
    /// In nanoseconds
    Duration(i64),
}

/// A length of time in nanoseconds.
pub(crate) fn duration(nanoseconds: i64) -> Value {
    Unit::Duration(nanoseconds).into()
}

/// The length of time that a value is, in nanoseconds.
pub(super) fn duration_of(value: &Value) -> i64 {
    value.object().map_or(0, Unit::number)
}

/// The number of a month or a day of the week. spf13/cast 1.7.0 converts these, but no lengths of time.
pub(crate) fn number_of(value: &Value) -> Option<i64> {
    match value.object()? {
        Unit::Month(number) | Unit::Weekday(number) => Some(*number),
        Unit::Duration(_) => None,
    }
}

impl From<Unit> for Value {
    fn from(unit: Unit) -> Self {
        Self::Object(Arc::new(unit))
    }
}

impl Unit {
    fn number(&self) -> i64 {
        match self {
            Self::Month(number) | Self::Weekday(number) | Self::Duration(number) => *number,
        }
    }

    fn written(&self) -> String {
        match self {
            Self::Month(month) => month_name(*month).to_owned(),
            Self::Weekday(weekday) => day_name(*weekday).to_owned(),
            Self::Duration(nanoseconds) => written(*nanoseconds),
        }
    }
}

impl Object for Unit {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
            Self::Duration(_) => DURATION,
        }
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        if name == "String" {
            let written = self.written();
            return Some(constant(name, Value::from(written)));
        }
        match self {
            Self::Duration(nanoseconds) => duration_method(*nanoseconds, name),
            _ => None,
        }
    }

    fn text(&self) -> Option<String> {
        Some(self.written())
    }

    fn underlying(&self) -> Option<Value> {
        Some(match self {
            Self::Duration(number) => Value::Int(IntKind::Int64, *number),
            Self::Month(number) | Self::Weekday(number) => Value::int(*number),
        })
    }

    fn equals(&self, other: &dyn Object) -> bool {
        self.type_name() == other.type_name() && other.as_type().map(Self::number) == Some(self.number())
    }
}

/// A method without arguments.
pub(super) fn constant(name: &str, value: Value) -> Arc<Function> {
    Arc::new(Function::new(name, [], move |_, _| Ok(value.clone())))
}

fn duration_method(nanoseconds: i64, name: &str) -> Option<Arc<Function>> {
    const MINUTE: i64 = 60 * SECOND;
    const HOUR: i64 = 60 * MINUTE;
    // Whole units and the rest are converted separately, as in Go.
    let in_units = |unit: i64| Value::Float((nanoseconds / unit) as f64 + (nanoseconds % unit) as f64 / unit as f64);
    let whole = |unit: i64| Value::Int(IntKind::Int64, nanoseconds / unit);
    let value = match name {
        "Hours" => in_units(HOUR),
        "Minutes" => in_units(MINUTE),
        "Seconds" => in_units(SECOND),
        "Milliseconds" => whole(1_000_000),
        "Microseconds" => whole(1_000),
        "Nanoseconds" => whole(1),
        "Abs" => duration(nanoseconds.checked_abs().unwrap_or(i64::MAX)),
        "Round" | "Truncate" => {
            let is_round = name == "Round";
            return Some(Arc::new(Function::new(
                name,
                [Type::Named(DURATION)],
                move |_, args| {
                    let unit = args.first().map_or(0, duration_of);
                    Ok(duration(match is_round {
                        true => rounded(nanoseconds, unit),
                        false if unit <= 0 => nanoseconds,
                        false => nanoseconds - nanoseconds % unit,
                    }))
                },
            )));
        }
        _ => return None,
    };
    Some(constant(name, value))
}

/// `Duration.Round`: halves away from zero.
pub(super) fn rounded(nanoseconds: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanoseconds;
    }
    let rest = nanoseconds % unit;
    let is_less = rest.unsigned_abs() * 2 < unit.unsigned_abs();
    let down = nanoseconds - rest;
    if is_less {
        return down;
    }
    match nanoseconds < 0 {
        true => down.checked_sub(unit).unwrap_or(i64::MIN),
        false => down.checked_add(unit).unwrap_or(i64::MAX),
    }
}

/// A zone as a value.
#[derive(Debug)]
pub(super) struct Location(pub(super) Zone);

impl Object for Location {
    fn type_name(&self) -> &'static str {
        LOCATION
    }

    fn method(&self, name: &str) -> Option<Arc<Function>> {
        (name == "String").then(|| constant(name, Value::string(self.0.name())))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_type().is_some_and(|other: &Self| self.0.is(&other.0))
    }

    fn is_like(&self, other: &dyn Object) -> bool {
        other.as_type().is_some_and(|other: &Self| self.0.is_like(&other.0))
    }

    fn text(&self) -> Option<String> {
        Some(self.0.name().lossy().into_owned())
    }
}

/// The zone that a value is.
pub(super) fn zone_of(value: &Value) -> Result<Zone, Fault> {
    let location = value.object().map(|location: &Location| location.0.clone());
    location.ok_or_else(|| Fault::from("time: missing Location in call to Time.In"))
}
