//! A sample of what `cargo xtask crash --store` shows in full.

use std::path::Path;

use tests_stores::kill::kill;

const KILLS: u32 = 20;

#[tokio::test]
async fn a_killed_store_loses_nothing_acknowledged_shows_nothing_else_and_watches_resume() {
    let program = Path::new(env!("CARGO_BIN_EXE_tests-stores"));
    let shown = kill(program, KILLS, 1, |_| {}).await.unwrap();
    assert!(shown.acknowledged > 20 * KILLS as usize, "they did write: {shown:?}");
}
