//! Changes control planes of Shoots while gardenlet writes them: kube-apiserver gets an annotation. It calls no cloud.

use std::sync::Arc;

use api_meta::Fault;
use async_trait::async_trait;
use extensions_sdk::Setup;
use extensions_webhooks::edit::metadata::set_annotation;
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Refusal, WebhookFlags, control_plane_webhook, selectors,
};
use k8s_openapi::api::apps::v1::Deployment;

use super::TYPE;

/// What is changed.
struct Changes;

#[async_trait]
impl ControlPlane for Changes {
    async fn kube_apiserver(
        &self,
        _: &Context<'_>,
        new: &mut Deployment,
        _: Option<&Deployment>,
    ) -> Result<(), Refusal> {
        set_annotation(&mut new.metadata, "moon.extensions.gardener.cloud/changed", "true");
        Ok(())
    }
}

/// Serves the webhook in every replica. The chart's Service leads to it.
pub fn serve(setup: &mut Setup, flags: &WebhookFlags) -> Result<(), Fault> {
    let (kind, objects) = (ControlPlaneKind::Shoot, [Ensured::Deployments]);
    let webhook = control_plane_webhook(kind, TYPE, &objects, Arc::new(Changes), &setup.client);
    let webhook = webhook.of_objects(selectors::marked());
    flags.serve(setup, [webhook]).map(drop)
}
