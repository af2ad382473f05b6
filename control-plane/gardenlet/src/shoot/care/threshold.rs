//! When trouble becomes a failing condition: not before it has lasted. A pod that is replaced and a node that restarts are
//! `Progressing` for a while (gardener/gardener v1.150 pkg/api/core/v1beta1/helper/condition.go `FailedCondition`,
//! pkg/gardenlet/controller/shoot/care/health.go `PardonConditions`). Pure.

use std::time::Duration;

use api_meta::{
    Condition, ConditionStatus, ErrorCode, LastError, LastOperation, LastOperationState, LastOperationType,
};
use jiff::Timestamp;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) codes: Vec<ErrorCode>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Healthy,
    /// It is progressing, and its reporter bounds how long that may take.
    Progressing,
    Failing,
    /// It could not be seen.
    Unseen,
}

impl Finding {
    pub(crate) fn new(verdict: Verdict, reason: &str, message: &str) -> Self {
        Self {
            verdict,
            reason: reason.to_owned(),
            message: message.to_owned(),
            codes: Vec::new(),
        }
    }
}

/// What decides, beside the finding, how a condition stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'s> {
    /// The conditions as they were written last.
    pub(crate) known: &'s [Condition],
    pub(crate) last_operation: Option<&'s LastOperation>,
    pub(crate) last_errors: &'s [LastError],
    pub(crate) now: Timestamp,
}

