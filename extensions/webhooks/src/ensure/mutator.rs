//! Which method is for which object: by kind and name. What a method has changed gets the label of control plane webhooks.

use std::sync::Arc;

use api_extensions::{OperatingSystemConfig, OperatingSystemConfigPurpose};
use api_meta::labels::{MUTATED_BY_CONTROL_PLANE_WEBHOOK, WORKER_POOL};
use api_meta::names::CLOUD_PROVIDER_SECRET;
use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Resource, ResourceExt};

use super::context::{Context, Pool};
use super::control_plane::ControlPlane;
use super::kinds::{Etcd, VerticalPodAutoscaler};
use super::nodes;
use crate::edit::metadata::set_label;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::webhook::Mutator;

/// Before the names of the garden's own control plane.
const VIRTUAL_GARDEN: &str = "virtual-garden-";
const VPN: &str = "vpn-seed-server";

/// Changes by a [`ControlPlane`].
#[derive(Clone)]
pub(super) struct Ensures {
    pub(super) control_plane: Arc<dyn ControlPlane>,
    pub(super) client: Client,
}

#[async_trait]
impl Mutator<Deployment> for Ensures {
    async fn mutate(&self, request: &Request, new: &mut Deployment, old: Option<&Deployment>) -> Result<(), Refusal> {
        let (context, it) = (Context::new(request, &self.client), &self.control_plane);
        let (before, name) = (new.clone(), component(new));
        match name.as_str() {
            "kube-apiserver" => it.kube_apiserver(&context, new, old).await,
            "kube-controller-manager" => it.kube_controller_manager(&context, new, old).await,
            "kube-scheduler" => it.kube_scheduler(&context, new, old).await,
            "cluster-autoscaler" => it.cluster_autoscaler(&context, new, old).await,
            "machine-controller-manager" => it.machine_controller_manager(&context, new, old).await,
            "gardener-resource-manager" => it.gardener_resource_manager(&context, new, old).await,
            VPN => it.vpn_seed_server(&context, new, old).await,
            _ => Ok(()),
        }?;
        mark(&before, new);
        Ok(())
    }
}

#[async_trait]
impl Mutator<StatefulSet> for Ensures {
    async fn mutate(&self, request: &Request, new: &mut StatefulSet, old: Option<&StatefulSet>) -> Result<(), Refusal> {
        let (context, it) = (Context::new(request, &self.client), &self.control_plane);
        let (before, name) = (new.clone(), component(new));
        match name.as_str() {
            VPN => it.vpn_seed_server_stateful_set(&context, new, old).await,
            "etcd-main" | "etcd-events" => it.etcd_stateful_set(&context, new, old).await,
            _ => Ok(()),
        }?;
        mark(&before, new);
        Ok(())
    }
}

#[async_trait]
impl Mutator<Etcd> for Ensures {
    async fn mutate(&self, request: &Request, new: &mut Etcd, old: Option<&Etcd>) -> Result<(), Refusal> {
        let (before, name) = (new.clone(), component(new));
        if matches!(name.as_str(), "etcd-main" | "etcd-events") {
            let context = Context::new(request, &self.client);
            self.control_plane.etcd(&context, new, old).await?;
            mark(&before, new);
        }
        Ok(())
    }
}

#[async_trait]
impl Mutator<VerticalPodAutoscaler> for Ensures {
    async fn mutate(
        &self,
        request: &Request,
        new: &mut VerticalPodAutoscaler,
        old: Option<&VerticalPodAutoscaler>,
    ) -> Result<(), Refusal> {
        let before = new.clone();
        if new.name_any() == "machine-controller-manager-vpa" {
            let context = Context::new(request, &self.client);
            self.control_plane
                .machine_controller_manager_vpa(&context, new, old)
                .await?;
            mark(&before, new);
        }
        Ok(())
    }
}

#[async_trait]
impl Mutator<OperatingSystemConfig> for Ensures {
    async fn mutate(
        &self,
        request: &Request,
        new: &mut OperatingSystemConfig,
        old: Option<&OperatingSystemConfig>,
    ) -> Result<(), Refusal> {
        let (context, it) = (Context::new(request, &self.client), &*self.control_plane);
        let before = new.clone();
        let name = before.labels().get(WORKER_POOL).map(String::as_str);
        let pool = Pool::new(&context, name);
        match new.spec.purpose {
            OperatingSystemConfigPurpose::Provision => nodes::provision(it, &context, &pool, new, old).await,
            OperatingSystemConfigPurpose::Reconcile => nodes::reconcile(it, &context, &pool, new, old).await,
            _ => Ok(()),
        }?;
        mark(&before, new);
        Ok(())
    }
}

#[async_trait]
impl Mutator<Secret> for Ensures {
    async fn mutate(&self, request: &Request, new: &mut Secret, old: Option<&Secret>) -> Result<(), Refusal> {
        if new.name_any() != CLOUD_PROVIDER_SECRET {
            return Ok(());
        }
        let context = Context::new(request, &self.client);
        self.control_plane.cloud_provider_secret(&context, new, old).await
    }
}

/// The name of an object without what the garden's own control plane has before it.
fn component(object: &impl ResourceExt) -> String {
    let name = object.name_any();
    name.strip_prefix(VIRTUAL_GARDEN).unwrap_or(&name).to_owned()
}

/// gardenlet sets this label on what it expects to be changed, and webhooks may select by it.
fn mark<K: Resource + PartialEq>(before: &K, after: &mut K) {
    if before != after {
        set_label(after.meta_mut(), MUTATED_BY_CONTROL_PLANE_WEBHOOK, "true");
    }
}
