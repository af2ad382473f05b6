//! Tasks that fail, hang and run twice: the cheap and exhaustive lives, and a sample of the others.

use tests_crash::every_task::{Story, alone, play_all, sample, together, usual};
use tests_crash::flavour::Flavour;
use tests_crash::harm::Kind;

/// Lives, for each kind of harm that lasts, in which one task of each flow suffers it; all of them are
/// for `cargo xtask crash --tasks`.
const LIVES: usize = 1;
const SEED: u64 = 1;

#[test]
fn a_shoot_gets_over_whatever_happens_to_its_tasks() {
    let usuals = usual(SEED).unwrap();
    // The full one has every task that the example has.
    let mut stories = together(&usuals);
    stories.retain(|story| usuals[story.of].flavour != Flavour::Example);
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.passes()) {
        let lasting: Vec<Story> = alone(&usuals).into_iter().filter(|story| story.kind == kind).collect();
        stories.extend(sample(lasting, LIVES, SEED));
    }
    let failed: Vec<String> = play_all(&usuals, &stories, SEED, 2, |_, _| {})
        .iter()
        .map(|(story, why)| format!("{}\n    {why}", story.title(&usuals)))
        .collect();
    assert!(failed.is_empty(), "seed {SEED}: {}", failed.join("\n"));
}