impl Course<'_> {
    /// The condition of a finding. `threshold`: how long trouble is `Progressing`; without one it is `False` at once.
    pub(crate) fn condition(&self, type_: &str, finding: Finding, threshold: Option<Duration>) -> Condition {
        let status = match finding.verdict {
            Verdict::Healthy => ConditionStatus::True,
            Verdict::Progressing => ConditionStatus::Progressing,
            Verdict::Unseen => ConditionStatus::Unknown,
            Verdict::Failing if self.is_pardoned() => ConditionStatus::Progressing,
            Verdict::Failing => self.failing(type_, &finding.reason, threshold),
        };
        let mut condition = Condition::new(type_, status, &finding.reason, &finding.message, self.now);
        condition.codes = finding.codes;
        condition
    }

    fn failing(&self, type_: &str, reason: &str, threshold: Option<Duration>) -> ConditionStatus {
        let (Some(threshold), Some(before)) = (threshold, Condition::find(self.known, type_)) else {
            return ConditionStatus::False;
        };
        let within = |since: Timestamp| self.since(since) <= threshold;
        let succeeded = self
            .last_operation
            .is_some_and(|last| last.state == LastOperationState::Succeeded && within(last.last_update_time.0));
        let pardoned = match before.status {
            ConditionStatus::True => true,
            ConditionStatus::Progressing => succeeded || within(before.last_transition_time.0),
            ConditionStatus::False => succeeded || before.reason != reason,
            _ => false,
        };
        match pardoned {
            true => ConditionStatus::Progressing,
            false => ConditionStatus::False,
        }
    }

    /// Whether an operation is at work that may well be the cause, and has not failed.
    fn is_pardoned(&self) -> bool {
        let Some(last) = self.last_operation else { return true };
        let comes_or_goes = matches!(last.type_, LastOperationType::Create | LastOperationType::Delete);
        let processing = last.state == LastOperationState::Processing;
        comes_or_goes && last.state != LastOperationState::Succeeded || processing && self.last_errors.is_empty()
    }

    /// How long until a condition that is `Progressing` may be `False`, if nothing changes: times are in whole seconds.
    pub(crate) fn ripe_after(&self, condition: &Condition, threshold: Option<Duration>) -> Option<Duration> {
        let threshold = threshold.filter(|_| condition.status == ConditionStatus::Progressing)?;
        let before = Condition::find(self.known, &condition.type_);
        let since = match before {
            Some(before) if before.status == ConditionStatus::Progressing => before.last_transition_time.0,
            _ => self.now,
        };
        let succeeded = self
            .last_operation
            .filter(|last| last.state == LastOperationState::Succeeded);
        let since = succeeded.map_or(since, |last| last.last_update_time.0.max(since));
        Some((threshold + SECOND).saturating_sub(self.since(since)).max(SECOND))
    }

    fn since(&self, time: Timestamp) -> Duration {
        Duration::try_from(self.now.duration_since(time)).unwrap_or_default()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const TYPE: &str = "ControlPlaneHealthy";
    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failing(reason: &str) -> Finding {
        Finding::new(Verdict::Failing, reason, "m")
    }

    fn reconciled(second: i64) -> LastOperation {
        LastOperation {
            last_update_time: Time(at(second)),
            state: LastOperationState::Succeeded,
            type_: LastOperationType::Reconcile,
            ..LastOperation::default()
        }
    }

    /// The status at each of these seconds, each found with this reason, from a condition that was True since second 0.
    fn course(last: &LastOperation, found: &[(i64, &str)]) -> Vec<ConditionStatus> {
        let healthy = Condition::new(TYPE, ConditionStatus::True, "R", "m", at(0));
        let mut known = vec![healthy];
        let mut statuses = Vec::new();
        for (second, reason) in found {
            let course = Course {
                known: &known,
                last_operation: Some(last),
                last_errors: &[],
                now: at(*second),
            };
            let condition = course.condition(TYPE, failing(reason), MINUTE);
            statuses.push(condition.status.clone());
            condition.put_into(&mut known);
        }
        statuses
    }

    #[test]
    fn trouble_is_progressing_until_its_threshold_and_false_from_then_on() {
        use ConditionStatus::{False, Progressing};
        let found = [(100, "A"), (160, "A"), (161, "A"), (900, "A")];
        assert_eq!(course(&reconciled(0), &found), [Progressing, Progressing, False, False]);
        let found = [(100, "A"), (161, "A"), (162, "B"), (223, "B")];
        assert_eq!(
            course(&reconciled(0), &found),
            [Progressing, False, Progressing, False],
            "other trouble has a threshold of its own"
        );
        assert_eq!(
            course(&reconciled(150), &[(100, "A"), (161, "A"), (211, "A")]),
            [Progressing, Progressing, False],
            "a reconciliation that has just succeeded is given time"
        );
    }

    #[test]
    fn an_operation_at_work_is_pardoned_until_it_fails() {
        let mut last = reconciled(0);
        last.state = LastOperationState::Processing;
        let known = [Condition::new(TYPE, ConditionStatus::False, "A", "m", at(0))];
        let status = |last: &LastOperation, errors: &[LastError]| {
            let course = Course {
                known: &known,
                last_operation: Some(last),
                last_errors: errors,
                now: at(900),
            };
            course.condition(TYPE, failing("A"), MINUTE).status
        };
        assert_eq!(status(&last, &[]), ConditionStatus::Progressing);
        assert_eq!(status(&last, &[LastError::default()]), ConditionStatus::False);
        last.state = LastOperationState::Error;
        assert_eq!(status(&last, &[]), ConditionStatus::False);
        last.type_ = LastOperationType::Delete;
        assert_eq!(status(&last, &[LastError::default()]), ConditionStatus::Progressing);
    }

    #[test]
    fn the_next_look_comes_when_progressing_may_turn_false() {
        let last = reconciled(0);
        let known = [Condition::new(TYPE, ConditionStatus::Progressing, "A", "m", at(100))];
        let course = Course {
            known: &known,
            last_operation: Some(&last),
            last_errors: &[],
            now: at(130),
        };
        let condition = course.condition(TYPE, failing("A"), MINUTE);
        assert_eq!(course.ripe_after(&condition, MINUTE), Some(Duration::from_secs(31)));
        let later = Course { now: at(161), ..course };
        let condition = later.condition(TYPE, failing("A"), MINUTE);
        assert_eq!(
            (condition.status.clone(), later.ripe_after(&condition, MINUTE)),
            (ConditionStatus::False, None)
        );
    }
}
