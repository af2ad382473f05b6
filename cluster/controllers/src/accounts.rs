//! What every namespace has from the start: the service account `default` and the cluster's authority. Tokens are
//! the API server's business. After kubernetes v1.35 `pkg/controller/serviceaccount` and `certificates/rootcacertpublisher`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_meta::Fault;
use base_client::{create_or_get, patch_changed};
use base_controller::{Controller, Next, ObjectKey};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::caches::ROOT_CA;

const DEFAULT: &str = "default";
/// The key of the authority in its config map.
const AUTHORITY: &str = "ca.crt";
/// What upstream writes beside it for readers.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.",
);

fn is_active(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_none()
}

pub(crate) async fn run_accounts(context: Context, stop: CancellationToken) {
    let (namespaces, accounts) = (context.caches.namespaces(), context.caches.accounts());
    if stop.run_until_cancelled(accounts.ready()).await.is_none() {
        return;
    }
    let controller = Controller::new("serviceaccount", namespaces)
        .only(is_active)
        .watches(&accounts, |change| {
            let is_ours = change.deleted && change.object.name_any() == DEFAULT;
            change
                .object
                .namespace()
                .filter(|_| is_ours)
                .map(ObjectKey::cluster)
                .into_iter()
                .collect()
        });
    controller
        .run(stop, move |namespace| reconcile_account(namespace, context.clone()))
        .await;
}

async fn reconcile_account(namespace: Arc<Namespace>, context: Context) -> Result<Next, Fault> {
    let namespace = namespace.name_any();
    if context
        .caches
        .accounts()
        .get(&ObjectKey::namespaced(&namespace, DEFAULT))
        .is_none()
    {
        let metadata = ObjectMeta {
            name: Some(DEFAULT.to_owned()),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        };
        let account = ServiceAccount {
            metadata,
            ..ServiceAccount::default()
        };
        create_or_get(&Api::namespaced(context.client.clone(), &namespace), &account).await?;
    }
    Ok(Next::Change)
}

pub(crate) async fn run_root_ca(context: Context, authority: String, stop: CancellationToken) {
    let (namespaces, maps) = (context.caches.namespaces(), context.caches.root_authorities());
    if stop.run_until_cancelled(maps.ready()).await.is_none() {
        return;
    }
    let controller = Controller::new("root-ca-certificate-publisher", namespaces)
        .only(is_active)
        .watches(&maps, |change| {
            change.object.namespace().map(ObjectKey::cluster).into_iter().collect()
        });
    let authority = Arc::new(authority);
    controller
        .run(stop, move |namespace| {
            reconcile_root_ca(namespace, authority.clone(), context.clone())
        })
        .await;
}

fn root_ca(namespace: &str, authority: &str) -> ConfigMap {
    let (key, text) = DESCRIPTION;
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(ROOT_CA.to_owned()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(BTreeMap::from([(key.to_owned(), text.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(AUTHORITY.to_owned(), authority.to_owned())])),
        ..ConfigMap::default()
    }
}

async fn reconcile_root_ca(namespace: Arc<Namespace>, authority: Arc<String>, context: Context) -> Result<Next, Fault> {
    let wanted = root_ca(&namespace.name_any(), &authority);
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace.name_any());
    let before = match context.caches.root_authorities().get(&ObjectKey::of(&wanted)) {
        Some(before) => before,
        None => Arc::new(create_or_get(&api, &wanted).await?),
    };
    // Changes of the content by other writers are reverted; their labels and annotations stay.
    let after = ConfigMap {
        metadata: before.metadata.clone(),
        ..wanted
    };
    patch_changed(&api, &*before, &after).await?;
    Ok(Next::Change)
}
