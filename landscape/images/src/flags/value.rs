//! Values of flags: what a type takes, and Go's words about what it does not. Types are named as pflag names them
//! (github.com/spf13/pflag v1.0.9, k8s.io/component-base v0.35 cli/flag), but for `configurationMap`, which is named after Go's
//! type; one that is not known here takes everything.

use std::net::IpAddr;
use std::str::FromStr;

use base_go::quoted;

/// Types of which several values add up.
const LISTS: [&str; 9] = [
    "colonSeparatedMultimapStringString",
    "configurationMap",
    "int32Slice",
    "mapStringBool",
    "mapStringString",
    "namedCertKey",
    "stringArray",
    "stringSlice",
    "stringToString",
];
/// Units of Go's durations, in nanoseconds.
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// The form of a quantity, and the suffixes that it may have beside an exponent.
const QUANTITY: &str = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$";
const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];
/// The highest port.
const PORT_MAX: i64 = 65_535;

/// Whether several values of a type add up; else the last one counts.
pub(super) fn is_list(kind: &str) -> bool {
    LISTS.contains(&kind)
}

/// Whether a type takes a value. Errors: pflag's words.
pub(super) fn check(kind: &str, value: &str) -> Result<(), String> {
    let number = |function: &str, why| format!("strconv.{function}: parsing {}: {why}", quoted(value));
    let signed = |bits| integer(value, true, bits).map_err(|why| number("ParseInt", why));
    let unsigned = |bits| integer(value, false, bits).map_err(|why| number("ParseUint", why));
    match kind {
        "bool" => check_boolean(value),
        "int" | "int64" => signed(64),
        "int32" => signed(32),
        "int32Slice" => value.split(',').try_for_each(|part| check("int32", part)),
        "uint" | "uint64" => unsigned(64),
        "uint32" => unsigned(32),
        "uint16" => unsigned(16),
        "float32" => float::<f32>(value).map_err(|why| number("ParseFloat", why)),
        "float64" => float::<f64>(value).map_err(|why| number("ParseFloat", why)),
        "duration" => duration(value),
        "ip" if !value.is_empty() && value.trim().parse::<IpAddr>().is_err() => {
            Err(format!("failed to parse IP: {}", quoted(value)))
        }
        "Level" => verbosity(value),
        "mapStringBool" => pairs(value, |pair| {
            let (key, value) = pair.split_once('=').ok_or("malformed pair, expect string=bool")?;
            let (key, value) = (key.trim(), value.trim());
            check_boolean(value).map_err(|why| format!("invalid value of {key}: {value}, err: {why}"))
        }),
        "mapStringString" if !value.contains('=') => Err("malformed pair, expect string=string".to_owned()),
        "namedCertKey" => named_certificate(value),
        "pattern=N,..." => pairs(value, |pair| match pair.split_once('=') {
            Some((name, level)) if !name.is_empty() && !level.is_empty() && !level.contains('=') => {
                verbosity(level).map_err(|why| format!("parsing verbosity in {}: {why}", quoted(pair)))
            }
            _ => Err(format!("{} does not have the pattern=N format", quoted(pair))),
        }),
        "portRange" => port_range(value.trim()),
        "quantity" => quantity(value),
        "stringToString" => string_to_string(value),
        "version" if value == "raw" || value.starts_with('v') => Ok(()),
        "version" => check_boolean(value),
        _ => Ok(()),
    }
}

/// The same in the words of Go's own library, with the types of etcd v3.6 (pkg/flags).
pub(super) fn check_go(kind: &str, value: &str) -> Result<(), String> {
    let of = |outcome: Result<(), &'static str>| match outcome {
        Err(SYNTAX) => Err("parse error".to_owned()),
        other => other.map_err(str::to_owned),
    };
    if let Some(choices) = kind.strip_prefix("one of ") {
        let is_one = choices.split(',').any(|choice| choice == value);
        return is_one.then_some(()).ok_or_else(|| "invalid value".to_owned());
    }
    if let Some(choices) = kind.strip_prefix("some of ") {
        let is_one = |part: &&str| choices.split(',').any(|choice| choice == *part);
        let wrong = value.split(',').find(|part| !is_one(part));
        return wrong.map_or(Ok(()), |part| Err(format!("invalid value {}", quoted(part))));
    }
    match kind {
        "bool" => check_boolean(value).map_err(|_| "parse error".to_owned()),
        "int" | "int64" => of(integer(value, true, 64)),
        "uint" | "uint64" => of(integer(value, false, 64)),
        "uint32" => check("uint32", value),
        "duration" => duration(value).map_err(|_| "parse error".to_owned()),
        "urls" if value != "*" => value.split(',').try_for_each(|url| etcd_url(url.trim())),
        _ => Ok(()),
    }
}

