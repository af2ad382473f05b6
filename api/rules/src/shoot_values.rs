//! Rules of single values that a shoot hands on to Kubernetes: labels, sizes, certificates, settings of its servers.
//! No component between the garden and the machine checks them again.

use api_core::v1beta1::{KubeletConfig, ShootSpec, Worker};

use crate::checks::{distinct, is_dns_name};
use crate::shoot_components::not_negative;
use crate::{FieldError, Path, shoot_kubelet};

/// Longest name of a label or annotation, and longest value of a label.
const LABEL_BYTES_MAX: usize = 63;
/// Most pods per node: twice as many addresses make a node network of /16, the largest.
const PODS_MAX: i32 = 32_768;
/// Largest and smallest node network, as prefix lengths.
pub(crate) const NODE_MASKS: std::ops::RangeInclusive<i32> = 16..=28;
const PEM_BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const PEM_END: &str = "-----END CERTIFICATE-----";
/// Admission plug-ins of kube-apiserver 1.33 to 1.36 (kubernetes/kubernetes pkg/kubeapiserver/options/plugins.go).
const ADMISSION_PLUGINS: [&str; 37] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodNodeSelector",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Settings of the shoot's API server and of all kubelets.
pub(crate) fn validate_kubernetes_values(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    if let Some(server) = &spec.kubernetes.kube_api_server {
        let path = path.child("kubeAPIServer");
        if let Some(requests) = &server.requests {
            let path = path.child("requests");
            not_negative(
                errors,
                &path.child("maxMutatingInflight"),
                requests.max_mutating_inflight,
            );
            not_negative(
                errors,
                &path.child("maxNonMutatingInflight"),
                requests.max_non_mutating_inflight,
            );
        }
        let path = path.child("admissionPlugins");
        let names = || server.admission_plugins.iter().map(|plugin| plugin.name.as_str());
        distinct(errors, names(), |index| path.index(index).child("name"));
        for (index, name) in names().enumerate() {
            let path = path.index(index).child("name");
            if name.is_empty() {
                errors.push(path.required("name the plugin"));
            } else if !ADMISSION_PLUGINS.contains(&name) {
                let known = ADMISSION_PLUGINS.join(", ");
                errors.push(path.invalid(
                    name,
                    format!("is no admission plugin of kube-apiserver; it has {known}"),
                ));
            }
        }
    }
    if let Some(kubelet) = &spec.kubernetes.kubelet {
        let version = spec.kubernetes.version.as_deref().unwrap_or_default();
        validate_kubelet(errors, &path.child("kubelet"), kubelet, version);
    }
}

/// What a pool's nodes and disks are given; `version` is the Shoot's, which pools without their own have.
pub(crate) fn validate_pool_values(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker, version: &str) {
    for (key, value) in &pool.labels {
        let path = path.child("labels");
        errors.extend(wrong_key(&path, key));
        if !(value.is_empty() || is_label_word(value)) {
            errors.push(path.key(key).invalid(
                value,
                "must have at most 63 letters, digits, '-', '_' and '.', and start and end with a letter or digit",
            ));
        }
    }
    for key in pool.annotations.keys() {
        errors.extend(wrong_key(&path.child("annotations"), key));
    }
    if pool.ca_bundle.as_deref().is_some_and(|bundle| !is_bundle(bundle)) {
        errors.push(path.child("caBundle").invalid(
            &pool.ca_bundle,
            format!("must be certificates in PEM, each between {PEM_BEGIN:?} and {PEM_END:?}"),
        ));
    }
    let disks = path.child("dataVolumes");
    let sizes = pool.data_volumes.iter().map(|disk| disk.size.as_str()).enumerate();
    let sizes = sizes.map(|(index, size)| (disks.index(index), size));
    let first = pool
        .volume
        .iter()
        .map(|disk| (path.child("volume"), disk.size.as_str()));
    for (path, size) in first.chain(sizes) {
        if !is_size(size) {
            errors.push(
                path.child("size")
                    .invalid(size, "must be a size above zero such as \"50Gi\""),
            );
        }
    }
    let kubernetes = pool.kubernetes.as_ref();
    if let Some(kubelet) = kubernetes.and_then(|kubernetes| kubernetes.kubelet.as_ref()) {
        let version = kubernetes.and_then(|own| own.version.as_deref()).unwrap_or(version);
        validate_kubelet(errors, &path.child("kubernetes.kubelet"), kubelet, version);
    }
}

fn validate_kubelet(errors: &mut Vec<FieldError>, path: &Path, kubelet: &KubeletConfig, version: &str) {
    shoot_kubelet::validate_kubelet(errors, path, kubelet, version);
    if let Some(max_pods) = kubelet.max_pods.filter(|pods| !(1..=PODS_MAX).contains(pods)) {
        errors.push(path.child("maxPods").invalid(
            max_pods,
            format!("must be between 1 and {PODS_MAX}; leave it out for 110"),
        ));
    }
}

/// A label's or annotation's key: a word, with a DNS name and `/` before it or without.
pub(crate) fn wrong_key(path: &Path, key: &str) -> Option<FieldError> {
    let right = match key.split_once('/') {
        Some((prefix, word)) => is_dns_name(prefix) && is_label_word(word),
        None => is_label_word(key),
    };
    (!right).then(|| {
        path.invalid(
            key,
            "a key must be at most 63 letters, digits, '-', '_' and '.', as in \"tier\", after a DNS name and '/' if need be, as in \"example.com/tier\"",
        )
    })
}

