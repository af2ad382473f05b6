//! Evaluates policies: every policy that concerns a request, for every binding and every parameter. The first refusal is
//! returned; warnings and audit annotations are collected from all.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating)

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_cel::{Answer, CONDITIONS_COST_MAX, Names, POLICY_COST_MAX, Scope};
use cluster_store::{Entry, Key, Page, Range, StoreError};
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::attributes::AdmissionAttributes;
use crate::admission::expressions::{Held, Why, holds, names, run};
use crate::admission::selection::{NamespaceLabels, namespace_labels};
use crate::configuration::admission_hooks::Hooks;
use crate::configuration::matching::Matching;
use crate::configuration::policy::{Binding, ParamRef, Policy, Validation};
use crate::kinds::registry::Served;
use crate::kinds::{conversion, rendering};
use crate::state::context::Context;
use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::front_paths::Place;
use crate::wire::status::{Cause, Status};

/// Longest message that an expression may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// Longest value of an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;
const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";

/// A refusal, before it is known whether it is the first one.
struct Denied {
    message: String,
    reason: String,
}

/// What is gathered over all policies.
#[derive(Default)]
struct Findings {
    denied: Option<Denied>,
    warnings: Vec<String>,
    annotations: Vec<(String, String)>,
}

impl Findings {
    fn deny(&mut self, message: String, reason: &str) {
        self.denied.get_or_insert_with(|| Denied {
            message,
            reason: reason.to_owned(),
        });
    }

    /// A policy that cannot be evaluated refuses, unless failures are ignored.
    fn broken(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.ignores_failures {
            return;
        }
        self.deny(
            match binding {
                None => refusal(policy, None, &format!("failed to configure policy: {why}")),
                Some(binding) => refusal(policy, Some(binding), &format!("failed to configure binding: {why}")),
            },
            "",
        );
    }
}

fn refusal(policy: &Policy, binding: Option<&Binding>, why: &str) -> String {
    let name = &policy.name;
    match binding {
        Some(binding) => format!(
            "ValidatingAdmissionPolicy '{name}' with binding '{}' denied request: {why}",
            binding.name
        ),
        None => format!("ValidatingAdmissionPolicy '{name}' denied request: {why}"),
    }
}

/// The objects of a request.
type Objects<'v> = (Option<&'v Value>, Option<&'v Value>);

/// Evaluates all policies, and refuses what one denies.
pub(crate) async fn enforce(
    hooks: &Hooks,
    attributes: &AdmissionAttributes<'_>,
    objects: Objects<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let mut findings = find(hooks, attributes, objects).await?;
    while attributes.request_access_decisions().await? {
        findings = find(hooks, attributes, objects).await?;
    }
    warnings.append(&mut findings.warnings);
    for (key, value) in findings.annotations {
        attributes.context.annotate(key, value);
    }
    findings
        .denied
        .map_or(Ok(()), |denied| Err(status(attributes, objects, denied)))
}

async fn find(hooks: &Hooks, attributes: &AdmissionAttributes<'_>, objects: Objects<'_>) -> Result<Findings, Status> {
    let mut findings = Findings::default();
    let mut labels = None;
    for (policy, bindings) in &hooks.policies {
        let Some(version) = concerns(&policy.matching, attributes, objects, &mut labels).await? else {
            continue;
        };
        let params = match find_params(attributes.context, policy).await {
            Ok(params) => params,
            Err(why) => {
                findings.broken(policy, None, &why);
                continue;
            }
        };
        let mut audits = BTreeMap::new();
        for binding in bindings {
            if let Some(matching) = &binding.matching
                && concerns(matching, attributes, objects, &mut labels).await?.is_none()
            {
                continue;
            }
            let found = match collect(attributes, params.as_ref(), binding.params.as_ref()).await {
                Ok(found) => found,
                Err(Missing::Store(status)) => return Err(status),
                Err(Missing::Why(why)) => {
                    findings.broken(policy, Some(binding), &why);
                    continue;
                }
            };
            let namespace = namespace_object(attributes).await?;
            let object = attributes.some_in_version(objects.0, version).await?;
            let old = attributes.some_in_version(objects.1, version).await?;
            for param in &found {
                let subject = Subject {
                    attributes,
                    version,
                    object: object.as_deref(),
                    old: old.as_deref(),
                    param: param.as_ref(),
                    namespace: namespace.as_ref(),
                };
                evaluate(policy, binding, &subject, &mut findings, &mut audits);
            }
        }
        for (key, values) in audits {
            findings
                .annotations
                .push((format!("{}/{key}", policy.name), values.join(", ")));
        }
    }
    Ok(findings)
}

