//! What a pod reads from outside: Secrets, ConfigMaps, claims and tokens, each followed by a watch (a token by its
//! expiry). It decides nothing about the pod.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base_clock::Clock;
use bytes::Bytes;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt, stream};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount};
use kube::Api;
use kube::api::{ListParams, PostParams};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::volumes::{TokenKey, Wanted};
use crate::Volume;
use crate::follow::{Pause, follow_one};
use crate::node::Host;

/// Tokens are renewed when this part of their life is over, as the kubelet does.
const RENEW_AT: f64 = 0.8;
/// No token is requested more often, whatever its lifetime.
const RENEW_MIN: Duration = Duration::from_secs(10);

type Data = BTreeMap<String, Bytes>;

/// What is known of the sources. Not in a map: not read yet. `None` in it: read, and not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    secrets: BTreeMap<String, Option<Data>>,
    config_maps: BTreeMap<String, Option<Data>>,
    claims: BTreeMap<String, Option<Volume>>,
    tokens: BTreeMap<TokenKey, Result<Bytes, String>>,
}

impl Found {
    pub(crate) fn secret(&self, name: &str) -> Option<&Data> {
        self.secrets.get(name)?.as_ref()
    }

    pub(crate) fn knows_secret(&self, name: &str) -> bool {
        self.secrets.contains_key(name)
    }

    pub(crate) fn config_map(&self, name: &str) -> Option<&Data> {
        self.config_maps.get(name)?.as_ref()
    }

    pub(crate) fn knows_config_map(&self, name: &str) -> bool {
        self.config_maps.contains_key(name)
    }

    pub(crate) fn claim(&self, name: &str) -> Option<&Option<Volume>> {
        self.claims.get(name)
    }

    pub(crate) fn token(&self, key: &TokenKey) -> Option<&Result<Bytes, String>> {
        self.tokens.get(key)
    }

    pub(crate) fn put_secret(&mut self, name: &str, data: Option<Data>) {
        self.secrets.insert(name.to_owned(), data);
    }

    pub(crate) fn put_config_map(&mut self, name: &str, data: Option<Data>) {
        self.config_maps.insert(name.to_owned(), data);
    }

    /// Whether all that is wanted was read once, so that what is missing does not exist.
    pub(crate) fn has_read(&self, wanted: &Wanted) -> bool {
        wanted.secrets.iter().all(|name| self.secrets.contains_key(name))
            && wanted
                .config_maps
                .iter()
                .all(|name| self.config_maps.contains_key(name))
            && wanted.claims.iter().all(|name| self.claims.contains_key(name))
            && wanted.tokens.iter().all(|key| self.tokens.contains_key(key))
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Secret(name, data) => self.put_secret(&name, data),
            Update::ConfigMap(name, data) => self.put_config_map(&name, data),
            // A bound claim keeps its volume: what is mounted stays until the pod ends.
            Update::Claim(name, None) if matches!(self.claims.get(&name), Some(Some(_))) => {}
            Update::Claim(name, volume) => {
                self.claims.insert(name, volume);
            }
            // A failed renewal leaves the token that still works.
            Update::Token(key, Err(_)) if matches!(self.tokens.get(&key), Some(Ok(_))) => {}
            Update::Token(key, token) => {
                self.tokens.insert(key, token);
            }
        }
    }
}

enum Update {
    Secret(String, Option<Data>),
    ConfigMap(String, Option<Data>),
    Claim(String, Option<Volume>),
    Token(TokenKey, Result<Bytes, String>),
}

/// All sources of one pod. Tasks of their own follow them, whatever the pod waits for: a request that is not polled
/// would keep its place among the 1024 that a client has (kube-client 5.0 `Client::new`), and the pods of a large node
/// have more sources than that.
pub(crate) struct Sources {
    newest: watch::Sender<Arc<Found>>,
    seen: watch::Receiver<Arc<Found>>,
    /// Each ends with the last of its sources that can change.
    following: JoinSet<()>,
    followed: Wanted,
    /// What the pod has seen.
    pub(crate) found: Arc<Found>,
}

impl Sources {
    /// Nothing is followed yet.
    pub(crate) fn none() -> Self {
        let found: Arc<Found> = Arc::default();
        let (newest, seen) = watch::channel(Arc::clone(&found));
        Sources {
            newest,
            seen,
            following: JoinSet::new(),
            followed: Wanted::default(),
            found,
        }
    }

