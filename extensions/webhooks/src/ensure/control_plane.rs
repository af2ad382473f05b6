//! What an extension author writes: a method for each object of a control plane that the provider needs in another form.

use api_extensions::{CRIConfig, File, Unit};
use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use super::context::{Context, Pool};
use super::kinds::{Etcd, VerticalPodAutoscaler};
use crate::edit::units::UnitFile;
use crate::refusal::Refusal;

/// Changes objects of hosted control planes (gardener/gardener v1.150 extensions/pkg/webhook/controlplane/genericmutator). All
/// methods change nothing unless they are written.
///
/// `new` is the object about to be written, `old` the one before an update. A method makes the same of an object however often
/// it is called: [`crate::edit`] helps with that. An error refuses the write: gardenlet reports it on the Shoot and tries again.
#[async_trait]
pub trait ControlPlane: Send + Sync + 'static {
    /// Deployment `kube-apiserver`.
    async fn kube_apiserver(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `kube-controller-manager`.
    async fn kube_controller_manager(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `kube-scheduler`.
    async fn kube_scheduler(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `cluster-autoscaler`.
    async fn cluster_autoscaler(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `machine-controller-manager`: providers add the container that calls their cloud.
    async fn machine_controller_manager(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// VerticalPodAutoscaler `machine-controller-manager-vpa`.
    async fn machine_controller_manager_vpa(
        &self,
        _context: &Context<'_>,
        _new: &mut VerticalPodAutoscaler,
        _old: Option<&VerticalPodAutoscaler>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `vpn-seed-server`.
    async fn vpn_seed_server(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// StatefulSet `vpn-seed-server`, of highly available control planes.
    async fn vpn_seed_server_stateful_set(
        &self,
        _context: &Context<'_>,
        _new: &mut StatefulSet,
        _old: Option<&StatefulSet>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Deployment `gardener-resource-manager`.
    async fn gardener_resource_manager(
        &self,
        _context: &Context<'_>,
        _new: &mut Deployment,
        _old: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Etcds `etcd-main` and `etcd-events` of etcd-druid: storage for the seed's provider.
    async fn etcd(&self, _context: &Context<'_>, _new: &mut Etcd, _old: Option<&Etcd>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The same where they are StatefulSets, as Orangery's gardenlet writes them. Kubernetes refuses changes of claims in one
    /// that is there.
    async fn etcd_stateful_set(
        &self,
        _context: &Context<'_>,
        _new: &mut StatefulSet,
        _old: Option<&StatefulSet>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The unit `kubelet.service` of nodes.
    async fn kubelet_unit(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut UnitFile,
        _old: Option<&UnitFile>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// The kubelet's configuration, `kubelet.config.k8s.io/v1beta1` KubeletConfiguration.
    async fn kubelet_configuration(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut Map<String, Value>,
        _old: Option<&Map<String, Value>>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Kernel settings of nodes, `/etc/sysctl.d/99-k8s-general.conf`. Empty text changes nothing.
    async fn kernel_settings(
        &self,
        _context: &Context<'_>,
        _new: &mut String,
        _old: Option<&str>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Text of the kubelet's `/var/lib/kubelet/cloudprovider.conf`; none: there is no such file.
    async fn kubelet_cloud_provider_config(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
    ) -> Result<Option<String>, Refusal> {
        Ok(None)
    }

    /// The container runtime's configuration, where the OperatingSystemConfig has one.
    async fn container_runtime(
        &self,
        _context: &Context<'_>,
        _new: &mut CRIConfig,
        _old: Option<&CRIConfig>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Files of running nodes.
    async fn files(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut Vec<File>,
        _old: Option<&[File]>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Units of running nodes.
    async fn units(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut Vec<Unit>,
        _old: Option<&[Unit]>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Files with which a machine begins.
    async fn provision_files(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut Vec<File>,
        _old: Option<&[File]>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Units with which a machine begins.
    async fn provision_units(
        &self,
        _context: &Context<'_>,
        _pool: &Pool<'_>,
        _new: &mut Vec<Unit>,
        _old: Option<&[Unit]>,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Secret `cloudprovider`: credentials in the form that the provider's components read.
    async fn cloud_provider_secret(
        &self,
        _context: &Context<'_>,
        _new: &mut Secret,
        _old: Option<&Secret>,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}
