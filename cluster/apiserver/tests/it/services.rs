//! Services: which node ports and cluster IPs may be requested, and what an update keeps of them.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster_store::MemoryStore;
use serde_json::{Value, json};

use crate::server::{delete, get, post, put, start, start_with};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";

fn service(name: &str, ports: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": ports, "selector": {"app": name}},
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_port_is_in_the_range_and_of_one_service() {
    let server = start().await;
    let client = server.admin();
    let port = |name: &str, port: u16, node_port: u16| json!({"name": name, "port": port, "nodePort": node_port});
    let (code, a) = post(&client, SERVICES, &service("a", &json!([port("x", 80, 30_005)]))).await;
    assert_eq!(code, 201, "{a}");
    let table = [
        (json!([port("x", 80, 99)]), "spec.ports[0].nodePort"),
        (json!([port("x", 80, 32_768)]), "spec.ports[0].nodePort"),
        (
            json!([port("x", 80, 30_006), port("y", 81, 30_005)]),
            "spec.ports[1].nodePort",
        ),
        (
            json!([port("x", 80, 30_006), port("y", 81, 30_006)]),
            "spec.ports[1].nodePort",
        ),
    ];
    for (ports, field) in table {
        let (code, refused) = post(&client, SERVICES, &service("b", &ports)).await;
        let cause = &refused["details"]["causes"][0]["field"];
        assert_eq!((code, cause), (422, &json!(field)), "{ports}: {refused}");
    }
    let both = json!([
        {"name": "t", "port": 53, "nodePort": 30_053, "protocol": "TCP"},
        {"name": "u", "port": 53, "nodePort": 30_053, "protocol": "UDP"},
    ]);
    let (code, answer) = post(&client, SERVICES, &service("dns", &both)).await;
    assert_eq!(code, 201, "one port of two protocols: {answer}");
    let path = format!("{SERVICES}/a");
    let (_, mut again) = get(&client, &path).await;
    again["spec"]["selector"] = json!({"app": "other"});
    let (code, answer) = put(&client, &path, &again).await;
    assert_eq!(code, 200, "its own port is no other's: {answer}");
}

#[tokio::test(start_paused = true)]
async fn allocated_node_port_differs_from_those_that_the_service_requests() {
    let server = start().await;
    let client = server.admin();
    let ports = json!([{"name": "x", "port": 80}, {"name": "y", "port": 81, "nodePort": 30_000}]);
    let (code, made) = post(&client, SERVICES, &service("a", &ports)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["ports"][0]["nodePort"], 30_001, "{made}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_ip_in_an_update_keeps_the_address() {
    let server = start().await;
    let client = server.admin();
    let (_, made) = post(&client, SERVICES, &service("a", &json!([{"port": 80}]))).await;
    for (address, addresses) in [
        (json!(""), json!([])),
        (json!(""), json!([""])),
        (Value::Null, Value::Null),
    ] {
        let mut update = made.clone();
        update["metadata"]["resourceVersion"] = Value::Null;
        update["spec"]["clusterIP"] = address;
        update["spec"]["clusterIPs"] = addresses;
        let (code, updated) = put(&client, &format!("{SERVICES}/a"), &update).await;
        assert_eq!(code, 200, "{updated}");
        assert_eq!(
            (&updated["spec"]["clusterIP"], &updated["spec"]["clusterIPs"]),
            (&made["spec"]["clusterIP"], &made["spec"]["clusterIPs"])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn address_and_port_of_a_changed_or_deleted_service_are_free() {
    let server = start().await;
    let client = server.admin();
    let port = |number: u16| json!([{"port": 80, "nodePort": number}]);
    let a = format!("{SERVICES}/a");
    post(&client, SERVICES, &service("a", &port(30_010))).await;
    post(&client, SERVICES, &service("b", &port(30_011))).await;
    let (_, mut moved) = get(&client, &a).await;
    let address = moved["spec"]["clusterIP"].clone();
    moved["spec"]["ports"] = port(30_012);
    assert_eq!(put(&client, &a, &moved).await.0, 200);
    // An update that requests nothing, and one that requests what another has got meanwhile.
    let (_, mut same) = get(&client, &a).await;
    same["metadata"]["labels"] = json!({"k": "v"});
    assert_eq!(put(&client, &a, &same).await.0, 200);
    same["metadata"]["resourceVersion"].take();
    same["spec"]["ports"] = port(30_011);
    assert_eq!(put(&client, &a, &same).await.0, 422);
    for (name, number, code) in [("c", 30_012, 422), ("c", 30_010, 201)] {
        let (answered, body) = post(&client, SERVICES, &service(name, &port(number))).await;
        assert_eq!(answered, code, "{body}");
    }
    assert_eq!(delete(&client, &a).await.0, 200);
    let mut heir = service("heir", &port(30_012));
    heir["spec"]["clusterIP"] = address;
    let (code, body) = post(&client, SERVICES, &heir).await;
    assert_eq!(code, 201, "{body}");
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_service_leads_to_the_address_that_was_advertised_last() {
    let store = Arc::new(MemoryStore::new());
    let address = |last: u8| SocketAddr::from(([10, 1, 0, last], 443));
    let unpublished = start_with(|builder| {
        builder
            .shared_store(store.clone())
            .advertise(([127, 0, 0, 1], 443).into())
    })
    .await;
    let (code, _) = get(&unpublished.admin(), ENDPOINTS).await;
    assert_eq!(code, 404, "loopback is no address of endpoints");
    for (last, generation) in [(7, 1), (7, 1), (8, 2)] {
        let server = start_with(|builder| builder.shared_store(store.clone()).advertise(address(last))).await;
        let client = server.admin();
        let ip = format!("10.1.0.{last}");
        let ports = json!([{"name": "https", "port": 443, "protocol": "TCP"}]);
        let (code, endpoints) = get(&client, ENDPOINTS).await;
        assert_eq!(code, 200, "{endpoints}");
        assert_eq!(
            endpoints["subsets"],
            json!([{"addresses": [{"ip": ip}], "ports": ports}])
        );
        let (code, slice) = get(&client, SLICE).await;
        assert_eq!(code, 200, "{slice}");
        assert_eq!(
            slice["endpoints"],
            json!([{"addresses": [ip], "conditions": {"ready": true}}])
        );
        assert_eq!(slice["ports"], ports);
        assert_eq!(slice["metadata"]["generation"], generation);
    }
}
