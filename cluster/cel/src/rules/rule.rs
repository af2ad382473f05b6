//! One compiled validation rule.

use cluster_fields::FieldErrorKind;
use kube_cel::cel::common::ast::IdedExpr;
use serde_json::Value;

use crate::run::functions;
use crate::run::meter::meter;

/// One compiled rule.
pub struct Rule {
    pub(crate) source: String,
    pub(crate) expression: IdedExpr,
    pub(crate) uses_old_self: bool,
    pub(crate) optional_old_self: bool,
    pub(crate) message: Option<String>,
    pub(crate) message_expression: Option<IdedExpr>,
    pub(crate) reason: FieldErrorKind,
    pub(crate) field_path: Option<String>,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rule").field(&self.source).finish()
    }
}

impl Rule {
    /// A rule as it stands in the schema (`entry`), with its parsed expressions.
    pub(crate) fn new(
        entry: &Value,
        tree: IdedExpr,
        message_expression: Option<IdedExpr>,
        uses_old_self: bool,
    ) -> Self {
        let text = |name: &str| entry[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        Self {
            source: text("rule").unwrap_or_default().to_owned(),
            expression: metered(tree),
            uses_old_self,
            optional_old_self: entry["optionalOldSelf"] == true,
            message: text("message").map(str::to_owned),
            message_expression: message_expression.map(metered),
            // Other reasons were refused with the schema.
            reason: match text("reason") {
                Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
                Some("FieldValueRequired") => FieldErrorKind::Required,
                Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
        }
    }

    /// How errors name the rule.
    pub(crate) fn shown(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.source)
    }
}

fn metered(mut expression: IdedExpr) -> IdedExpr {
    functions::lower(&mut expression);
    meter(&mut expression);
    expression
}
