//! The Service of a shoot's kube-apiserver, which gives addresses and certificates their names before the API server itself is
//! deployed; and the question whether it is ready.

use api_core::v1beta1::ShootAdvertisedAddress;
use api_meta::Fault;
use base_client::WaitState;
use components_hosted::{API_SERVER, ComponentId, component};
use k8s_openapi::api::core::v1::Service;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::component::{apply_object, delete_object};
use super::secrets::ShootSecrets;
use super::shoot_access::own_client;
use crate::config::Addressing;

/// Pause between requests to `/readyz`, once the pod is ready: nothing can be watched before.
const READYZ_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Applies the Service, which the API server's component has early.
pub(crate) async fn deploy_service(op: &Operation) -> Result<(), Fault> {
    for object in component(ComponentId::ApiServer).early_objects(&op.hosted_cluster()) {
        apply_object(op, &object).await?;
    }
    Ok(())
}

/// Waits until it has an address.
pub(crate) async fn wait_service(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let check = |service: Option<&Service>| {
        let address = service.and_then(|service| service.spec.as_ref()?.cluster_ip.clone());
        match address.filter(|address| !address.is_empty()) {
            Some(_) => WaitState::Done(()),
            None => WaitState::NotYet("it has no address yet".to_owned()),
        }
    };
    base_client::wait_until(&op.here::<Service>(), API_SERVER, left(until), check)
        .await
        .map_err(Fault::from)
}

/// Reports the addresses of the API server in the status.
pub(crate) async fn ensure_advertised_addresses(op: &Operation) -> Result<(), Fault> {
    let port = match &op.context.config.addressing {
        Addressing::PerService => None,
        Addressing::Shared { url, .. } => url
            .rsplit_once(':')
            .map(|(_, port)| port.trim_end_matches('/').to_owned()),
    };
    let url = |host: &str| match &port {
        Some(port) => format!("https://{host}:{port}"),
        None => format!("https://{host}"),
    };
    let shoot = &op.shoot;
    let mut addresses = Vec::new();
    for (name, domain) in [
        ("external", &shoot.external_domain),
        (ShootAdvertisedAddress::INTERNAL, &shoot.internal_domain),
    ] {
        addresses.extend(domain.as_ref().map(|domain| ShootAdvertisedAddress {
            name: name.to_owned(),
            url: url(&domain.host),
            application: None,
        }));
    }
    if addresses.is_empty() {
        addresses.push(ShootAdvertisedAddress {
            name: "service".to_owned(),
            url: url(&shoot.service_host()),
            application: None,
        });
    }
    op.status
        .update(|status| status.advertised_addresses.clone_from(&addresses))
        .await
        .map(drop)
}

/// Waits until the API server reports that it is ready, once its pod does.
pub(crate) async fn wait_ready(op: &Operation, secrets: &ShootSecrets, until: Option<Instant>) -> Result<(), Fault> {
    let client = own_client(op, secrets)?;
    let mut last = None;
    while !left(until).is_zero() {
        let request = http::Request::get("/readyz").body(Vec::new());
        let request = request.map_err(|error| Fault::bug(error).hint("report it: a request was built wrongly"))?;
        match client.request_text(request).await {
            Ok(_) => return Ok(()),
            Err(error) => {
                last = Some(base_client::fault_of(
                    error,
                    "ask the shoot's API server whether it is ready",
                ))
            }
        }
        tokio::time::sleep(READYZ_PAUSE).await;
    }
    Err(last.unwrap_or_else(|| Fault::dependency("the shoot's API server has had no request for its readiness")))
}

/// Deletes the Service.
pub(crate) async fn destroy_service(op: &Operation) -> Result<(), Fault> {
    for object in component(ComponentId::ApiServer).early_objects(&op.hosted_cluster()) {
        delete_object(op, &object.reference(), None).await?;
    }
    Ok(())
}
