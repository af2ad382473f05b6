//! What the rules of a definition may cost by estimate (apiextensions-apiserver v0.35
//! `pkg/apis/apiextensions/validation/validation.go`, `cel_validation.go`). What they cost when they run is metered by
//! `run::meter`.

use cluster_fields::{FieldError, FieldPath};

use crate::syntax::work::Work;

/// What one rule may cost (`StaticEstimatedCostLimit`).
pub(crate) const RULE_COST_ESTIMATE_MAX: u64 = 10_000_000;

/// What all rules of one version may cost (`StaticEstimatedCRDCostLimit`).
const TOTAL_COST_ESTIMATE_MAX: u64 = 100_000_000;

/// How many of the most expensive rules are named; none that costs less than a hundredth of the limit.
const NAMED_MAX: usize = 4;

/// What the rules of one version of a definition cost together, by estimate.
pub struct CostTotal {
    /// The work of compiling them.
    pub work: Work,
    cost: u64,
    most_expensive: Vec<(u64, String)>,
}

impl Default for CostTotal {
    fn default() -> Self {
        Self {
            work: Work::of_definition(),
            cost: 0,
            most_expensive: Vec::new(),
        }
    }
}

impl CostTotal {
    pub(crate) fn add(&mut self, cost: u64, place: impl FnOnce() -> String) {
        self.cost = self.cost.saturating_add(cost);
        if cost < TOTAL_COST_ESTIMATE_MAX / 100 {
            return;
        }
        self.most_expensive.push((cost, place()));
        self.most_expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.most_expensive.truncate(NAMED_MAX);
    }

    /// Adds the errors of a version that costs too much; `path` is that of its schema.
    pub fn validate(self, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
        if self.cost <= TOTAL_COST_ESTIMATE_MAX {
            return;
        }
        for (_, place) in self.most_expensive {
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

/// The error text for a cost above its limit.
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

/// The cost of something that happens this often.
pub(crate) fn times(cost: u64, times: u64) -> u64 {
    cost.saturating_mul(times)
}
