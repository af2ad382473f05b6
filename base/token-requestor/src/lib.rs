//! Fills Secrets of one cluster, the *source*, with tokens of ServiceAccounts in another, the *target*, and renews them
//! before they expire (semantics of gardener/gardener v1.150 pkg/controller/tokenrequestor). A Secret requests a token by
//! its labels and annotations; its ServiceAccount is created, corrected, and deleted with it.
//!
//! It never puts a token into a log, an event or an error text, and never deletes a Secret.
//!
//! Beyond upstream: a ServiceAccount that was deleted or changed is corrected at once, and one whose Secret goes or names
//! another is deleted, unless the Secret's annotation `serviceaccount.resources.gardener.cloud/skip-deletion` says `true` or
//! another Secret requests the same one. A requestor of all namespaces has a finalizer on its Secrets for that; one of a
//! single namespace has not, because it is stopped before its namespace is deleted, and a finalizer would block that.

mod accounts;
mod clean_up;
mod content;
mod reconcile;
mod wanted;

use std::sync::Arc;

use api_meta::labels;
use base_clock::Clock;
use base_controller::{Cache, Controller, EventType, Next, ObjectKey, Recorder};
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::accounts::Accounts;
use crate::wanted::Wanted;

/// In logs and events.
const NAME: &str = "token-requestor";

/// Which Secrets are filled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Namespace of the source in which Secrets are looked for; none means all.
    pub namespace: Option<String>,
    /// Value of the label `resources.gardener.cloud/class`.
    pub class: String,
    /// Namespace of the target in which all ServiceAccounts are, whatever the Secrets name: a source that is not
    /// trusted with the whole target gets tokens of this namespace alone. None: each Secret names the namespace.
    pub account_namespace: Option<String>,
    /// PEM bundle of the target's authorities, for Secrets that request it. None: that of the ConfigMap
    /// `kube-root-ca.crt` beside the ServiceAccount.
    pub ca_bundle: Option<String>,
}

/// What reconciles work with.
pub(crate) struct Context {
    pub(crate) source: Client,
    pub(crate) target: Client,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) secrets: Cache<Secret>,
    pub(crate) accounts: Accounts,
    pub(crate) recorder: Recorder,
    /// For [`clean_up::follow`].
    pub(crate) outdated: mpsc::UnboundedSender<Arc<Secret>>,
}

/// Runs until `stop`.
pub async fn run(source: Client, target: Client, options: Options, clock: Clock, stop: CancellationToken) {
    let api: Api<Secret> = match &options.namespace {
        Some(namespace) => Api::namespaced(source.clone(), namespace),
        None => Api::all(source.clone()),
    };
    let config = watcher::Config::default().labels(&format!(
        "{}={},{}={}",
        labels::RESOURCES_PURPOSE,
        labels::resources::PURPOSE_TOKEN_REQUESTOR,
        labels::RESOURCES_CLASS,
        options.class
    ));
    let secrets = Cache::start(api, config, stop.clone());
    let (accounts, changed) = Accounts::new(target.clone(), stop.clone());
    let (outdated, outdated_versions) = mpsc::unbounded_channel();
    let context = Arc::new(Context {
        recorder: Recorder::new(source.clone(), NAME, clock.clone()),
        source,
        target,
        options,
        clock,
        secrets: secrets.clone(),
        accounts,
        outdated,
    });
    let requesters = requesters_of(secrets.clone(), context.options.clone(), changed);
    let controller = Controller::new(NAME, secrets).called_by(requesters);
    let (filled, gone) = (context.clone(), context);
    let filling = controller.run(stop.clone(), move |secret| reconcile_secret(secret, filled.clone()));
    let following = stop.run_until_cancelled(clean_up::follow(&gone, outdated_versions));
    tokio::join!(filling, following);
}

async fn reconcile_secret(secret: Arc<Secret>, context: Arc<Context>) -> Result<Next, api_meta::Fault> {
    let result = reconcile::reconcile(&secret, &context).await;
    if clean_up::is_outdated(&secret, &context) {
        // It is received as long as reconciles run.
        let _ = context.outdated.send(secret.clone());
    }
    if let Err(fault) = &result
        && fault.class != api_meta::FaultClass::Transient
    {
        let text = format!("{}: {}", fault.chain(), fault.hint);
        (context.recorder)
            .record(
                &*secret,
                EventType::Warning,
                "TokenRequestFailed",
                text.trim_end_matches(": "),
            )
            .await;
    }
    result
}

/// The Secrets that request tokens of the ServiceAccounts that have changed.
fn requesters_of(
    secrets: Cache<Secret>,
    options: Options,
    changed: BoxStream<'static, ObjectKey>,
) -> BoxStream<'static, ObjectKey> {
    let requesters = move |account: ObjectKey| {
        let requests_token =
            |secret: &Arc<Secret>| Wanted::of(secret, &options).is_ok_and(|wanted| wanted.account == account);
        let keys: Vec<ObjectKey> = secrets
            .list()
            .iter()
            .filter(|secret| requests_token(secret))
            .map(|secret| ObjectKey::of(&**secret))
            .collect();
        futures::stream::iter(keys)
    };
    changed.flat_map(requesters).boxed()
}
