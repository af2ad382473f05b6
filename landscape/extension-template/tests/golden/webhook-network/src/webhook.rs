//! Changes control planes of Shoots while gardenlet writes them: kube-apiserver gets an annotation. It calls no cloud.

use std::sync::Arc;

use api_meta::Fault;
use async_trait::async_trait;
use extensions_sdk::Setup;
use extensions_webhooks::edit::metadata::set_annotation;
use extensions_webhooks::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Mode, Refusal, Settings, Webhooks, control_plane_webhook,
    labelled, selectors,
};
use k8s_openapi::api::apps::v1::Deployment;

use super::TYPE;

/// Port of the container; the chart's Service leads to it.
const PORT: u16 = 10250;

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

/// Serves the webhook in every replica.
pub fn serve(setup: &mut Setup) -> Result<(), Fault> {
    let namespace = setup.namespace.clone().ok_or_else(|| {
        Fault::user("the webhook has no namespace: this process is not in a pod").hint("name one with --namespace")
    })?;
    let settings = Settings {
        extension: setup.about.name.to_owned(),
        namespace: namespace.clone(),
        mode: Mode::Service,
        service_port: 443,
        owner_namespace: Some(namespace),
    };
    let (kind, objects) = (ControlPlaneKind::Shoot, [Ensured::Deployments]);
    let webhook = control_plane_webhook(kind, TYPE, &objects, Arc::new(Changes), &setup.client);
    let webhook = webhook.in_namespaces(labelled("gardener.cloud/role", "shoot"));
    let webhook = webhook.of_objects(selectors::marked());
    let (client, clock, entropy) = (setup.client.clone(), setup.clock.clone(), setup.entropy.clone());
    let webhooks = Webhooks::new(settings, client, clock, entropy).webhook(webhook)?;
    setup.ready_when(webhooks.ready_when());
    let (identity, stop) = (setup.identity.clone(), setup.stop.clone());
    setup.everywhere(async move {
        let port = base_serve::open(None, PORT, "the port of webhooks").await?;
        webhooks.run(port, &identity, stop).await;
        Ok(())
    });
    Ok(())
}
