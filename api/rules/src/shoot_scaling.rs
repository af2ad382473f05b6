//! Rules of the settings of autoscalers (gardener/gardener v1.150 pkg/api/core/validation/shoot.go).

use std::collections::BTreeMap;

use api_core::v1beta1::{ClusterAutoscaler, ExpanderMode, VerticalPodAutoscaler};
use api_meta::GoDuration;

use crate::checks::distinct;
use crate::shoot_components::{at_least, not_negative, validate_autoscaling, validate_resources};
use crate::shoot_settle::NO_EMPTY_BULK_DELETE_FROM;
use crate::{FieldError, Path, versions};

/// First minor version without `ignoreTaints`.
const NO_IGNORED_TAINTS_FROM: u64 = 33;
const LEAST: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "30M")];

/// Everything that is wrong with the settings of the cluster autoscaler.
pub(crate) fn validate_cluster_autoscaler(
    errors: &mut Vec<FieldError>,
    path: &Path,
    config: &ClusterAutoscaler,
    version: &str,
) {
    let durations = [
        ("scaleDownDelayAfterAdd", config.scale_down_delay_after_add),
        ("scaleDownDelayAfterDelete", config.scale_down_delay_after_delete),
        ("scaleDownDelayAfterFailure", config.scale_down_delay_after_failure),
        ("scaleDownUnneededTime", config.scale_down_unneeded_time),
        ("scanInterval", config.scan_interval),
        ("maxNodeProvisionTime", config.max_node_provision_time),
        ("newPodScaleUpDelay", config.new_pod_scale_up_delay),
        (
            "initialNodeGroupBackoffDuration",
            config.initial_node_group_backoff_duration,
        ),
        ("maxNodeGroupBackoffDuration", config.max_node_group_backoff_duration),
        ("nodeGroupBackoffResetTimeout", config.node_group_backoff_reset_timeout),
        ("maxBinpackingTime", config.max_binpacking_time),
    ];
    for (field, duration) in durations {
        at_least(errors, &path.child(field), duration, GoDuration::default());
    }
    let numbers = [
        ("maxGracefulTerminationSeconds", config.max_graceful_termination_seconds),
        ("maxScaleDownParallelism", config.max_scale_down_parallelism),
        ("maxDrainParallelism", config.max_drain_parallelism),
        ("verbosity", config.verbosity),
        ("maxEmptyBulkDelete", config.max_empty_bulk_delete),
    ];
    for (field, number) in numbers {
        not_negative(errors, &path.child(field), number);
    }
    let threshold = config.scale_down_utilization_threshold;
    if let Some(threshold) = threshold.filter(|threshold| !(0.0..=1.0).contains(threshold)) {
        errors.push(
            path.child("scaleDownUtilizationThreshold")
                .invalid(threshold, "must be between 0 and 1; take 0.5 when in doubt"),
        );
    }
    if let Some(expander) = &config.expander {
        let mut modes = expander.as_str().split(',');
        if modes.any(|mode| !ExpanderMode::KNOWN.contains(&mode)) {
            errors.push(
                path.child("expander")
                    .not_supported(expander.as_str(), ExpanderMode::KNOWN),
            );
        }
    }
    if let Some(at_once) = config.max_empty_bulk_delete {
        let path = path.child("maxEmptyBulkDelete");
        if versions::is_from(version, NO_EMPTY_BULK_DELETE_FROM) {
            errors.push(path.forbidden(format!(
                "Kubernetes 1.{NO_EMPTY_BULK_DELETE_FROM} and newer do not have this field; use maxScaleDownParallelism"
            )));
        }
        if let Some(newer) = config.max_scale_down_parallelism.filter(|newer| *newer != at_once) {
            errors.push(path.invalid(
                at_once,
                format!("must be the same as maxScaleDownParallelism, {newer}; remove it"),
            ));
        }
    }
    validate_taints(errors, path, config, version);
    validate_autoscaling(errors, &path.child("autoscaling"), config.autoscaling.as_ref(), &LEAST);
}

fn validate_taints(errors: &mut Vec<FieldError>, path: &Path, config: &ClusterAutoscaler, version: &str) {
    let lists = [
        ("startupTaints", &config.startup_taints),
        ("statusTaints", &config.status_taints),
        ("ignoreTaints", &config.ignore_taints),
    ];
    for (field, taints) in lists {
        let path = path.child(field);
        distinct(errors, taints.iter().map(String::as_str), |index| path.index(index));
    }
    if !config.ignore_taints.is_empty() && versions::is_from(version, NO_IGNORED_TAINTS_FROM) {
        errors.push(path.child("ignoreTaints.IgnoreTaints").forbidden(format!(
            "Kubernetes 1.{NO_IGNORED_TAINTS_FROM} and newer do not have this field; use startupTaints or statusTaints"
        )));
    }
}

