//! What a server needs to reach others: the store in which Services and nodes are found, what runs in this process, and its
//! client of kubelets. It sends no request.

use std::sync::Arc;

use base_client::HttpService;
use base_clock::Entropy;
use cluster_store::Key;
use serde_json::Value;

use crate::connections::addresses::Pods;
use crate::connections::kubelets::{KUBELET_PORT, Kubelets, NodePlace};
use crate::storage::errors::store_status;
use crate::storage::stores::Stores;
use crate::wire::status::Status;

/// Finds the service of a node by the node's name.
pub(crate) type Nodes = Box<dyn Fn(&str) -> Option<HttpService> + Send + Sync>;

/// What connections of one server begin with.
pub(crate) struct Network {
    pub(crate) store: Arc<Stores>,
    /// The services of nodes of this process.
    pub(crate) nodes: Option<Nodes>,
    /// What listens on pods of this process.
    pub(crate) pods: Option<Pods>,
    pub(crate) kubelets: Kubelets,
    /// Makes the uids of reviews.
    pub(crate) entropy: Entropy,
}

impl Network {
    /// Where the kubelet of a node is. `None`: there is no such node. Errors: it has no address that is preferred.
    pub(crate) async fn kubelet(&self, name: &str) -> Result<Option<NodePlace>, Status> {
        let key = Key::new("nodes", None, name);
        let Some(entry) = self.store.get(&key).await.map_err(store_status)? else {
            return Ok(None);
        };
        let node = entry.object.value(entry.revision);
        let addresses = node.pointer("/status/addresses").and_then(Value::as_array);
        let addresses: Vec<(&str, &str)> = addresses
            .into_iter()
            .flatten()
            .filter_map(|address| Some((address.get("type")?.as_str()?, address.get("address")?.as_str()?)))
            .collect();
        let of_type = |type_: &String| addresses.iter().find(|(found, _)| found == type_);
        let preferred = self.kubelets.preferred().iter().find_map(of_type);
        let Some((_, host)) = preferred else {
            let known: Vec<String> = addresses
                .iter()
                .map(|(type_, address)| format!("{{{type_} {address}}}"))
                .collect();
            let known = known.join(" ");
            return Err(Status::failed(format!(
                "no preferred addresses found; known addresses: [{known}]"
            )));
        };
        let port = node
            .pointer("/status/daemonEndpoints/kubeletEndpoint/Port")
            .and_then(Value::as_u64);
        let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        Ok(Some(NodePlace {
            host: (*host).to_owned(),
            port: port.unwrap_or(KUBELET_PORT),
        }))
    }
}
