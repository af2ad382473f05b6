//! What a run has found, as a value. Its forms are in files of their own.

mod junit;
mod text;

use std::time::Duration;

use api_extensions::{ExtensionClass, ExtensionKind};
use serde::{Serialize, Serializer};

use crate::rule::Rule;

pub(crate) use text::not_reached;

/// What was found about an extension.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Kind of the objects.
    #[serde(serialize_with = "kind_name")]
    pub kind: ExtensionKind,
    /// Their type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Their class.
    pub class: ExtensionClass,
    /// Namespace that the kit made for the run, and the Cluster of the same name.
    pub namespace: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Why the run did not come to its end; nothing if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// One result for each rule: findings first, in the order in which they were found. The first is the likeliest cause
    /// of the others.
    pub rules: Vec<RuleResult>,
    /// What the kit could not remove, each as a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// How long it took, in seconds.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub took: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No rule is broken.
    Passed,
    /// At least one rule is broken.
    Failed,
    /// The run did not come to its end, and no rule was found broken until then.
    Undecided,
}

/// A rule, and what was found about it.
#[derive(Clone, Debug)]
pub struct RuleResult {
    /// The rule.
    pub rule: Rule,
    /// What was found.
    pub outcome: Outcome,
}

/// What was found about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds wherever it was looked at.
    Passed,
    /// It does not hold.
    Failed {
        /// What was seen: the first findings, at least one.
        evidence: Vec<Evidence>,
        /// How many more there are.
        more: usize,
    },
    /// It could not be looked at.
    Skipped {
        /// Why not.
        reason: String,
    },
}

/// Something that was seen and breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What the kit did then, such as `reconcile again`.
    pub step: String,
    /// The object, as `Kind namespace/name`.
    pub object: String,
    /// What was seen: field, value, time, and what was expected.
    pub seen: String,
}

impl Evidence {
    pub(crate) fn new(step: &str, object: &str, seen: String) -> Self {
        Self {
            step: step.to_owned(),
            object: object.to_owned(),
            seen,
        }
    }
}

impl Report {
    /// The rules that are broken, the likeliest cause first.
    pub fn findings(&self) -> impl Iterator<Item = (Rule, &[Evidence])> {
        self.rules.iter().filter_map(|result| match &result.outcome {
            Outcome::Failed { evidence, .. } => Some((result.rule, evidence.as_slice())),
            _ => None,
        })
    }

    /// The rules that could not be looked at, and why.
    pub fn skipped(&self) -> impl Iterator<Item = (Rule, &str)> {
        self.rules.iter().filter_map(|result| match &result.outcome {
            Outcome::Skipped { reason } => Some((result.rule, reason.as_str())),
            _ => None,
        })
    }

    /// The rules that hold.
    pub fn passed(&self) -> impl Iterator<Item = Rule> {
        let passed = self.rules.iter().filter(|result| result.outcome == Outcome::Passed);
        passed.map(|result| result.rule)
    }

    /// The exit code of a command: 0 passed, 1 findings, 2 undecided.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Passed => 0,
            Verdict::Failed => 1,
            Verdict::Undecided => 2,
        }
    }

    /// For people: verdict, findings, what was skipped, what passed. Lines are at most 100 columns wide.
    #[must_use]
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report has neither keys that are no text nor numbers out of range")
    }

    /// For build servers: a test suite with a test case for each rule.
    #[must_use]
    pub fn junit(&self) -> String {
        junit::junit(self)
    }
}

impl Serialize for RuleResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Form<'a> {
            id: &'static str,
            outcome: &'static str,
            sentence: &'static str,
            source: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            hint: Option<&'static str>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            evidence: &'a [Evidence],
            #[serde(skip_serializing_if = "Option::is_none")]
            further_findings: Option<usize>,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
        }
        let rule = self.rule;
        let form = Form {
            id: rule.id(),
            outcome: "passed",
            sentence: rule.sentence(),
            source: rule.source(),
            hint: None,
            evidence: &[],
            further_findings: None,
            reason: None,
        };
        match &self.outcome {
            Outcome::Passed => form.serialize(serializer),
            Outcome::Skipped { reason } => Form {
                outcome: "skipped",
                reason: Some(reason),
                ..form
            }
            .serialize(serializer),
            Outcome::Failed { evidence, more } => Form {
                outcome: "failed",
                hint: Some(rule.hint()),
                evidence,
                further_findings: (*more > 0).then_some(*more),
                ..form
            }
            .serialize(serializer),
        }
    }
}

fn kind_name<S: Serializer>(kind: &ExtensionKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.kind())
}

fn seconds<S: Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Milliseconds say enough.
    serializer.serialize_f64(f64::from(u32::try_from(took.as_millis()).unwrap_or(u32::MAX)) / 1_000.0)
}
