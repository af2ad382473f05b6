//! Stand-ins: definitions of kinds that belong to other programs and that extensions' charts and programs expect in a
//! seed. A stand-in has the real kind's group, names, versions and scope, and keeps every field; nothing works on its
//! objects. Facts: gardener/gardener v1.150 `example/seed-crds` and `pkg/component`, gardener/etcd-druid v0.38
//! `api/core/v1alpha1/crds`.
//!
//! Kinds of extensions themselves (`cert.gardener.cloud`, `dns.gardener.cloud`) have none: their charts bring them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::object::typed;

/// The label of a stand-in; its value is `true`.
pub const STAND_IN: &str = "orangery.dev/stand-in";

/// Kubernetes protects its own groups: their kinds name the review that approved them.
const APPROVED: &str = "api-approved.kubernetes.io";
/// The review of the vertical pod autoscaler's kinds.
const APPROVED_BY: &str = "https://github.com/kubernetes/kubernetes/pull/63797";

/// Kinds of one program.
struct Family {
    group: &'static str,
    categories: &'static [&'static str],
    /// Whether their status is a subresource.
    has_status: bool,
    kinds: &'static [Kind],
}

/// One kind: its name, its plural, its short name (empty: none), its scope and its versions, the stored one first. Its
/// singular is the name in lower case.
struct Kind(&'static str, &'static str, &'static str, Scope, &'static [&'static str]);

#[derive(Clone, Copy)]
enum Scope {
    Cluster,
    Namespaced,
}
use Scope::{Cluster, Namespaced};

const V1: &[&str] = &["v1"];
const V1ALPHA1: &[&str] = &["v1alpha1"];
const V1ALPHA2: &[&str] = &["v1alpha2"];
const V1ALPHA3: &[&str] = &["v1alpha3"];
const ISTIO: &[&str] = &["v1", "v1beta1", "v1alpha3"];

const FAMILIES: [Family; 6] = [
    Family {
        group: "autoscaling.k8s.io",
        categories: &[],
        has_status: true,
        kinds: &[Kind(
            "VerticalPodAutoscaler",
            "verticalpodautoscalers",
            "vpa",
            Namespaced,
            V1,
        )],
    },
    Family {
        group: "autoscaling.k8s.io",
        categories: &[],
        has_status: false,
        kinds: &[Kind(
            "VerticalPodAutoscalerCheckpoint",
            "verticalpodautoscalercheckpoints",
            "vpacheckpoint",
            Namespaced,
            V1,
        )],
    },
    Family {
        group: "druid.gardener.cloud",
        categories: &[],
        has_status: true,
        kinds: &[
            Kind("Etcd", "etcds", "", Namespaced, V1ALPHA1),
            Kind("EtcdCopyBackupsTask", "etcdcopybackupstasks", "", Namespaced, V1ALPHA1),
        ],
    },
    Family {
        group: "fluentbit.fluent.io",
        categories: &[],
        has_status: false,
        kinds: &[
            Kind("ClusterFilter", "clusterfilters", "cfbf", Cluster, V1ALPHA2),
            Kind(
                "ClusterFluentBitConfig",
                "clusterfluentbitconfigs",
                "cfbc",
                Cluster,
                V1ALPHA2,
            ),
            Kind("ClusterInput", "clusterinputs", "cfbi", Cluster, V1ALPHA2),
            Kind(
                "ClusterMultilineParser",
                "clustermultilineparsers",
                "cfbmp",
                Cluster,
                V1ALPHA2,
            ),
            Kind("ClusterOutput", "clusteroutputs", "cfbo", Cluster, V1ALPHA2),
            Kind("ClusterParser", "clusterparsers", "cfbp", Cluster, V1ALPHA2),
            Kind("Collector", "collectors", "co", Namespaced, V1ALPHA2),
            Kind("Filter", "filters", "fbf", Namespaced, V1ALPHA2),
            Kind("FluentBit", "fluentbits", "fb", Namespaced, V1ALPHA2),
            Kind("FluentBitConfig", "fluentbitconfigs", "fbc", Namespaced, V1ALPHA2),
            Kind("MultilineParser", "multilineparsers", "fbmp", Namespaced, V1ALPHA2),
            Kind("Output", "outputs", "fbo", Namespaced, V1ALPHA2),
            Kind("Parser", "parsers", "fbp", Namespaced, V1ALPHA2),
        ],
    },
    Family {
        group: "monitoring.coreos.com",
        categories: &["prometheus-operator"],
        has_status: true,
        kinds: &[
            Kind("Alertmanager", "alertmanagers", "am", Namespaced, V1),
            Kind(
                "AlertmanagerConfig",
                "alertmanagerconfigs",
                "amcfg",
                Namespaced,
                V1ALPHA1,
            ),
            Kind("PodMonitor", "podmonitors", "pmon", Namespaced, V1),
            Kind("Probe", "probes", "prb", Namespaced, V1),
            Kind("Prometheus", "prometheuses", "prom", Namespaced, V1),
            Kind("PrometheusAgent", "prometheusagents", "promagent", Namespaced, V1ALPHA1),
            Kind("PrometheusRule", "prometheusrules", "promrule", Namespaced, V1),
            Kind("ScrapeConfig", "scrapeconfigs", "scfg", Namespaced, V1ALPHA1),
            Kind("ServiceMonitor", "servicemonitors", "smon", Namespaced, V1),
            Kind("ThanosRuler", "thanosrulers", "ruler", Namespaced, V1),
        ],
    },
    Family {
        group: "networking.istio.io",
        categories: &["istio-io", "networking-istio-io"],
        has_status: true,
        kinds: &[
            Kind("DestinationRule", "destinationrules", "dr", Namespaced, ISTIO),
            Kind("EnvoyFilter", "envoyfilters", "", Namespaced, V1ALPHA3),
            Kind("Gateway", "gateways", "gw", Namespaced, ISTIO),
            Kind("VirtualService", "virtualservices", "vs", Namespaced, ISTIO),
        ],
    },
];

/// Every stand-in.
#[must_use]
pub fn stand_ins() -> Vec<CustomResourceDefinition> {
    FAMILIES
        .iter()
        .flat_map(|family| family.kinds.iter().map(|kind| stand_in(family, kind)))
        .collect()
}

/// Whether a definition in a cluster is a stand-in still: one that its owner has written over keeps the label, and has
/// a schema of its own.
#[must_use]
pub fn is_stand_in(definition: &CustomResourceDefinition) -> bool {
    let labels = definition.metadata.labels.as_ref();
    let labelled = labels.and_then(|labels| labels.get(STAND_IN)).is_some();
    labelled
        && definition.spec.versions.iter().all(|version| {
            let schema = version.schema.as_ref();
            let root = schema.and_then(|schema| schema.open_api_v3_schema.as_ref());
            root.is_some_and(|root| {
                root.properties.is_none() && root.x_kubernetes_preserve_unknown_fields == Some(true)
            })
        })
}

fn stand_in(family: &Family, kind: &Kind) -> CustomResourceDefinition {
    let Family {
        group,
        categories,
        has_status,
        kinds: _,
    } = family;
    let Kind(name, plural, short_name, scope, versions) = kind;
    let mut names = json!({
        "kind": name,
        "listKind": format!("{name}List"),
        "plural": plural,
        "singular": name.to_lowercase(),
    });
    if !short_name.is_empty() {
        names["shortNames"] = json!([short_name]);
    }
    if !categories.is_empty() {
        names["categories"] = json!(categories);
    }
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(place, version)| served(version, place == 0, *has_status))
        .collect();
    let mut metadata = json!({"name": format!("{plural}.{group}"), "labels": {STAND_IN: "true"}});
    if group.ends_with(".k8s.io") {
        metadata["annotations"] = json!({APPROVED: APPROVED_BY});
    }
    typed(json!({
        "metadata": metadata,
        "spec": {
            "group": group,
            "names": names,
            "scope": match scope {
                Cluster => "Cluster",
                Namespaced => "Namespaced",
            },
            "versions": versions,
        },
    }))
}

fn served(version: &str, is_stored: bool, has_status: bool) -> Value {
    let mut served = json!({
        "name": version,
        "served": true,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": {
            "description": "A stand-in: every field is kept, and no program works on it.",
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }},
    });
    if has_status {
        served["subresources"] = json!({"status": {}});
    }
    served
}
