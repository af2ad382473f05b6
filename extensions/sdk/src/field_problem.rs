//! One thing that is wrong with what a person has written, by its field: for statuses and for admission.

use std::fmt;

/// Problems that a text names; more would hide the first.
const NAMED_MAX: usize = 20;

/// What is wrong with a field. It never holds a value of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FieldProblem {
    /// The field's path from the object's root, as `spec.provider.infrastructureConfig.networks.vpc.cidr`, or a Secret's key.
    pub field: String,
    /// What is wrong, in words that follow the field's name: "is not known".
    pub problem: String,
    /// What is allowed, in words that follow "expected": "a CIDR such as 10.0.0.0/16"; empty where nothing is.
    pub expected: String,
}

impl FieldProblem {
    /// A problem of a field.
    pub fn new(field: impl Into<String>, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            expected: expected.into(),
        }
    }
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            problem,
            expected,
        } = self;
        write!(f, "{field} {problem}")?;
        match expected.as_str() {
            "" => Ok(()),
            expected => write!(f, "; expected {expected}"),
        }
    }
}

/// All problems in one line, in their order.
pub(crate) fn in_one_line(problems: &[FieldProblem]) -> String {
    let named: Vec<String> = problems.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let named = named.join(", and ");
    match problems.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named}, and {more} more problems"),
    }
}
