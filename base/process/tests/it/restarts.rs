//! Pauses between starts of work that fails, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_process::{Elected, Settings};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::elections::server;

#[tokio::test(start_paused = true)]
async fn pauses_grow_with_consecutive_failures_and_shrink_after_a_good_run() {
    const GOOD_RUN: usize = 8;
    let server = server().await;
    let stop = CancellationToken::new();
    // When each run began and ended.
    let runs = Arc::new(Mutex::new(Vec::<(Instant, Instant)>::new()));
    let (of_work, enough) = (runs.clone(), stop.clone());
    let work = move |_| {
        let (runs, enough) = (of_work.clone(), enough.clone());
        async move {
            let (begun, count) = (Instant::now(), runs.lock().unwrap().len());
            match count {
                GOOD_RUN => tokio::time::sleep(Duration::from_secs(24 * 3600)).await,
                11 => enough.cancel(),
                _ => {}
            }
            runs.lock().unwrap().push((begun, Instant::now()));
            Err(Fault::dependency("not yet"))
        }
    };
    let process = Elected::new("test", Settings::default(), Clock::real(), Entropy::os());
    process
        .run(server.loopback_client(), stop.cancelled_owned(), work)
        .await
        .unwrap();
    let runs = runs.lock().unwrap();
    let pauses: Vec<u64> = runs.windows(2).map(|pair| (pair[1].0 - pair[0].1).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 1, 2, 4]);
}
