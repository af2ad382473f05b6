//! What gardenlet makes around extension objects: namespace, Cluster, Secrets. And takes down again.

use std::collections::BTreeMap;

use api_extensions::{Cluster, ClusterSpec, ExtensionKind};
use api_meta::{Fault, RawJson, annotations, labels, names};
use base_client::{apply, delete};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use serde_json::Value;

use crate::subject::Subject;
use crate::template::{self, Names, ShootState};

/// The field manager of what the kit applies.
const MANAGER: &str = "orangery-conformance";

fn text_map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// The labels by which webhooks of extensions select namespaces of Shoots (gardener/gardener v1.150
/// pkg/gardenlet/operation/botanist/namespaces.go).
fn marks(subject: &Subject) -> BTreeMap<String, String> {
    let provider = template::provider(subject);
    let mut marks = text_map([
        (labels::ROLE, labels::role::SHOOT),
        (labels::SEED_PROVIDER, &provider),
        (labels::SHOOT_PROVIDER, &provider),
        (labels::BACKUP_PROVIDER, &provider),
        (labels::POD_SECURITY_ENFORCE, "privileged"),
    ]);
    match subject.kind {
        ExtensionKind::Network => {
            marks.insert(labels::NETWORKING_PROVIDER.to_owned(), subject.type_.clone());
        }
        ExtensionKind::Extension => {
            marks.insert(
                format!("{}{}", labels::EXTENSION_PREFIX, subject.type_),
                "true".to_owned(),
            );
        }
        _ => {}
    }
    marks
}

/// Makes namespace, Cluster, credentials and the author's objects.
pub(crate) async fn make(client: &Client, subject: &Subject, names: &Names, now: jiff::Timestamp) -> Result<(), Fault> {
    namespace(client, &names.namespace, marks(subject), &names.uid).await?;
    cluster(client, subject, names, ShootState::Processing, now).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &names.namespace);
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(names.secret(subject.kind)),
            labels: Some(text_map([(labels::PURPOSE, names::CLOUD_PROVIDER_SECRET)])),
            ..ObjectMeta::default()
        },
        data: Some(subject.credentials.clone()),
        ..Secret::default()
    };
    apply(&secrets, &secret, MANAGER).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &names.namespace);
    for object in &subject.fragments.objects {
        match object["kind"].as_str() {
            Some("Secret") => apply(&secrets, &within::<Secret>(object)?, MANAGER).await.map(drop)?,
            _ => apply(&maps, &within::<ConfigMap>(object)?, MANAGER).await.map(drop)?,
        }
    }
    Ok(())
}

/// An author's object, for the kit's namespace.
fn within<K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned>(object: &Value) -> Result<K, Fault> {
    let wrong = |error: serde_json::Error| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Fault::user(format!(
            "objects: {} {name:?} has a field of a wrong type: {error}",
            K::kind(&())
        ))
        .hint("correct the object in the file with the fragments")
    };
    let mut read: K = serde_json::from_value(object.clone()).map_err(wrong)?;
    read.meta_mut().namespace = None;
    Ok(read)
}

/// Makes a namespace of a Shoot.
pub(crate) async fn namespace(
    client: &Client,
    name: &str,
    labels: BTreeMap<String, String>,
    uid: &str,
) -> Result<(), Fault> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            annotations: Some(text_map([(annotations::SHOOT_UID, uid)])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    apply(&Api::all(client.clone()), &namespace, MANAGER).await.map(drop)
}

/// Writes the Cluster.
pub(crate) async fn cluster(
    client: &Client,
    subject: &Subject,
    names: &Names,
    state: ShootState,
    now: jiff::Timestamp,
) -> Result<(), Fault> {
    let [profile, seed, shoot] = template::cluster(subject, names, state, now).map(RawJson::from);
    let cluster = Cluster {
        metadata: ObjectMeta {
            name: Some(names.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: ClusterSpec {
            cloud_profile: profile,
            seed: Some(seed),
            shoot,
        },
    };
    apply(&Api::all(client.clone()), &cluster, MANAGER).await.map(drop)
}

/// Takes all of it down, one after the other whatever happens; what could not be taken down, as sentences.
pub(crate) async fn remove(client: &Client, subject: &Subject, names: &Names) -> Vec<String> {
    let mut left = Vec::new();
    let mut note = |what: String, outcome: Result<(), Fault>| {
        if let Err(fault) = outcome {
            left.push(format!("{what}: {}", fault.chain()));
        }
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &names.namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &names.namespace);
    let of_author = subject.fragments.objects.iter().filter_map(|object| {
        let name = object["metadata"]["name"].as_str()?.to_owned();
        Some((object["kind"] == "Secret", name))
    });
    let all = of_author.chain([(true, names.secret(subject.kind))]);
    for (is_secret, name) in all {
        let deleted = match is_secret {
            true => delete(&secrets, &name).await,
            false => delete(&maps, &name).await,
        };
        note(format!("{}/{name}", names.namespace), deleted);
    }
    let cluster = delete(&Api::<Cluster>::all(client.clone()), &names.namespace).await;
    note(format!("Cluster {}", names.namespace), cluster);
    let namespace = delete(&Api::<Namespace>::all(client.clone()), &names.namespace).await;
    note(format!("Namespace {}", names.namespace), namespace);
    left
}

/// Takes down a namespace that was made beside.
pub(crate) async fn remove_namespace(client: &Client, name: &str) -> Result<(), Fault> {
    delete(&Api::<Namespace>::all(client.clone()), name).await
}