/// `strconv.ParseBool`.
pub(super) fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

const SYNTAX: &str = "invalid syntax";
const RANGE: &str = "value out of range";

fn check_boolean(value: &str) -> Result<(), String> {
    let why = || format!("strconv.ParseBool: parsing {}: {SYNTAX}", quoted(value));
    boolean(value).map(drop).ok_or_else(why)
}

/// `strconv.ParseInt` and `ParseUint` with base 0: the prefix says the base, and `_` may stand between digits then.
fn integer(value: &str, is_signed: bool, bits: u32) -> Result<(), &'static str> {
    let (is_negative, text) = match value.as_bytes().first() {
        Some(b'-') if is_signed => (true, &value[1..]),
        Some(b'+') if is_signed => (false, &value[1..]),
        _ => (false, value),
    };
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.as_str() {
        text if text.starts_with("0x") => (16, &text[2..]),
        text if text.starts_with("0b") => (2, &text[2..]),
        text if text.starts_with("0o") => (8, &text[2..]),
        text if text.len() > 1 && text.starts_with('0') => (8, &text[1..]),
        text => (10, text),
    };
    let is_prefixed = radix != 10;
    let separated = digits.strip_prefix('_').filter(|_| is_prefixed).unwrap_or(digits);
    let is_well_separated = separated.split('_').all(|part| !part.is_empty());
    let plain: String = separated.chars().filter(|digit| *digit != '_').collect();
    if !is_well_separated || !plain.chars().all(|digit| digit.is_digit(radix)) {
        return Err(SYNTAX);
    }
    let magnitude = u128::from_str_radix(&plain, radix).unwrap_or(u128::MAX);
    let limit = match (is_signed, is_negative) {
        (true, true) => 1 << (bits - 1),
        (true, false) => (1 << (bits - 1)) - 1,
        (false, _) => (1 << bits) - 1,
    };
    (magnitude <= limit).then_some(()).ok_or(RANGE)
}

/// A level of logging: `strconv.ParseUint` with base 10 and 31 bits.
fn verbosity(value: &str) -> Result<(), String> {
    let wrong = |why| Err(format!("strconv.ParseUint: parsing {}: {why}", quoted(value)));
    if value.is_empty() || !value.chars().all(|digit| digit.is_ascii_digit()) {
        return wrong(SYNTAX);
    }
    match value.parse::<u32>() {
        Ok(level) if level < 1 << 31 => Ok(()),
        _ => wrong(RANGE),
    }
}

/// `strconv.ParseFloat`: a number with digits that is infinite is out of range.
fn float<T: FromStr + Into<f64>>(value: &str) -> Result<(), &'static str> {
    let number: f64 = value.parse::<T>().map_err(|_| SYNTAX)?.into();
    let has_digits = value.contains(|digit: char| digit.is_ascii_digit());
    (number.is_finite() || !has_digits).then_some(()).ok_or(RANGE)
}

/// `time.ParseDuration`.
fn duration(value: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", quoted(value));
    let mut rest = value.strip_prefix(['-', '+']).unwrap_or(value);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let is_digit = |one: char| one.is_ascii_digit();
        let behind_whole = rest.trim_start_matches(is_digit);
        let whole = &rest[..rest.len() - behind_whole.len()];
        let fraction = behind_whole.strip_prefix('.').unwrap_or(behind_whole);
        let has_point = fraction.len() < behind_whole.len();
        let behind = if has_point {
            fraction.trim_start_matches(is_digit)
        } else {
            behind_whole
        };
        if whole.is_empty() && (!has_point || behind.len() == fraction.len()) {
            return Err(invalid());
        }
        let end = behind
            .find(|one: char| one == '.' || is_digit(one))
            .unwrap_or(behind.len());
        let (name, next) = behind.split_at(end);
        if name.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(value)));
        }
        let unit = UNITS.into_iter().find(|(unit, _)| *unit == name);
        let Some((_, nanoseconds)) = unit else {
            let (name, value) = (quoted(name), quoted(value));
            return Err(format!("time: unknown unit {name} in duration {value}"));
        };
        let whole: u128 = if whole.is_empty() { Ok(0) } else { whole.parse() }.map_err(|_| invalid())?;
        total = total.saturating_add(whole.saturating_mul(nanoseconds));
        // A fraction adds less than one more unit, which no limit is near to.
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = next;
    }
    Ok(())
}

