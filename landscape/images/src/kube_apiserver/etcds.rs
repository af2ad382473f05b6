//! The etcds behind a kube-apiserver: that of `--etcd-servers`, and those that `--etcd-servers-overrides` gives to single
//! resources. It dials them and reports whether all are connected; what lies where decides the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_apiserver::Builder;
use cluster_node::{ContainerContext, Endpoint, Exit};
use futures::future::{join_all, select_all};
use tokio::sync::watch;

use super::super::etcd_client::EtcdClient;
use super::super::flags::Flags;

/// kube-apiserver's own patience with each etcd that does not answer: to make a client blocks until its connection is up
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go).
const ETCD_WITHIN: Duration = Duration::from_secs(20);
const OVERRIDES: &str = "etcd-servers-overrides";

/// The etcds, dialled.
pub(super) struct Etcds {
    main: Arc<EtcdClient>,
    overrides: Vec<(Override, Arc<EtcdClient>)>,
    /// Each of these once, by address.
    clients: BTreeMap<String, Arc<EtcdClient>>,
}

/// A resource with an etcd of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Override {
    group: String,
    resource: String,
    /// The first of its servers.
    address: String,
}

impl Etcds {
    /// Dials the first address of each list of servers, waiting for it as kube-apiserver does. Resources with the same
    /// address share a connection.
    pub(super) async fn connect(flags: &Flags, context: &ContainerContext) -> Result<Self, Exit> {
        let servers = flags.required("etcd-servers")?;
        let address = servers.split(',').next().unwrap_or(servers);
        let wanted = overrides(flags.get(OVERRIDES).unwrap_or_default())?;
        let main = dial(address, context).await?;
        let mut clients = BTreeMap::from([(address.to_owned(), Arc::clone(&main))]);
        let mut overrides = Vec::new();
        for one in wanted {
            let client = match clients.get(&one.address) {
                Some(client) => Arc::clone(client),
                None => dial(&one.address, context).await?,
            };
            clients.insert(one.address.clone(), Arc::clone(&client));
            overrides.push((one, client));
        }
        Ok(Self {
            main,
            overrides,
            clients,
        })
    }

    /// Gives a server its stores.
    pub(super) fn store(&self, builder: Builder) -> Builder {
        let builder = builder.shared_store(Arc::<EtcdClient>::clone(&self.main));
        self.overrides.iter().fold(builder, |builder, (of, etcd)| {
            builder.store_of(&of.group, &of.resource, Arc::<EtcdClient>::clone(etcd))
        })
    }

    /// Dials those again that have lost their connection. No request may come that would: Events are rare in a quiet cluster.
    pub(super) async fn reopen(&self) {
        join_all(self.clients.values().map(|etcd| etcd.reopen())).await;
    }

    /// Follows whether they are connected.
    pub(super) fn connections(&self) -> Connections {
        Connections(self.clients.values().map(|etcd| etcd.connected_changes()).collect())
    }
}

/// Whether etcds are connected, and when that changes. The senders live in the [`Etcds`].
pub(super) struct Connections(Vec<watch::Receiver<bool>>);

impl Connections {
    /// Whether all are; kube-apiserver counts overriding ones since v1.34 (kubernetes/kubernetes#129438).
    pub(super) fn all_open(&mut self) -> bool {
        let mut all = true;
        // Each is looked at, so that only what comes later counts as a change.
        for one in &mut self.0 {
            all &= *one.borrow_and_update();
        }
        all
    }

    /// Waits until one has changed since [`Connections::all_open`].
    pub(super) async fn changed(&mut self) {
        let (_changed, ..) = select_all(self.0.iter_mut().map(|one| Box::pin(one.changed()))).await;
    }
}

async fn dial(address: &str, context: &ContainerContext) -> Result<Arc<EtcdClient>, Exit> {
    let refused = |why: String| Exit::failed(format!("kube-apiserver: etcd {address}: {why}"));
    match context.network.dial_when_ready(address, ETCD_WITHIN).await {
        Ok(Endpoint::Store(store)) => {
            let client = EtcdClient::new(context.network.clone(), address.to_owned(), store);
            Ok(Arc::new(client))
        }
        Ok(Endpoint::Http(_) | Endpoint::Bytes(_)) => Err(refused("no etcd listens there".to_owned())),
        Err(error) => Err(refused(Exit::failed_by(&error).message)),
    }
}

/// Reads `GROUP/RESOURCE#SERVER;SERVER,...` as kube-apiserver does (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/server/options/etcd.go); the core group is the empty one.
fn overrides(text: &str) -> Result<Vec<Override>, Exit> {
    text.split(',').filter(|one| !one.is_empty()).map(read).collect()
}

fn read(text: &str) -> Result<Override, Exit> {
    let parsed = text.split_once('#').and_then(|(resource, servers)| {
        let (group, resource) = resource.split_once('/')?;
        let well_formed = !resource.contains('/') && !servers.contains('#');
        well_formed.then(|| Override {
            group: group.to_owned(),
            resource: resource.to_owned(),
            address: servers.split(';').next().unwrap_or(servers).to_owned(),
        })
    });
    parsed.ok_or_else(|| {
        Exit::failed(format!(
            "kube-apiserver: --{OVERRIDES} cannot be {text:?}: it must be GROUP/RESOURCE#SERVERS, where servers are URLs \
             separated by semicolons"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read_as_kube_apiserver_reads_them() {
        let of = |group: &str, resource: &str, address: &str| Override {
            group: group.to_owned(),
            resource: resource.to_owned(),
            address: address.to_owned(),
        };
        let text = "/events#https://a:1,events.k8s.io/events#https://a:1;https://b:1";
        let expected = [
            of("", "events", "https://a:1"),
            of("events.k8s.io", "events", "https://a:1"),
        ];
        assert_eq!(overrides(text).unwrap(), expected);
        assert_eq!(overrides("").unwrap(), []);
        for wrong in ["events#https://a:1", "/events", "a/b/c#https://a:1", "/events#a#b"] {
            let refused = overrides(wrong).unwrap_err().message;
            assert!(
                refused.starts_with(&format!("kube-apiserver: --{OVERRIDES} cannot be {wrong:?}")),
                "{refused}"
            );
        }
    }
}
