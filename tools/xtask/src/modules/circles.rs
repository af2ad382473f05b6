//! Files that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::ModulePath;

/// Sets of files each of which reaches all others of its set, the largest first.
pub(crate) fn circles(edges: &BTreeMap<ModulePath, BTreeSet<ModulePath>>) -> Vec<BTreeSet<ModulePath>> {
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = edges
        .keys()
        .map(|module| (module, reached_from(module, edges)))
        .collect();
    let mut circles: Vec<BTreeSet<ModulePath>> = Vec::new();
    for (module, reaches) in &reached {
        if circles.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let returns = |other: &&ModulePath| reached.get(other).is_some_and(|back| back.contains(module));
        let circle: BTreeSet<ModulePath> = reaches
            .iter()
            .copied()
            .filter(returns)
            .chain([*module])
            .cloned()
            .collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reached_from<'m>(
    module: &'m ModulePath,
    edges: &'m BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'m ModulePath> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for to in edges.get(next).into_iter().flatten() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_reach_each_other_are_one_circle_and_others_none() {
        let module = |name: &str| vec![name.to_owned()];
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")];
        let mut graph: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(module(from)).or_default().insert(module(to));
        }
        let wanted: BTreeSet<ModulePath> = ["a", "b", "c"].map(module).into_iter().collect();
        assert_eq!(circles(&graph), [wanted]);
    }
}
