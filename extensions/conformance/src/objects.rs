//! Reading, writing and watching objects of a kind that is known only at run time. Each kind has its own types behind
//! [`Objects`], so that raw JSON in a status is passed on byte by byte.

use api_extensions::{DefaultStatus, ExtensionKind, ExtensionObject, ForKind};
use api_meta::{Fault, FaultClass};
use async_trait::async_trait;
use base_client::{api_in, fault_of, get, is_missing, patch_changed, patch_status_if_changed, read_again, watch};
use base_clock::Clock;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::Value;

use crate::version::{Version, spec_of};

/// How often a write is tried again when others write the object: the kit itself has a writer that never pauses for long.
const ATTEMPTS_MAX: usize = 50;

/// What may be changed of an object beside its status.
pub(crate) struct Main {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Value,
}

pub(crate) type EditMain<'a> = &'a (dyn Fn(&mut Main) + Send + Sync);
pub(crate) type EditStatus<'a> = &'a (dyn Fn(&mut DefaultStatus) + Send + Sync);

/// What a watch shows of one object.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A list begins: changes before it may be missing.
    Lists,
    /// The list has ended; the object as it is, if it is there.
    Listed(Option<Version>),
    Changed(Version),
    Gone,
}

/// The objects of one kind in one place.
#[async_trait]
pub(crate) trait Objects: Send + Sync {
    fn kind(&self) -> ExtensionKind;

    /// Creates an object from its JSON.
    async fn create(&self, object: Value) -> Result<Version, Fault>;

    /// Changes metadata and spec; on a conflict again. Nothing if the object is gone.
    async fn edit(&self, name: &str, edit: EditMain<'_>) -> Result<Option<Version>, Fault>;

    /// Changes the common status; on a conflict again. Nothing if the object is gone.
    async fn edit_status(&self, name: &str, edit: EditStatus<'_>) -> Result<Option<Version>, Fault>;

    /// Sends a merge patch, whatever version the object has. Nothing if the object is gone.
    async fn merge(&self, name: &str, patch: Value) -> Result<Option<Version>, Fault>;

    /// Requests the deletion; fine if the object is gone.
    async fn delete(&self, name: &str) -> Result<(), Fault>;

    /// Everything that happens to one object, for ever.
    fn watch(&self, name: &str) -> BoxStream<'static, Result<Seen, Fault>>;
}

/// The objects of a kind in `namespace`, which does not matter for kinds that are cluster-scoped.
pub(crate) fn objects(kind: ExtensionKind, client: &Client, namespace: &str, clock: &Clock) -> Box<dyn Objects> {
    let clock = clock.clone();
    kind.with(Open {
        client,
        namespace,
        clock,
    })
}

struct Open<'a> {
    client: &'a Client,
    namespace: &'a str,
    clock: Clock,
}

impl ForKind for Open<'_> {
    type Output = Box<dyn Objects>;

    fn call<K: ExtensionObject>(self) -> Box<dyn Objects> {
        Box::new(Typed::<K> {
            api: api_in(self.client, self.namespace),
            clock: self.clock,
        })
    }
}

struct Typed<K> {
    api: Api<K>,
    clock: Clock,
}

impl<K: ExtensionObject> Typed<K> {
    fn version(&self, object: &K) -> Result<Version, Fault> {
        Version::of(object, self.clock.now())
    }

    fn failed(error: kube::Error, doing: &str, name: &str) -> Fault {
        fault_of(error, &format!("{doing} {} {name}", K::KIND))
    }
}

#[async_trait]
impl<K: ExtensionObject> Objects for Typed<K> {
    fn kind(&self) -> ExtensionKind {
        K::ROW
    }

    async fn create(&self, object: Value) -> Result<Version, Fault> {
        let object: K = serde_json::from_value(object).map_err(|error| {
            let why = format!("the {} to be created has a field of a wrong type: {error}", K::KIND);
            Fault::user(why).hint("correct the field in the file with the fragments")
        })?;
        let name = object.meta().name.clone().unwrap_or_default();
        let created = self.api.create(&PostParams::default(), &object).await;
        self.version(&created.map_err(|error| Self::failed(error, "create", &name))?)
    }

    async fn edit(&self, name: &str, edit: EditMain<'_>) -> Result<Option<Version>, Fault> {
        let change = |object: &K| {
            let mut main = Main {
                metadata: object.meta().clone(),
                spec: spec_of(object)?,
            };
            let before = main.spec.clone();
            edit(&mut main);
            let mut after = object.clone();
            if main.spec != before {
                let mut whole = serde_json::to_value(object).map_err(Fault::bug)?;
                whole["spec"] = main.spec;
                after = serde_json::from_value(whole).map_err(Fault::user)?;
            }
            *after.meta_mut() = main.metadata;
            Ok(after)
        };
        self.retried(name, Part::Main, change).await
    }

    async fn edit_status(&self, name: &str, edit: EditStatus<'_>) -> Result<Option<Version>, Fault> {
        let change = |object: &K| {
            let mut status = object.status().map(|status| status.to_owned()).unwrap_or_default();
            edit(&mut status);
            let mut after = object.clone();
            after.set_status(status);
            Ok(after)
        };
        self.retried(name, Part::Status, change).await
    }

    async fn merge(&self, name: &str, patch: Value) -> Result<Option<Version>, Fault> {
        let patched = self
            .api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(object) => self.version(&object).map(Some),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(Self::failed(error, "patch", name)),
        }
    }

    async fn delete(&self, name: &str) -> Result<(), Fault> {
        base_client::delete(&self.api, name).await
    }

    fn watch(&self, name: &str) -> BoxStream<'static, Result<Seen, Fault>> {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let clock = self.clock.clone();
        let mut listed: Option<K> = None;
        let events = watch(self.api.clone(), config).filter_map(move |event| {
            let version = |object: &K| Version::of(object, clock.now());
            let seen = match event {
                Ok(Event::Init) => {
                    listed = None;
                    Some(Ok(Seen::Lists))
                }
                Ok(Event::InitApply(object)) => {
                    listed = Some(object);
                    None
                }
                Ok(Event::InitDone) => Some(listed.take().as_ref().map(version).transpose().map(Seen::Listed)),
                Ok(Event::Apply(object)) => Some(version(&object).map(Seen::Changed)),
                Ok(Event::Delete(_)) => Some(Ok(Seen::Gone)),
                Err(error) => Some(Err(base_client::watch_fault(error, K::KIND))),
            };
            std::future::ready(seen)
        });
        events.boxed()
    }
}

#[derive(Clone, Copy)]
enum Part {
    Main,
    Status,
}

impl<K: ExtensionObject> Typed<K> {
    async fn retried(
        &self,
        name: &str,
        part: Part,
        change: impl Fn(&K) -> Result<K, Fault> + Send,
    ) -> Result<Option<Version>, Fault> {
        let Some(mut before) = get(&self.api, name).await? else {
            return Ok(None);
        };
        for attempt in 1.. {
            let after = change(&before)?;
            let written = match part {
                Part::Main => patch_changed(&self.api, &before, &after).await,
                Part::Status => patch_status_if_changed(&self.api, &before, &after).await,
            };
            match written {
                Ok(written) => return self.version(&written.unwrap_or(after)).map(Some),
                Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => {}
                Err(fault) => match get(&self.api, name).await? {
                    // It went between reading and writing.
                    None => return Ok(None),
                    Some(_) => return Err(fault),
                },
            }
            match read_again(&self.api, &before).await? {
                Some(fresh) => before = fresh,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}
