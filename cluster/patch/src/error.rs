//! Why a patch is refused. Turning that into an HTTP status is the server's business; each variant names it.

use std::fmt;

use serde_json::Value;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself makes no sense (400 BadRequest).
    #[error("{0}")]
    Malformed(String),
    /// The patch makes sense, but not for this object (422 Invalid): a test failed, a path is missing.
    #[error("{0}")]
    NotApplicable(String),
    /// The patch cannot be made, for a reason that Kubernetes has no better code for (500 without a reason).
    #[error("{0}")]
    Failed(String),
    /// The patch requires more work than any honest one (413 RequestEntityTooLarge).
    #[error("{0}")]
    TooLarge(String),
    /// Other managers own fields that an apply would change (409 Conflict, causes from [`Conflicts::list`]).
    #[error(transparent)]
    Conflicts(Conflicts),
}

/// A value as Go prints it (`%v`): what messages of Kubernetes show.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The manager as shown to people: `"kubectl" using apps/v1`.
    pub manager: String,
    /// The field as shown to people: `.spec.replicas`.
    pub path: String,
}

impl Conflict {
    /// The `message` of the status cause, whose reason is `FieldManagerConflict` and whose field is the path.
    pub fn cause(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All fields that stand in the way of an apply, sorted by manager, then field. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// The fields.
    pub list: Vec<Conflict>,
}

impl std::error::Error for Conflicts {}

impl fmt::Display for Conflicts {
    /// The text of apimachinery v0.35 `pkg/util/managedfields/internal/conflict.go`; kubectl users search for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, path }] = self.list.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.list.len())?;
        let mut shown = None;
        for Conflict { manager, path } in &self.list {
            if shown != Some(manager) {
                if shown.is_some() {
                    writeln!(f)?;
                }
                write!(f, "conflicts with {manager}:")?;
                shown = Some(manager);
            }
            write!(f, "\n- {path}")?;
        }
        Ok(())
    }
}
