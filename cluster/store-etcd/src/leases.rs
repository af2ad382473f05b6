//! Leases for objects that expire: one for all that are written within a while, because every lease takes work in etcd
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/etcd3/lease_manager.go).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Client, Failure};
use crate::options::EtcdOptions;
use crate::wire::LeaseGrantRequest;

/// For which part of the objects' time to live new objects get the same lease: of the hour of Events, five minutes. The lease
/// lasts so much longer, so an object may live so much longer than was requested.
const SHARED_PART: u32 = 12;
/// Objects that share a lease: all of them expire in one write of etcd, which must not block other requests for long.
const OBJECTS_MAX: u32 = 1000;

pub(crate) struct Leases {
    /// Per resource.
    resources: BTreeMap<String, Leased>,
}

struct Leased {
    ttl: Duration,
    current: Mutex<Option<Lease>>,
}

struct Lease {
    id: i64,
    granted: Instant,
    objects: u32,
}

impl Leases {
    pub(crate) fn new(options: &EtcdOptions) -> Self {
        let leased = |ttl| Leased {
            ttl,
            current: Mutex::default(),
        };
        let resources = options.expiring.iter();
        Leases {
            resources: resources
                .map(|(resource, ttl)| (resource.clone(), leased(*ttl)))
                .collect(),
        }
    }

    /// The lease for an object that is written now; 0 where objects do not expire.
    pub(crate) async fn of(&self, client: &Client, resource: &Arc<str>) -> Result<i64, Failure> {
        let Some(leased) = self.resources.get(&**resource) else {
            return Ok(0);
        };
        let shared = leased.ttl / SHARED_PART;
        let mut current = leased.current.lock().await;
        if let Some(lease) = current.as_mut()
            && lease.granted.elapsed() < shared
            && lease.objects < OBJECTS_MAX
        {
            lease.objects += 1;
            return Ok(lease.id);
        }
        let ttl_s = i64::try_from((leased.ttl + shared).as_secs() + 1).unwrap_or(i64::MAX);
        let granted = Instant::now();
        let id = client.grant(LeaseGrantRequest { ttl_s }).await?.id;
        *current = Some(Lease {
            id,
            granted,
            objects: 1,
        });
        Ok(id)
    }

    /// Stops the use of this lease: etcd does not know it.
    pub(crate) async fn forget(&self, resource: &Arc<str>, id: i64) {
        if let Some(leased) = self.resources.get(&**resource) {
            leased.current.lock().await.take_if(|lease| lease.id == id);
        }
    }
}
