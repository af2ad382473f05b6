//! Which resource serves a kind, and whether it has namespaces. Discovered once per kind; dropped when an answer proves
//! to be old.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api_meta::Fault;
use base_client::{fault_of, is_missing};
use kube::core::{ApiResource, DynamicObject, GroupVersion, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};

/// A kind as the target serves it.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
}

impl Served {
    /// The namespace of an object of this kind that is written with `given`: `default` if that is none, and none where
    /// the kind has no namespaces. What is remembered of an object before its kind was known has none either.
    pub(crate) fn namespace(&self, given: Option<&str>) -> Option<String> {
        let given = given.filter(|given| !given.is_empty()).unwrap_or("default");
        self.namespaced.then(|| given.to_owned())
    }
}

/// The kinds of the target.
pub(crate) struct Kinds {
    client: Client,
    known: Mutex<BTreeMap<(String, String), Served>>,
}

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// How the target serves the kind; `None` when it does not.
    pub(crate) async fn find(&self, api_version: &str, kind: &str) -> Result<Option<Served>, Fault> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(served) = self.known().get(&key).cloned() {
            return Ok(Some(served));
        }
        let Ok(GroupVersion { group, version, .. }) = api_version.parse() else {
            return Ok(None);
        };
        match pinned_kind(
            &self.client,
            &GroupVersionKind {
                group,
                version,
                kind: kind.to_owned(),
            },
        )
        .await
        {
            Ok((resource, capabilities)) => {
                let served = Served {
                    resource,
                    namespaced: capabilities.scope == Scope::Namespaced,
                };
                self.known().insert(key, served.clone());
                Ok(Some(served))
            }
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(fault_of(
                error,
                &format!("ask the target for the kind {kind} of {api_version}"),
            )),
        }
    }

    /// The answer about this kind was old.
    pub(crate) fn forget(&self, api_version: &str, kind: &str) {
        self.known().remove(&(api_version.to_owned(), kind.to_owned()));
    }

    /// A client for objects of the kind.
    pub(crate) fn api(&self, served: &Served, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| served.namespaced) {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &served.resource),
            None => Api::all_with(self.client.clone(), &served.resource),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Served>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
