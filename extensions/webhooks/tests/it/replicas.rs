//! Several replicas over time: one leads, all answer, and what has expired while none ran is replaced.

use base_clock::Clock;
use extensions_webhooks::Target;
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use tests_kit::until;

use crate::rotation::{Client, issuer};
use crate::world::{EXTENSION_NAMESPACE, SECRET, World, marks};

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_replicas_one_leads_both_answer_and_the_other_takes_over() {
    let world = World::new().await;
    let leases = Api::<Lease>::namespaced(world.client.clone(), EXTENSION_NAMESPACE);
    let mut first = world.start("first", Clock::real(), vec![marks(Target::Seed)]).await;
    until(&leases, SECRET, "held by the first", |lease| {
        holder(lease) == Some("first")
    })
    .await;
    let bundle = world.bundle(1).await;
    let second = world.start("second", Clock::real(), vec![marks(Target::Seed)]).await;
    let made = world.secrets().get(SECRET).await.unwrap();
    // Both show the certificate of the Secret, which is for the address of loopback that both have.
    for replica in [&first, &second] {
        let mut client = Client::connect(replica.address, &bundle).await.unwrap();
        assert!(client.review().await.unwrap());
    }
    assert_eq!(
        second.writes(),
        Vec::<String>::new(),
        "who does not lead writes nothing"
    );
    first.end().await;
    until(&leases, SECRET, "held by the second", |lease| {
        holder(lease) == Some("second")
    })
    .await;
    // It registers its own address; the certificate stays.
    world.until_marked().await;
    let now = world.secrets().get(SECRET).await.unwrap();
    assert_eq!((now.uid(), now.data), (made.uid(), made.data));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_is_replaced_at_the_start() {
    let world = World::new().await;
    let (past, hand) = Clock::settable(Clock::real().now());
    hand.jump(SignedDuration::from_hours(-40 * 24));
    let mut early = world.start("early", past, vec![marks(Target::Seed)]).await;
    let expired = world.bundle(1).await;
    early.end().await;
    let before = world.secrets().get(SECRET).await.unwrap();

    let mut late = world.start("late", Clock::real(), vec![marks(Target::Seed)]).await;
    let other = |secret: &Secret| issuer(secret) != issuer(&before);
    until(&world.secrets(), SECRET, "of another authority", other).await;
    let api = Api::all(world.client.clone());
    let differs = |found: &_| crate::world::bundle_of(found) != expired;
    until(&api, crate::world::CONFIGURATION, "of the other authority", differs).await;
    world.until_marked().await;
    late.end().await;
}
