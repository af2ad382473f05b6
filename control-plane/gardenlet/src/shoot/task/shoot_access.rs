//! The way into the shoot: rights for those who work in it, and our own connection.

mod gardener;

use api_meta::{Fault, FaultClass};
use base_client::{apply, get};
use base_secrets::Credential;
use components_hosted::shoot::access_bindings;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;

use super::super::operation::Operation;
use super::secrets::{CA, ShootSecrets, bootstrap_certificate};
use crate::context::MANAGER;

/// Makes sure that all who work in the shoot may do so: we and the resource manager at once, extensions as soon as the
/// resource manager has given them their tokens.
pub(crate) async fn deploy(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    deploy_bindings(op, secrets).await?;
    gardener::deploy(op, secrets).await
}

/// Makes sure that we and the resource manager may work in the shoot. Only if we may not look is the short-lived
/// identity used that may give rights away; after that no client is `system:masters`.
async fn deploy_bindings(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    let bindings: Vec<ClusterRoleBinding> = access_bindings()
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .map_err(|error| Fault::bug(error).hint("report it: a binding of ours is malformed"))?;
    if all_there(&own_client(op, secrets)?, &bindings).await? {
        return Ok(());
    }
    let certificate = bootstrap_certificate(op, secrets)?;
    let kubeconfig = op.kubeconfig(secrets.get(CA)?, Credential::Certificate(Box::new(certificate)))?;
    let api: Api<ClusterRoleBinding> = Api::all(op.context.connector.client(&kubeconfig)?);
    for binding in &bindings {
        apply(&api, binding, MANAGER).await?;
    }
    Ok(())
}

async fn all_there(client: &kube::Client, bindings: &[ClusterRoleBinding]) -> Result<bool, Fault> {
    let api: Api<ClusterRoleBinding> = Api::all(client.clone());
    for binding in bindings {
        match get(&api, binding.metadata.name.as_deref().unwrap_or_default()).await {
            Ok(Some(present)) if present.role_ref == binding.role_ref && present.subjects == binding.subjects => {}
            Ok(_) => return Ok(false),
            Err(fault) if fault.class == FaultClass::Access => return Ok(false),
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}

/// A client of the shoot's API server with our own certificate.
pub(crate) fn own_client(op: &Operation, secrets: &ShootSecrets) -> Result<kube::Client, Fault> {
    let credential = Credential::Certificate(Box::new(secrets.own_certificate()?));
    let kubeconfig = op.kubeconfig(secrets.get(CA)?, credential)?;
    op.context.connector.client(&kubeconfig)
}

/// Connects, and sends one request to check the connection.
pub(crate) async fn connect(op: &Operation, secrets: &ShootSecrets) -> Result<kube::Client, Fault> {
    let client = own_client(op, secrets)?;
    let version = client.apiserver_version().await;
    version.map_err(|error| base_client::fault_of(error, "ask the shoot's API server for its version"))?;
    // With a new connection, if there was one before.
    op.context.inside.open(op.namespace(), op.shoot.workerless, &client)?;
    Ok(client)
}
