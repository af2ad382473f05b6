//! The kinds an extension can act on: where their common status is, what of their status is their own, how their
//! finalizer ends. No kind is special beyond this table.

use std::fmt::Debug;

use api_core::v1beta1::IPFamily;
use api_extensions as ext;
use api_meta::{Condition, Kind, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The status fields that all kinds share (`DefaultStatus`), to be changed.
#[derive(Debug)]
pub struct CommonStatus<'a> {
    /// What the provider wants others to read.
    pub provider_status: &'a mut Option<RawJson>,
    /// What is known about it.
    pub conditions: &'a mut Vec<Condition>,
    /// Why the last operation failed.
    pub last_error: &'a mut Option<LastError>,
    /// What was done last.
    pub last_operation: &'a mut Option<LastOperation>,
    /// The generation last worked on.
    pub observed_generation: &'a mut Option<i64>,
    /// What another seed needs to take over.
    pub state: &'a mut Option<RawJson>,
    /// Objects that go with the state.
    pub resources: &'a mut Vec<NamedResourceReference>,
}

/// A kind of `extensions.gardener.cloud` that actuators can be written for.
pub trait ActuatedKind:
    Resource<DynamicType = ()> + Kind + Clone + Debug + Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The part of the status that only this kind has.
    type Own: Clone + Debug + Default + Send + Sync + 'static;
    /// What its finalizer ends with, unless a registration says otherwise.
    const FINALIZER_SUFFIX: &'static str;
    /// Its name in the middle of a sentence.
    const NOUN: &'static str;

    /// A handle for the namespace an object of this kind lives in, if it lives in one.
    fn api(client: kube::Client, namespace: Option<&str>) -> Api<Self>;
    /// Which extension is responsible.
    fn type_(&self) -> &str;
    /// For whom the object is; a shoot if it does not say.
    fn class(&self) -> ext::ExtensionClass;
    /// The common status, made if it is not there.
    fn common_status(&mut self) -> CommonStatus<'_>;
    /// Writes the part of the status that only this kind has.
    fn set_own(&mut self, own: Self::Own);
    /// The common status to read: last operation, observed generation.
    fn progress(&self) -> (Option<&LastOperation>, i64);
}

/// Status of an Infrastructure beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InfrastructureOwn {
    /// The nodes' network, where the provider chose it.
    pub nodes_cidr: Option<String>,
    /// Where traffic from the cluster comes from.
    pub egress_cidrs: Vec<String>,
    /// All networks in use.
    pub networking: Option<ext::InfrastructureStatusNetworking>,
}

/// Status of a Worker beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerOwn {
    /// The machine deployments, for the cluster autoscaler.
    pub machine_deployments: Vec<ext::MachineDeployment>,
    /// When they were written last.
    pub last_update_time: Option<Time>,
}

/// Status of an OperatingSystemConfig beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatingSystemConfigOwn {
    /// Units the extension adds.
    pub extension_units: Vec<ext::Unit>,
    /// Files the extension adds.
    pub extension_files: Vec<ext::File>,
    /// Where the user data is (purpose provision).
    pub cloud_config: Option<ext::CloudConfig>,
}

