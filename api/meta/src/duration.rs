//! Durations in Go's spelling, as Gardener's API writes them. It never rounds on output: what Go prints, this prints.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A signed number of nanoseconds, in JSON as Go's `time.Duration` text: `3m0s`, `1h0m0s`, `1.5s`, `0s`.
///
/// Rules of reading and printing follow Go's `time` package (`ParseDuration`, `Duration.String`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

impl GoDuration {
    /// From nanoseconds, which may be negative.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From whole seconds.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND as i64))
    }

    /// From whole minutes.
    pub const fn from_mins(minutes: i64) -> Self {
        Self::from_secs(minutes.saturating_mul(60))
    }

    /// From whole hours.
    pub const fn from_hours(hours: i64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    /// Nanoseconds, negative if the text began with `-`.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// As a standard duration; a negative one is zero.
    pub fn to_std(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Duration> for GoDuration {
    /// Beyond 292 years it saturates.
    fn from(value: Duration) -> Self {
        Self(i64::try_from(value.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl From<GoDuration> for Duration {
    fn from(value: GoDuration) -> Self {
        value.to_std()
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        if nanos == 0 {
            return f.write_str("0s");
        }
        if nanos < NANOS_PER_SECOND {
            let (unit, size) = match nanos {
                0..1_000 => ("ns", 1),
                1_000..1_000_000 => ("µs", 1_000),
                _ => ("ms", 1_000_000),
            };
            return write!(f, "{sign}{}{unit}", decimal(nanos, size));
        }
        let (minutes, rest) = (nanos / (60 * NANOS_PER_SECOND), nanos % (60 * NANOS_PER_SECOND));
        let seconds = decimal(rest, NANOS_PER_SECOND);
        match (minutes / 60, minutes % 60) {
            (0, 0) => write!(f, "{sign}{seconds}s"),
            (0, minutes) => write!(f, "{sign}{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{sign}{hours}h{minutes}m{seconds}s"),
        }
    }
}

/// `nanos / size` without trailing zeros.
fn decimal(nanos: u64, size: u64) -> String {
    let (whole, fraction) = (nanos / size, nanos % size);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = size.to_string().len() - 1;
    let text = format!("{whole}.{fraction:0digits$}");
    text.trim_end_matches('0').to_owned()
}

/// The text is not a Go duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {0:?}, expected numbers with units such as \"1h30m\" (ns, us, ms, s, m, h)")]
pub struct ParseGoDurationError(String);

impl FromStr for GoDuration {
    type Err = ParseGoDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseGoDurationError(text.to_owned());
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(error());
        }
        let mut nanos: i128 = 0;
        while !rest.is_empty() {
            let (part, next) = leading_part(rest).ok_or_else(error)?;
            nanos = nanos.checked_add(part).ok_or_else(error)?;
            rest = next;
        }
        let signed = if negative { -nanos } else { nanos };
        i64::try_from(signed).map(Self).map_err(|_| error())
    }
}

/// Reads one `<number><unit>` and gives its nanoseconds and what follows.
fn leading_part(text: &str) -> Option<(i128, &str)> {
    let number_len = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(number_len);
    let unit_len = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_len);
    let size: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(size)?;
    let mut scale = size;
    for digit in fraction.bytes() {
        scale /= 10;
        nanos += i128::from(digit - b'0') * scale;
    }
    Some((nanos, rest))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "duration"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_as_go_prints_them() {
        let cases = [
            ("3m", "3m0s"),
            ("1h", "1h0m0s"),
            ("1.5s", "1.5s"),
            ("90m", "1h30m0s"),
            ("0", "0s"),
            ("-1.5h", "-1h30m0s"),
            ("1h0m0.000000001s", "1h0m0.000000001s"),
            ("1500us", "1.5ms"),
            ("1.1µs", "1.1µs"),
            ("25ns", "25ns"),
            (".5m", "30s"),
            ("36h15m", "36h15m0s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", "-2562047h47m16.854775808s"),
        ];
        for (input, printed) in cases {
            let duration: GoDuration = input.parse().unwrap_or_else(|e| panic!("{input}: {e}"));
            assert_eq!(duration.to_string(), printed, "{input}");
            assert_eq!(printed.parse(), Ok(duration), "{printed}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in ["", "3", "-", "s", ".s", "1d", "1.2.3s", "1h 2m", "3000000h", "1e3s"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn json_form_is_the_text() {
        let duration: GoDuration = serde_json::from_str(r#""3m""#).unwrap();
        assert_eq!(duration, GoDuration::from_mins(3));
        assert_eq!(serde_json::to_string(&duration).unwrap(), r#""3m0s""#);
        assert_eq!(GoDuration::from_secs(-5).to_std(), Duration::ZERO);
        assert_eq!(GoDuration::from(Duration::MAX).as_nanos(), i64::MAX);
    }
}
