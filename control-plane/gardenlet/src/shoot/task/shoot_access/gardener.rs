//! The Secrets `gardener` and `gardener-internal`: kubeconfigs by which extensions work in the shoot, from outside its
//! seed and from within (gardener/gardener v1.150 `pkg/component/gardener/access`). The token in them comes from the
//! resource manager's token requestor and is never touched here.

use std::collections::BTreeMap;

use api_meta::{Fault, annotations, labels};
use base_client::{create_or_get, get, patch_changed};
use base_secrets::{Credential, to_yaml};
use components_hosted::KUBECONFIG_KEY;
use components_hosted::shoot::gardener_access_objects;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::config::Kubeconfig;

use super::super::super::managed;
use super::super::super::operation::Operation;
use super::super::secrets::{CA, ShootSecrets};

/// The Secret for clients outside the seed, and its service account.
const EXTERNAL: &str = "gardener";
/// The Secret for clients in the seed, and its service account.
const INTERNAL: &str = "gardener-internal";
/// The ManagedResource with their rights.
const MANAGED_RESOURCE: &str = "shoot-core-gardeneraccess";
/// Where their service accounts live in the shoot.
const SERVICE_ACCOUNT_NAMESPACE: &str = "kube-system";

/// Writes both, and the rights they need.
pub(super) async fn deploy(op: &Operation, secrets: &ShootSecrets) -> Result<(), Fault> {
    let authority = secrets.get(CA)?;
    deploy_secret(op, EXTERNAL, op.external_kubeconfig(authority, Credential::Anonymous)?).await?;
    deploy_secret(op, INTERNAL, op.kubeconfig(authority, Credential::Anonymous)?).await?;
    let objects = gardener_access_objects(&[EXTERNAL, INTERNAL]);
    managed::deploy(op, MANAGED_RESOURCE, &objects).await.map(drop)
}

/// Not applied as other objects are: the token requestor writes into the same entry, and its token must not be lost to a
/// write of ours that comes between its reading and its writing. A conflict is tried again with the whole task.
async fn deploy_secret(op: &Operation, name: &str, kubeconfig: Kubeconfig) -> Result<(), Fault> {
    let api = op.here::<Secret>();
    match get(&api, name).await? {
        None => create_or_get(&api, &desired(op.namespace(), name, kubeconfig, None)?)
            .await
            .map(drop),
        Some(present) => {
            let mut after = present.clone();
            let wanted = desired(op.namespace(), name, kubeconfig, Some(&present))?;
            let merge = |into: &mut Option<BTreeMap<String, String>>, from: Option<BTreeMap<String, String>>| {
                into.get_or_insert_default().extend(from.unwrap_or_default());
            };
            merge(&mut after.metadata.labels, wanted.metadata.labels);
            merge(&mut after.metadata.annotations, wanted.metadata.annotations);
            after.data = wanted.data;
            patch_changed(&api, &present, &after).await.map(drop)
        }
    }
}

/// The Secret with this kubeconfig, and with the users of the one that is `present`.
fn desired(namespace: &str, name: &str, mut kubeconfig: Kubeconfig, present: Option<&Secret>) -> Result<Secret, Fault> {
    let held = present.and_then(|secret| secret.data.as_ref()?.get(KUBECONFIG_KEY));
    let held = held.and_then(|bytes| Kubeconfig::from_yaml(std::str::from_utf8(&bytes.0).ok()?).ok());
    // What cannot be read, or is a user of another name, is replaced: the token requestor fills it again.
    let names = |config: &Kubeconfig| {
        config
            .auth_infos
            .iter()
            .map(|user| user.name.clone())
            .collect::<Vec<_>>()
    };
    if let Some(held) = held.filter(|held| names(held) == names(&kubeconfig)) {
        kubeconfig.auth_infos = held.auth_infos;
    }
    let yaml = to_yaml(&kubeconfig).map_err(|error| Fault::bug(error).hint("report it"))?;
    let pairs = |pairs: [(&str, &str); 2]| {
        let owned = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Some(BTreeMap::from(owned))
    };
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: pairs([
                (labels::RESOURCES_PURPOSE, labels::resources::PURPOSE_TOKEN_REQUESTOR),
                (labels::RESOURCES_CLASS, labels::resources::CLASS_SHOOT),
            ]),
            annotations: pairs([
                (annotations::SERVICE_ACCOUNT_NAME, name),
                (annotations::SERVICE_ACCOUNT_NAMESPACE, SERVICE_ACCOUNT_NAMESPACE),
            ]),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            KUBECONFIG_KEY.to_owned(),
            ByteString(yaml.expose_bytes()),
        )])),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use base_secrets::{KubeconfigSpec, SecretText, kubeconfig};

    use super::*;

    fn config(server: &str, user: &str, credential: Credential) -> Kubeconfig {
        kubeconfig(&KubeconfigSpec {
            name: user.into(),
            server: server.into(),
            tls_server_name: None,
            authorities: String::new(),
            credential,
            namespace: None,
        })
    }

    fn text(secret: &Secret) -> String {
        String::from_utf8(secret.data.as_ref().unwrap()[KUBECONFIG_KEY].0.clone()).unwrap()
    }

    #[test]
    fn the_requestors_token_survives_a_new_address_of_the_server() {
        let filled = config("https://old", "shoot", Credential::Token(SecretText::new("t0ken")));
        let filled = desired("n", "gardener", filled, None).unwrap();
        let empty = || config("https://new", "shoot", Credential::Anonymous);
        let after = text(&desired("n", "gardener", empty(), Some(&filled)).unwrap());
        assert!(after.contains("t0ken") && after.contains("https://new") && !after.contains("https://old"));
        let other = config("https://old", "other", Credential::Token(SecretText::new("t0ken")));
        let other = desired("n", "gardener", other, None).unwrap();
        assert!(!text(&desired("n", "gardener", empty(), Some(&other)).unwrap()).contains("t0ken"));
        let mut broken = filled;
        broken.data = Some(BTreeMap::from([(KUBECONFIG_KEY.into(), ByteString(b": [".to_vec()))]));
        assert!(text(&desired("n", "gardener", empty(), Some(&broken)).unwrap()).contains("https://new"));
    }
}
