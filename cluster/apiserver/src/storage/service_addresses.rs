//! Cluster IPs and node ports in use: by Services in the store, and reserved for those that are about to be stored. It
//! allocates none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use cluster_store::{Entry, Key, Page, Range, Revision};
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use crate::storage::errors::store_status;
use crate::storage::stores::Stores;
use crate::wire::status::Status;

/// Addresses and ports of one Service.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) ports: BTreeSet<u64>,
}

impl Taken {
    pub(crate) fn of(service: &Value) -> Self {
        let address = service.pointer("/spec/clusterIP").and_then(Value::as_str);
        let ports = service.pointer("/spec/ports").and_then(Value::as_array);
        let ports = ports.into_iter().flatten().map(node_port);
        let ports = ports.chain([health_check_node_port(service)]);
        Self {
            addresses: address.and_then(|address| address.parse().ok()).into_iter().collect(),
            ports: ports.filter(|port| *port != 0).collect(),
        }
    }
}

/// A Service in the store and what it has.
struct Known {
    key: Key,
    revision: Revision,
    taken: Taken,
}

/// What the Services in the store have, as they were listed last: only those that have changed since are read again.
#[derive(Default)]
pub(crate) struct Stored {
    /// In the order of the list.
    services: Vec<Known>,
    addresses: Counts<IpAddr>,
    ports: Counts<u64>,
}

impl Stored {
    /// Updates it from a new list.
    fn update(&mut self, listed: Vec<Entry>) {
        let mut known = std::mem::take(&mut self.services).into_iter().peekable();
        self.services.reserve_exact(listed.len());
        for entry in listed {
            let is_stale =
                |known: &Known| known.key < entry.key || (known.key == entry.key && known.revision != entry.revision);
            while let Some(stale) = known.next_if(is_stale) {
                self.forget(&stale.taken);
            }
            let known = known.next_if(|known| known.key == entry.key).unwrap_or_else(|| {
                let taken = Taken::of(&entry.object.value(entry.revision));
                self.addresses.add(&taken.addresses);
                self.ports.add(&taken.ports);
                Known {
                    key: entry.key,
                    revision: entry.revision,
                    taken,
                }
            });
            self.services.push(known);
        }
        known.for_each(|gone| self.forget(&gone.taken));
    }

    fn forget(&mut self, taken: &Taken) {
        self.addresses.remove(&taken.addresses);
        self.ports.remove(&taken.ports);
    }
}

/// How many Services have each address or port: one, except for those that were not allocated here.
struct Counts<T>(BTreeMap<T, u32>);

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Copy> Counts<T> {
    fn add(&mut self, of_one: &BTreeSet<T>) {
        for each in of_one {
            *self.0.entry(*each).or_default() += 1;
        }
    }

    fn remove(&mut self, of_one: &BTreeSet<T>) {
        for each in of_one {
            if let Some(count) = self.0.get_mut(each) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(each);
                }
            }
        }
    }
}

/// Addresses and ports that cannot be allocated. The default is for Services that need none.
#[derive(Default)]
pub(crate) struct InUse<'a> {
    stored: Option<&'a Stored>,
    reserved: Taken,
}

impl<'a> InUse<'a> {
    pub(crate) async fn read(addresses: &Addresses, stores: &Stores, stored: &'a mut Stored) -> Result<Self, Status> {
        let mut reserved = Taken::default();
        // A reservation ends when its Service is stored: whichever is gone from here is listed below.
        let others = &addresses.reserved;
        for other in others.lock().unwrap_or_else(PoisonError::into_inner).values() {
            reserved.addresses.extend(&other.addresses);
            reserved.ports.extend(&other.ports);
        }
        let listing = stores.list(&Range::all("services"), Page::default()).await;
        stored.update(listing.map_err(store_status)?.entries);
        let stored = Some(&*stored);
        Ok(Self { stored, reserved })
    }

    pub(crate) fn has_address(&self, address: &IpAddr) -> bool {
        let is_stored = |stored: &Stored| stored.addresses.0.contains_key(address);
        self.reserved.addresses.contains(address) || self.stored.is_some_and(is_stored)
    }

    pub(crate) fn has_port(&self, port: &u64) -> bool {
        let is_stored = |stored: &Stored| stored.ports.0.contains_key(port);
        self.reserved.ports.contains(port) || self.stored.is_some_and(is_stored)
    }
}

