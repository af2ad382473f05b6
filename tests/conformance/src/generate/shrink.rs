//! Makes a sequence that differs as small as it can be. The caller defines what differs.

use super::Sequence;

/// What is left of a sequence when all is taken away without which `compare` still finds a difference, and the last
/// difference. It ends after `tries_max` sequences, or when nothing smaller is left.
pub async fn smallest<T>(
    found: Sequence,
    difference: T,
    tries_max: usize,
    mut compare: impl AsyncFnMut(&Sequence) -> Option<T>,
) -> (Sequence, T) {
    let mut best = (found, difference);
    let mut candidates = best.0.smaller();
    // Where to go on: what could not be taken away before can hardly be now, but all of it is tried once more at last.
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

    /// One that has something to be found: a request that replaces.
    fn found() -> Sequence {
        let world = World::new(7);
        let replaces = |sequence: &Sequence| sequence.text().contains("= PUT ");
        (0..100).map(|number| world.draw(number)).find(replaces).unwrap()
    }

    #[tokio::test]
    async fn what_is_left_still_differs_and_nothing_more_can_be_taken_away() {
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
