//! What a Secret leaves behind that no longer requests its token: the ServiceAccount in the target, and our finalizer. What
//! fails is tried again until it succeeds. What happens while no requestor runs leaves the ServiceAccount, as only the Secret's
//! last version names the target it is in; the finalizer is taken off all the same at the next start, or the Secret could not be
//! deleted. A Secret with the class of another requestor is released there only if it is being deleted.

use std::future::Future;
use std::sync::Arc;

use api_meta::{Fault, labels};
use base_client::{delete, fault_of, get, has_finalizer, remove_finalizer};
use base_controller::{Backoff, Change, ObjectKey};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::reconcile::{FINALIZER, accounts, api};
use crate::wanted::{Named, keeps_account};
use crate::{Context, Options};

/// Secrets of one page of a list.
const PAGE: u32 = 500;

/// Cleans up after the Secrets that are deleted, lose the labels that request a token, or name another ServiceAccount.
/// `outdated`: versions of Secrets that this happened to while a reconcile worked on them, from [`is_outdated`].
pub(crate) async fn follow(context: &Context, mut outdated: UnboundedReceiver<Arc<Secret>>) {
    let mut changes = context.secrets.subscribe();
    let mut cleaning: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
    if context.options.namespace.is_none() {
        let what = "Secrets that request no token keep our finalizer".to_owned();
        cleaning.push(until_done(what, move || release_forgotten(context)).boxed());
    }
    loop {
        let last = tokio::select! {
            change = changes.next() => left_by(&change, &context.options),
            last = outdated.recv() => last,
            Some(()) = cleaning.next() => None,
        };
        if let Some(last) = last {
            let what = format!("the ServiceAccount of Secret \"{}\" stays", ObjectKey::of(&*last));
            cleaning.push(until_done(what, move || clean_up(last.clone(), context)).boxed());
        }
    }
}

/// Calls `work` until it succeeds; `what` is logged while it does not.
async fn until_done<F>(what: String, work: impl Fn() -> F)
where
    F: Future<Output = Result<(), Fault>>,
{
    for failures in 1.. {
        let Err(fault) = work().await else { return };
        let pause = Backoff::default().delay(fault.class, failures);
        match failures {
            1 => tracing::warn!(class = %fault.class, hint = %fault.hint, "{what} for now: {}", fault.chain()),
            _ => tracing::debug!(class = %fault.class, ?pause, "{what} for now: {}", fault.chain()),
        }
        tokio::time::sleep(pause).await;
    }
}

/// The last version of a Secret that has requested the token of a ServiceAccount and does so no more.
fn left_by(change: &Change<Secret>, options: &Options) -> Option<Arc<Secret>> {
    let Some(new) = change.new() else {
        return Some(change.object.clone());
    };
    change
        .old
        .as_ref()
        .filter(|old| names_another(old, new, options))
        .cloned()
}

/// Whether a Secret that named a ServiceAccount names another one now, or none, and does not keep the one before.
fn names_another(old: &Secret, new: &Secret, options: &Options) -> bool {
    let Ok(was) = Named::by(old, options) else {
        return false;
    };
    !keeps_account(new) && !Named::by(new, options).is_ok_and(|is| was.account == is.account)
}

/// Whether the Secret no longer requests what the version did that a reconcile has worked on. What that has done may have come
/// after the clean-up that [`follow`] began for the change; a change that the cache does not show yet is still to come there.
pub(crate) fn is_outdated(worked_on: &Secret, context: &Context) -> bool {
    match context.secrets.get(&ObjectKey::of(worked_on)) {
        Some(now) if now.metadata.uid == worked_on.metadata.uid => names_another(worked_on, &now, &context.options),
        // A reconcile of a deletion adds nothing.
        _ => worked_on.metadata.deletion_timestamp.is_none(),
    }
}

/// Deletes the ServiceAccount that `last` names. A Secret with our finalizer leaves the cache when it is deleted, by whichever
/// requestor took the finalizer off, or when it no longer requests a token: then it still exists, and nothing else would take the
/// finalizer off.
async fn clean_up(last: Arc<Secret>, context: &Context) -> Result<(), Fault> {
    let api = api(&last, context);
    let live = match get(&api, last.metadata.name.as_deref().unwrap_or_default()).await? {
        Some(live) if live.metadata.uid == last.metadata.uid => live,
        successor => return remove_account(&last, successor.as_ref(), context).await,
    };
    let requests_token = requests_token(&live, context);
    if !keeps_account(&live) {
        remove_account(&last, requests_token.then_some(&live), context).await?;
    }
    if requests_token {
        return Ok(());
    }
    // The requestor of another class has the same finalizer: it adds it again, or it cleans up once the Secret is gone.
    remove_finalizer(&api, live, FINALIZER).await.map(drop)
}

/// Whether the labels of a Secret request a token of our class.
fn requests_token(secret: &Secret, context: &Context) -> bool {
    class_of(&secret.metadata).is_some_and(|class| class == context.options.class)
}

/// The class of the token that the labels request.
fn class_of(metadata: &ObjectMeta) -> Option<&str> {
    let labels = metadata.labels.as_ref()?;
    let purpose = labels.get(labels::RESOURCES_PURPOSE)?;
    let class = labels.get(labels::RESOURCES_CLASS)?;
    (purpose == labels::resources::PURPOSE_TOKEN_REQUESTOR).then_some(class)
}

/// Deletes the ServiceAccount that `secret` names, unless it is to stay or another request needs it: one in the cache, or
/// `live`, which may be newer.
pub(crate) async fn remove_account(secret: &Secret, live: Option<&Secret>, context: &Context) -> Result<(), Fault> {
    let Ok(Named { account, keep }) = Named::by(secret, &context.options) else {
        return Ok(());
    };
    let needs = |other: &Secret| {
        other.metadata.deletion_timestamp.is_none()
            && Named::by(other, &context.options).is_ok_and(|other| other.account == account)
    };
    let known = context.secrets.list();
    if keep || known.iter().map(|known| &**known).chain(live).any(needs) {
        return Ok(());
    }
    delete(&accounts(&account, context), &account.name).await
}

/// Takes our finalizer off Secrets that lost their labels unseen. One with the label of another class is left to its requestor,
/// which has the same finalizer, until it is being deleted: there may be no such requestor.
async fn release_forgotten(context: &Context) -> Result<(), Fault> {
    let all: Api<Secret> = Api::all(context.source.clone());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = all.list_metadata(&params).await;
        let page = page.map_err(|error| fault_of(error, "list Secrets"))?;
        let is_forgotten = |metadata: &ObjectMeta| match class_of(metadata) {
            None => true,
            Some(class) => class != context.options.class && metadata.deletion_timestamp.is_some(),
        };
        for found in &page.items {
            if !has_finalizer(found, FINALIZER) || !is_forgotten(&found.metadata) {
                continue;
            }
            let namespace = found.metadata.namespace.as_deref().unwrap_or_default();
            let api: Api<Secret> = Api::namespaced(context.source.clone(), namespace);
            let live = get(&api, found.metadata.name.as_deref().unwrap_or_default()).await?;
            if let Some(live) = live.filter(|live| is_forgotten(&live.metadata)) {
                remove_finalizer(&api, live, FINALIZER).await?;
            }
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}