/// The range that addresses come from.
pub(crate) struct Addresses {
    pub(crate) range: Option<IpNet>,
    /// Held while addresses are chosen for one Service.
    pub(crate) stored: Mutex<Stored>,
    /// By number; those of Services that are about to be stored.
    reserved: std::sync::Mutex<BTreeMap<u64, Taken>>,
    reservations: AtomicU64,
}

impl Addresses {
    pub(crate) fn new(range: Option<IpNet>) -> Self {
        Self {
            range,
            stored: Mutex::default(),
            reserved: std::sync::Mutex::default(),
            reservations: AtomicU64::new(0),
        }
    }

    /// Notes what a Service that is about to be stored has got.
    pub(crate) fn reserve(self: &Arc<Self>, service: &Value) -> Reservation {
        let number = self.reservations.fetch_add(1, Ordering::Relaxed);
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.insert(number, Taken::of(service));
        drop(reserved);
        Reservation {
            addresses: self.clone(),
            number,
        }
    }

    /// The first address: the Service `kubernetes`.
    pub(crate) fn first(&self) -> Option<IpAddr> {
        self.range.and_then(|range| range.hosts().next())
    }
}

/// Addresses and ports that were given to a Service which is not stored yet.
pub(crate) struct Reservation {
    addresses: Arc<Addresses>,
    number: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut reserved = self.addresses.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        reserved.remove(&self.number);
    }
}

/// The node port of a port; 0: none yet.
pub(crate) fn node_port(port: &Value) -> u64 {
    port.get("nodePort").and_then(Value::as_u64).unwrap_or_default()
}

/// Whether nodes answer health checks of the load balancer of a Service with this specification.
pub(crate) fn needs_health_check(spec: &Map<String, Value>) -> bool {
    spec.get("type") == Some(&json!("LoadBalancer")) && spec.get("externalTrafficPolicy") == Some(&json!("Local"))
}

/// The port at which nodes answer whether they have endpoints of a Service; 0: none. The number of a Service that needs none is
/// refused by the rules of Services, and takes no port here.
pub(crate) fn health_check_node_port(service: &Value) -> u64 {
    let spec = service.get("spec").and_then(Value::as_object);
    let port = spec
        .filter(|spec| needs_health_check(spec))
        .and_then(|spec| spec.get("healthCheckNodePort"));
    port.and_then(Value::as_u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use cluster_store::Object;
    use serde_json::json;

    use super::*;

    fn listed(revision: u64, name: &str, address: &str, port: u64) -> Entry {
        let service = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterIP": address, "ports": [{"nodePort": port}]},
        });
        Entry {
            key: Key::new("services", Some("default"), name),
            revision: Revision(revision),
            object: Object::from_value(service).unwrap().into(),
        }
    }

    fn taken(stored: &Stored) -> (Vec<String>, Vec<u64>) {
        let addresses = stored.addresses.0.keys().map(ToString::to_string).collect();
        (addresses, stored.ports.0.keys().copied().collect())
    }

    #[test]
    fn addresses_follow_the_list_of_services() {
        let mut stored = Stored::default();
        let (a, b) = (listed(1, "a", "10.0.0.1", 30_001), listed(2, "b", "10.0.0.2", 30_002));
        let c = listed(3, "c", "None", 0);
        stored.update(vec![a.clone(), b.clone(), c.clone()]);
        assert_eq!(
            taken(&stored),
            (vec!["10.0.0.1".into(), "10.0.0.2".into()], vec![30_001, 30_002])
        );

        // One is gone, one has changed, one has come that has the address of the first.
        let changed = listed(4, "b", "10.0.0.3", 0);
        let newcomer = listed(5, "d", "10.0.0.1", 30_001);
        stored.update(vec![changed.clone(), c.clone(), newcomer.clone()]);
        assert_eq!(
            taken(&stored),
            (vec!["10.0.0.1".into(), "10.0.0.3".into()], vec![30_001])
        );

        // Two that share one, until both are gone; the order of the list does not matter.
        stored.update(vec![newcomer, a, changed, c.clone()]);
        assert_eq!(taken(&stored).1, [30_001]);
        stored.update(vec![c]);
        assert_eq!(taken(&stored), (vec![], vec![]));
    }
}
