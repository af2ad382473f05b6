//! Which requests concern a webhook or a policy: rules, scope, selectors, and other versions of the same resource.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates)

use std::collections::BTreeMap;

use cluster_store::Key;
use serde_json::Value;

use super::asked::Asked;
use crate::context::store_status;
use crate::selector::LabelSelector;
use crate::status::Status;

/// The labels of the namespace that a request is in; or why they are not known.
pub(super) type NamespaceLabels = Result<BTreeMap<String, String>, Status>;

/// What a webhook, a policy or a binding concerns.
#[derive(Clone, Debug, Default)]
pub(super) struct Matching {
    /// None: every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether rules mean other versions too.
    equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

#[derive(Clone, Debug)]
struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    operations: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    /// True for namespaced ones alone, false for all others alone.
    namespaced: Option<bool>,
    names: Vec<String>,
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

    fn matches(&self, asked: &Asked<'_>, version: &str) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let namespaced = !asked.is_of_namespaces() && !asked.namespace().is_empty();
        self.namespaced.is_none_or(|wanted| wanted == namespaced)
            && any(&self.operations, asked.deed.word())
            && any(&self.groups, asked.group())
            && any(&self.versions, version)
            && self.resources.iter().any(|(resource, part)| {
                (resource == "*" || resource == asked.resource()) && (part == "*" || part == asked.subresource())
            })
            && (self.names.is_empty() || self.names.contains(&asked.name))
    }
}

fn selector(value: Option<&Value>) -> LabelSelector {
    value.and_then(LabelSelector::of).unwrap_or_default()
}

impl Matching {
    /// From a webhook.
    pub(super) fn of_webhook(value: &Value) -> Self {
        Self {
            rules: Some(Rule::list(value.get("rules"))),
            ..Self::of_resources(value)
        }
    }

    /// From the `matchConstraints` of a policy or the `matchResources` of a binding.
    pub(super) fn of_resources(value: &Value) -> Self {
        let rules = Rule::list(value.get("resourceRules"));
        Self {
            rules: (!rules.is_empty()).then_some(rules),
            excluded: Rule::list(value.get("excludeResourceRules")),
            equivalent: value.get("matchPolicy").and_then(Value::as_str) == Some("Equivalent"),
            namespaces: selector(value.get("namespaceSelector")),
            objects: selector(value.get("objectSelector")),
        }
    }

    /// The version in which the resource is wanted, by the rules alone.
    pub(super) fn version<'a>(&self, asked: &Asked<'a>) -> Option<&'a str> {
        if self.equivalent_of(&self.excluded, asked).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(asked.context.version()),
            Some(rules) => self.equivalent_of(rules, asked),
        }
    }

    fn equivalent_of<'a>(&self, rules: &[Rule], asked: &Asked<'a>) -> Option<&'a str> {
        let own = asked.context.version();
        if rules.iter().any(|rule| rule.matches(asked, own)) {
            return Some(own);
        }
        if !self.equivalent {
            return None;
        }
        let versions = &asked.context.served.info().versions;
        rules.iter().find_map(|rule| {
            let mut others = versions.iter().filter(|version| version.served && version.name != own);
            others
                .find(|version| rule.matches(asked, &version.name))
                .map(|version| &*version.name)
        })
    }

    /// Whether the labels of the request's namespace matter.
    pub(super) fn asks_for_namespace(&self, asked: &Asked<'_>) -> bool {
        !self.namespaces.is_empty() && (asked.is_of_namespaces() || !asked.namespace().is_empty())
    }

    /// Whether the selectors want it. Errors: the namespace that they ask about is not known.
    pub(super) fn selects(
        &self,
        asked: &Asked<'_>,
        (object, old): (Option<&Value>, Option<&Value>),
        namespace: &NamespaceLabels,
    ) -> Result<bool, Status> {
        let of_object = || {
            self.objects.is_empty()
                || [object, old]
                    .into_iter()
                    .flatten()
                    .any(|object| self.objects.matches(&labels_of(object)))
        };
        if !self.asks_for_namespace(asked) {
            return Ok(of_object());
        }
        match namespace {
            Ok(labels) => Ok(self.namespaces.matches(labels) && of_object()),
            Err(status) if of_object() => Err(status.clone()),
            Err(_) => Ok(false),
        }
    }
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The labels of the request's namespace; a namespace that is written is asked itself.
pub(super) async fn namespace_labels(asked: &Asked<'_>, object: Option<&Value>) -> NamespaceLabels {
    if let Some(object) = object.filter(|_| asked.is_of_namespaces() && asked.subresource().is_empty()) {
        return Ok(labels_of(object));
    }
    let name = asked.namespace();
    let key = Key::new("namespaces", None, name);
    let entry = asked.context.server.store.get(&key).await.map_err(store_status)?;
    let entry = entry.ok_or_else(|| Status::not_found("", "namespaces", name))?;
    Ok(entry.object.meta().labels.clone())
}

/// Whether the resource configures admission, and nobody is asked about it.
pub(super) fn is_exempt(asked: &Asked<'_>) -> bool {
    asked.group() == super::GROUP
}
