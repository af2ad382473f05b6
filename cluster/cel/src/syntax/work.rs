//! How much work the expressions of one object may make before they run: a limit on parsing and type checking.

/// Work of all rules of one definition at most, in nodes of their trees: more than any text of the size of a schema has by
/// itself, but macros copy their arguments. (Kubernetes has no such limit.)
const DEFINITION_WORK_MAX: u64 = 1_000_000;

/// Work of all expressions of one policy, or of all webhooks of one configuration, at most.
const ADMISSION_WORK_MAX: u64 = 200_000;

/// The same for stored objects: conditions that did not change are not validated again together with new ones.
const STORED_ADMISSION_WORK_MAX: u64 = 3 * ADMISSION_WORK_MAX;

/// Steps of the type checker that count as one node.
const STEPS_PER_NODE: u32 = 8;

/// A limit on memory and time that compiling all expressions of one object takes, in nodes of their trees.
#[derive(Clone, Debug)]
pub struct Work {
    done: u64,
    done_max: u64,
}

impl Work {
    fn new(done_max: u64) -> Self {
        Self { done: 0, done_max }
    }

    /// For the rules of a definition.
    pub fn of_definition() -> Self {
        Self::new(DEFINITION_WORK_MAX)
    }

    /// For the expressions of a policy or a webhook configuration.
    pub fn of_admission() -> Self {
        Self::new(ADMISSION_WORK_MAX)
    }

    /// For those of a stored policy or webhook configuration.
    pub fn of_stored_admission() -> Self {
        Self::new(STORED_ADMISSION_WORK_MAX)
    }

    /// Counts an expression that was parsed and weighs this many nodes.
    pub(crate) fn count_parsed(&mut self, nodes: usize) {
        self.done = self.done.saturating_add(nodes as u64);
    }

    /// Counts the steps of the type checker.
    pub(crate) fn count_checked(&mut self, steps: u32) {
        self.done = self.done.saturating_add(u64::from(steps / STEPS_PER_NODE));
    }

    /// Why no more expressions are compiled, if the limit is reached.
    pub(crate) fn refusal(&self) -> Option<String> {
        let words = || format!("all rules together must not have more than {} parts", self.done_max);
        (self.done > self.done_max).then(words)
    }
}
