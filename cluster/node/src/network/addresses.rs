//! The pod addresses of one node: held, given to pods and taken back.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::Notify;

use super::Network;

/// The pod addresses of one node; given back when dropped.
#[derive(Debug)]
pub(crate) struct PodRange {
    pub(super) network: Network,
    pub(crate) range: IpNet,
}

impl PodRange {
    /// The wanted address if it is one of the node's and free, else the next free one, or None when the node is full.
    /// The network and gateway addresses are never given.
    pub(crate) fn allocate(&self, wanted: Option<IpAddr>) -> Option<PodAddress> {
        let mut state = self.network.lock();
        let gateway = self.range.hosts().next();
        let fits = |ip: &IpAddr| self.range.contains(ip) && *ip != self.range.network() && Some(*ip) != gateway;
        let wanted = wanted.filter(|ip| fits(ip) && !state.addresses.contains(ip));
        let ip = wanted.or_else(|| state.next_free(self.range))?;
        state.addresses.insert(ip);
        drop(state);
        Some(PodAddress {
            network: self.network.clone(),
            ip,
            freed: self.freed(),
        })
    }

    /// Notifies one waiting pod of an address that was given back.
    pub(crate) fn freed(&self) -> Arc<Notify> {
        let state = self.network.lock();
        let held = state.ranges.get(&self.range);
        held.map(|held| Arc::clone(&held.freed)).unwrap_or_default()
    }
}

impl Drop for PodRange {
    fn drop(&mut self) {
        self.network.lock().release(self.range);
    }
}

/// One pod's address; given back when dropped.
#[derive(Debug)]
pub(crate) struct PodAddress {
    network: Network,
    pub(crate) ip: IpAddr,
    freed: Arc<Notify>,
}

impl PodAddress {
    /// Records in the network whose address it is, so that policies know the pod by its labels.
    pub(crate) fn belongs_to(&self, pod: &Pod) {
        self.network.policies().set_pod(self.ip, pod);
    }
}

impl Drop for PodAddress {
    fn drop(&mut self) {
        self.network.policies().remove_pod(self.ip);
        self.network.lock().addresses.remove(&self.ip);
        self.freed.notify_one();
    }
}
