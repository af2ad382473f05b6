//! Shoots: the clusters that users ask for (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{CrossVersionObjectReference, NamedResourceReference, RawJson, kind, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AccessRestrictionWithOptions, CloudProfileReference, Extension, Hibernation, HighAvailability, IPFamily,
    Kubernetes, Maintenance, Provider, SeedSelector, ShootStatus, Toleration,
};

/// A Kubernetes cluster as a service.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Shoot {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ShootSpec,
    /// What is known.
    pub status: Option<ShootStatus>,
}

kind!(Shoot, "core.gardener.cloud", "v1beta1", "shoots", Namespaced, { metadata, spec } optional { status });

/// A shoot to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootTemplate {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<ShootSpec>,
}

/// What the cluster shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootSpec {
    /// Optional software inside the shoot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addons: Option<Addons>,
    /// Name of a CloudProfile: the older way to name `cloudProfile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_profile_name: Option<String>,
    /// Names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DNS>,
    /// Extensions on or off, with their configuration.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub extensions: Vec<Extension>,
    /// When the shoot sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<Hibernation>,
    /// Kubernetes versions and settings.
    pub kubernetes: Kubernetes,
    /// Networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// When and how maintenance is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// Monitoring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// The provider.
    pub provider: Provider,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<ShootPurpose>,
    /// Region of the shoot. Immutable.
    pub region: String,
    /// SecretBinding in the project's namespace that names the cloud credentials: the older form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_binding_name: Option<String>,
    /// The seed that runs the control plane; set through the subresource `binding`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// Which seeds may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_selector: Option<SeedSelector>,
    /// Objects that extensions refer to, by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub resources: Vec<NamedResourceReference>,
    /// Taints of seeds that are tolerated.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "key"))]
    pub tolerations: Vec<Toleration>,
    /// The ExposureClass. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure_class_name: Option<String>,
    /// System components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_components: Option<SystemComponents>,
    /// Settings of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlane>,
    /// Who picks the seed; `default-scheduler` if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// The cloud profile: CloudProfile or NamespacedCloudProfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_profile: Option<CloudProfileReference>,
    /// CredentialsBinding in the project's namespace that names the cloud credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_binding_name: Option<String>,
    /// Restrictions on who may access it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub access_restrictions: Vec<AccessRestrictionWithOptions>,
}

string_enum! {
    /// What a shoot is for.
    pub enum ShootPurpose {
        /// Trying out.
        Evaluation = "evaluation",
        /// Tests.
        Testing = "testing",
        /// Development.
        Development = "development",
        /// Production.
        Production = "production",
        /// Infrastructure of this system itself.
        Infrastructure = "infrastructure",
    }
}

/// Optional software inside the shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Addons {
    /// The Kubernetes dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_dashboard: Option<KubernetesDashboard>,
    /// The nginx ingress controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nginx_ingress: Option<NginxIngress>,
}

/// Whether an addon is on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Addon {
    /// Whether it is on.
    pub enabled: bool,
}

/// The Kubernetes dashboard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubernetesDashboard {
    /// Whether it is on.
    pub enabled: bool,
    /// How users log in: `token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_mode: Option<String>,
}

/// The nginx ingress controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NginxIngress {
    /// Whether it is on.
    pub enabled: bool,
    /// Networks that may connect.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Configuration of the controller, key by key.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// `Cluster` or `Local`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<String>,
}

/// The control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControlPlane {
    /// Redundancy of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_availability: Option<HighAvailability>,
    /// Zones of the control plane, if the profile allows to choose them.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

/// Names of the shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNS {
    /// Domain of the shoot: its API server is `api.<domain>`. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Providers.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<DNSProvider>,
}

/// Who serves names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNSProvider {
    /// Domains to include or exclude; no longer used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<DNSIncludeExclude>,
    /// Whether the shoot's own names are made there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// Name of the Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Zones to include or exclude; no longer used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<DNSIncludeExclude>,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CrossVersionObjectReference>,
}

/// What to take in and leave out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNSIncludeExclude {
    /// To take in.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// To leave out.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// Networks of the shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Networking {
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Network of the pods (CIDR). Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<String>,
    /// Network of the nodes (CIDR). Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Network of the services (CIDR). Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<String>,
    /// IP families; one, or two for dual-stack.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<IPFamily>,
}

/// Monitoring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Monitoring {
    /// Who gets alerts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerting: Option<Alerting>,
}

/// Who gets alerts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Alerting {
    /// Addresses that get alerts.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub email_receivers: Vec<String>,
}

/// Settings of system components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SystemComponents {
    /// Settings of CoreDNS.
    #[serde(rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<CoreDNS>,
    /// A DNS cache on every node.
    #[serde(rename = "nodeLocalDNS", skip_serializing_if = "Option::is_none")]
    pub node_local_dns: Option<NodeLocalDNS>,
}

/// Settings of CoreDNS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CoreDNS {
    /// How the number of DNS servers follows the cluster's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<CoreDNSAutoscaling>,
    /// Rewriting of queries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewriting: Option<CoreDNSRewriting>,
}

/// How the number of DNS servers follows the cluster's size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CoreDNSAutoscaling {
    /// Mode.
    pub mode: CoreDNSAutoscalingMode,
}

string_enum! {
    /// How the number of DNS servers follows the cluster's size.
    pub enum CoreDNSAutoscalingMode {
        /// By load.
        Horizontal = "horizontal",
        /// By nodes and cores.
        ClusterProportional = "cluster-proportional",
    }
}

/// Rewriting of queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CoreDNSRewriting {
    /// Suffixes that are answered without search paths.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub common_suffixes: Vec<String>,
}

/// A DNS cache on every node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NodeLocalDNS {
    /// Whether it is on.
    pub enabled: bool,
    /// Ask the cluster's DNS by TCP.
    #[serde(rename = "forceTCPToClusterDNS", skip_serializing_if = "Option::is_none")]
    pub force_tcp_to_cluster_dns: Option<bool>,
    /// Ask upstream servers by TCP.
    #[serde(rename = "forceTCPToUpstreamDNS", skip_serializing_if = "Option::is_none")]
    pub force_tcp_to_upstream_dns: Option<bool>,
    /// Do not ask servers outside the cluster.
    #[serde(rename = "disableForwardToUpstreamDNS", skip_serializing_if = "Option::is_none")]
    pub disable_forward_to_upstream_dns: Option<bool>,
}
