//! A soak as small as it can be: what `cargo xtask soak` shows at length.

use std::time::Duration;

use tests_soak::product::Product;
use tests_soak::sample::Phase;
use tests_soak::soak::{Settings, Soak};

/// Enough for three Shoots to be changed, disturbed and killed among.
const LENGTH: Duration = Duration::from_secs(12);
const SHOOTS: usize = 3;
const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn shoots_reach_their_wish_through_changes_faults_and_a_kill_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        sample_every: Duration::from_secs(1),
        quiet: Duration::from_millis(1500),
        forgetting: Duration::ZERO,
        ..Settings::new(SHOOTS, LENGTH, SEED, folder.path().to_owned())
    };
    let binary = tests_crash::process::binary().unwrap();
    let product = Product::start(&binary, &folder.path().join("data")).await.unwrap();
    let soak = Soak::new(settings, |_| {});
    let ended = soak.run(&product).await;
    assert!(ended.is_ok(), "seed {SEED}: {ended:?}\n    | {}", product.last_lines());
    let kills = product.events().iter().filter(|event| event.killed).count();
    let (deeds, faults) = soak.tally().sums();
    assert!(
        kills >= 2 && deeds >= 3 && faults >= 3,
        "{kills} kills, {deeds} deeds, {faults} faults"
    );
    let samples = soak.samples();
    // How long the other phases last is the machine's affair.
    assert!(samples.iter().any(|sample| sample.phase == Phase::Deeds), "no samples");
    let most = samples.iter().map(|sample| sample.shoots).max().unwrap_or_default();
    assert!((1..=SHOOTS as u64).contains(&most), "{most} Shoots at most");
}
