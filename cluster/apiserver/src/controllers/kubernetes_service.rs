//! The Service `kubernetes` of `default`, and where it leads: an Endpoints and an EndpointSlice with the address that the
//! server is advertised at. Without such an address there are none, as with kube-apiserver's
//! `--endpoint-reconciler-type=none`. Of several servers over one store the one that started last is listed, as with
//! `master-count` for one server; no server removes its address when it ends.
//! (kubernetes/kubernetes v1.35 pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers)

use std::net::IpAddr;
use std::sync::Arc;

use cluster_store::Key;
use serde_json::{Value, json};

use crate::controllers::own_objects::{ensure, note_manager, update};
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::wire::status::Status;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const PORT_NAME: &str = "https";
const PORT: u16 = 443;
/// kube-apiserver's default port, for servers that are advertised nowhere.
const TARGET_PORT: u16 = 6443;

pub(crate) async fn run(server: &Arc<ServerState>) -> Result<(), Status> {
    let Some(address) = server.addresses.first() else {
        return Ok(());
    };
    let target_port = server.advertised.map_or(TARGET_PORT, |at| at.port());
    let key = Key::new("services", Some(NAMESPACE), NAME);
    let mut service = service(address, target_port);
    let port = json!({".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}});
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:component": {}, "f:provider": {}}},
        "f:spec": {
            "f:clusterIP": {}, "f:internalTrafficPolicy": {}, "f:ipFamilyPolicy": {},
            "f:ports": {".": {}, r#"k:{"port":443,"protocol":"TCP"}"#: port}, "f:sessionAffinity": {}, "f:type": {},
        },
    });
    note_manager(server, &mut service, fields);
    ensure(server, key, service, false).await?;
    let Some(at) = server.advertised else {
        return Ok(());
    };
    let mut endpoints = endpoints(at.ip(), at.port());
    let labels = json!({".": {}, "f:endpointslice.kubernetes.io/skip-mirror": {}});
    let fields = json!({"f:metadata": {"f:labels": labels}, "f:subsets": {}});
    note_manager(server, &mut endpoints, fields);
    publish(server, "endpoints", endpoints, &["subsets"], false).await?;
    let mut slice = slice(at.ip(), at.port());
    let labels = json!({".": {}, "f:kubernetes.io/service-name": {}});
    let fields = json!({
        "f:addressType": {}, "f:endpoints": {}, "f:metadata": {"f:labels": labels}, "f:ports": {},
    });
    note_manager(server, &mut slice, fields);
    publish(
        server,
        "discovery.k8s.io/endpointslices",
        slice,
        &["endpoints", "ports"],
        true,
    )
    .await
}

/// Creates an object, or updates these fields of it if they differ: a server that is restarted may have another address.
async fn publish(
    server: &Arc<ServerState>,
    store_name: &str,
    wanted: Value,
    fields: &[&str],
    generation: bool,
) -> Result<(), Status> {
    let key = Key::new(store_name, Some(NAMESPACE), NAME);
    if ensure(server, key.clone(), wanted.clone(), generation).await?.is_some() {
        return Ok(());
    }
    let Some(entry) = server.store.get(&key).await.map_err(store_status)? else {
        return Ok(());
    };
    let mut object = entry.object.value(entry.revision);
    if fields.iter().all(|field| object[*field] == wanted[*field]) {
        return Ok(());
    }
    for field in fields {
        object[*field] = wanted[*field].clone();
    }
    if let Some(number) = object["metadata"]["generation"].as_u64() {
        object["metadata"]["generation"] = json!(number + 1);
    }
    update(server, &entry, object).await
}

fn service(address: IpAddr, target_port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": address.to_string(), "clusterIPs": [address.to_string()],
            "ipFamilies": [family(address)], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": target_port}],
        },
        "status": {"loadBalancer": {}},
    })
}

fn endpoints(ip: IpAddr, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": NAME, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{
            "addresses": [{"ip": ip.to_string()}],
            "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
        }],
    })
}

fn slice(ip: IpAddr, port: u16) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family(ip),
        "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    })
}

const fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv6() { "IPv6" } else { "IPv4" }
}
