//! Rules of the settings of kubelets (gardener/gardener v1.150 pkg/api/core/validation/shoot.go).

use api_core::v1beta1::{ImagePullCredentialsVerificationPolicy, KubeletConfig, SwapBehavior};
use api_meta::GoDuration;

use crate::checks::known;
use crate::feature_gates::validate_feature_gates;
use crate::shoot_components::{at_least, not_negative};
use crate::{FieldError, Path, quantity, versions};

/// Least processes and threads of a pod: fewer would stop the kubelet's own.
const PIDS_MIN: i64 = 100;
/// First minor version with policies for credentials of images.
const IMAGE_POLICY_FROM: u64 = 35;
const CPU_POLICIES: [&str; 2] = ["none", "static"];

/// Everything that is wrong with a kubelet's settings but for `maxPods`.
pub(crate) fn validate_kubelet(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig, version: &str) {
    if let Some(policy) = &kubelet.cpu_manager_policy {
        let is_known = CPU_POLICIES.contains(&policy.as_str());
        known(errors, &path.child("cpuManagerPolicy"), is_known, policy, &CPU_POLICIES);
    }
    if let Some(limit) = kubelet.pod_pids_limit.filter(|limit| *limit < PIDS_MIN) {
        errors.push(
            path.child("podPIDsLimit")
                .invalid(limit, format!("must be at least {PIDS_MIN}; raise it")),
        );
    }
    let numbers = [
        ("evictionMaxPodGracePeriod", kubelet.eviction_max_pod_grace_period),
        ("registryPullQPS", kubelet.registry_pull_qps),
        ("registryBurst", kubelet.registry_burst),
    ];
    for (field, number) in numbers {
        not_negative(errors, &path.child(field), number);
    }
    let zero = GoDuration::default();
    let durations = [
        (
            "evictionPressureTransitionPeriod",
            kubelet.eviction_pressure_transition_period,
        ),
        ("imageMinimumGCAge", kubelet.image_minimum_gc_age),
        ("imageMaximumGCAge", kubelet.image_maximum_gc_age),
    ];
    for (field, duration) in durations {
        at_least(errors, &path.child(field), duration, zero);
    }
    validate_images(errors, path, kubelet, version);
    validate_logs(errors, path, kubelet);
    validate_swap(errors, path, kubelet);
    validate_reserved(errors, path, kubelet);
    validate_feature_gates(errors, &path.child("featureGates"), &kubelet.feature_gates, version);
}

fn validate_images(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig, version: &str) {
    let (high, low) = (
        kubelet.image_gc_high_threshold_percent,
        kubelet.image_gc_low_threshold_percent,
    );
    for (field, percent) in [
        ("imageGCHighThresholdPercent", high),
        ("imageGCLowThresholdPercent", low),
    ] {
        if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
            errors.push(
                path.child(field)
                    .invalid(percent, "must be between 0 and 100; take a percentage"),
            );
        }
    }
    if let (Some(high), Some(low)) = (high, low)
        && low >= high
    {
        errors.push(path.child("imageGCLowThresholdPercent").forbidden(format!(
            "must be below imageGCHighThresholdPercent, which is {high}, and is {low}; lower it"
        )));
    }
    if let Some(pulls) = kubelet.max_parallel_image_pulls {
        let path = path.child("maxParallelImagePulls");
        if pulls < 1 {
            errors.push(path.invalid(pulls, "must be at least 1; raise it"));
        }
        if kubelet.serialize_image_pulls == Some(true) && pulls > 1 {
            errors.push(path.forbidden("must be 1 when serializeImagePulls is true; set that to false"));
        }
    }
    if let Some(policy) = &kubelet.image_pull_credentials_verification_policy {
        let path = path.child("imagePullCredentialsVerificationPolicy");
        if !versions::is_from(version, IMAGE_POLICY_FROM) {
            errors.push(path.forbidden(format!("needs Kubernetes 1.{IMAGE_POLICY_FROM} or newer; remove it")));
        }
        let known_words = ImagePullCredentialsVerificationPolicy::KNOWN;
        known(errors, &path, policy.is_known(), policy.as_str(), known_words);
    }
}

fn validate_logs(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig) {
    if let Some(files) = kubelet.container_log_max_files.filter(|files| *files < 2) {
        errors.push(
            path.child("containerLogMaxFiles")
                .invalid(files, "must be at least 2; raise it"),
        );
    }
    let size = kubelet.container_log_max_size.as_ref();
    if let Some(size) = size.filter(|size| quantity::value(&size.0).is_none_or(|size| size < 0.0)) {
        errors.push(
            path.child("containerLogMaxSize")
                .invalid(&size.0, "must be a quantity that is not negative; write it as \"10Mi\""),
        );
    }
    let (least, most) = (GoDuration::from_secs(30), GoDuration::from_hours(4));
    let idle = kubelet.streaming_connection_idle_timeout;
    if let Some(idle) = idle.filter(|idle| !(least.as_nanos()..=most.as_nanos()).contains(&idle.as_nanos())) {
        let words = format!("must be between {least} and {most}; take {most} when in doubt");
        errors.push(path.child("streamingConnectionIdleTimeout").invalid(idle, words));
    }
}

