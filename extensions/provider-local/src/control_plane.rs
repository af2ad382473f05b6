//! ControlPlane: what is known of the local network, as a ConfigMap in the shoot. It runs nothing, because local nodes need
//! no cloud controller, and writes no `cloud-provider-config` into the shoot's namespace: upstream's provider-local does
//! not either, so that an extension's webhook may bring its own (gardener/gardener v1.150
//! pkg/provider-local/controller/controlplane/valuesprovider.go). It does verify the infrastructure that it is given.

use std::collections::BTreeMap;

use api_extensions::ControlPlane;
use api_meta::Fault;
use async_trait::async_trait;
use extensions_sdk::{Actuator, Context, Outcome, Saved};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::objects::{apply_in_shoot, leave_in_shoot, meta, remove_from_shoot};
use crate::provider_status::InfrastructureStatus;

const MADE_FOR: &str = "controlplane";
/// The ConfigMap in the shoot's `kube-system`.
const CONFIG: &str = "provider-local-network";
/// The ManagedResource (gardener/gardener v1.150 extensions/pkg/controller/controlplane/genericactuator).
const MANAGED: &str = "extension-controlplane-shoot";

/// The actuator of ControlPlanes.
pub(crate) struct ControlPlanes;

#[async_trait]
impl Actuator<ControlPlane> for ControlPlanes {
    async fn reconcile(&self, context: &Context, object: &ControlPlane) -> Result<Outcome<ControlPlane>, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let raw = object.spec.infrastructure_provider_status.as_ref();
        let infrastructure = InfrastructureStatus::read(raw, "the ControlPlane")?;
        let zones: Vec<&str> = infrastructure
            .network
            .subnets
            .iter()
            .map(|subnet| subnet.zone.as_str())
            .collect();
        let data = BTreeMap::from([
            ("region".to_owned(), object.spec.region.clone()),
            ("zones".to_owned(), zones.join(",")),
            ("networkID".to_owned(), infrastructure.network.id.to_string()),
            ("networkCIDR".to_owned(), infrastructure.network.cidr.clone()),
        ]);
        let in_shoot = ConfigMap {
            metadata: ObjectMeta {
                name: Some(CONFIG.to_owned()),
                namespace: Some("kube-system".to_owned()),
                ..Default::default()
            },
            data: Some(data),
            ..Default::default()
        };
        apply_in_shoot(&context.client, meta(&namespace, MANAGED, MADE_FOR), &in_shoot).await?;
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        context
            .unless_obsolete(remove_from_shoot(&context.client, &namespace, MANAGED))
            .await
    }

    async fn force_delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        leave_in_shoot(context, object, MANAGED).await
    }

    async fn migrate(&self, context: &Context, object: &ControlPlane) -> Result<Saved, Fault> {
        leave_in_shoot(context, object, MANAGED)
            .await
            .map(|()| Saved::default())
    }
}
