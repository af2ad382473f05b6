//! Conditions, operations and errors as Gardener's status fields spell them. It never compares or merges them:
//! that is the reporter's part.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ErrorCode, or_empty, string_enum};

string_enum! {
    /// How a condition stands. Source: gardener/gardener v1.150 pkg/apis/core/v1beta1/types_utils.go.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// It could not be determined.
        Unknown = "Unknown",
        /// It held, fails now, and is within the time it is given to recover.
        Progressing = "Progressing",
    }
}

string_enum! {
    /// What kind of operation was done last.
    pub enum LastOperationType {
        /// First time.
        Create = "Create",
        /// Again.
        Reconcile = "Reconcile",
        /// Take down.
        Delete = "Delete",
        /// Prepare to leave this seed, keeping what is in the cloud.
        Migrate = "Migrate",
        /// Take over on another seed.
        Restore = "Restore",
        /// Move between seeds without downtime.
        LiveMigrate = "LiveMigrate",
    }
}

string_enum! {
    /// How the last operation stands.
    pub enum LastOperationState {
        /// Under way.
        Processing = "Processing",
        /// Done.
        Succeeded = "Succeeded",
        /// It failed and will be retried.
        Error = "Error",
        /// It failed and will not be retried without a change.
        Failed = "Failed",
        /// Accepted, not started.
        Pending = "Pending",
        /// Given up on purpose.
        Aborted = "Aborted",
    }
}

/// One statement about an object, with its history. Not Kubernetes' own type: it has `lastUpdateTime` and `codes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Condition {
    /// What the statement is about; unique within a list.
    #[serde(rename = "type")]
    pub type_: String,
    /// How it stands.
    pub status: ConditionStatus,
    /// When `status` changed last.
    #[serde(deserialize_with = "time_or_zero")]
    pub last_transition_time: Time,
    /// When anything of it was written last.
    #[serde(deserialize_with = "time_or_zero")]
    pub last_update_time: Time,
    /// One word in CamelCase, for programs.
    pub reason: String,
    /// A sentence, for people.
    pub message: String,
    /// Well-known error codes, if it stands because of errors.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<ErrorCode>,
}

impl Default for Condition {
    fn default() -> Self {
        Self::new("", ConditionStatus::Unknown, "", "", Timestamp::UNIX_EPOCH)
    }
}

impl Condition {
    /// A condition that changed at `now`.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str, message: &str, now: Timestamp) -> Self {
        Self {
            type_: type_.to_owned(),
            status,
            last_transition_time: Time(now),
            last_update_time: Time(now),
            reason: reason.to_owned(),
            message: message.to_owned(),
            codes: Vec::new(),
        }
    }

    /// The condition of this type in a list.
    pub fn find<'a>(conditions: &'a [Self], type_: &str) -> Option<&'a Self> {
        conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Writes `self` into `conditions`, keeping `lastTransitionTime` if the status stays and both times if
    /// nothing changes. Returns whether anything changed.
    pub fn put_into(mut self, conditions: &mut Vec<Self>) -> bool {
        let Some(old) = conditions.iter_mut().find(|old| old.type_ == self.type_) else {
            conditions.push(self);
            return true;
        };
        if old.status == self.status {
            self.last_transition_time = old.last_transition_time.clone();
            if old.reason == self.reason && old.message == self.message && old.codes == self.codes {
                return false;
            }
        }
        *old = self;
        true
    }
}

/// What was done last to an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LastOperation {
    /// A sentence, for people.
    pub description: String,
    /// When this was written.
    #[serde(deserialize_with = "time_or_zero")]
    pub last_update_time: Time,
    /// Percent, 0 to 100.
    pub progress: i32,
    /// How it stands.
    pub state: LastOperationState,
    /// What it was.
    #[serde(rename = "type")]
    pub type_: LastOperationType,
}

impl Default for LastOperation {
    fn default() -> Self {
        Self {
            description: String::new(),
            last_update_time: Time(Timestamp::UNIX_EPOCH),
            progress: 0,
            state: LastOperationState::default(),
            type_: LastOperationType::default(),
        }
    }
}

/// One error of the last operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LastError {
    /// The whole error text, for people.
    pub description: String,
    /// The flow task that failed (its name).
    #[serde(rename = "taskID", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Well-known codes found in it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<ErrorCode>,
    /// When it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// Reads a required time; `null`, which Go writes for a time never set, is 1970.
pub(crate) fn time_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    Ok(Option::<Time>::deserialize(deserializer)?.unwrap_or(Time(Timestamp::UNIX_EPOCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut list = Vec::new();
        let put = |list: &mut Vec<Condition>, status, message: &str, second| {
            Condition::new("Ready", status, "R", message, at(second)).put_into(list)
        };
        assert!(put(&mut list, ConditionStatus::True, "a", 1));
        assert!(!put(&mut list, ConditionStatus::True, "a", 2), "nothing changed");
        assert_eq!(list[0].last_update_time, Time(at(1)));
        assert!(put(&mut list, ConditionStatus::True, "b", 3));
        assert_eq!(
            (&list[0].last_transition_time, &list[0].last_update_time),
            (&Time(at(1)), &Time(at(3)))
        );
        assert!(put(&mut list, ConditionStatus::False, "b", 4));
        assert_eq!(list[0].last_transition_time, Time(at(4)));
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn times_that_go_never_set_are_read() {
        let operation: LastOperation = serde_json::from_str(
            r#"{"description":"","lastUpdateTime":null,"progress":1,"state":"New","type":"Create"}"#,
        )
        .unwrap();
        assert_eq!(operation.last_update_time, Time(Timestamp::UNIX_EPOCH));
        assert_eq!(operation.state, LastOperationState::Other("New".into()));
        let condition: Condition = serde_json::from_str(r#"{"type":"A","status":"Unknown"}"#).unwrap();
        assert_eq!(condition.status, ConditionStatus::Unknown);
    }
}