pub(crate) fn is_label_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= LABEL_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// A Kubernetes quantity above zero: a decimal number and a unit.
fn is_size(text: &str) -> bool {
    const UNITS: [&str; 14] = [
        "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "m",
    ];
    let end = text
        .find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let exponent = unit.strip_prefix(['e', 'E']).filter(|digits| !digits.is_empty());
    let known = UNITS.contains(&unit) || exponent.is_some_and(|digits| digits.parse::<i8>().is_ok());
    known && number.parse::<f64>().is_ok_and(|number| number > 0.0)
}

/// Whether the text holds certificates and every one that begins also ends.
pub(crate) fn is_bundle(text: &str) -> bool {
    let mut certificates = text.split(PEM_BEGIN).skip(1).peekable();
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=".contains(&byte);
    let whole = |certificate: &str| {
        certificate
            .split_once(PEM_END)
            .is_some_and(|(body, _)| !body.trim().is_empty() && body.bytes().all(letter))
    };
    certificates.peek().is_some() && certificates.all(whole)
}

#[cfg(test)]
mod tests {
    use api_core::v1beta1::Shoot;
    use serde_json::{Value, json};

    use crate::shoot::tests::shoot;
    use crate::validate_shoot;

    /// The texts of what is wrong with a Shoot whose first pool and `spec.kubernetes` have these fields as well.
    fn wrong(pool: Value, kubernetes: Value) -> Vec<String> {
        let mut shoot = serde_json::to_value(shoot()).unwrap();
        let merge = |into: &mut Value, fields: Value| {
            into.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
        };
        merge(&mut shoot["spec"]["provider"]["workers"][0], pool);
        merge(&mut shoot["spec"]["kubernetes"], kubernetes);
        let shoot: Shoot = serde_json::from_value(shoot).unwrap();
        validate_shoot(&shoot).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_that_kubernetes_would_refuse_are_refused_with_their_field() {
        let pool = "spec.provider.workers[0]";
        let pools = [
            (json!({"labels": {"a b": "c"}}), ".labels: Invalid value: \"a b\""),
            (json!({"labels": {"a": "c d"}}), ".labels[a]: Invalid value: \"c d\""),
            (json!({"labels": {"A.b/c/d": "e"}}), ".labels: Invalid value"),
            (
                json!({"annotations": {"x y": "1"}}),
                ".annotations: Invalid value: \"x y\"",
            ),
            (
                json!({"caBundle": "nonsense"}),
                ".caBundle: Invalid value: \"nonsense\"",
            ),
            (
                json!({"volume": {"size": "abc"}}),
                ".volume.size: Invalid value: \"abc\"",
            ),
            (
                json!({"volume": {"size": "0Gi"}}),
                ".volume.size: Invalid value: \"0Gi\"",
            ),
            (
                json!({"dataVolumes": [{"name": "d", "size": "-1Gi"}]}),
                ".dataVolumes[0].size: Invalid value: \"-1Gi\"",
            ),
            (
                json!({"kubernetes": {"kubelet": {"maxPods": 0}}}),
                ".kubernetes.kubelet.maxPods: Invalid value: 0",
            ),
        ];
        let kubernetes = [
            (
                json!({"kubelet": {"maxPods": -5}}),
                "kubelet.maxPods: Invalid value: -5",
            ),
            (
                json!({"kubeAPIServer": {"requests": {"maxMutatingInflight": -1}}}),
                "kubeAPIServer.requests.maxMutatingInflight: Invalid value: -1",
            ),
            (
                json!({"kubeAPIServer": {"admissionPlugins": [{"name": "Nope"}]}}),
                "kubeAPIServer.admissionPlugins[0].name: Invalid value: \"Nope\"",
            ),
        ];
        let pools = pools
            .into_iter()
            .map(|(fields, text)| (wrong(fields, json!({})), format!("{pool}{text}")));
        let kubernetes = kubernetes
            .into_iter()
            .map(|(fields, text)| (wrong(json!({}), fields), format!("spec.kubernetes.{text}")));
        for (found, expected) in pools.chain(kubernetes) {
            assert!(
                found.len() == 1 && found[0].starts_with(&expected),
                "{expected}: {found:?}"
            );
        }
    }

    #[test]
    fn values_that_kubernetes_takes_are_taken() {
        let bundle = "of moon\n-----BEGIN CERTIFICATE-----\nMIIB+/8=\n-----END CERTIFICATE-----\n";
        let pool = json!({
            "labels": {"a": "", "example.com/B_c.d": "E-1"}, "annotations": {"example.com/x": "any thing"},
            "caBundle": bundle, "volume": {"size": "1.5Ti"}, "dataVolumes": [{"name": "d", "size": "1e9"}],
            "kubernetes": {"kubelet": {"maxPods": 250}},
        });
        let kubernetes = json!({"kubeAPIServer": {
            "requests": {"maxMutatingInflight": 0}, "admissionPlugins": [{"name": "PodNodeSelector"}]}});
        assert_eq!(wrong(pool, kubernetes), [""; 0]);
    }
}
