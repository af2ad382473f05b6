//! kube-apiserver of a shoot: its Service first, for addresses and certificates; then itself.

use api_core::v1beta1::ShootAdvertisedAddress;
use api_meta::Fault;
use base_client::{Judgement, apply, delete, delete_and_wait};
use base_secrets::Credential;
use components_hosted::{API_SERVER, ApiServerSettings, ETCD_CLIENT_SERVICE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::secrets;
use crate::config::Addressing;
use crate::context::MANAGER;

/// Pause between questions whether the API server is ready, once its pod says so: nothing can be watched before.
const READYZ_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// Applies the Service.
pub(crate) async fn deploy_service(op: &Operation) -> Result<(), Fault> {
    let service = components_hosted::api_server_service(op.namespace());
    apply(&op.here::<Service>(), &service, MANAGER).await.map(drop)
}

/// Waits until it has an address.
pub(crate) async fn wait_service(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let judge = |service: Option<&Service>| {
        let address = service.and_then(|service| service.spec.as_ref()?.cluster_ip.clone());
        match address.filter(|address| !address.is_empty()) {
            Some(_) => Judgement::Done(()),
            None => Judgement::NotYet("it has no address yet".to_owned()),
        }
    };
    base_client::wait_until(&op.here::<Service>(), API_SERVER, left(until), judge)
        .await
        .map_err(Fault::from)
}

/// Tells the owner where the API server is.
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

/// Applies the Deployment.
pub(crate) async fn deploy(op: &Operation) -> Result<(), Fault> {
    let shoot = &op.shoot;
    let deployment = components_hosted::api_server(&ApiServerSettings {
        namespace: op.namespace().to_owned(),
        image: op.context.config.images.kubernetes(API_SERVER, &shoot.version),
        replicas: 1,
        etcd_servers: format!("https://{ETCD_CLIENT_SERVICE}.{}.svc:2379", op.namespace()),
        etcd_authority: op.mounted_bundle(secrets::CA_ETCD)?,
        etcd_client: op.mounted(secrets::ETCD_CLIENT)?,
        client_authority: op.mounted_bundle(secrets::CA_CLIENT)?,
        authority: op.mounted_bundle(secrets::CA)?,
        server: op.mounted(secrets::SERVER)?,
        service_account_key: op.mounted(secrets::SERVICE_ACCOUNT_KEY)?,
        service_account_keys: op.mounted_bundle(secrets::SERVICE_ACCOUNT_KEY)?,
        front_proxy_authority: op.mounted_bundle(secrets::CA_FRONT_PROXY)?,
        aggregator_client: op.mounted(secrets::AGGREGATOR)?,
        service_account_issuer: format!("https://{}", shoot.api_host()),
        service_networks: shoot.services.clone(),
        external_hostname: shoot.api_host(),
    });
    let written = apply(&op.here::<Deployment>(), &deployment, MANAGER).await?;
    op.remember_generation(&written);
    Ok(())
}

/// Waits until it is rolled out and says itself that it is ready.
pub(crate) async fn wait(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_deployment(op, API_SERVER, until).await?;
    let issued = secrets::own_certificate(op)?;
    let client = op
        .context
        .connector
        .client(&op.kubeconfig(Credential::Certificate(Box::new(issued)))?)?;
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
    Err(last.unwrap_or_else(|| Fault::dependency("the shoot's API server has not been asked whether it is ready")))
}

/// Waits until a Deployment of the control plane runs as it was written last.
pub(crate) async fn wait_deployment(op: &Operation, name: &str, until: Option<Instant>) -> Result<(), Fault> {
    let generation = op.generation_of::<Deployment>(name);
    op.wait_for(&op.context.seed_caches.deployments, name, until, |found| {
        not_rolled_out(found, generation)
    })
    .await
}

/// Why a Deployment does not run in its present form, which is at least `generation`.
#[must_use]
pub fn not_rolled_out(deployment: &Deployment, generation: i64) -> Option<String> {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let present = deployment.metadata.generation.unwrap_or_default();
    let status = deployment.status.clone().unwrap_or_default();
    if present < generation || status.observed_generation.unwrap_or_default() < present {
        return Some("its newest form has not been seen yet".to_owned());
    }
    let updated = status.updated_replicas.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let all = status.replicas.unwrap_or_default();
    if updated < wanted || available < wanted {
        return Some(format!(
            "{available} of {wanted} pods are available, {updated} in the newest form"
        ));
    }
    (all > updated).then(|| format!("{} pods of an older form are still there", all - updated))
}

/// Asks for the deletion of the Deployment.
pub(crate) async fn delete_deployment(op: &Operation) -> Result<(), Fault> {
    // Nobody can use the connection any more.
    op.results().shoot_client = None;
    delete(&op.here::<Deployment>(), API_SERVER).await
}

/// Waits until it is gone.
pub(crate) async fn wait_deleted(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    delete_and_wait(&op.here::<Deployment>(), API_SERVER, left(until))
        .await
        .map_err(Fault::from)
}

/// Takes the Service away.
pub(crate) async fn destroy_service(op: &Operation) -> Result<(), Fault> {
    delete(&op.here::<Service>(), API_SERVER).await
}
