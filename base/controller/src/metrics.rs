//! What a controller counts. Labels are few and bounded: the controller's name and the fault's class.

use std::time::Duration;

use api_meta::FaultClass;
use base_telemetry::Metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

type Labels = Vec<(String, String)>;

/// Bounds of the duration buckets, in seconds: from a no-op to the longest wait an extension may need.
const BUCKETS_SECONDS: [f64; 8] = [0.01, 0.05, 0.2, 1.0, 5.0, 30.0, 120.0, 600.0];

#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    labels: Labels,
    reconciles: Family<Labels, Counter>,
    faults: Family<Labels, Counter>,
    durations: Family<Labels, Histogram>,
    depth: Family<Labels, Gauge>,
}

impl ControllerMetrics {
    pub(crate) fn new(metrics: &Metrics, controller: &str) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS_SECONDS);
        Self {
            labels: vec![("controller".to_owned(), controller.to_owned())],
            reconciles: metrics.register("reconciles", "Reconciles that have ended", Family::default),
            faults: metrics.register(
                "reconcile_faults",
                "Reconciles that ended with a fault",
                Family::default,
            ),
            durations: metrics.register("reconcile_seconds", "How long reconciles took", || {
                Family::new_with_constructor(histogram)
            }),
            depth: metrics.register(
                "reconcile_queue_depth",
                "Objects that wait to be reconciled",
                Family::default,
            ),
        }
    }

    pub(crate) fn reconciled(&self, took: Duration, fault: Option<FaultClass>) {
        self.reconciles.get_or_create(&self.labels).inc();
        self.durations.get_or_create(&self.labels).observe(took.as_secs_f64());
        if let Some(class) = fault {
            let mut labels = self.labels.clone();
            labels.push(("class".to_owned(), class.as_str().to_owned()));
            self.faults.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn depth(&self, depth: usize) {
        self.depth
            .get_or_create(&self.labels)
            .set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}