    /// Follows what is wanted as well. What is followed already goes on as it was.
    pub(crate) fn follow(&mut self, host: &Arc<Host>, pod: &Pod, wanted: &Wanted) {
        let wanted = self.followed.add(wanted);
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let mut updates = SelectAll::new();
        for name in &wanted.secrets {
            updates.push(secret(host, namespace, name));
        }
        for name in &wanted.config_maps {
            updates.push(config_map(host, namespace, name));
        }
        for name in &wanted.claims {
            updates.push(claim(host, namespace, name));
        }
        for key in &wanted.tokens {
            updates.push(token(host, pod, key));
        }
        if updates.is_empty() {
            return;
        }
        let newest = self.newest.clone();
        self.following.spawn(async move {
            while let Some(update) = updates.next().await {
                newest.send_modify(|found| Arc::make_mut(found).apply(update));
            }
        });
    }

    /// Waits for a change, and puts the newest state into `found`. Never returns when there is nothing to follow.
    pub(crate) async fn changed(&mut self) {
        loop {
            tokio::select! {
                biased;
                // No error: the other end is here.
                _ = self.seen.changed() => {
                    self.found = Arc::clone(&self.seen.borrow_and_update());
                    return;
                }
                Some(ended) = self.following.join_next() => {
                    if let Err(error) = ended
                        && let Ok(panic) = error.try_into_panic()
                    {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }
}

fn secret(host: &Arc<Host>, namespace: &str, name: &str) -> BoxStream<'static, Update> {
    let api: Api<Secret> = Api::namespaced(host.client.clone(), namespace);
    let key = name.to_owned();
    until_last(follow_one(api, name), |secret: &Secret| secret.immutable == Some(true))
        .map(move |secret| {
            let data = secret.map(|secret| {
                secret
                    .data
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| (key, Bytes::from(value.0)))
                    .collect()
            });
            Update::Secret(key.clone(), data)
        })
        .boxed()
}

fn config_map(host: &Arc<Host>, namespace: &str, name: &str) -> BoxStream<'static, Update> {
    let api: Api<ConfigMap> = Api::namespaced(host.client.clone(), namespace);
    let key = name.to_owned();
    until_last(follow_one(api, name), |map: &ConfigMap| map.immutable == Some(true))
        .map(move |map| {
            let data = map.map(|map| {
                let text = map
                    .data
                    .into_iter()
                    .flatten()
                    .map(|(key, value)| (key, Bytes::from(value)));
                let binary = map.binary_data.into_iter().flatten();
                text.chain(binary.map(|(key, value)| (key, Bytes::from(value.0))))
                    .collect()
            });
            Update::ConfigMap(key.clone(), data)
        })
        .boxed()
}

/// Ends a watch with the first state that no other follows, as the kubelet does with immutable objects: a control plane's pods mount
/// many of them.
fn until_last<K: Send + 'static>(
    states: impl futures::Stream<Item = Option<K>> + Send + 'static,
    is_last: impl Fn(&K) -> bool + Send + 'static,
) -> impl futures::Stream<Item = Option<K>> + Send + 'static {
    stream::unfold(Some((Box::pin(states), is_last)), |following| async move {
        let (mut states, is_last) = following?;
        let state = states.next().await?;
        let goes_on = !state.as_ref().is_some_and(&is_last);
        Some((state, goes_on.then_some((states, is_last))))
    })
}

fn claim(host: &Arc<Host>, namespace: &str, name: &str) -> BoxStream<'static, Update> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(host.client.clone(), namespace);
    let (host, key) = (Arc::clone(host), name.to_owned());
    let volumes = follow_one(claims, name).then(move |claim| {
        let host = Arc::clone(&host);
        async move { open(&host, claim).await }
    });
    // A bound claim keeps its volume: a watch for each of a node's thousands of claims would report nothing more.
    until_last(volumes, |_: &Volume| true)
        .map(move |volume| Update::Claim(key.clone(), volume))
        .boxed()
}