fn validate_swap(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig) {
    let Some(swap) = &kubelet.memory_swap else { return };
    let path = path.child("memorySwap");
    if kubelet.fail_swap_on == Some(true) {
        errors.push(path.forbidden(
            "needs failSwapOn: false, because kubelets with true do not start on nodes with swap; set that to false",
        ));
    }
    if let Some(behavior) = &swap.swap_behavior {
        if kubelet.feature_gates.get("NodeSwap") != Some(&true) {
            errors.push(path.forbidden("needs feature gate NodeSwap; switch it on"));
        }
        let path = path.child("swapBehavior");
        known(
            errors,
            &path,
            behavior.is_known(),
            behavior.as_str(),
            SwapBehavior::KNOWN,
        );
    }
}

fn validate_reserved(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig) {
    let Some(reserved) = &kubelet.kube_reserved else { return };
    let sizes = [
        ("cpu", &reserved.cpu),
        ("memory", &reserved.memory),
        ("ephemeralStorage", &reserved.ephemeral_storage),
        ("pid", &reserved.pid),
    ];
    for (field, size) in sizes {
        if let Some(size) = size
            .as_ref()
            .filter(|size| quantity::value(&size.0).is_none_or(|size| size < 0.0))
        {
            let path = path.child("kubeReserved").child(field);
            errors.push(path.invalid(&size.0, "must be a quantity that is not negative; write it as \"10Mi\""));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wrong(kubelet: Value) -> Vec<String> {
        let kubelet: KubeletConfig = serde_json::from_value(kubelet).unwrap();
        let mut errors = Vec::new();
        validate_kubelet(&mut errors, &Path::new("k"), &kubelet, "1.34.1");
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn each_rule_names_its_field() {
        let cases = [
            (json!({"cpuManagerPolicy": "dynamic"}), "cpuManagerPolicy"),
            (json!({"podPidsLimit": 99}), "podPIDsLimit"),
            (json!({"evictionMaxPodGracePeriod": -1}), "evictionMaxPodGracePeriod"),
            (json!({"registryPullQPS": -1}), "registryPullQPS"),
            (json!({"registryBurst": -1}), "registryBurst"),
            (
                json!({"evictionPressureTransitionPeriod": "-1s"}),
                "evictionPressureTransitionPeriod",
            ),
            (json!({"imageMinimumGCAge": "-1s"}), "imageMinimumGCAge"),
            (json!({"imageMaximumGCAge": "-1s"}), "imageMaximumGCAge"),
            (
                json!({"imageGCHighThresholdPercent": 101}),
                "imageGCHighThresholdPercent",
            ),
            (json!({"imageGCLowThresholdPercent": -1}), "imageGCLowThresholdPercent"),
            (
                json!({"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}),
                "imageGCLowThresholdPercent",
            ),
            (json!({"maxParallelImagePulls": 0}), "maxParallelImagePulls"),
            (
                json!({"maxParallelImagePulls": 2, "serializeImagePulls": true}),
                "maxParallelImagePulls",
            ),
            (
                json!({"imagePullCredentialsVerificationPolicy": "NeverVerify"}),
                "imagePullCredentialsVerificationPolicy",
            ),
            (json!({"containerLogMaxFiles": 1}), "containerLogMaxFiles"),
            (json!({"containerLogMaxSize": "-1Mi"}), "containerLogMaxSize"),
            (
                json!({"streamingConnectionIdleTimeout": "1s"}),
                "streamingConnectionIdleTimeout",
            ),
            (json!({"memorySwap": {}, "failSwapOn": true}), "memorySwap"),
            (json!({"memorySwap": {"swapBehavior": "LimitedSwap"}}), "memorySwap"),
            (json!({"kubeReserved": {"cpu": "-1"}}), "kubeReserved.cpu"),
            (json!({"featureGates": {"Nothing": true}}), "featureGates.Nothing"),
        ];
        for (kubelet, expected) in cases {
            assert_eq!(wrong(kubelet), [format!("k.{expected}")]);
        }
        assert_eq!(
            wrong(json!({"memorySwap": {"swapBehavior": "LimitedSwap"}, "featureGates": {"NodeSwap": true}})),
            [""; 0]
        );
    }
}
