//! Defaults of a Shoot's autoscalers, vertical and of its pools (gardener/gardener v1.150
//! pkg/apis/core/v1beta1/defaults_shoot.go). They are filled in only where a Shoot configures the autoscaler at all.

use api_core::v1beta1::{ClusterAutoscaler, ExpanderMode, VerticalPodAutoscaler};
use api_meta::GoDuration;

/// Fills in what the settings of the vertical pod autoscaler leave open.
pub(crate) fn default_vertical(config: &mut VerticalPodAutoscaler) {
    let day = GoDuration::from_hours(24);
    let durations = [
        (&mut config.evict_after_oom_threshold, GoDuration::from_mins(10)),
        (&mut config.updater_interval, GoDuration::from_mins(1)),
        (&mut config.recommender_interval, GoDuration::from_mins(1)),
        (&mut config.cpu_histogram_decay_half_life, day),
        (&mut config.memory_histogram_decay_half_life, day),
        (&mut config.memory_aggregation_interval, day),
    ];
    for (field, default) in durations {
        field.get_or_insert(default);
    }
    let numbers = [
        (&mut config.eviction_rate_limit, -1.0),
        (&mut config.eviction_tolerance, 0.5),
        (&mut config.recommendation_margin_fraction, 0.15),
        (&mut config.target_cpu_percentile, 0.9),
        (&mut config.recommendation_lower_bound_cpu_percentile, 0.5),
        (&mut config.recommendation_upper_bound_cpu_percentile, 0.95),
        (&mut config.target_memory_percentile, 0.9),
        (&mut config.recommendation_lower_bound_memory_percentile, 0.5),
        (&mut config.recommendation_upper_bound_memory_percentile, 0.95),
    ];
    for (field, default) in numbers {
        field.get_or_insert(default);
    }
    config.eviction_rate_burst.get_or_insert(1);
    config.memory_aggregation_interval_count.get_or_insert(8);
    config.recommender_update_worker_count.get_or_insert(10);
}

/// Fills in what the settings of the cluster autoscaler leave open.
pub(crate) fn default_of_pools(config: &mut ClusterAutoscaler) {
    let durations = [
        (&mut config.scale_down_delay_after_add, GoDuration::from_hours(1)),
        (&mut config.scale_down_delay_after_delete, GoDuration::default()),
        (&mut config.scale_down_delay_after_failure, GoDuration::from_mins(3)),
        (&mut config.scale_down_unneeded_time, GoDuration::from_mins(30)),
        (&mut config.scan_interval, GoDuration::from_secs(10)),
        (&mut config.max_node_provision_time, GoDuration::from_mins(20)),
        (&mut config.new_pod_scale_up_delay, GoDuration::default()),
        (
            &mut config.initial_node_group_backoff_duration,
            GoDuration::from_mins(5),
        ),
        (&mut config.max_node_group_backoff_duration, GoDuration::from_mins(30)),
        (&mut config.node_group_backoff_reset_timeout, GoDuration::from_hours(3)),
        (&mut config.max_binpacking_time, GoDuration::from_mins(5)),
    ];
    for (field, default) in durations {
        field.get_or_insert(default);
    }
    config.scale_down_utilization_threshold.get_or_insert(0.5);
    config.expander.get_or_insert(ExpanderMode::LeastWaste);
    config.max_graceful_termination_seconds.get_or_insert(600);
    config.ignore_daemonsets_utilization.get_or_insert(false);
    config.emit_per_node_group_metrics.get_or_insert(false);
    config.verbosity.get_or_insert(2);
    let at_once = config.max_empty_bulk_delete.unwrap_or(10);
    config.max_scale_down_parallelism.get_or_insert(at_once);
    config.max_drain_parallelism.get_or_insert(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_values_stay_and_a_limits_old_name_is_its_default() {
        let mut vertical = VerticalPodAutoscaler {
            eviction_tolerance: Some(0.1),
            ..VerticalPodAutoscaler::default()
        };
        default_vertical(&mut vertical);
        assert_eq!(vertical.eviction_tolerance, Some(0.1));
        assert!(!vertical.enabled);
        let mut pools = ClusterAutoscaler {
            max_empty_bulk_delete: Some(3),
            ..ClusterAutoscaler::default()
        };
        default_of_pools(&mut pools);
        assert_eq!(pools.max_scale_down_parallelism, Some(3));
    }
}
