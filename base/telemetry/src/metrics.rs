//! A registry of metrics as a value. Cloning gives another handle to the same registry.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::{Metric, Registry};

/// The content type of what [`Metrics::encode`] writes.
pub const OPENMETRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What all metrics of ours begin with.
const PREFIX: &str = "orangery";

/// The metrics of one process (or of one landscape in a test).
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Inner>>);

struct Inner {
    registry: Registry,
    families: Vec<(String, Box<dyn std::any::Any + Send>)>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            registry: Registry::with_prefix(PREFIX),
            families: Vec::new(),
        })))
    }
}

impl Metrics {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// The metric called `orangery_<name>`: the one registered under this name before, so that many parts of a
    /// process share one family, else `make()`. A name registered before with another type gives a metric
    /// that is not exported.
    pub fn register<M: Metric + Clone + 'static>(&self, name: &str, help: &str, make: impl FnOnce() -> M) -> M {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = inner.families.iter().find(|(known, _)| known == name) {
            return known.downcast_ref::<M>().cloned().unwrap_or_else(make);
        }
        let metric = make();
        inner.registry.register(name, help, metric.clone());
        inner.families.push((name.to_owned(), Box::new(metric.clone())));
        metric
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> String {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing into a String cannot fail; a metric that cannot print itself ends the text early.
        let _ = encode(&mut text, &inner.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn one_name_is_one_metric_however_often_it_is_requested() {
        let metrics = Metrics::new();
        let reconciles = || {
            metrics
                .clone()
                .register("reconciles", "How many", Counter::<u64>::default)
        };
        reconciles().inc();
        reconciles().inc();
        let mistaken = metrics.register("reconciles", "Other type", Gauge::<i64>::default);
        mistaken.set(7);
        assert!(
            metrics.encode().contains("orangery_reconciles_total 2\n"),
            "{}",
            metrics.encode()
        );
        assert_eq!(metrics.encode().matches("# TYPE").count(), 1);
    }
}
