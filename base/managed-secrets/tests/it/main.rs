//! Secrets of a namespace as they are made, found again, and refused where they are another manager's.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::collections::BTreeSet;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{delete, list};
use base_clock::{Clock, Entropy};
use base_managed_secrets::{ManagedSecrets, ensure, selector};
use base_secrets::{CertificateSpec, Wanted};
use cluster_apiserver::ApiServer;
use cluster_store::MemoryStore;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const IDENTITY: &str = "provider-x";

fn wanted() -> Vec<Wanted> {
    let client = CertificateSpec::client("someone", &[], Duration::from_secs(24 * 3600));
    vec![
        Wanted::authority("ca", "the authority"),
        Wanted::certificate("client", "ca", client),
        Wanted::signing_key("tokens"),
    ]
}

struct Place {
    client: Client,
    clock: Clock,
    entropy: Entropy,
    secrets: Api<Secret>,
}

impl Place {
    async fn new() -> Self {
        let (clock, entropy) = (
            Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
            Entropy::seeded(1),
        );
        let server = ApiServer::builder("test")
            .store(MemoryStore::new())
            .clock(clock.clone())
            .entropy(entropy.clone())
            .build()
            .await
            .unwrap();
        let client = server.loopback_client();
        Self {
            secrets: Api::namespaced(client.clone(), NAMESPACE),
            client,
            clock,
            entropy,
        }
    }

    async fn ensure(&self) -> Result<ManagedSecrets, Fault> {
        self.ensure_as(IDENTITY).await
    }

    async fn ensure_as(&self, identity: &str) -> Result<ManagedSecrets, Fault> {
        let (clock, entropy) = (&self.clock, &self.entropy);
        ensure(&self.client, NAMESPACE, identity, &wanted(), clock, entropy).await
    }

    async fn names(&self) -> BTreeSet<String> {
        let secrets = list(&self.secrets, &selector(IDENTITY)).await.unwrap();
        secrets.iter().map(ResourceExt::name_any).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_made_and_what_is_there_stays() {
    let place = Place::new().await;
    let first = place.ensure().await.unwrap();
    let names = place.names().await;
    assert!(first.all["ca"].authority().is_ok() && first.all.contains_key("tokens"));
    assert!(first.obsolete.is_empty() && names.len() >= 2, "{names:?}");

    let again = place.ensure().await.unwrap();
    assert_eq!(place.names().await, names);
    assert_eq!(again.all["ca"].current, first.all["ca"].current);

    let lost = first.all["tokens"].current.name_any();
    delete(&place.secrets, &lost).await.unwrap();
    let made = place.ensure().await.unwrap();
    assert_eq!(made.all["tokens"].current.name_any(), lost, "the same name");
    assert_ne!(made.all["tokens"].current.data, first.all["tokens"].current.data);
}

/// A Secret that is not ours, in place of one that was.
async fn replace(place: &Place, name: &str, labels: &Value) {
    delete(&place.secrets, name).await.unwrap();
    let theirs = json!({"metadata": {"name": name, "labels": labels}, "stringData": {"theirs": "1"}});
    let theirs: Secret = serde_json::from_value(theirs).unwrap();
    place.secrets.create(&PostParams::default(), &theirs).await.unwrap();
}

async fn is_theirs(place: &Place, name: &str) -> bool {
    let secret = place.secrets.get(name).await.unwrap();
    secret.data.unwrap().contains_key("theirs")
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_another_manager_is_left_and_ours_has_another_name() {
    let cases: [(&str, Value); 3] = [
        ("no labels", json!(null)),
        (
            "another identity",
            json!({"managed-by": "secrets-manager", "manager-identity": "another"}),
        ),
        (
            "another manager",
            json!({"managed-by": "a-person", "manager-identity": IDENTITY}),
        ),
    ];
    for (case, labels) in cases {
        let place = Place::new().await;
        let name = place.ensure().await.unwrap().all["ca"].current.name_any();
        replace(&place, &name, &labels).await;
        let ours = place.ensure().await.unwrap();
        assert_ne!(ours.all["ca"].current.name_any(), name, "{case}");
        assert!(
            ours.all["ca"].authority().is_ok() && is_theirs(&place, &name).await,
            "{case}"
        );
        let names = place.names().await;
        place.ensure().await.unwrap();
        assert_eq!(place.names().await, names, "{case}: nothing more is made");
    }
}

#[tokio::test(start_paused = true)]
async fn two_identities_that_want_the_same_share_no_secret_and_delete_none() {
    let place = Place::new().await;
    let theirs = place.ensure_as("provider-y").await.unwrap();
    let named = |secrets: &ManagedSecrets| -> BTreeSet<String> {
        let all = secrets.all.values();
        all.flat_map(|one| [Some(&one.current), one.bundle.as_ref()])
            .flatten()
            .map(ResourceExt::name_any)
            .collect()
    };
    for round in 0..2 {
        let ours = place.ensure().await.unwrap();
        for (name, managed) in &ours.all {
            assert_ne!(
                managed.current.data, theirs.all[name].current.data,
                "{name} in round {round}"
            );
        }
        assert!(named(&ours).is_disjoint(&named(&theirs)), "round {round}");
        // Those of ours are what was made with an authority whose name was taken.
        let names = named(&theirs);
        assert!(
            !ours.obsolete.iter().any(|name| names.contains(name)),
            "round {round}: {:?}",
            ours.obsolete
        );
    }
    let again = place.ensure_as("provider-y").await.unwrap();
    assert_eq!(named(&again), named(&theirs));
    assert!(again.obsolete.is_empty(), "{:?}", again.obsolete);
}

#[tokio::test(start_paused = true)]
async fn secrets_of_another_manager_under_all_names_are_named_with_what_to_do() {
    let place = Place::new().await;
    let mut taken = BTreeSet::new();
    // Each round takes the names that the last one has made.
    let fault = loop {
        match place.ensure().await {
            Ok(_) => {
                let names = place.names().await;
                for name in &names {
                    replace(&place, name, &json!(null)).await;
                }
                taken.extend(names);
                assert!(taken.len() < 200, "it always finds names: {taken:?}");
            }
            Err(fault) => break fault,
        }
    };
    let text = fault.to_string();
    let named: Vec<&String> = taken.iter().filter(|name| text.contains(name.as_str())).collect();
    assert!(!named.is_empty() && text.contains(IDENTITY), "{text}");
    assert!(
        named.iter().all(|name| fault.hint.contains(name.as_str())),
        "{}",
        fault.hint
    );
    assert_eq!(fault.class, FaultClass::Dependency);
    for name in &taken {
        assert!(is_theirs(&place, name).await, "{name}");
        delete(&place.secrets, name).await.unwrap();
    }
    assert!(place.ensure().await.is_ok(), "as the hint has it");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_is_an_error_with_its_namespace() {
    let place = Place::new().await;
    let all = place.ensure().await.unwrap().all;
    let mut damaged = all["ca"].current.clone();
    for name in [damaged.name_any(), all["client"].current.name_any()] {
        delete(&place.secrets, &name).await.unwrap();
    }
    damaged.metadata.resource_version = None;
    damaged
        .data
        .iter_mut()
        .flatten()
        .for_each(|(_, bytes)| bytes.0 = b"nonsense".to_vec());
    place.secrets.create(&PostParams::default(), &damaged).await.unwrap();
    let fault = place.ensure().await.unwrap_err();
    assert!(fault.hint.contains(NAMESPACE), "{fault}: {}", fault.hint);
}
