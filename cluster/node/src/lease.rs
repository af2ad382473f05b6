//! The node's heartbeat: a Lease in `kube-node-lease`, renewed by patches alone, so that an idle node reads nothing.

use std::time::Duration;

use base_client::is_missing;
use base_clock::Clock;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

/// Where node Leases live (kubernetes/api v1.35 core/v1/types.go NamespaceNodeLease).
const NAMESPACE: &str = "kube-node-lease";
/// How long the node counts as alive after its last renewal; the kubelet's default.
const DURATION_SECONDS: i32 = 40;
/// A quarter of the duration, as the kubelet does.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Renews for ever. Failures are tried again at the next beat: a missed beat is what a Lease is for. The first failure in a
/// row is logged, and the end of them.
pub(crate) async fn renew(client: kube::Client, name: &str, node_uid: String, clock: Clock) {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut beats = tokio::time::interval(RENEW_EVERY);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut missed = 0_u32;
    loop {
        beats.tick().await;
        let renewed = tokio::time::timeout(RENEW_EVERY, beat(&leases, name, &node_uid, &clock)).await;
        let failure = match renewed {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {RENEW_EVERY:?}")),
        };
        match failure {
            None if missed > 0 => {
                tracing::warn!(node = name, missed, "lease is renewed again");
                missed = 0;
            }
            None => {}
            Some(error) => {
                if missed == 0 {
                    tracing::warn!(
                        node = name,
                        error,
                        "lease was not renewed; it is tried again every {RENEW_EVERY:?}"
                    );
                }
                missed = missed.saturating_add(1);
            }
        }
    }
}

async fn beat(leases: &Api<Lease>, name: &str, node_uid: &str, clock: &Clock) -> Result<(), kube::Error> {
    let now = MicroTime(clock.now());
    let renewal = json!({"spec": {"renewTime": now, "holderIdentity": name, "leaseDurationSeconds": DURATION_SECONDS}});
    match leases
        .patch(name, &PatchParams::default(), &Patch::Merge(renewal))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => leases
            .create(&PostParams::default(), &lease(name, node_uid, now))
            .await
            .map(|_| ()),
        Err(error) => Err(error),
    }
}

fn lease(name: &str, node_uid: &str, now: MicroTime) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.to_owned(),
                uid: node_uid.to_owned(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(DURATION_SECONDS),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    }
}
