//! The watch of a kind as a stream of events, compiled once for all kinds: the machinery of `kube::runtime::watcher`
//! runs over raw objects, and only their decoding is compiled per kind. (Compiled per kind, all of it was a
//! quarter of the unoptimised program's code.) It never waits between attempts: `watch` does.

use std::borrow::Cow;
use std::fmt::Debug;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Lists and watches what `api` and `config` name, as `kube::runtime::watcher` does: endless, and after an error it
/// goes on when polled again. An object that cannot be read is an error of the watch; in a list it fails the list,
/// which is then repeated, so that a list never ends without that object.
pub(crate) fn watch_raw<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
{
    let watched = Watched {
        resource: ApiResource::erase::<K>(&()),
        namespace: api.namespace().map(str::to_owned),
        client: api.into_client(),
        config,
    };
    let events = watched.events();
    stream::unfold((watched, events), async |(watched, mut events)| {
        let event = events.next().await?.and_then(typed);
        if let Err(watcher::Error::InitialListFailed(kube::Error::SerdeError(_))) = &event {
            events = watched.events();
        }
        Some((event, (watched, events)))
    })
}

/// What is watched.
struct Watched {
    client: Client,
    resource: ApiResource,
    namespace: Option<String>,
    config: watcher::Config,
}

impl Watched {
    fn events(&self) -> BoxStream<'static, Result<Event<Raw>, watcher::Error>> {
        let client = self.client.clone();
        let api = match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        };
        watcher::watcher(api, self.config.clone()).boxed()
    }
}

fn typed<K: DeserializeOwned>(event: Event<Raw>) -> Result<Event<K>, watcher::Error> {
    let listing = |error| watcher::Error::InitialListFailed(kube::Error::SerdeError(error));
    let watching = |error| watcher::Error::WatchFailed(kube::Error::SerdeError(error));
    Ok(match event {
        Event::Init => Event::Init,
        Event::InitApply(raw) => Event::InitApply(raw.read().map_err(listing)?),
        Event::InitDone => Event::InitDone,
        Event::Apply(raw) => Event::Apply(raw.read().map_err(watching)?),
        Event::Delete(raw) => Event::Delete(raw.read().map_err(watching)?),
    })
}

/// An object as it was received, of which only what a watcher needs has been decoded.
#[derive(Clone)]
struct Raw {
    /// Its resource version alone.
    metadata: ObjectMeta,
    json: Box<RawValue>,
}

impl Raw {
    fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.json.get())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Versioned {
            metadata: Version,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            resource_version: Option<String>,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Versioned { metadata } = serde_json::from_str(json.get()).map_err(serde::de::Error::custom)?;
        Ok(Self {
            metadata: ObjectMeta {
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            json,
        })
    }
}

/// Without the content, which may be secret.
impl Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raw")
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