async fn concerns<'a>(
    matching: &Matching,
    attributes: &AdmissionAttributes<'a>,
    objects: Objects<'_>,
    labels: &mut Option<NamespaceLabels>,
) -> Result<Option<&'a str>, Status> {
    let Some(version) = matching.version(attributes) else {
        return Ok(None);
    };
    if matching.needs_namespace(attributes) && labels.is_none() {
        *labels = Some(namespace_labels(attributes, objects.0).await);
    }
    let none = Ok(BTreeMap::new());
    let selected = matching.selects(attributes, objects, labels.as_ref().unwrap_or(&none))?;
    Ok(selected.then_some(version))
}

/// The kind of a policy's parameters.
enum ParamKind {
    /// One of this server's, and the version to read.
    Served(Arc<Served>, String),
    /// One of the server in front.
    InFront(Place),
}

impl ParamKind {
    fn is_namespaced(&self) -> bool {
        match self {
            Self::Served(served, _) => served.info().namespaced,
            Self::InFront(place) => place.namespaced,
        }
    }
}

async fn find_params(context: &Context, policy: &Policy) -> Result<Option<ParamKind>, String> {
    let Some((api_version, kind)) = &policy.param_kind else {
        return Ok(None);
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kinds = context.server.registry.snapshot();
    let found = kinds
        .of_group(group)
        .find(|served| served.info().kind == *kind && served.version(version).is_some());
    let in_front = match (&found, &context.server.in_front) {
        (None, Some(front)) => front.place_of_kind(group, version, kind).await?,
        _ => None,
    };
    match (found, in_front) {
        (Some(served), _) => Ok(Some(ParamKind::Served(served.clone(), version.to_owned()))),
        (None, Some(place)) => Ok(Some(ParamKind::InFront(place))),
        (None, None) => {
            let slash = if group.is_empty() { "/" } else { "" };
            Err(format!(
                "failed to find resource referenced by paramKind: '{slash}{api_version}, Kind={kind}'"
            ))
        }
    }
}

/// Why there are no parameters.
enum Missing {
    Why(String),
    Store(Status),
}

/// The parameters of a binding; a single `None` where none are needed.
async fn collect(
    attributes: &AdmissionAttributes<'_>,
    params: Option<&ParamKind>,
    wanted: Option<&ParamRef>,
) -> Result<Vec<Option<Value>>, Missing> {
    let (Some(kind), Some(wanted)) = (params, wanted) else {
        return Ok(vec![None]);
    };
    let namespace = match (kind.is_namespaced(), wanted.namespace.as_str()) {
        (true, "") if attributes.namespace().is_empty() => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(Missing::Why(why.to_owned()));
        }
        (true, "") => Some(attributes.namespace()),
        (true, given) => Some(given),
        (false, "") => None,
        (false, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(Missing::Why(why.to_owned()));
        }
    };
    let entries = entries(&attributes.context.server, kind, namespace, wanted).await;
    let entries = entries.map_err(|error| Missing::Store(store_status(error)))?;
    if entries.is_empty() && wanted.needed {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(Missing::Why(why.to_owned()));
    }
    let ParamKind::Served(served, version) = kind else {
        let value = |entry: &Entry| Some(entry.object.value(entry.revision));
        return Ok(entries.iter().map(value).collect());
    };
    let server = &attributes.context.server;
    let entries = conversion::convert_entries(&server.network, served, version, entries).await;
    let entries = entries.map_err(Missing::Store)?;
    let values = entries
        .iter()
        .map(|entry| rendering::value(served, version, entry).map(Some));
    values.collect::<Result<_, _>>().map_err(Missing::Store)
}

/// The objects that a binding names or selects as parameters.
async fn entries(
    server: &ServerState,
    kind: &ParamKind,
    namespace: Option<&str>,
    wanted: &ParamRef,
) -> Result<Vec<Entry>, StoreError> {
    let name = wanted.name.as_str();
    let mut entries = match (kind, &server.in_front) {
        (ParamKind::Served(served, _), _) if name.is_empty() => {
            let range = match namespace {
                Some(namespace) => Range::namespaced(served.store_name.clone(), namespace),
                None => Range::all(served.store_name.clone()),
            };
            server.store.list(&range, Page::default()).await?.entries
        }
        (ParamKind::Served(served, _), _) => {
            let key = Key::new(served.store_name.clone(), namespace, name);
            server.store.get(&key).await?.into_iter().collect()
        }
        (ParamKind::InFront(place), Some(front)) if name.is_empty() => front.objects(place, namespace).await?.entries,
        (ParamKind::InFront(place), Some(front)) => {
            let found = front.object(place, namespace, name).await?;
            found.into_iter().collect()
        }
        (ParamKind::InFront(_), None) => Vec::new(),
    };
    if let Some(selector) = wanted.selector.as_ref().filter(|_| name.is_empty()) {
        entries.retain(|entry| selector.matches(&entry.object.meta().labels));
    }
    Ok(entries)
}

