//! Label selectors, read once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::Labels;

/// A selector. An empty one matches everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Labels,
    requirements: Vec<LabelSelectorRequirement>,
}

impl Selector {
    pub(crate) fn new(selector: &LabelSelector) -> Self {
        Selector {
            labels: selector.match_labels.clone().unwrap_or_default(),
            requirements: selector.match_expressions.clone().unwrap_or_default(),
        }
    }

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.missing(labels).is_some_and(|missing| missing.is_empty())
    }

    /// The labels that have to be added for it to match; `None` when something else has to change.
    pub(crate) fn missing(&self, labels: &Labels) -> Option<Labels> {
        let mut missing = Labels::new();
        for (key, value) in &self.labels {
            if labels.get(key) != Some(value) {
                missing.insert(key.clone(), value.clone());
            }
        }
        for requirement in &self.requirements {
            let value = labels.get(&requirement.key).or_else(|| missing.get(&requirement.key));
            let values = requirement.values.as_deref().unwrap_or_default();
            let holds = match requirement.operator.as_str() {
                "In" => value.is_some_and(|value| values.contains(value)),
                "NotIn" => value.is_none_or(|value| !values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            };
            if holds {
                continue;
            }
            let first = values.first().filter(|_| requirement.operator == "In")?;
            missing.insert(requirement.key.clone(), first.clone());
        }
        Some(missing)
    }
}
