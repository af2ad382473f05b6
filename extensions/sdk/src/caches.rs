//! The caches that the parts of an extension share: one for each kind and selection of objects.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt::Debug;

use base_controller::Cache;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// A kind, with its selectors of labels and fields.
type Selection = (TypeId, Option<String>, Option<String>);

pub(crate) struct Caches {
    client: Client,
    stop: CancellationToken,
    caches: BTreeMap<Selection, Box<dyn Any + Send + Sync>>,
}

impl Caches {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        Self {
            client,
            stop,
            caches: BTreeMap::new(),
        }
    }

    /// The cache of the objects that `config` selects; it begins to fill when it is first wanted.
    pub(crate) fn of<O>(&mut self, config: watcher::Config) -> Cache<O>
    where
        O: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let selection = (
            TypeId::of::<O>(),
            config.label_selector.clone(),
            config.field_selector.clone(),
        );
        let (client, stop) = (self.client.clone(), self.stop.clone());
        self.caches
            .entry(selection)
            .or_insert_with(|| Box::new(Cache::<O>::start(Api::all(client), config, stop)))
            .downcast_ref::<Cache<O>>()
            .cloned()
            .expect("the entry of a kind's TypeId is that kind's cache")
    }
}