/// Parts between commas; empty ones do not count.
fn pairs(value: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    value.split(',').filter(|pair| !pair.is_empty()).try_for_each(check)
}

/// Keys with values; a value of the only pair may have commas.
fn string_to_string(value: &str) -> Result<(), String> {
    let pairs: Vec<&str> = match value.matches('=').count() {
        0 | 1 => vec![value],
        _ => value.split(',').collect(),
    };
    let wrong = pairs.into_iter().find(|pair| !pair.contains('='));
    wrong.map_or(Ok(()), |pair| Err(format!("{pair} must be formatted as key=value")))
}

/// `certificate,key` and optionally `:name,...`.
fn named_certificate(value: &str) -> Result<(), String> {
    let files = match value.split_once(':') {
        Some((_, names)) if names.trim().is_empty() => return Err("empty names list is not allowed".to_owned()),
        Some((files, _)) => files,
        None => value,
    };
    if files.split(',').count() != 2 {
        return Err("expected comma separated certificate and key file paths".to_owned());
    }
    Ok(())
}

/// `ParseQuantity` of k8s.io/apimachinery v0.35 (pkg/api/resource/quantity.go), as far as its form goes.
fn quantity(value: &str) -> Result<(), String> {
    let unsigned = value.strip_prefix(['+', '-']).unwrap_or(value);
    let suffix = unsigned.trim_start_matches(|one: char| one == '.' || one.is_ascii_digit());
    let behind = suffix.trim_start_matches(|one| "eEinumkKMGTP".contains(one));
    let power = behind.strip_prefix(['+', '-']).unwrap_or(behind);
    let is_formed = suffix.len() < unsigned.len() && power.chars().all(|digit| digit.is_ascii_digit());
    if !is_formed {
        return Err(format!("quantities must match the regular expression '{QUANTITY}'"));
    }
    let is_exponent = suffix.starts_with(['e', 'E']) && suffix.len() == behind.len() + 1 && !power.is_empty();
    if is_exponent || SUFFIXES.contains(&suffix) {
        return Ok(());
    }
    Err("unable to parse quantity's suffix".to_owned())
}

/// A URL as etcd listens on: `NewURLs` (client/pkg/types/urls.go of etcd v3.6).
fn etcd_url(url: &str) -> Result<(), String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    match scheme {
        "http" | "https" => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (host, behind) = rest.split_at(end);
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
            if !has_port {
                return Err(format!("URL address does not have the form \"host:port\": {url}"));
            }
            if behind.starts_with('/') {
                return Err(format!("URL must not contain a path: {url}"));
            }
            Ok(())
        }
        "unix" | "unixs" => Ok(()),
        _ => Err(format!("URL scheme must be http, https, unix, or unixs: {url}")),
    }
}

/// `PortRange.Set` of k8s.io/apimachinery v0.35 (pkg/util/net/port_range.go).
fn port_range(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    let port = |text: &str| {
        let why = || format!("strconv.Atoi: parsing {}: {SYNTAX}", quoted(text));
        text.parse::<i64>().map_err(|_| why())
    };
    let (low, high) = match (value.split_once('-'), value.split_once('+')) {
        (None, None) => (port(value)?, port(value)?),
        (Some((low, high)), None) => (port(low)?, port(high)?),
        (None, Some((low, offset))) => {
            let low = port(low)?;
            (low, low.saturating_add(port(offset)?))
        }
        (Some(_), Some(_)) => return Err(format!("unable to parse port range: {value}")),
    };
    if low > PORT_MAX || high > PORT_MAX {
        return Err(format!("the port range cannot be greater than {PORT_MAX}: {value}"));
    }
    if high < low {
        return Err(format!("end port cannot be less than start port: {value}"));
    }
    Ok(())
}
