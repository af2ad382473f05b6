//! Moments as `time.Time` of Go 1.26 has them: seconds since the year 1, nanoseconds, and the zone in which they are printed.
//! Sums that are too large wrap around where Go's do.

use super::zone::{Form, Zone};

/// From the year 1 to 1970.
const UNIX: i64 = 62_135_596_800;
/// From the year from which Go counts days to the year 1: so long ago that all counts are positive.
const ABSOLUTE: u64 = 9_223_371_966_606_163_200;
/// Days from that year to 1970.
const ABSOLUTE_DAYS: i64 = 106_751_991_073_400;
const DAY: u64 = 86_400;
/// Nanoseconds in a second.
pub(super) const SECOND: i64 = 1_000_000_000;
/// Days from March 1 of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;
/// Days in 400 years.
const DAYS_OF_ERA: i64 = 146_097;

/// A moment.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    /// Since the year 1 in UTC
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
    pub(super) zone: Zone,
}

/// Date and time of the day of a moment in its zone.
#[derive(Clone, Debug)]
pub(crate) struct Civil {
    pub(super) year: i64,
    /// From 1
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// From 1
    pub(super) day_of_year: i64,
    /// Sunday is 0
    pub(super) weekday: i64,
}

impl Civil {
    /// The year.
    pub(crate) fn year(&self) -> i64 {
        self.year
    }
}

/// Days since 1970 of a date.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_TO_1970
}

/// The date so many days after 1970 began.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let era = days.div_euclid(DAYS_OF_ERA);
    let day_of_era = days.rem_euclid(DAYS_OF_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Whether a year has a February 29.
pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has.
pub(super) fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Time {
    /// `time.Unix`
    pub(crate) fn unix(seconds: i64, nanoseconds: u32, zone: Zone) -> Self {
        Self {
            seconds: seconds.wrapping_add(UNIX),
            nanoseconds,
            zone,
        }
    }

    /// The zero of the type: the year 1.
    pub(super) fn zero() -> Self {
        Self {
            seconds: 0,
            nanoseconds: 0,
            zone: Zone::Utc,
        }
    }

    /// `time.Date`: values out of their range are carried into the next larger unit.
    pub(super) fn date(
        (year, month, day): (i64, i64, i64),
        (hour, minute, second): (i64, i64, i64),
        nanoseconds: u32,
        zone: Zone,
    ) -> Self {
        let months = month.wrapping_sub(1);
        let year = year.wrapping_add(months.div_euclid(12));
        let days = absolute_days(year, months.rem_euclid(12) + 1, day).cast_signed();
        let mut unix = days
            .wrapping_mul(DAY.cast_signed())
            .wrapping_add((hour * 60 + minute) * 60 + second)
            .wrapping_sub(ABSOLUTE_DAYS * DAY.cast_signed());
        let offset = zone.at(unix).offset;
        if offset != 0 {
            let there = unix.wrapping_sub(offset);
            unix = unix.wrapping_sub(zone.at(there).offset);
        }
        Self::unix(unix, nanoseconds, zone)
    }

    /// Seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.seconds.wrapping_sub(UNIX)
    }

    /// Seconds since 1970 in so many parts of a second.
    pub(super) fn unix_in(&self, parts: i64) -> i64 {
        let behind = i64::from(self.nanoseconds) / (SECOND / parts);
        self.unix_seconds().wrapping_mul(parts).wrapping_add(behind)
    }

    /// The same moment in another zone.
    pub(crate) fn within(&self, zone: Zone) -> Self {
        Self { zone, ..self.clone() }
    }

    /// Its date and time of the day in its zone.
    pub(crate) fn civil(&self) -> Civil {
        let offset = self.zone.at(self.unix_seconds()).offset;
        let there = self.seconds.wrapping_add(offset);
        let absolute = there.cast_unsigned().wrapping_add(ABSOLUTE);
        let days = i64::try_from(absolute / DAY).unwrap_or(i64::MAX) - ABSOLUTE_DAYS;
        let second = i64::try_from(absolute % DAY).unwrap_or(0);
        let (year, month, day) = date_of(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            day_of_year: days - days_of(year, 1, 1) + 1,
            weekday: (days + 4).rem_euclid(7),
        }
    }

    /// `Time.Add`
    pub(crate) fn add(&self, duration: i64) -> Self {
        let mut seconds = duration / SECOND;
        let mut nanoseconds = i64::from(self.nanoseconds) + duration % SECOND;
        if nanoseconds >= SECOND {
            seconds += 1;
            nanoseconds -= SECOND;
        } else if nanoseconds < 0 {
            seconds -= 1;
            nanoseconds += SECOND;
        }
        Self {
            seconds: self.add_seconds(seconds),
            nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
            zone: self.zone.clone(),
        }
    }

    /// Up to the largest number of seconds.
    fn add_seconds(&self, more: i64) -> i64 {
        let end = if more > 0 { i64::MAX } else { -i64::MAX };
        self.seconds.checked_add(more).unwrap_or(end)
    }

    /// `Time.Sub`: as long as a duration can be.
    pub(super) fn since(&self, other: &Self) -> i64 {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanoseconds = i128::from(self.nanoseconds) - i128::from(other.nanoseconds);
        let wide = seconds * i128::from(SECOND) + nanoseconds;
        let end = if wide < 0 { i64::MIN } else { i64::MAX };
        i64::try_from(wide).unwrap_or(end)
    }

    /// `Time.AddDate`
    pub(super) fn add_date(&self, years: i64, months: i64, days: i64) -> Self {
        let civil = self.civil();
        let date = (
            civil.year.wrapping_add(years),
            civil.month.wrapping_add(months),
            civil.day.wrapping_add(days),
        );
        let clock = (civil.hour, civil.minute, civil.second);
        Self::date(date, clock, self.nanoseconds, self.zone.clone())
    }

    /// Which parts TOML writes.
    pub(crate) fn form(&self) -> Form {
        self.zone.form()
    }

    /// The moment, to compare by.
    pub(super) fn moment(&self) -> (i64, u32) {
        (self.seconds, self.nanoseconds)
    }

    /// How far it is beyond the last whole multiple of a duration since the year 1: `Time.Truncate` subtracts it.
    pub(super) fn beyond(&self, duration: i64) -> i64 {
        let wide = i128::from(self.seconds) * i128::from(SECOND) + i128::from(self.nanoseconds);
        i64::try_from(wide.rem_euclid(i128::from(duration.max(1)))).unwrap_or(0)
    }
}

/// Go's `dateToAbsDays`: days since the year from which Go counts. What is too large wraps around.
fn absolute_days(year: i64, month: i64, day: i64) -> u64 {
    /// From that year to the year 0.
    const YEARS: u64 = 292_277_022_400;
    let (year, month) = if month < 3 {
        (year.wrapping_sub(1), month + 12)
    } else {
        (year, month)
    };
    let year = year.cast_unsigned().wrapping_add(YEARS);
    let days_of_years = 1461 * (year % 100) / 4;
    let day_of_year = (979 * month - 2919) >> 5;
    let days = days_of_years
        .cast_signed()
        .wrapping_add(day_of_year)
        .wrapping_add(day)
        .wrapping_sub(1);
    (146_097_u64.wrapping_mul(year / 100) / 4).wrapping_add(days.cast_unsigned())
}
