//! Splits what templates render into documents, separates hooks and sorts objects in the order of installation.
//! `pkg/release/v1/util` of Helm 4.1.

use std::collections::BTreeMap;

use base_yaml::go::{self, DuplicateKeys, GoYamlError, Shape, is_field};
use memchr::memmem;
use serde_json::Value;

/// The order in which kinds are installed: what others need comes first. Other kinds come last, by name.
pub const INSTALL_ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// The separator of documents.
const SEPARATOR: &str = "\n---";

pub(crate) const HOOK_ANNOTATION: &str = "helm.sh/hook";
const HOOK_WEIGHT_ANNOTATION: &str = "helm.sh/hook-weight";
const HOOK_DELETE_ANNOTATION: &str = "helm.sh/hook-delete-policy";
const HOOK_OUTPUT_LOG_ANNOTATION: &str = "helm.sh/hook-output-log-policy";

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Helm's names say it")]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    Test,
}

impl HookEvent {
    /// As an annotation names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::Test => "test",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            // The second is Helm 2's.
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }
}

/// A document that a template rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The path of the template
    pub path: String,
    /// The object's kind, empty if it names none
    pub kind: String,
    /// The object's name, empty if it names none
    pub name: String,
    /// The document, without blanks around it
    pub content: String,
}

/// An object that is created at a moment of a release's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its document
    pub manifest: Manifest,
    /// When it runs
    pub events: Vec<HookEvent>,
    /// Lower weights run first
    pub weight: i64,
    /// When it is deleted, as in the annotation
    pub delete_policies: Vec<String>,
    /// When its logs are shown, as in the annotation
    pub output_log_policies: Vec<String>,
}

/// What templates rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// In the order of their kinds
    pub hooks: Vec<Hook>,
    /// In the order of installation
    pub manifests: Vec<Manifest>,
}

/// A template rendered a document that is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("YAML parse error on {path}: {why}")]
pub struct ManifestError {
    /// The path of the template
    pub path: String,
    /// What is wrong with one of its documents
    pub why: HeadError,
}

/// Why a document is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// It is no YAML.
    #[error(transparent)]
    Yaml(#[from] GoYamlError),
    /// A field is of another type.
    #[error("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go {field}")]
    Form {
        /// JSON's name for the type of the value
        found: &'static str,
        /// Go's name for the field and its type
        field: &'static str,
    },
}

/// The text that a template rendered.
///
/// # Errors
/// It is not UTF-8, which no YAML may be.
pub(crate) fn text_of_manifest(path: &str, rendered: Vec<u8>) -> Result<String, ManifestError> {
    String::from_utf8(rendered).or_else(|bad| match go::read_exact(bad.as_bytes(), DuplicateKeys::Allowed) {
        Err(why) => Err(ManifestError {
            path: path.to_owned(),
            why: why.into(),
        }),
        Ok(_) => Ok(String::from_utf8_lossy(bad.as_bytes()).into_owned()),
    })
}

/// Splits the texts of templates, by their paths, into documents and sorts these. Files whose names begin with `_` and empty
/// documents are left out.
///
/// # Errors
/// A document that is no object.
pub fn sort_manifests(rendered: &BTreeMap<String, String>) -> Result<Sorted, ManifestError> {
    let mut sorted = Sorted::default();
    for (path, text) in rendered {
        let base = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if base.starts_with('_') {
            continue;
        }
        for document in split(text) {
            add(&mut sorted, path, document).map_err(|why| ManifestError {
                path: path.clone(),
                why,
            })?;
        }
    }
    sorted
        .hooks
        .sort_by(|a, b| order(&a.manifest.kind).cmp(&order(&b.manifest.kind)));
    sorted.manifests.sort_by(|a, b| order(&a.kind).cmp(&order(&b.kind)));
    Ok(sorted)
}

/// Kinds that [`INSTALL_ORDER`] does not name come last, by name.
fn order(kind: &str) -> (usize, &str) {
    match INSTALL_ORDER.iter().position(|known| *known == kind) {
        Some(position) => (position, ""),
        None => (INSTALL_ORDER.len(), kind),
    }
}

