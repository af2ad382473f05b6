//! Names of DNSRecords in a replica that waits to lead.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api_extensions::DNSRecord;
use base_controller::Terms;
use extensions_provider_local::{ABOUT, Options, extend};
use extensions_sdk::Flags;
use extensions_sdk::run::{BindAddress, Place, run_in};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::conformance::place::query;
use crate::landscape::{Landscape, NAMESPACE, TYPE, ToShoot};

const NAME: &str = "api.zoo.example.org";

/// Another replica leads, for longer than the test takes.
async fn lead_elsewhere(landscape: &Landscape) {
    let now = landscape.seed.clock.now();
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": format!("{}-leader-election", ABOUT.name)},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": format!("{now:.6}"),
            "renewTime": format!("{now:.6}")},
    }))
    .unwrap();
    landscape
        .api::<Lease>()
        .create(&PostParams::default(), &lease)
        .await
        .unwrap();
}

/// Between two queries: DNS reports no changes.
const QUERY_PAUSE: Duration = Duration::from_millis(20);
/// Far more than a change takes.
const QUERIES_MAX: usize = 500;

/// Queries until the answer has this text, or until there is none.
async fn answered(address: SocketAddr, expected: &str) {
    let mut answer = query(address, NAME).await;
    for _ in 0..QUERIES_MAX {
        if answer.contains(expected) && answer.is_empty() == expected.is_empty() {
            break;
        }
        tokio::time::sleep(QUERY_PAUSE).await;
        answer = query(address, NAME).await;
    }
    assert!(
        answer.contains(expected) && answer.is_empty() == expected.is_empty(),
        "{expected:?}, not {answer:?}"
    );
}

#[tokio::test]
async fn a_replica_that_waits_to_lead_answers_names_as_the_objects_have_them() {
    let landscape = Landscape::new().await;
    lead_elsewhere(&landscape).await;
    let (reported, bound) = oneshot::channel();
    let options = Options {
        dns_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        dns_bound: Some(reported),
        ..Options::new("/nonexistent".into()).named(TYPE)
    };
    let place = Place {
        client: landscape.client.clone(),
        connector: Arc::new(ToShoot(landscape.shoot.admin())),
        clock: landscape.seed.clock.clone(),
        entropy: landscape.seed.entropy.clone(),
        terms: Terms::default(),
        stop: Box::pin(landscape.stop.clone().cancelled_owned()),
    };
    let flags = Flags {
        namespace: Some(NAMESPACE.to_owned()),
        metrics_bind_address: BindAddress::off(),
        health_bind_address: BindAddress::off(),
        ..Flags::default()
    };
    tokio::spawn(async move { run_in(ABOUT, place, &flags, |setup| extend(setup, options)).await });
    let address = bound.await.unwrap();

    let records = landscape.api::<DNSRecord>();
    let record: DNSRecord = serde_json::from_value(json!({
        "metadata": {"name": "r"},
        "spec": {"type": TYPE, "name": NAME, "recordType": "A", "values": ["192.0.2.1"],
            "secretRef": {"name": "s", "namespace": NAMESPACE}},
    }))
    .unwrap();
    records.create(&PostParams::default(), &record).await.unwrap();
    let write = async |values: Value| {
        let patch = Patch::Merge(json!({"spec": {"values": values}}));
        records.patch("r", &PatchParams::default(), &patch).await.unwrap();
    };
    // The leader has reconciled it.
    let status = Patch::Merge(json!({"status": {"observedGeneration": 1}}));
    records
        .patch_status("r", &PatchParams::default(), &status)
        .await
        .unwrap();
    answered(address, "192.0.2.1").await;
    write(json!(["192.0.2.2"])).await;
    answered(address, "192.0.2.2").await;
    records.delete("r", &DeleteParams::default()).await.unwrap();
    answered(address, "").await;
}
