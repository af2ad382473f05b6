//! Selects the webhooks and policies that a request concerns: compares it with their rules, scope and selectors, and with other
//! versions of the same resource. It calls none.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates)

use std::collections::BTreeMap;

use cluster_store::Key;
use serde_json::Value;

use crate::admission::attributes::AdmissionAttributes;
use crate::configuration::admission_hooks::Hooks;
use crate::configuration::matching::{Matching, Rule};
use crate::storage::errors::store_status;
use crate::wire::status::Status;

/// The labels of the namespace that a request is in; or why they are not known.
pub(crate) type NamespaceLabels = Result<BTreeMap<String, String>, Status>;

impl Hooks {
    /// Whether a mutating webhook is to be called for the request, by its rules.
    pub(crate) fn may_change(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.mutating
            .iter()
            .any(|hook| hook.matching.version(attributes).is_some())
    }

    /// Whether a validating webhook or a policy may, by its rules.
    pub(crate) fn may_refuse(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.validating
            .iter()
            .any(|hook| hook.matching.version(attributes).is_some())
            || self
                .policies
                .iter()
                .any(|(policy, _)| policy.matching.version(attributes).is_some())
    }
}

impl Rule {
    fn matches(&self, attributes: &AdmissionAttributes<'_>, version: &str) -> bool {
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let namespaced = !attributes.is_of_namespaces() && !attributes.namespace().is_empty();
        self.namespaced.is_none_or(|wanted| wanted == namespaced)
            && any(&self.operations, attributes.operation.word())
            && any(&self.groups, attributes.group())
            && any(&self.versions, version)
            && self.resources.iter().any(|(resource, part)| {
                (resource == "*" || resource == attributes.resource())
                    && (part == "*" || part == attributes.subresource())
            })
            && (self.names.is_empty() || self.names.contains(&attributes.name))
    }
}

impl Matching {
    /// The version in which the rules match the resource; selectors are not evaluated.
    pub(crate) fn version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a str> {
        if self.equivalent_of(&self.excluded, attributes).is_some() {
            return None;
        }
        match &self.rules {
            None => Some(attributes.context.version()),
            Some(rules) => self.equivalent_of(rules, attributes),
        }
    }

    fn equivalent_of<'a>(&self, rules: &[Rule], attributes: &AdmissionAttributes<'a>) -> Option<&'a str> {
        let own = attributes.context.version();
        if rules.iter().any(|rule| rule.matches(attributes, own)) {
            return Some(own);
        }
        if !self.equivalent {
            return None;
        }
        let versions = &attributes.context.served.info().versions;
        rules.iter().find_map(|rule| {
            let mut others = versions.iter().filter(|version| version.served && version.name != own);
            others
                .find(|version| rule.matches(attributes, &version.name))
                .map(|version| &*version.name)
        })
    }

    /// Whether the labels of the request's namespace matter.
    pub(crate) fn needs_namespace(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        !self.namespaces.is_empty() && (attributes.is_of_namespaces() || !attributes.namespace().is_empty())
    }

    /// Whether the selectors match. Errors: the namespace that they select by is not known.
    pub(crate) fn selects(
        &self,
        attributes: &AdmissionAttributes<'_>,
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
        if !self.needs_namespace(attributes) {
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

/// The labels of the request's namespace; of a namespace that is written, its new ones.
pub(crate) async fn namespace_labels(attributes: &AdmissionAttributes<'_>, object: Option<&Value>) -> NamespaceLabels {
    if let Some(object) = object.filter(|_| attributes.is_of_namespaces() && attributes.subresource().is_empty()) {
        return Ok(labels_of(object));
    }
    let name = attributes.namespace();
    let key = Key::new("namespaces", None, name);
    let entry = attributes.context.server.store.get(&key).await.map_err(store_status)?;
    let entry = entry.ok_or_else(|| Status::not_found("", "namespaces", name))?;
    Ok(entry.object.meta().labels.clone())
}

/// Whether the resource configures admission, and no webhook or policy is called for it.
pub(crate) fn is_exempt(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.group() == crate::storage::resource_names::ADMISSION
}
