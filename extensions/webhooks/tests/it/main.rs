//! Webhooks of extensions against an API server in this process that calls them over TLS on loopback. In real time, as sockets are
//! part of it.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod ensured;
mod example;
mod registered;
mod replicas;
mod rotation;
mod shoots;
mod world;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotation_fails_no_request_of_eight_clients_and_no_write() {
    rotation::rotate(world::World::new().await).await;
}
