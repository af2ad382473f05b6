//! Rules of a Shoot's maintenance window (gardener/gardener v1.150 pkg/api/core/validation/shoot.go).

use api_core::v1beta1::{Maintenance, MaintenanceTimeWindow};

use crate::{FieldError, Path};

/// Shortest maintenance window.
const WINDOW_MINUTES_MIN: i64 = 30;
/// Longest maintenance window.
const WINDOW_MINUTES_MAX: i64 = 6 * 60;

/// Everything that is wrong with the maintenance window.
pub(crate) fn validate_maintenance(errors: &mut Vec<FieldError>, path: &Path, maintenance: &Maintenance) {
    let Some(MaintenanceTimeWindow { begin, end }) = &maintenance.time_window else {
        return;
    };
    let path = path.child("timeWindow");
    let minutes = |field: &str, text: &str, errors: &mut Vec<FieldError>| {
        let read = window_minute(text);
        if read.is_none() {
            errors.push(
                path.child(field)
                    .invalid(text, "must be a time such as \"220000+0100\""),
            );
        }
        read
    };
    let (Some(from), Some(to)) = (minutes("begin", begin, errors), minutes("end", end, errors)) else {
        return;
    };
    let length = (to - from).rem_euclid(24 * 60);
    if !(WINDOW_MINUTES_MIN..=WINDOW_MINUTES_MAX).contains(&length) {
        errors.push(path.invalid(
            format!("{begin}-{end}"),
            format!("must last between {WINDOW_MINUTES_MIN} and {WINDOW_MINUTES_MAX} minutes, lasts {length}; move begin or end"),
        ));
    }
}

/// Minutes since midnight UTC of `HHMMSS+HHMM`.
fn window_minute(text: &str) -> Option<i64> {
    if !text.is_ascii() || text.len() != 11 {
        return None;
    }
    let number = |from: usize, max: i64| {
        text.get(from..from + 2)?
            .parse::<i64>()
            .ok()
            .filter(|n| (0..=max).contains(n))
    };
    let sign = match &text[6..7] {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    number(4, 59)?;
    Some(number(0, 23)? * 60 + number(2, 59)? - sign * (number(7, 14)? * 60 + number(9, 59)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_window_is_read_in_minutes_of_utc() {
        assert_eq!(window_minute("013000+0200"), Some(-30));
        assert_eq!(window_minute("250000+0000"), None);
    }
}
