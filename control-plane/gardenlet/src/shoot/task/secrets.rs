//! Authorities, certificates and keys of a shoot: made once, stored in its namespace, renewed in time.

mod generic_kubeconfig;
mod published;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{apply, delete};
use base_managed_secrets::{ManagedSecrets, ensure};
use base_secrets::{CertificateSpec, Credential, Issued, Managed, SecretError, data, text_of, to_yaml};
use components_hosted::secrets::wanted_secrets;
use components_hosted::{KUBECONFIG_KEY, Mounted, ShootClient, shoot_access_secret_name};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::operation::Operation;
use crate::context::{Context, MANAGER};

pub(crate) use components_hosted::secrets::{CA, CA_CLIENT, GARDENLET, SSH_KEY_PAIR};
pub(crate) use published::delete_published;

fn ours(error: SecretError) -> Fault {
    Fault::bug(error).hint("look at the Secrets of the shoot's namespace: one of them cannot be read")
}

/// Authorities, certificates and keys of a shoot, as they are now.
#[derive(Clone, Default)]
pub(crate) struct ShootSecrets {
    all: Arc<BTreeMap<String, Managed>>,
    /// Secrets of the namespace that no pod mounts any more once all has been rolled out.
    pub obsolete: Vec<String>,
}

impl ShootSecrets {
    /// A key or certificate.
    ///
    /// # Errors
    /// A bug of ours: a shoot has none of this name.
    pub(crate) fn get(&self, name: &str) -> Result<&Managed, Fault> {
        self.all
            .get(name)
            .ok_or_else(|| Fault::bug(format!("secret {name} is used, but not among those that a shoot has")))
    }

    /// All of them by name.
    pub(crate) fn all(&self) -> &BTreeMap<String, Managed> {
        &self.all
    }

    /// Our own certificate for the shoot.
    pub(crate) fn own_certificate(&self) -> Result<Issued, Fault> {
        self.get(GARDENLET)?.issued().map_err(ours)
    }
}

/// Makes what is missing, and shows the garden which authorities the cluster has.
pub(crate) async fn initialize(op: &Operation) -> Result<ShootSecrets, Fault> {
    let wanted = wanted_secrets(&op.hosted_cluster());
    let Context {
        seed, clock, entropy, ..
    } = &*op.context;
    let ManagedSecrets { all, obsolete } = ensure(seed, op.namespace(), MANAGER, &wanted, clock, entropy).await?;
    let mut secrets = ShootSecrets {
        all: Arc::new(all),
        obsolete,
    };
    let replaced = generic_kubeconfig::deploy(op, &secrets).await?;
    secrets.obsolete.extend(replaced);
    published::publish(op, &secrets).await?;
    Ok(secrets)
}

/// The public half of the key that opens the nodes to SSH; none where they are closed to it.
pub(crate) fn ssh_public_key(op: &Operation, secrets: &ShootSecrets) -> Result<Option<ByteString>, Fault> {
    if !op.shoot.ssh_access() {
        return Ok(None);
    }
    let pair = &secrets.get(SSH_KEY_PAIR)?.current;
    let public = text_of(pair, data::SSH_KEY_PUBLIC).map_err(ours)?;
    Ok(Some(ByteString(public.expose_bytes())))
}

/// Writes the Secret with the kubeconfig of a component that is a client of the shoot.
pub(crate) async fn deploy_kubeconfig(
    op: &Operation,
    secrets: &ShootSecrets,
    component: &str,
    client: &ShootClient,
) -> Result<Mounted, Fault> {
    let issued = secrets.get(client.secret)?.issued().map_err(ours)?;
    let kubeconfig = op.kubeconfig(secrets.get(CA)?, Credential::Certificate(Box::new(issued)))?;
    let yaml = to_yaml(&kubeconfig).map_err(ours)?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(shoot_access_secret_name(component)),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            KUBECONFIG_KEY.to_owned(),
            ByteString(yaml.expose().as_bytes().to_vec()),
        )])),
        ..Secret::default()
    };
    apply(&op.here::<Secret>(), &secret, MANAGER).await?;
    Ok(Mounted::of(&secret))
}

/// A certificate that may do everything, for ten minutes: for the first rights in a new cluster.
pub(crate) fn bootstrap_certificate(op: &Operation, secrets: &ShootSecrets) -> Result<Issued, Fault> {
    /// As long as a bootstrap may take with all its retries; never stored.
    const VALIDITY_BOOTSTRAP: Duration = Duration::from_secs(600);
    let spec = CertificateSpec::client(
        "gardener.cloud:system:bootstrap",
        &["system:masters"],
        VALIDITY_BOOTSTRAP,
    );
    let authority = secrets.get(CA_CLIENT)?.authority().map_err(ours)?;
    authority
        .issue(&spec, &op.context.clock, &op.context.entropy)
        .map_err(ours)
}

/// Deletes generations that nothing mounts any more; called when all has been rolled out.
pub(crate) async fn delete_obsolete(op: &Operation) -> Result<(), Fault> {
    for name in op.slots.obsolete_secrets() {
        delete(&op.here::<Secret>(), &name).await?;
    }
    Ok(())
}
