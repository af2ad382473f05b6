//! The end of a port: what is under way, what comes later, what does not end.

use std::sync::Arc;
use std::time::Duration;

use base_client::{HttpService, full_body};
use base_serve::Limits;
use http::Response;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::client::{PATIENCE, Signer, serve};

/// Answers once its gate is open.
struct Held {
    came: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Held {
    fn new() -> (Self, HttpService) {
        let (came, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (coming, closed) = (came.clone(), gate.clone());
        let service = tower::service_fn(move |_| {
            let (came, gate) = (coming.clone(), closed.clone());
            async move {
                came.add_permits(1);
                gate.acquire().await.unwrap().forget();
                Ok(Response::new(full_body("done")))
            }
        });
        (Self { came, gate }, HttpService::new(service))
    }

    async fn has_come(&self) {
        let came = tokio::time::timeout(PATIENCE, self.came.acquire());
        came.await.unwrap().unwrap().forget();
    }
}

#[tokio::test]
async fn requests_under_way_are_answered_after_the_stop_and_new_connections_refused() {
    let signer = Signer::new();
    let (held, service) = Held::new();
    let port = serve(service, signer.certificate(), Limits::default()).await;
    let idle = signer.connect(port.address).await.unwrap();
    let mut client = signer.connect(port.address).await.unwrap();
    let (answer, ()) = tokio::join!(client.post("/", b""), async {
        held.has_come().await;
        port.stop.cancel();
        // The idle connection ends while the other one is served.
        idle.until_closed().await;
        assert!(TcpStream::connect(port.address).await.is_err());
        held.gate.add_permits(1);
    });
    assert_eq!(answer.unwrap(), (200, "done".to_owned()));
    tokio::time::timeout(PATIENCE, port.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_end_within_the_grace_time_is_cut() {
    let signer = Signer::new();
    let (held, service) = Held::new();
    let limits = Limits {
        grace: Duration::from_millis(50),
        ..Limits::default()
    };
    let port = serve(service, signer.certificate(), limits).await;
    let mut client = signer.connect(port.address).await.unwrap();
    let (answer, ()) = tokio::join!(client.post("/", b""), async {
        held.has_come().await;
        port.stop.cancel();
        tokio::time::timeout(PATIENCE, port.serving).await.unwrap().unwrap();
    });
    assert!(answer.is_err(), "{answer:?}");
}
