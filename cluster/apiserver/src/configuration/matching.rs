//! Rules, scope and selectors of a webhook, a policy or a binding, read from its configuration. Requests are compared with them
//! in `admission/selection`.

use serde_json::Value;

use crate::wire::selector::LabelSelector;

/// What a webhook, a policy or a binding concerns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matching {
    /// None: every resource.
    pub(crate) rules: Option<Vec<Rule>>,
    pub(crate) excluded: Vec<Rule>,
    /// Whether rules match other versions too (`matchPolicy: Equivalent`).
    pub(crate) equivalent: bool,
    pub(crate) namespaces: LabelSelector,
    pub(crate) objects: LabelSelector,
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) groups: Vec<String>,
    pub(crate) versions: Vec<String>,
    pub(crate) operations: Vec<String>,
    /// Resource and subresource.
    pub(crate) resources: Vec<(String, String)>,
    /// True for namespaced ones alone, false for all others alone.
    pub(crate) namespaced: Option<bool>,
    pub(crate) names: Vec<String>,
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let list = value.get(field).and_then(Value::as_array);
    let list = list.into_iter().flatten().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

impl Rule {
    fn of(value: &Value) -> Self {
        let split = |text: String| match text.split_once('/') {
            Some((resource, part)) => (resource.to_owned(), part.to_owned()),
            None => (text, String::new()),
        };
        Self {
            groups: texts(value, "apiGroups"),
            versions: texts(value, "apiVersions"),
            operations: texts(value, "operations"),
            resources: texts(value, "resources").into_iter().map(split).collect(),
            namespaced: match value.get("scope").and_then(Value::as_str) {
                Some("Namespaced") => Some(true),
                Some("Cluster") => Some(false),
                _ => None,
            },
            names: texts(value, "resourceNames"),
        }
    }

    fn list(value: Option<&Value>) -> Vec<Self> {
        let list = value.and_then(Value::as_array);
        list.into_iter().flatten().map(Self::of).collect()
    }
}

fn selector(value: Option<&Value>) -> LabelSelector {
    value.and_then(LabelSelector::of).unwrap_or_default()
}

impl Matching {
    /// From a webhook.
    pub(crate) fn of_webhook(value: &Value) -> Self {
        Self {
            rules: Some(Rule::list(value.get("rules"))),
            ..Self::of_resources(value)
        }
    }

    /// From the `matchConstraints` of a policy or the `matchResources` of a binding.
    pub(crate) fn of_resources(value: &Value) -> Self {
        let rules = Rule::list(value.get("resourceRules"));
        Self {
            rules: (!rules.is_empty()).then_some(rules),
            excluded: Rule::list(value.get("excludeResourceRules")),
            equivalent: value.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
            namespaces: selector(value.get("namespaceSelector")),
            objects: selector(value.get("objectSelector")),
        }
    }
}
