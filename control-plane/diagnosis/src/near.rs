//! Which names a reader may have meant. Pure.

/// How many are offered.
const OFFERED_MAX: usize = 3;

/// The names nearest to `wanted`, the nearest first: those that can be reached by changing at most as much as half of the part
/// behind the slash, and those that differ before the slash alone.
#[must_use]
pub fn near(wanted: &str, names: &[String]) -> Vec<String> {
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let furthest = (last(wanted).chars().count() / 2).max(1);
    let mut found: Vec<(usize, &String)> = names
        .iter()
        .map(|name| (distance(wanted, name), name))
        .filter(|(edits, name)| *edits <= furthest || last(name) == last(wanted))
        .collect();
    found.sort();
    found
        .into_iter()
        .take(OFFERED_MAX)
        .map(|(_, name)| name.clone())
        .collect()
}

/// Number of characters to add, remove or change.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut line = vec![row + 1];
        for (column, candidate) in other.iter().enumerate() {
            let changed = above[column] + usize::from(letter != *candidate);
            line.push(changed.min(above[column + 1] + 1).min(line[column] + 1));
        }
        above = line;
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_typo_or_of_another_project_are_near_others_are_not() {
        let names = ["garden-local/local", "garden-dev/lokal", "garden-local/other-cluster"].map(str::to_owned);
        assert_eq!(
            near("garden-local/lokal", &names),
            ["garden-local/local", "garden-dev/lokal"]
        );
        assert!(near("x/y", &names).is_empty());
        assert_eq!(near("garden-local/nowere", &names), Vec::<String>::new());
        assert_eq!(near("garden-local/local", &[]), Vec::<String>::new());
        assert_eq!(distance("sitting", "kitten"), 3);
    }
}
