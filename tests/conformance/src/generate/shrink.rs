//! Reduces a sequence that differs as far as possible. The caller defines what differs.

use super::Sequence;

/// The smallest sequence found in which `compare` still finds a difference, and that difference. It ends after `tries_max`
/// sequences, or when no smaller one differs.
pub async fn smallest<T>(
    found: Sequence,
    difference: T,
    tries_max: usize,
    mut compare: impl AsyncFnMut(&Sequence) -> Option<T>,
) -> (Sequence, T) {
    let mut best = (found, difference);
    let mut candidates = best.0.smaller();
    // Where to continue: what could not be removed before can hardly be removed now, but all of it is tried again at the end.
    let (mut place, mut since) = (0, 0);
    for _ in 0..tries_max {
        if since == candidates.len() {
            return best;
        }
        place %= candidates.len();
        let candidate = candidates.swap_remove(place);
        match compare(&candidate).await {
            Some(difference) => {
                best = (candidate, difference);
                candidates = best.0.smaller();
                since = 0;
            }
            None => {
                candidates.push(candidate);
                let last = candidates.len() - 1;
                candidates.swap(place, last);
                place += 1;
                since += 1;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::super::World;
    use super::*;

    /// A sequence with a request that replaces.
    fn found() -> Sequence {
        let world = World::new(7);
        let replaces = |sequence: &Sequence| sequence.text().contains("= PUT ");
        (0..100).map(|number| world.draw(number)).find(replaces).unwrap()
    }

    #[tokio::test]
    async fn the_smallest_sequence_still_differs_and_has_no_smaller_one() {
        let puts = async |sequence: &Sequence| sequence.text().contains("= PUT ").then_some(());
        let (left, ()) = smallest(found(), (), usize::MAX, puts).await;
        let text = left.text();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("= PUT ") && text.ends_with("\n  {}\n"), "{text}");
        assert!(left.smaller().is_empty(), "{text}");
    }

    #[tokio::test]
    async fn it_ends_after_its_tries() {
        let mut compared = 0;
        let (left, ()) = smallest(found(), (), 3, async |_: &Sequence| {
            compared += 1;
            None
        })
        .await;
        assert_eq!((compared, left.text()), (3, found().text()));
    }
}