macro_rules! actuated {
    ($kind:ident, $status:ident, $scope:ident, $suffix:literal, $noun:literal, $own:ty, |$object:ident, $value:pat_param| $write:block) => {
        impl ActuatedKind for ext::$kind {
            type Own = $own;
            const FINALIZER_SUFFIX: &'static str = $suffix;
            const NOUN: &'static str = $noun;

            fn api(client: kube::Client, namespace: Option<&str>) -> Api<Self> {
                actuated!(@api $scope, client, namespace)
            }

            fn type_(&self) -> &str {
                &self.spec.type_
            }

            fn class(&self) -> ext::ExtensionClass {
                self.spec.class.clone().unwrap_or(ext::ExtensionClass::Shoot)
            }

            fn common_status(&mut self) -> CommonStatus<'_> {
                let status = self.status.get_or_insert_default();
                CommonStatus {
                    provider_status: &mut status.provider_status,
                    conditions: &mut status.conditions,
                    last_error: &mut status.last_error,
                    last_operation: &mut status.last_operation,
                    observed_generation: &mut status.observed_generation,
                    state: &mut status.state,
                    resources: &mut status.resources,
                }
            }

            fn set_own(&mut self, $value: Self::Own) {
                let $object = self.status.get_or_insert_default();
                $write
            }

            fn progress(&self) -> (Option<&LastOperation>, i64) {
                let status = self.status.as_ref();
                let observed = status.and_then(|status| status.observed_generation);
                (status.and_then(|status| status.last_operation.as_ref()), observed.unwrap_or_default())
            }
        }
    };
    (@api Namespaced, $client:ident, $namespace:ident) => {
        Api::namespaced($client, $namespace.unwrap_or_default())
    };
    (@api Cluster, $client:ident, $namespace:ident) => {{
        let _ = $namespace;
        Api::all($client)
    }};
}

actuated!(
    Infrastructure,
    InfrastructureStatus,
    Namespaced,
    "infrastructure",
    "infrastructure",
    InfrastructureOwn,
    |status, own| {
        let InfrastructureOwn {
            nodes_cidr,
            egress_cidrs,
            networking,
        } = own;
        status.nodes_cidr = nodes_cidr;
        status.egress_cidrs = egress_cidrs;
        status.networking = networking;
    }
);
actuated!(
    ControlPlane,
    ControlPlaneStatus,
    Namespaced,
    "controlplane",
    "controlplane",
    (),
    |_status, ()| {}
);
actuated!(
    Worker,
    WorkerStatus,
    Namespaced,
    "worker",
    "worker",
    WorkerOwn,
    |status, own| {
        let WorkerOwn {
            machine_deployments,
            last_update_time,
        } = own;
        status.machine_deployments = machine_deployments;
        status.machine_deployments_last_update_time = last_update_time;
    }
);
actuated!(
    Network,
    NetworkStatus,
    Namespaced,
    "network",
    "network",
    Vec<IPFamily>,
    |status, families| {
        status.ip_families = families;
    }
);
actuated!(
    OperatingSystemConfig,
    OperatingSystemConfigStatus,
    Namespaced,
    "operatingsystemconfigs",
    "operating system config",
    OperatingSystemConfigOwn,
    |status, own| {
        let OperatingSystemConfigOwn {
            extension_units,
            extension_files,
            cloud_config,
        } = own;
        status.extension_units = extension_units;
        status.extension_files = extension_files;
        status.cloud_config = cloud_config;
    }
);
actuated!(
    Extension,
    ExtensionStatus,
    Namespaced,
    "extension",
    "extension",
    (),
    |_status, ()| {}
);
actuated!(
    ContainerRuntime,
    ContainerRuntimeStatus,
    Namespaced,
    "containerruntime",
    "container runtime",
    (),
    |_status, ()| {}
);
actuated!(
    DNSRecord,
    DNSRecordStatus,
    Namespaced,
    "dnsrecord",
    "dnsrecord",
    Option<String>,
    |status, zone| {
        status.zone = zone;
    }
);
actuated!(
    BackupBucket,
    BackupBucketStatus,
    Cluster,
    "backupbucket",
    "backupbucket",
    Option<SecretReference>,
    |status, secret| {
        status.generated_secret_ref = secret;
    }
);
actuated!(
    BackupEntry,
    BackupEntryStatus,
    Cluster,
    "backupentry",
    "backupentry",
    (),
    |_status, ()| {}
);
actuated!(
    Bastion,
    BastionStatus,
    Namespaced,
    "bastion",
    "bastion",
    Option<LoadBalancerIngress>,
    |status, ingress| {
        status.ingress = ingress;
    }
);
actuated!(
    SelfHostedShootExposure,
    SelfHostedShootExposureStatus,
    Namespaced,
    "selfhostedshootexposure",
    "self-hosted shoot exposure",
    Vec<LoadBalancerIngress>,
    |status, ingress| {
        status.ingress = ingress;
    }
);
