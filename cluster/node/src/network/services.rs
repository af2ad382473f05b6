//! The Services of a cluster by address and by name, for callers that dial an address or resolve a name: read once for all
//! pods, by one watch from the first lookup on. What is behind a Service is looked up elsewhere.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Service;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::follow::follow;

/// How long a lookup waits for the first reading: a list of an API server that is there.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// A Service by namespace and name.
type Key = (String, String);

/// What is known of a cluster's Services. It ends with its last user, and the watch with it.
#[derive(Default)]
pub(super) struct Services {
    /// None before the first reading.
    table: watch::Sender<Option<Arc<Table>>>,
    following: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Services as they are now.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    addresses: BTreeMap<Key, Vec<IpAddr>>,
    by_address: BTreeMap<IpAddr, Key>,
}

impl Table {
    /// The Service that has an address.
    pub(super) fn at(&self, ip: IpAddr) -> Option<&Key> {
        self.by_address.get(&ip)
    }

    /// The addresses of a Service, none of a headless one; `None`: there is no such Service.
    pub(super) fn of(&self, namespace: &str, name: &str) -> Option<&[IpAddr]> {
        let key = (namespace.to_owned(), name.to_owned());
        self.addresses.get(&key).map(Vec::as_slice)
    }

    /// Whether anything is in a namespace, so that a name in it is the cluster's.
    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        let first = (namespace.to_owned(), String::new());
        let next = self.addresses.range(first..).next();
        next.is_some_and(|((of, _), _)| of == namespace)
    }

    fn put(&mut self, service: &Service) {
        let key = key(service);
        self.remove(&key);
        let spec = service.spec.as_ref();
        let ips = spec.and_then(|spec| spec.cluster_ips.clone());
        let ips = ips
            .or_else(|| Some(vec![spec?.cluster_ip.clone()?]))
            .unwrap_or_default();
        let ips: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
        self.by_address.extend(ips.iter().map(|ip| (*ip, key.clone())));
        self.addresses.insert(key, ips);
    }

    fn remove(&mut self, key: &Key) {
        for ip in self.addresses.remove(key).unwrap_or_default() {
            if self.by_address.get(&ip) == Some(key) {
                self.by_address.remove(&ip);
            }
        }
    }
}

impl Services {
    /// The Services as they are now; the first lookup of a network begins to read them as `client`. `None`: they could not
    /// be read in time.
    pub(super) async fn table(&self, client: &Client) -> Option<Arc<Table>> {
        self.begin(client);
        let mut table = self.table.subscribe();
        let read = tokio::time::timeout(READ_WITHIN, table.wait_for(Option::is_some)).await;
        read.ok()?.ok()?.clone()
    }

    fn begin(&self, client: &Client) {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        if following.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let (api, table) = (Api::all(client.clone()), self.table.clone());
            *following = Some(AbortOnDropHandle::new(tokio::spawn(read(api, table))));
        }
    }
}

async fn read(api: Api<Service>, table: watch::Sender<Option<Arc<Table>>>) {
    let mut events = Box::pin(follow(api, watcher::Config::default()));
    let mut listed = Table::default();
    while let Some(event) = events.next().await {
        match event {
            Event::Init => listed = Table::default(),
            Event::InitApply(service) => listed.put(&service),
            Event::InitDone => {
                table.send_replace(Some(Arc::new(std::mem::take(&mut listed))));
            }
            Event::Apply(service) => change(&table, |table| table.put(&service)),
            Event::Delete(service) => change(&table, |table| table.remove(&key(&service))),
        }
    }
}

fn change(table: &watch::Sender<Option<Arc<Table>>>, change: impl FnOnce(&mut Table)) {
    table.send_modify(|table| change(Arc::make_mut(table.get_or_insert_default())));
}

fn key(service: &Service) -> Key {
    let meta = &service.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, ip: &str) -> Service {
        let spec = json!({"clusterIP": ip, "clusterIPs": [ip]});
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_service_is_found_by_address_and_name_until_its_deletion() {
        let mut table = Table::default();
        let ip = IpAddr::from([10, 2, 0, 1]);
        table.put(&service("a", "10.2.0.1"));
        table.put(&service("headless", "None"));
        assert_eq!(table.at(ip).map(|(_, name)| name.as_str()), Some("a"));
        assert_eq!(table.of("ns", "a"), Some(&[ip][..]));
        assert_eq!(table.of("ns", "headless"), Some(&[][..]));
        assert_eq!(table.of("ns", "b"), None);
        assert!(table.has_namespace("ns") && !table.has_namespace("n"));
        // Its address goes to the next one before it is known to be gone.
        table.put(&service("b", "10.2.0.1"));
        table.remove(&("ns".to_owned(), "a".to_owned()));
        assert_eq!(table.at(ip).map(|(_, name)| name.as_str()), Some("b"));
        table.put(&service("b", "10.2.0.2"));
        assert_eq!(table.at(ip), None);
    }
}