/// Everything that is wrong with the settings of the vertical pod autoscaler.
pub(crate) fn validate_vertical_autoscaler(errors: &mut Vec<FieldError>, path: &Path, config: &VerticalPodAutoscaler) {
    let durations = [
        ("evictAfterOOMThreshold", config.evict_after_oom_threshold),
        ("updaterInterval", config.updater_interval),
        ("recommenderInterval", config.recommender_interval),
        ("cpuHistogramDecayHalfLife", config.cpu_histogram_decay_half_life),
        ("memoryHistogramDecayHalfLife", config.memory_histogram_decay_half_life),
        ("memoryAggregationInterval", config.memory_aggregation_interval),
    ];
    for (field, duration) in durations {
        at_least(errors, &path.child(field), duration, GoDuration::default());
    }
    let fractions = [
        ("evictionTolerance", config.eviction_tolerance),
        ("recommendationMarginFraction", config.recommendation_margin_fraction),
        ("targetCPUPercentile", config.target_cpu_percentile),
        (
            "recommendationLowerBoundCPUPercentile",
            config.recommendation_lower_bound_cpu_percentile,
        ),
        (
            "recommendationUpperBoundCPUPercentile",
            config.recommendation_upper_bound_cpu_percentile,
        ),
        ("targetMemoryPercentile", config.target_memory_percentile),
        (
            "recommendationLowerBoundMemoryPercentile",
            config.recommendation_lower_bound_memory_percentile,
        ),
        (
            "recommendationUpperBoundMemoryPercentile",
            config.recommendation_upper_bound_memory_percentile,
        ),
    ];
    for (field, fraction) in fractions {
        if let Some(fraction) = fraction.filter(|fraction| !(0.0..1.0).contains(fraction)) {
            errors.push(
                path.child(field)
                    .invalid(fraction, "must be at least 0 and below 1; leave it out for the default"),
            );
        }
    }
    let numbers = [
        ("evictionRateBurst", config.eviction_rate_burst.map(i64::from)),
        (
            "memoryAggregationIntervalCount",
            config.memory_aggregation_interval_count,
        ),
        ("recommenderUpdateWorkerCount", config.recommender_update_worker_count),
    ];
    for (field, number) in numbers {
        not_negative(errors, &path.child(field), number);
    }
    validate_resources(errors, &path.child("maxAllowed"), &config.max_allowed, &BTreeMap::new());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn each_rule_of_the_cluster_autoscaler_names_its_field() {
        let cases = [
            (json!({"scanInterval": "-1s"}), "scanInterval"),
            (json!({"maxBinpackingTime": "-1s"}), "maxBinpackingTime"),
            (json!({"maxDrainParallelism": -1}), "maxDrainParallelism"),
            (
                json!({"scaleDownUtilizationThreshold": 1.5}),
                "scaleDownUtilizationThreshold",
            ),
            (json!({"expander": "random,wild"}), "expander"),
            (json!({"maxEmptyBulkDelete": 2}), "maxEmptyBulkDelete"),
            (json!({"ignoreTaints": ["a"]}), "ignoreTaints.IgnoreTaints"),
            (json!({"startupTaints": ["a", "a"]}), "startupTaints[1]"),
            (
                json!({"autoscaling": {"minAllowed": {"cpu": "1m"}}}),
                "autoscaling.minAllowed.cpu",
            ),
        ];
        let wrong = |config: &Value, version: &str| -> Vec<String> {
            let config: ClusterAutoscaler = serde_json::from_value(config.clone()).unwrap();
            let mut errors = Vec::new();
            validate_cluster_autoscaler(&mut errors, &Path::new("c"), &config, version);
            errors.into_iter().map(|error| error.path).collect()
        };
        for (config, expected) in cases {
            assert_eq!(wrong(&config, "1.34.1"), [format!("c.{expected}")]);
        }
        assert_eq!(wrong(&json!({"expander": "random,priority"}), "1.34.1"), [""; 0]);
        let both = json!({"maxEmptyBulkDelete": 2, "maxScaleDownParallelism": 3});
        assert_eq!(wrong(&both, "1.32.1"), ["c.maxEmptyBulkDelete"]);
    }

    #[test]
    fn each_rule_of_the_vertical_autoscaler_names_its_field() {
        let cases = [
            (json!({"updaterInterval": "-1s"}), "updaterInterval"),
            (json!({"evictionTolerance": 1}), "evictionTolerance"),
            (json!({"targetCPUPercentile": -0.1}), "targetCPUPercentile"),
            (json!({"evictionRateBurst": -1}), "evictionRateBurst"),
            (json!({"maxAllowed": {"disk": "1"}}), "maxAllowed.disk"),
        ];
        for (config, expected) in cases {
            let config: VerticalPodAutoscaler = serde_json::from_value(config).unwrap();
            let mut errors = Vec::new();
            validate_vertical_autoscaler(&mut errors, &Path::new("v"), &config);
            let paths: Vec<String> = errors.into_iter().map(|error| error.path).collect();
            assert_eq!(paths, [format!("v.{expected}")]);
        }
    }
}
