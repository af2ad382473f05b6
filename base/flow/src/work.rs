//! The graph as it is worked on: skipped tasks and sync points are replaced by what they wait for. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Flow, Name, Node};

impl<T: Copy + Ord + Name> Flow<T> {
    /// Each task that is worked on with the tasks it waits for, in the order of their definition. Sync points and
    /// skipped tasks are replaced by what they wait for; a wait that follows from another one is left out.
    #[must_use]
    pub fn work(&self) -> Vec<(T, Vec<T>)> {
        let mut before = BTreeMap::new();
        self.steps()
            .filter(|step| step.skipped().is_none())
            .map(|step| {
                let near = self.near(Node::Task(step.task()));
                let implied: BTreeSet<T> = near
                    .iter()
                    .flat_map(|earlier| self.all_before(*earlier, &mut before))
                    .collect();
                (step.task(), near.difference(&implied).copied().collect())
            })
            .collect()
    }

    /// The tasks that are worked on and can be reached backwards from `node` without passing another such task.
    fn near(&self, node: Node<T>) -> BTreeSet<T> {
        let mut open = vec![node];
        let (mut seen, mut near) = (BTreeSet::new(), BTreeSet::new());
        while let Some(node) = open.pop() {
            for earlier in self.edges().get(&node).into_iter().flatten() {
                match earlier {
                    Node::Task(task) if self.step(*task).is_some_and(|step| step.skipped().is_none()) => {
                        near.insert(*task);
                    }
                    Node::Task(_) | Node::SyncPoint(_) => {
                        if seen.insert(*earlier) {
                            open.push(*earlier);
                        }
                    }
                }
            }
        }
        near
    }

    /// Everything that is worked on before `task`; `known` caches the results.
    fn all_before(&self, task: T, known: &mut BTreeMap<T, BTreeSet<T>>) -> BTreeSet<T> {
        if let Some(all) = known.get(&task) {
            return all.clone();
        }
        let mut all = self.near(Node::Task(task));
        for earlier in all.clone() {
            all.extend(self.all_before(earlier, known));
        }
        known.insert(task, all.clone());
        all
    }
}
