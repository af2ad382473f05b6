//! What a shoot's control plane and nodes need for a cloud controller manager of their own: changes of what gardenlet writes.

use std::sync::Arc;

use async_trait::async_trait;
use extensions_webhooks::edit::Flags;
use extensions_webhooks::edit::pods::{HasPods, container};
use extensions_webhooks::edit::units::UnitFile;
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Pool, Refusal, Webhook, control_plane_webhook, selectors,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;

const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const CLOUD_PROVIDER: &str = "--cloud-provider";
/// The word for a cloud controller manager that is a program of its own.
const EXTERNAL: &str = "external";

/// The webhook of shoots whose provider is of `type_`, registered in the seed of `client`.
#[must_use]
pub fn control_plane(type_: &str, client: &Client) -> Webhook {
    let objects = [Ensured::Deployments, Ensured::OperatingSystemConfigs];
    control_plane_webhook(ControlPlaneKind::Shoot, type_, &objects, Arc::new(External), client)
        .of_objects(selectors::marked())
}

struct External;

#[async_trait]
impl ControlPlane for External {
    async fn kube_controller_manager(
        &self,
        _: &Context<'_>,
        new: &mut Deployment,
        _: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        let container = container(new.pod(), CONTROLLER_MANAGER)?;
        Flags::of(container).set(CLOUD_PROVIDER, EXTERNAL);
        Ok(())
    }

    async fn kubelet_unit(
        &self,
        _: &Context<'_>,
        _: &Pool<'_>,
        new: &mut UnitFile,
        _: Option<&UnitFile>,
    ) -> Result<(), Refusal> {
        new.edit_command("Service", "ExecStart", |words| {
            words.retain(|word| !word.starts_with(CLOUD_PROVIDER));
            words.push(format!("{CLOUD_PROVIDER}={EXTERNAL}"));
        });
        Ok(())
    }
}
