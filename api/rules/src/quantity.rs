//! Sizes of Kubernetes' quantities, to compare them. It never rewrites one.

/// The size that a quantity names; `None` when it is none. Exact enough to compare with bounds.
pub(crate) fn value(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 16] = [
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
        ("Ki", 1_024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
    ];
    let end = text
        .find(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | '-' | '+')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    if let Some((_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) {
        return Some(number * factor);
    }
    let exponent: i32 = unit.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some(number * 10f64.powi(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_exponents_are_read() {
        assert_eq!(value("200M"), Some(200e6));
        assert_eq!(value("1Gi"), Some(1_073_741_824.0));
        assert_eq!(value("-20m"), Some(-0.02));
        assert_eq!(value("1e3"), Some(1e3));
        assert_eq!(value("many"), None);
        assert_eq!(value("1Xi"), None);
    }
}