/// The namespace of the request as expressions see it; none for what is in no namespace.
async fn namespace_object(attributes: &AdmissionAttributes<'_>) -> Result<Option<Value>, Status> {
    let name = attributes.namespace();
    if name.is_empty() || attributes.is_of_namespaces() {
        return Ok(None);
    }
    let key = Key::new("namespaces", None, name);
    let entry = attributes.context.server.store.get(&key).await.map_err(store_status)?;
    let entry = entry.ok_or_else(|| Status::not_found("", "namespaces", name))?;
    let mut namespace = entry.object.value(entry.revision);
    if let Some(fields) = namespace.as_object_mut() {
        fields.retain(|field, _| matches!(field.as_str(), "metadata" | "spec" | "status"));
    }
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("ownerReferences");
    }
    Ok(Some(namespace))
}

/// What a policy is evaluated on.
struct Subject<'s, 'a> {
    attributes: &'s AdmissionAttributes<'a>,
    version: &'a str,
    object: Option<&'s Value>,
    old: Option<&'s Value>,
    param: Option<&'s Value>,
    namespace: Option<&'s Value>,
}

impl Subject<'_, '_> {
    fn names(&self) -> Names {
        let mut names = names(self.attributes, self.version, self.object, self.old);
        names.set("params", self.param);
        names
    }

    fn scope(&self, policy: &Policy) -> Scope {
        let mut names = self.names();
        names.set("namespaceObject", self.namespace);
        for (name, expression) in &policy.variables {
            names.compose(name, expression.as_ref().map_err(String::as_str));
        }
        names.scope(POLICY_COST_MAX)
    }
}

fn evaluate(
    policy: &Policy,
    binding: &Binding,
    subject: &Subject<'_, '_>,
    findings: &mut Findings,
    audits: &mut BTreeMap<String, Vec<String>>,
) {
    if !policy.conditions.is_empty() {
        match holds(&policy.conditions, &mut subject.names().scope(CONDITIONS_COST_MAX)) {
            Held::Yes => {}
            Held::No => return,
            Held::Failed(_) if policy.ignores_failures => return,
            Held::Failed(why) => return take_actions(policy, binding, 0, &why, "", findings),
        }
    }
    let mut scope = subject.scope(policy);
    for (index, validation) in policy.validations.iter().enumerate() {
        let (why, reason, ended) = match run(&validation.expression, &mut scope) {
            Ok(Answer::Truth(true)) => continue,
            Ok(_) => (message(validation, &mut scope), validation.reason.as_str(), false),
            Err(_) if policy.ignores_failures => continue,
            Err(Why::Broken(why)) => (why, "", false),
            Err(Why::Ended(why)) => (why, "", true),
        };
        take_actions(policy, binding, index, &why, reason, findings);
        if ended {
            return;
        }
    }
    let mut scope = subject.scope(policy);
    for (key, expression) in &policy.audits {
        match run(expression, &mut scope) {
            Ok(Answer::Text(value)) if !value.trim().is_empty() => {
                let mut value = value.trim().to_owned();
                value.truncate(value.floor_char_boundary(ANNOTATION_BYTES_MAX));
                let values = audits.entry(key.clone()).or_default();
                if !values.contains(&value) {
                    values.push(value);
                }
            }
            Ok(_) => {}
            Err(_) if policy.ignores_failures => {}
            Err(Why::Broken(why) | Why::Ended(why)) => findings.deny(refusal(policy, Some(binding), &why), ""),
        }
    }
}

/// Takes the actions of a binding for a validation that failed.
fn take_actions(policy: &Policy, binding: &Binding, index: usize, why: &str, reason: &str, findings: &mut Findings) {
    for action in &binding.actions {
        match action.as_str() {
            "Deny" => findings.deny(refusal(policy, Some(binding), why), reason),
            "Warn" => findings.warnings.push(format!(
                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {why}",
                policy.name, binding.name
            )),
            _ => {
                let failure = json!([{
                    "message": why, "policy": policy.name, "binding": binding.name, "expressionIndex": index,
                    "validationActions": binding.actions,
                }]);
                findings.annotations.push((FAILURE.to_owned(), failure.to_string()));
            }
        }
    }
}

/// The message of a validation that failed.
fn message(validation: &Validation, scope: &mut Scope) -> String {
    let made = validation
        .message_expression
        .as_ref()
        .and_then(|expression| match run(expression, scope) {
            Ok(Answer::Text(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
    let fits = |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    if let Some(made) = made.filter(fits) {
        return made;
    }
    let given = validation.message.trim();
    if !given.is_empty() {
        return given.to_owned();
    }
    let source = match &validation.expression {
        Ok(expression) => expression.source(),
        Err((source, _)) => source,
    };
    format!("failed expression: {}", source.trim())
}

fn status(attributes: &AdmissionAttributes<'_>, objects: Objects<'_>, denied: Denied) -> Status {
    let Denied { message, reason } = denied;
    let (code, reason) = match reason.as_str() {
        "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
        "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
    };
    let name = attributes.shown_name(objects.0);
    Status::forbidden(attributes.group(), attributes.resource(), &name, &message)
        .under(code, reason)
        .because(Cause {
            message,
            ..Cause::default()
        })
}