fn add(sorted: &mut Sorted, path: &str, content: &str) -> Result<(), HeadError> {
    let head = Head::read(content)?;
    let manifest = Manifest {
        path: path.to_owned(),
        kind: head.kind,
        name: head.name,
        content: content.to_owned(),
    };
    let Some(events) = head.annotations.get(HOOK_ANNOTATION) else {
        sorted.manifests.push(manifest);
        return Ok(());
    };
    let events: Option<Vec<HookEvent>> = words(events).map(|event| HookEvent::of(&event)).collect();
    // An object with an unknown hook is ignored.
    let Some(events) = events else {
        return Ok(());
    };
    let policies = |name| {
        head.annotations
            .get(name)
            .map(|policies| words(policies).collect())
            .unwrap_or_default()
    };
    let weight = head.annotations.get(HOOK_WEIGHT_ANNOTATION);
    sorted.hooks.push(Hook {
        manifest,
        events,
        weight: weight.and_then(|weight| weight.parse().ok()).unwrap_or(0),
        delete_policies: policies(HOOK_DELETE_ANNOTATION),
        output_log_policies: policies(HOOK_OUTPUT_LOG_ANNOTATION),
    });
    Ok(())
}

fn words(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split(',').map(|word| word.trim().to_lowercase())
}

/// The documents of `text`, cut at `---` at the beginning of a line, without blanks around them and without empty ones at
/// their beginning: `(?:^|\s*\n)---\s*`.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut rest = trim(text);
    if rest.is_empty() {
        return documents;
    }
    if let Some(after) = rest.strip_prefix("---") {
        rest = after.trim_start_matches(is_regex_space);
    }
    let separator = memmem::Finder::new(SEPARATOR);
    while let Some(at) = separator.find(rest.as_bytes()) {
        let document = rest[..at].trim_end_matches(is_regex_space);
        if !document.is_empty() {
            documents.push(trim(document));
        }
        // A separator takes the blanks behind it, so that they cannot begin the next one.
        rest = rest[at + SEPARATOR.len()..].trim_start_matches(is_regex_space);
    }
    if !rest.is_empty() {
        documents.push(trim(rest));
    }
    documents
}

/// Go's `\s`.
fn is_regex_space(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\x0C' | '\r' | ' ')
}

/// `strings.TrimSpace`.
fn trim(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace())
}

/// The fields of a document that Helm reads: its `SimpleHead`.
const HEAD: Shape = Shape::Fields(&[
    ("apiVersion", Shape::Text),
    ("kind", Shape::Text),
    (
        "metadata",
        Shape::Fields(&[("name", Shape::Text), ("annotations", Shape::Entries(&Shape::Text))]),
    ),
]);

/// What Helm reads of an object.
#[derive(Default)]
struct Head {
    kind: String,
    name: String,
    annotations: BTreeMap<String, String>,
}

impl Head {
    fn read(content: &str) -> Result<Self, HeadError> {
        let mut head = Self::default();
        let object = match go::read_as(content.as_bytes(), HEAD)? {
            Value::Null => return Ok(head),
            Value::Object(object) => object,
            other => return Err(wrong(&other, "value of type util.SimpleHead")),
        };
        // Several keys may stand for one field: the last that is not null counts.
        for (key, value) in &object {
            if is_field(key, "apiVersion") {
                text_of(value, "struct field SimpleHead.apiVersion of type string")?;
            } else if is_field(key, "kind") {
                if let Some(kind) = text_of(value, "struct field SimpleHead.kind of type string")? {
                    head.kind = kind;
                }
            } else if is_field(key, "metadata") {
                head.read_metadata(value)?;
            }
        }
        Ok(head)
    }

    fn read_metadata(&mut self, metadata: &Value) -> Result<(), HeadError> {
        let whole = "struct field SimpleHead.metadata of type struct { Name string \"json:\\\"name\\\"\"; \
                     Annotations map[string]string \"json:\\\"annotations\\\"\" }";
        for (key, value) in entries_of(metadata, whole)? {
            if is_field(key, "name") {
                if let Some(name) = text_of(value, "struct field .metadata.name of type string")? {
                    self.name = name;
                }
            } else if is_field(key, "annotations") {
                for (key, value) in entries_of(value, "struct field .metadata.annotations of type map[string]string")? {
                    let text = text_of(value, "struct field .metadata.annotations of type string")?;
                    self.annotations.insert(key.clone(), text.unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

/// The entries of an object; null has none.
fn entries_of<'v>(
    value: &'v Value,
    shown: &'static str,
) -> Result<impl Iterator<Item = (&'v String, &'v Value)>, HeadError> {
    match value {
        Value::Null => Ok(None.into_iter().flatten()),
        Value::Object(entries) => Ok(Some(entries).into_iter().flatten()),
        other => Err(wrong(other, shown)),
    }
}

/// A text, or what Helm converts to one; none for null.
fn text_of(value: &Value, shown: &'static str) -> Result<Option<String>, HeadError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        other => go::as_text(other).map(Some).ok_or_else(|| wrong(other, shown)),
    }
}

fn wrong(value: &Value, field: &'static str) -> HeadError {
    HeadError::Form {
        found: go::json_kind(value),
        field,
    }
}
