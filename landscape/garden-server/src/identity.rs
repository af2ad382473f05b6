//! The garden's identity in the API server in front, where Gardener's components read it: made once, never changed
//! (gardener/gardener v1.150 cmd/gardener-apiserver/app, bootstrap-cluster-identity).

use std::collections::BTreeMap;

use api_meta::Fault;
use api_meta::names::CLUSTER_IDENTITY;
use base_client::{WatchPause, fault_of, is_exists};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

const NAMESPACE: &str = "kube-system";
/// Who has chosen it.
const ORIGIN: (&str, &str) = ("origin", "gardener-apiserver");

/// Makes sure that the server in front has this identity; tries until it answers.
///
/// # Errors
/// It has another one.
pub(crate) async fn ensure(client: &Client, identity: &str) -> Result<(), Fault> {
    let mut reported = String::new();
    for pause in WatchPause::default() {
        match ensure_once(client, identity).await {
            Ok(found) if found == identity => return Ok(()),
            Ok(found) => {
                let what = format!("--cluster-identity is {identity:?}, but the garden is {found:?} already");
                return Err(Fault::user(what).hint(format!(
                    "leave the flag out or set it to what ConfigMap {NAMESPACE}/{CLUSTER_IDENTITY} has: it never changes"
                )));
            }
            Err(fault) => {
                let text = fault.to_string();
                if text != reported {
                    tracing::warn!("{text}");
                    reported = text;
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// The identity that is there after it.
async fn ensure_once(client: &Client, identity: &str) -> Result<String, Fault> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let what = "make sure of the garden's identity";
    loop {
        let found = maps
            .get_opt(CLUSTER_IDENTITY)
            .await
            .map_err(|error| fault_of(error, what))?;
        if let Some(found) = found {
            let value = found.data.unwrap_or_default().remove(CLUSTER_IDENTITY);
            return Ok(value.unwrap_or_default());
        }
        let (origin, ours) = ORIGIN;
        let data = [(CLUSTER_IDENTITY, identity), (origin, ours)];
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(CLUSTER_IDENTITY.to_owned()),
                ..ObjectMeta::default()
            },
            immutable: Some(true),
            data: Some(BTreeMap::from(
                data.map(|(key, value)| (key.to_owned(), value.to_owned())),
            )),
            ..ConfigMap::default()
        };
        match maps.create(&PostParams::default(), &map).await {
            Ok(_) => return Ok(identity.to_owned()),
            // Another replica was faster.
            Err(error) if is_exists(&error) => {}
            Err(error) => return Err(fault_of(error, what)),
        }
    }
}
