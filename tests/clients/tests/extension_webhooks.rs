//! Webhooks of extensions on real kube-apiserver, which calls them over TLS. Run by `cargo xtask test managed-resources`, which
//! prepares the real parts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where its set-up fails, and says why"
)]

#[expect(dead_code, reason = "the tests in process look at more of a rotation's clients")]
#[path = "../../../extensions/webhooks/tests/it/rotation.rs"]
mod rotation;
#[expect(dead_code, reason = "the tests in process use more of their world")]
#[path = "../../../extensions/webhooks/tests/it/world.rs"]
mod world;

use base_client::{Connector, Https};
use kube::config::Kubeconfig;
use tests_conformance::real::{Options, Real};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_fails_no_client_request_and_no_write_on_real_kubernetes() {
    let real = Real::start(Options::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(real.endpoint.kubeconfig.expose()).unwrap();
    let admin = Https::new("tests").client(&kubeconfig).unwrap();
    rotation::rotate(world::World::of(admin, None).await).await;
}
