//! Metrics in Prometheus' text format. It counts nothing.

use std::fmt::Write;
use std::time::Duration;

/// Upper bounds of the buckets of histograms, in milliseconds: kube-apiserver's
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go).
pub(crate) const BOUNDS_MS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000, 20_000,
    30_000, 45_000, 60_000,
];

/// The HELP and TYPE lines of a metric.
pub(crate) fn describe(text: &mut String, (name, type_): (&str, &str), help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}");
    let _ = writeln!(text, "# TYPE {name} {type_}");
}

/// The lines of a histogram over [`BOUNDS_MS`]: `within` counts each bucket without those below it.
pub(crate) fn histogram(
    text: &mut String,
    name: &str,
    labels: &str,
    within: impl IntoIterator<Item = u64>,
    (count, sum): (u64, Duration),
) {
    let mut below = 0;
    for (bound, within) in BOUNDS_MS.iter().zip(within) {
        below += within;
        let bound = Duration::from_millis(*bound).as_secs_f64();
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}", sum.as_secs_f64());
    let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
}

pub(crate) fn family(
    text: &mut String,
    (name, type_): (&str, &str),
    help: &str,
    values: impl IntoIterator<Item = (String, u64)>,
) {
    describe(text, (name, type_), help);
    for (labels, value) in values {
        let _ = match labels.as_str() {
            "" => writeln!(text, "{name} {value}"),
            labels => writeln!(text, "{name}{{{labels}}} {value}"),
        };
    }
}
