//! The generic token kubeconfig: leads every client in the seed to the shoot, with the token from the file that the
//! client mounts beside it (contract E.5; gardener/gardener v1.150 `pkg/utils/gardener/tokenrequest`). Extensions find
//! its name on the Cluster.

use std::collections::BTreeMap;

use api_meta::Fault;
use base_client::{create_or_get, list};
use base_secrets::{Credential, SecretText, label, to_yaml};
use components_hosted::KUBECONFIG_KEY;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use super::super::super::cluster;
use super::super::super::operation::Operation;
use super::{CA, ShootSecrets, ours};

/// Its name before the checksum.
const NAME: &str = "generic-token-kubeconfig";
/// Where clients mount their token, as everybody's helpers do it.
const TOKEN_PATH: &str = "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/token";
/// Bytes of the checksum in its name.
const CHECKSUM_BYTES: usize = 4;

/// Makes it, once for each content, and writes its name onto the Cluster. The newest one before stays: what an extension
/// deployed earlier mounts it until the extension is reconciled. Returns the names of those that no longer need to stay.
pub(super) async fn deploy(op: &Operation, secrets: &ShootSecrets) -> Result<Vec<String>, Fault> {
    let kubeconfig = op.kubeconfig(secrets.get(CA)?, Credential::TokenFile(TOKEN_PATH.to_owned()))?;
    let desired = secret(op.namespace(), &to_yaml(&kubeconfig).map_err(ours)?);
    let api = op.here::<Secret>();
    let all = list(&api, &format!("{}={NAME}", label::NAME)).await?;
    let name = desired.name_any();
    if !all.iter().any(|present| present.name_any() == name) {
        create_or_get(&api, &desired).await?;
    }
    cluster::name_generic_kubeconfig(&op.context, op.namespace(), &name).await?;
    Ok(obsolete(&all, &name))
}

fn secret(namespace: &str, kubeconfig: &SecretText) -> Secret {
    let checksum: String = Sha256::digest(kubeconfig.expose())
        .iter()
        .take(CHECKSUM_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Secret {
        metadata: ObjectMeta {
            name: Some(format!("{NAME}-{checksum}")),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(label::NAME.to_owned(), NAME.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(
            KUBECONFIG_KEY.to_owned(),
            ByteString(kubeconfig.expose_bytes()),
        )])),
        ..Secret::default()
    }
}

/// All but the `current` one and the newest of the others.
fn obsolete(all: &[Secret], current: &str) -> Vec<String> {
    let mut others: Vec<&Secret> = all.iter().filter(|secret| secret.name_any() != current).collect();
    others.sort_by_key(|secret| {
        let created = secret.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (created, secret.name_any())
    });
    others.pop();
    others.into_iter().map(ResourceExt::name_any).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn another_content_has_another_name() {
        let [first, second] = ["a", "b"].map(|text| secret("n", &SecretText::new(text)));
        assert_ne!(first.name_any(), second.name_any());
        assert_eq!(first, secret("n", &SecretText::new("a")));
        assert!(first.name_any().starts_with("generic-token-kubeconfig-"));
    }

    #[test]
    fn only_the_newest_kubeconfig_before_the_current_one_stays() {
        let made = |name: &str, at: &str| Secret {
            metadata: ObjectMeta {
                name: Some(name.into()),
                creation_timestamp: Some(Time(at.parse().unwrap())),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        };
        let all = [
            made("newest", "2026-01-03T00:00:00Z"),
            made("oldest", "2026-01-01T00:00:00Z"),
            made("current", "2026-01-02T00:00:00Z"),
            made("older", "2026-01-02T00:00:00Z"),
        ];
        assert_eq!(obsolete(&all, "current"), ["oldest", "older"]);
        assert!(obsolete(&all[2..3], "current").is_empty());
    }
}
