//! A landscape ends soon after it is asked to, however far it has come.

use std::time::Duration;

use landscape_local::{Landscape, Settings, State};
use tokio::time::Instant;

/// What a reconcile gets to end, and something for the containers.
const SOON: Duration = Duration::from_secs(2);
/// When the landscape leaves behind what does not end.
const PATIENCE: Duration = Duration::from_secs(60);

async fn stops_soon(number: u64, until: impl AsyncFnOnce()) {
    let folder = tempfile::tempdir().unwrap();
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    let settings = Settings::simulated(folder.path().to_owned(), epoch, number);
    let state = State::memory(&settings).unwrap();
    let landscape = Landscape::start(&settings, &state).await.unwrap();
    until().await;
    let requested_at = Instant::now();
    landscape.stop(PATIENCE).await;
    assert!(
        requested_at.elapsed() < SOON,
        "moment {number}: {:?}",
        requested_at.elapsed()
    );
}

/// Virtual time stands while there is something to do, so that early moments are counted in turns of the executor.
#[tokio::test(start_paused = true)]
async fn a_landscape_that_has_only_begun_to_start_stops_soon() {
    for number in 0..7_u32 {
        let turns = 4_u32.pow(number) - 1;
        stops_soon(u64::from(number), async || {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_landscape_stops_soon_while_it_settles_and_once_it_has() {
    for millis in [1, 100, 2_000, 60_000] {
        stops_soon(millis, async || tokio::time::sleep(Duration::from_millis(millis)).await).await;
    }
}
