//! What the rules of a definition may cost by estimate (apiextensions-apiserver v0.35
//! `pkg/apis/apiextensions/validation/validation.go`, `cel_validation.go`). What they cost when they run, `meter` tells.

use crate::{FieldError, FieldPath};

/// What one rule may cost (`StaticEstimatedCostLimit`).
pub(crate) const RULE_COST_ESTIMATE_MAX: u64 = 10_000_000;

/// What all rules of one version may cost (`StaticEstimatedCRDCostLimit`).
const TOTAL_COST_ESTIMATE_MAX: u64 = 100_000_000;

/// How many of the dearest rules are named; none that costs less than a hundredth of what all may.
const NAMED_MAX: usize = 4;

/// How much work all rules of one definition may make, in nodes of their trees: more than any text of the size of a schema
/// has by itself, but macros copy what they are given. (Kubernetes has no such bound.)
const DEFINITION_WORK_MAX: u64 = 1_000_000;

/// How much work all expressions of one policy or of all webhooks of one configuration may make.
const ADMISSION_WORK_MAX: u64 = 200_000;

/// As much for those that were taken before: conditions that stay are not judged again with what is written anew.
const STORED_ADMISSION_WORK_MAX: u64 = 3 * ADMISSION_WORK_MAX;

/// Steps of the checker that are as much work as a node.
const STEPS_PER_NODE: u32 = 8;

/// What all expressions of one object may make of memory and time together, in nodes of their trees.
#[derive(Clone, Debug)]
pub struct Work {
    done: u64,
    done_max: u64,
}

impl Work {
    fn new(done_max: u64) -> Self {
        Self { done: 0, done_max }
    }

    /// That of the rules of a definition.
    pub fn of_definition() -> Self {
        Self::new(DEFINITION_WORK_MAX)
    }

    /// That of the expressions of a policy or a webhook configuration.
    pub fn of_admission() -> Self {
        Self::new(ADMISSION_WORK_MAX)
    }

    /// That of a policy or a webhook configuration that was taken before.
    pub fn of_stored_admission() -> Self {
        Self::new(STORED_ADMISSION_WORK_MAX)
    }

    /// An expression was read that weighs so many nodes.
    pub(crate) fn read(&mut self, nodes: usize) {
        self.done = self.done.saturating_add(nodes as u64);
    }

    /// The checker took so many steps.
    pub(crate) fn checked(&mut self, steps: u32) {
        self.done = self.done.saturating_add(u64::from(steps / STEPS_PER_NODE));
    }

    /// Why no more expressions are read, if that is so.
    pub(crate) fn refusal(&self) -> Option<String> {
        let words = || format!("all rules together must not have more than {} parts", self.done_max);
        (self.done > self.done_max).then(words)
    }
}

/// What the rules of one version cost together.
pub(crate) struct Total {
    pub(crate) work: Work,
    cost: u64,
    dearest: Vec<(u64, String)>,
}

impl Default for Total {
    fn default() -> Self {
        Self {
            work: Work::of_definition(),
            cost: 0,
            dearest: Vec::new(),
        }
    }
}

impl Total {
    pub(crate) fn add(&mut self, cost: u64, place: impl FnOnce() -> String) {
        self.cost = self.cost.saturating_add(cost);
        if cost < TOTAL_COST_ESTIMATE_MAX / 100 {
            return;
        }
        self.dearest.push((cost, place()));
        self.dearest.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.dearest.truncate(NAMED_MAX);
    }

    /// The errors of a version whose schema stands there.
    pub(crate) fn judge(self, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        if self.cost <= TOTAL_COST_ESTIMATE_MAX {
            return;
        }
        for (_, place) in self.dearest {
            let words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(place, words));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            path,
            exceeds(what, self.cost, TOTAL_COST_ESTIMATE_MAX),
        ));
    }
}

/// That something costs more than it may, and how much more.
pub(crate) fn exceeds(what: &str, cost: u64, cost_max: u64) -> String {
    let factor = cost as f64 / cost_max as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// The cost of what happens so often.
pub(crate) fn times(cost: u64, times: u64) -> u64 {
    cost.saturating_mul(times)
}
