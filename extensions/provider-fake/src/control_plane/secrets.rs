//! The authority and the certificate of the cloud controller manager, as Secrets of the shoot's namespace that are made once,
//! renewed in time, and rotated with the shoot's own authorities. What to make and to delete is decided by `base-secrets`.

use std::time::Duration;

use api_core::v1beta1::{CredentialsRotationPhase, Shoot};
use api_meta::Fault;
use base_client::{delete, list};
use base_managed_secrets::selector;
use base_secrets::{CertificateSpec, Rotation, Wanted};
use extensions_sdk::{ClusterView, Context};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use crate::control_plane::objects::NAME;

/// Who manages these Secrets (gardener/gardener v1.150 extensions/pkg/controller/controlplane/genericactuator).
const IDENTITY: &str = "provider-fake-controlplane";
const AUTHORITY: &str = "ca-provider-fake-controlplane";
/// The certificate that the program serves its metrics with.
const SERVER: &str = "cloud-controller-manager-server";
/// Renewed long before; as upstream's server certificates.
const SERVER_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// The Secrets of one shoot.
pub(crate) struct ManagedSecrets {
    /// The one with the server's certificate.
    pub(crate) server: Secret,
    /// Names of those that no pod mounts once the rest is rolled out.
    pub(crate) obsolete: Vec<String>,
}

/// Makes what is missing.
///
/// # Errors
/// What the API server returns; a bug: a Secret of ours cannot be read.
pub(crate) async fn ensure(context: &Context, cluster: &ClusterView) -> Result<ManagedSecrets, Fault> {
    let wanted = wanted(&cluster.shoot, &cluster.name);
    let Context {
        client, clock, entropy, ..
    } = context;
    let mut made = base_managed_secrets::ensure(client, &cluster.name, IDENTITY, &wanted, clock, entropy).await?;
    let missing = || Fault::bug(format!("there is no Secret {SERVER} after it was made"));
    Ok(ManagedSecrets {
        server: made.all.remove(SERVER).ok_or_else(missing)?.current,
        obsolete: made.obsolete,
    })
}

/// Deletes all of them.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn delete_all(context: &Context, namespace: &str) -> Result<(), Fault> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    for secret in list(&api, &selector(IDENTITY)).await? {
        delete(&api, &secret.name_any()).await?;
    }
    Ok(())
}

fn wanted(shoot: &Shoot, namespace: &str) -> [Wanted; 2] {
    let names = ["", &format!(".{namespace}"), &format!(".{namespace}.svc")];
    let names = names.map(|end| format!("{NAME}{end}"));
    let server = CertificateSpec::server(SERVER, names.to_vec(), Vec::new(), SERVER_VALIDITY);
    [
        Wanted::authority(AUTHORITY, AUTHORITY).rotated(rotation(shoot)),
        Wanted::certificate(SERVER, AUTHORITY, server),
    ]
}

/// The rotation of the shoot's authorities, which ours follows: both are trusted until it is being completed.
fn rotation(shoot: &Shoot) -> Rotation {
    use CredentialsRotationPhase::{Prepared, Preparing, PreparingWithoutWorkersRollout, WaitingForWorkersRollout};
    let status = shoot.status.as_ref().and_then(|status| status.credentials.as_ref());
    let rotation = status.and_then(|credentials| credentials.rotation.as_ref()?.certificate_authorities.as_ref());
    rotation.map_or_else(Rotation::default, |rotation| Rotation {
        initiated: rotation.last_initiation_time.as_ref().map(|time| time.0),
        keep_old: matches!(
            rotation.phase,
            Preparing | PreparingWithoutWorkersRollout | WaitingForWorkersRollout | Prepared
        ),
    })
}
