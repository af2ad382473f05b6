//! What was found about each rule while the kit runs. A rule that nothing was found about is skipped with a reason, never
//! passed. It decides nothing.

use std::collections::BTreeMap;

use crate::report::{Evidence, Outcome, RuleResult};
use crate::rule::Rule;

/// Findings that are shown of one rule: the first ones are enough.
const EVIDENCE_MAX: usize = 3;

/// What is known of a rule.
#[derive(Default)]
struct Known {
    held: bool,
    broken: Vec<Evidence>,
    /// Findings beyond those that are shown.
    more: usize,
    skipped: Option<String>,
}

/// The findings of a run.
#[derive(Default)]
pub(crate) struct Ledger {
    known: BTreeMap<Rule, Known>,
    /// Rules that are broken, the first to be found first: it is the likeliest cause of the others.
    order: Vec<Rule>,
}

impl Ledger {
    /// It holds, as far as was seen here.
    pub(crate) fn held(&mut self, rule: Rule) {
        self.known.entry(rule).or_default().held = true;
    }

    /// It does not hold.
    pub(crate) fn broken(&mut self, rule: Rule, evidence: Evidence) {
        let known = self.known.entry(rule).or_default();
        if known.broken.is_empty() {
            self.order.push(rule);
        }
        if known.broken.len() < EVIDENCE_MAX {
            known.broken.push(evidence);
        } else {
            known.more += 1;
        }
    }

    /// It cannot be validated, for this reason. The first reason counts, and only while nothing else is known.
    pub(crate) fn skipped(&mut self, rule: Rule, reason: impl Into<String>) {
        self.known
            .entry(rule)
            .or_default()
            .skipped
            .get_or_insert_with(|| reason.into());
    }

    /// Records whether a rule holds; the error of `outcome` is what was seen instead.
    pub(crate) fn checked(&mut self, rule: Rule, step: &str, object: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.held(rule),
            Err(seen) => self.broken(rule, Evidence::new(step, object, seen)),
        }
    }

    /// Whether any rule is broken.
    pub(crate) fn has_findings(&self) -> bool {
        !self.order.is_empty()
    }

    /// The result of each rule: findings in the order in which they were found, then the others in the order of the table.
    pub(crate) fn results(mut self, otherwise: &str) -> Vec<RuleResult> {
        let rest = Rule::ALL.iter().copied().filter(|rule| !self.order.contains(rule));
        let all: Vec<Rule> = self.order.iter().copied().chain(rest).collect();
        all.into_iter()
            .map(|rule| {
                let known = self.known.remove(&rule).unwrap_or_default();
                let outcome = if !known.broken.is_empty() {
                    Outcome::Failed {
                        evidence: known.broken,
                        more: known.more,
                    }
                } else if known.held {
                    Outcome::Passed
                } else {
                    Outcome::Skipped {
                        reason: known.skipped.unwrap_or_else(|| otherwise.to_owned()),
                    }
                };
                RuleResult { rule, outcome }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_in_their_order_and_what_is_unknown_is_skipped() {
        let mut ledger = Ledger::default();
        let evidence = |text: &str| Evidence::new("s", "o", text.to_owned());
        ledger.held(Rule::OperationType);
        ledger.skipped(Rule::OperationType, "not this time");
        ledger.broken(Rule::SpecUntouched, evidence("a"));
        for _ in 0..5 {
            ledger.broken(Rule::OperationType, evidence("b"));
        }
        ledger.skipped(Rule::HeartbeatRenewed, "no namespace");
        ledger.skipped(Rule::HeartbeatRenewed, "another reason");
        let results = ledger.results("not reached");
        let ids: Vec<Rule> = results.iter().map(|result| result.rule).take(2).collect();
        assert_eq!(ids, [Rule::SpecUntouched, Rule::OperationType]);
        assert!(matches!(&results[1].outcome, Outcome::Failed { evidence, more: 2 } if evidence.len() == 3));
        assert_eq!(results.len(), Rule::ALL.len());
        let reason = |rule: Rule| {
            let found = results.iter().find(|result| result.rule == rule).unwrap();
            match &found.outcome {
                Outcome::Skipped { reason } => reason.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(reason(Rule::HeartbeatRenewed), "no namespace");
        assert_eq!(reason(Rule::QuietWhenSettled), "not reached");
    }
}