/// The content of a bound claim's volume; None while it is not bound.
async fn open(host: &Arc<Host>, claim: Option<PersistentVolumeClaim>) -> Option<Volume> {
    let claim = claim?;
    let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let volume_name = claim.spec.as_ref()?.volume_name.clone().filter(|_| bound)?;
    let volumes: Api<PersistentVolume> = Api::all(host.client.clone());
    let mut pauses = Pause::default();
    let uid = loop {
        match volumes.get_opt(&volume_name).await {
            Ok(volume) => break volume?.metadata.uid?,
            Err(error) => {
                tracing::debug!(%error, volume = %volume_name, "persistent volume cannot be read, trying again");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
        }
    };
    follow_volume(host, volumes, volume_name, &uid);
    Some(host.volumes.open(&uid))
}

/// Adopts the volumes that were there before this node began: those whose PersistentVolume went meanwhile are dropped.
pub(crate) async fn adopt_volumes(host: Arc<Host>) {
    let stored = host.volumes.persistent();
    if stored.is_empty() {
        return;
    }
    let volumes: Api<PersistentVolume> = Api::all(host.client.clone());
    let mut pauses = Pause::default();
    let there = loop {
        match volumes.list(&ListParams::default()).await {
            Ok(list) => break list.items,
            Err(error) => {
                tracing::debug!(%error, "persistent volumes cannot be listed, trying again");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
        }
    };
    for uid in stored {
        let known = there.iter().find(|volume| volume.metadata.uid.as_ref() == Some(&uid));
        match known.and_then(|volume| volume.metadata.name.clone()) {
            Some(name) => follow_volume(&host, volumes.clone(), name, &uid),
            None => host.volumes.forget(&uid),
        }
    }
}

/// Watches for the end of a PersistentVolume, once.
fn follow_volume(host: &Arc<Host>, api: Api<PersistentVolume>, name: String, uid: &str) {
    let mut followed = host.followed.lock().unwrap_or_else(PoisonError::into_inner);
    if !followed.insert(uid.to_owned()) {
        return;
    }
    let (host, uid) = (Arc::clone(host), uid.to_owned());
    tokio::spawn(async move {
        let forget = forget_when_deleted(api, name, &host, uid);
        host.ended.run_until_cancelled(forget).await;
    });
}

/// Drops the content when its PersistentVolume goes, or another takes its name.
async fn forget_when_deleted(api: Api<PersistentVolume>, name: String, host: &Host, uid: String) {
    let mut states = Box::pin(follow_one(api, &name));
    while let Some(state) = states.next().await {
        if state.and_then(|volume| volume.metadata.uid).as_deref() != Some(uid.as_str()) {
            break;
        }
    }
    host.volumes.forget(&uid);
    let mut followed = host.followed.lock().unwrap_or_else(PoisonError::into_inner);
    followed.remove(&uid);
}

fn token(host: &Arc<Host>, pod: &Pod, key: &TokenKey) -> BoxStream<'static, Update> {
    let meta = &pod.metadata;
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let source = TokenSource {
        accounts: Api::namespaced(host.client.clone(), meta.namespace.as_deref().unwrap_or_default()),
        account: account.unwrap_or_else(|| "default".to_owned()),
        request: TokenRequest {
            spec: TokenRequestSpec {
                audiences: key.audience.iter().cloned().collect(),
                expiration_seconds: Some(key.seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: meta.name.clone(),
                    uid: meta.uid.clone(),
                }),
            },
            ..TokenRequest::default()
        },
        clock: host.clock.clone(),
        pauses: Pause::default(),
        wait: Duration::ZERO,
    };
    let key = key.clone();
    stream::unfold(source, |mut source| async move {
        tokio::time::sleep(source.wait).await;
        let answer = source.renew().await;
        Some((answer, source))
    })
    .map(move |answer| Update::Token(key.clone(), answer))
    .boxed()
}

/// Requests one token and renews it.
struct TokenSource {
    accounts: Api<ServiceAccount>,
    account: String,
    request: TokenRequest,
    clock: Clock,
    pauses: Pause,
    wait: Duration,
}

impl TokenSource {
    /// One request; sets the time until the next.
    async fn renew(&mut self) -> Result<Bytes, String> {
        let requested_at = self.clock.now();
        let answer: Result<TokenRequest, kube::Error> = self
            .accounts
            .create_subresource("token", &self.account, &PostParams::default(), &self.request)
            .await;
        let refused = |why: String| Err(format!("serviceaccount {}: {why}", self.account));
        match answer.map(|answer| answer.status) {
            Ok(Some(status)) => {
                self.pauses = Pause::default();
                let life = Duration::try_from(status.expiration_timestamp.0.duration_since(requested_at));
                self.wait = life.unwrap_or_default().mul_f64(RENEW_AT).max(RENEW_MIN);
                Ok(Bytes::from(status.token))
            }
            Ok(None) => {
                self.wait = self.pauses.next().unwrap_or(RENEW_MIN);
                refused("the API answered without a token".to_owned())
            }
            Err(error) => {
                self.wait = self.pauses.next().unwrap_or(RENEW_MIN);
                refused(error.to_string())
            }
        }
    }
}
