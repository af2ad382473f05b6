//! What an operation runs, waits for and has failed at, as data: it stands in one annotation beside the status, and the
//! sentences of the status are made from it here. Nothing reads these sentences back.
//!
//! It never decides anything, and every reader must work without it: an annotation that is missing, damaged, too large,
//! of a later form, or about another generation or operation than the status is [ignored](OperationReport::current).

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::annotations::OPERATION_REPORT;
use crate::fault::with_hint;
use crate::{Condition, ErrorCode, Fault, FaultClass, LastOperation, ObjectName, Retry, Unscheduled, WebhookFailure};

/// The form of the annotation's value. A reader of another form ignores it.
const FORM: u32 = 1;
/// Entries of each list: a flow runs about thirty tasks at once, and a reader looks at the first few.
const ENTRIES_MAX: usize = 32;
/// Length of a text. Longer ones are messages of API servers that quote whole objects.
const TEXT_BYTES_MAX: usize = 1024;
/// Length of the whole value: an object's annotations have 256 KiB together, and most of these belong to others.
const BYTES_MAX: usize = 128 * 1024;
/// What stands in place of the rest of a text.
const CUT: &str = "...";

/// How an operation stands, beside its `lastOperation`. Empty after a success.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperationReport {
    /// The names of the tasks that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<String>,
    /// What they have been waiting for long enough to be reported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// What has failed; those of an earlier attempt stay until their task has succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Problem>,
    /// When a failure is tried again by itself; nothing while it runs, and when it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_try: Option<Retry>,
    /// Why there is no seed to work on; of a Shoot that waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unscheduled: Option<Unscheduled>,
}

/// One thing that a task waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The task's name; empty where it is not known.
    #[serde(default)]
    pub task: String,
    /// What it waits for.
    #[serde(flatten)]
    pub subject: Subject,
    /// Why that is not enough yet.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subject {
    /// One object.
    Object(ObjectName),
    /// Several, in words.
    Objects(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::Objects(words) => f.write_str(words),
        }
    }
}

impl Wait {
    fn sentence(&self) -> String {
        format!("{}: {}", self.subject, self.reason)
    }
}

/// One error, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The task that failed; nothing where the operation has no tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The object it is about, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectName>,
    /// What happened, without the thing to do.
    pub text: String,
    /// One thing to do; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// Who can act.
    pub class: FaultClass,
    /// Well-known codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<ErrorCode>,
    /// The webhook that stands behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookFailure>,
}

impl Problem {
    /// A fault as data. `codes`: those that the status reports.
    pub fn of(task: Option<&str>, fault: &Fault, codes: Vec<ErrorCode>) -> Self {
        Self {
            task: task.map(str::to_owned),
            object: fault.object.as_deref().cloned(),
            text: fault.chain(),
            hint: fault.hint.clone(),
            class: fault.class,
            codes,
            webhook: fault.webhook.as_deref().cloned(),
        }
    }

    /// As `lastErrors` describe it.
    pub fn sentence(&self) -> String {
        with_hint(&self.text, &self.hint)
    }
}

/// The value of the annotation: a report, and the status that it belongs to.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stamped {
    form: u32,
    generation: Option<i64>,
    /// Seconds since 1970 of `lastOperation.lastUpdateTime`, or of the newest condition, which have no fractions on the wire.
    updated: Option<i64>,
    report: OperationReport,
}

/// Which status a report is about.
#[derive(Clone, Copy)]
struct Stamp {
    generation: Option<i64>,
    updated: Option<i64>,
}

impl Stamp {
    fn of_operation(generation: Option<i64>, last: Option<&LastOperation>) -> Self {
        let updated = last.map(|last| last.last_update_time.0.as_second());
        Self { generation, updated }
    }

    fn of_conditions(conditions: &[Condition], types: &[&str]) -> Self {
        let found = types.iter().filter_map(|type_| Condition::find(conditions, type_));
        let updated = found.map(|condition| condition.last_update_time.0.as_second()).max();
        Self {
            generation: None,
            updated,
        }
    }
}

type Annotations = BTreeMap<String, String>;

impl OperationReport {
    /// The report in an object's annotations, if it is about the status with this observed generation and last operation.
    pub fn current(
        annotations: Option<&Annotations>,
        generation: Option<i64>,
        last: Option<&LastOperation>,
    ) -> Option<Self> {
        Self::read(annotations, Stamp::of_operation(generation, last))
    }

    /// The same of an object that has no operation: the report about its conditions of these types as they are.
    pub fn about_conditions(
        annotations: Option<&Annotations>,
        conditions: &[Condition],
        types: &[&str],
    ) -> Option<Self> {
        Self::read(annotations, Stamp::of_conditions(conditions, types))
    }

    fn read(annotations: Option<&Annotations>, stamp: Stamp) -> Option<Self> {
        let value = annotations?.get(OPERATION_REPORT)?;
        if value.len() > BYTES_MAX {
            return None;
        }
        let stamped: Stamped = serde_json::from_str(value).ok()?;
        let is_current = (stamped.form, stamped.generation, stamped.updated) == (FORM, stamp.generation, stamp.updated);
        is_current.then_some(stamped.report)
    }

    /// Writes the report into an object's annotations, as one about the status with this observed generation and last
    /// operation. An empty one is taken away.
    pub fn put(self, annotations: &mut Option<Annotations>, generation: Option<i64>, last: Option<&LastOperation>) {
        self.write(annotations, Stamp::of_operation(generation, last));
    }

    /// The same as a report about an object's conditions of these types.
    pub fn put_beside_conditions(
        self,
        annotations: &mut Option<Annotations>,
        conditions: &[Condition],
        types: &[&str],
    ) {
        self.write(annotations, Stamp::of_conditions(conditions, types));
    }

    fn write(self, annotations: &mut Option<Annotations>, stamp: Stamp) {
        let stamped = Stamped {
            form: FORM,
            generation: stamp.generation,
            updated: stamp.updated,
            report: self.limited(),
        };
        let value = (stamped.report != Self::default())
            .then(|| serde_json::to_string(&stamped).ok())
            .flatten()
            .filter(|value| value.len() <= BYTES_MAX);
        match (value, annotations.as_mut()) {
            (Some(value), _) => {
                annotations
                    .get_or_insert_default()
                    .insert(OPERATION_REPORT.to_owned(), value);
            }
            (None, Some(present)) => {
                present.remove(OPERATION_REPORT);
            }
            (None, None) => {}
        }
    }

    /// Forgets the errors of tasks that have succeeded since.
    pub fn clear(&mut self, tasks: &[String]) {
        self.errors
            .retain(|error| error.task.as_ref().is_none_or(|task| !tasks.contains(task)));
    }

    /// How `lastOperation` describes a run whose progress is described so: behind the running tasks stands what has been
    /// waited for long, because the reader can look at that.
    pub fn progress_sentence(&self, progress: &str) -> String {
        match self.waits.as_slice() {
            [] => progress.to_owned(),
            _ => format!("{progress}; waiting for {}", self.waits_sentence()),
        }
    }

    /// All that is waited for.
    pub fn waits_sentence(&self) -> String {
        let waits: Vec<String> = self.waits.iter().map(Wait::sentence).collect();
        waits.join("; ")
    }

    /// All that has failed, without when it is tried again: that is another text each time.
    pub fn errors_sentence(&self) -> String {
        let of = |error: &Problem| match &error.task {
            Some(task) => format!("task {task:?} failed: {}", error.text),
            None => error.text.clone(),
        };
        self.errors.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// How `lastOperation` describes a failure.
    pub fn failure_sentence(&self) -> String {
        match &self.next_try {
            Some(next_try) => format!("{}{next_try}", self.errors_sentence()),
            None => self.errors_sentence(),
        }
    }

    /// Within what an annotation has room for.
    fn limited(mut self) -> Self {
        self.running.truncate(ENTRIES_MAX);
        self.waits.truncate(ENTRIES_MAX);
        self.errors.truncate(ENTRIES_MAX);
        self.running.iter_mut().for_each(cut);
        for wait in &mut self.waits {
            cut(&mut wait.reason);
            wait.since = whole_second(wait.since);
        }
        for error in &mut self.errors {
            cut(&mut error.text);
            cut(&mut error.hint);
            error.codes.truncate(ENTRIES_MAX);
        }
        if let Some(next_try) = &mut self.next_try {
            next_try.at = whole_second(next_try.at);
        }
        self
    }
}

fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

fn cut(text: &mut String) {
    cut_to(text, TEXT_BYTES_MAX);
}

/// Cuts a text to at most `bytes_max` bytes, at a letter.
pub(crate) fn cut_to(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn last(updated: &str) -> LastOperation {
        LastOperation {
            last_update_time: Time(at(updated)),
            ..LastOperation::default()
        }
    }

    fn report() -> OperationReport {
        OperationReport {
            running: vec!["Waiting until X".to_owned()],
            waits: vec![
                Wait {
                    task: "Waiting until X".to_owned(),
                    subject: Subject::Object(ObjectName::new("Worker", Some("a"), "b")),
                    reason: "no; waiting for (to do: nothing)".to_owned(),
                    since: at("2026-01-01T00:00:01Z"),
                },
                Wait {
                    task: String::new(),
                    subject: Subject::Objects("nodes of the cluster".to_owned()),
                    reason: "two".to_owned(),
                    since: at("2026-01-01T00:00:02Z"),
                },
            ],
            errors: vec![Problem {
                task: Some("A \"quoted\" task".to_owned()),
                object: Some(ObjectName::new("Seed", None, "s")),
                text: "no (really)".to_owned(),
                hint: "say yes".to_owned(),
                class: FaultClass::Access,
                codes: vec![ErrorCode::InfraUnauthorized, ErrorCode::from("ERR_NEW")],
                webhook: Some(WebhookFailure {
                    name: "w.example".to_owned(),
                    has_answered: true,
                    ..WebhookFailure::default()
                }),
            }],
            next_try: Some(Retry {
                at: at("2026-01-01T00:00:05Z"),
                class: FaultClass::Transient,
            }),
            unscheduled: Some(Unscheduled::Missing(ObjectName::new("CloudProfile", None, "p"))),
        }
    }

    const UPDATED: &str = "2026-01-01T00:00:03.7Z";

    fn written(report: OperationReport) -> Option<Annotations> {
        let mut annotations = None;
        report.put(&mut annotations, Some(3), Some(&last(UPDATED)));
        annotations
    }

    fn read(annotations: Option<&Annotations>) -> Option<OperationReport> {
        OperationReport::current(annotations, Some(3), Some(&last("2026-01-01T00:00:03Z")))
    }

    #[test]
    fn a_report_reads_back_unchanged_and_an_empty_one_leaves_no_annotation() {
        let mut annotations = written(report());
        assert_eq!(read(annotations.as_ref()), Some(report()));
        OperationReport::default().put(&mut annotations, Some(3), None);
        assert_eq!(annotations, Some(Annotations::new()));
        assert_eq!(written(OperationReport::default()), None);
    }

    #[test]
    fn a_report_beside_conditions_holds_until_one_of_them_is_written_again() {
        let condition =
            |type_: &str, updated: &str| Condition::new(type_, crate::ConditionStatus::False, "R", "m", at(updated));
        let mut conditions = vec![
            condition("Valid", "2026-01-01T00:00:01.5Z"),
            condition("Installed", "2026-01-01T00:00:03.5Z"),
        ];
        let types = ["Valid", "Installed"];
        let mut annotations = None;
        report().put_beside_conditions(&mut annotations, &conditions, &types);
        let read =
            |conditions: &[Condition]| OperationReport::about_conditions(annotations.as_ref(), conditions, &types);
        conditions.push(condition("Required", "2026-01-01T00:00:09Z"));
        assert_eq!(read(&conditions), Some(report()), "another writer's condition");
        conditions[0] = condition("Valid", "2026-01-01T00:00:04Z");
        assert_eq!(read(&conditions), None);
    }

    #[test]
    fn a_report_about_another_generation_or_operation_is_ignored() {
        let annotations = written(report());
        let annotations = annotations.as_ref();
        for (generation, updated) in [
            (Some(2), Some("2026-01-01T00:00:03Z")),
            (None, Some("2026-01-01T00:00:03Z")),
            (Some(3), Some("2026-01-01T00:00:04Z")),
            (Some(3), None),
        ] {
            let last = updated.map(last);
            let found = OperationReport::current(annotations, generation, last.as_ref());
            assert_eq!(found, None, "{generation:?} {updated:?}");
        }
    }

    #[test]
    fn whatever_is_done_to_the_annotation_reading_it_never_fails() {
        let whole = written(report()).unwrap()[OPERATION_REPORT].clone();
        let of = |value: String| Annotations::from([(OPERATION_REPORT.to_owned(), value)]);
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            assert_eq!(read(Some(&of(whole[..end].to_owned()))), None, "cut at {end}");
            // One byte lost within: either no report, or one whose texts differ.
            let mut bytes = whole.clone().into_bytes();
            bytes.remove(end);
            if let Ok(damaged) = String::from_utf8(bytes) {
                let _ = read(Some(&of(damaged)));
            }
        }
        let later = whole.replace("\"form\":1", "\"form\":2");
        let unknown_class = whole.replace("\"access\"", "\"novel\"");
        let padded = format!("{whole}{}", " ".repeat(BYTES_MAX));
        for value in [later, unknown_class, padded, "null".to_owned(), "[]".to_owned()] {
            assert_eq!(read(Some(&of(value.clone()))), None, "{value:.80}");
        }
        let with_more = whole.replace("\"form\":1", "\"form\":1,\"more\":{}");
        assert_eq!(
            read(Some(&of(with_more))),
            Some(report()),
            "what is added later does not hurt"
        );
        assert_eq!(read(None), None);
    }

    #[test]
    fn a_report_is_cut_to_what_an_annotation_has_room_for() {
        let mut long = report();
        // A character of three bytes, so that a limit in bytes falls within one.
        long.errors[0].text = "\u{65e5}".repeat(TEXT_BYTES_MAX);
        long.errors = vec![long.errors[0].clone(); ENTRIES_MAX * 2];
        long.waits[0].reason = "\u{65e5}".repeat(TEXT_BYTES_MAX);
        long.waits = vec![long.waits[0].clone(); ENTRIES_MAX * 2];
        long.running = vec!["x".repeat(TEXT_BYTES_MAX * 2); ENTRIES_MAX * 2];
        let annotations = written(long);
        let short = read(annotations.as_ref()).expect("it fits");
        assert_eq!(
            [short.errors.len(), short.waits.len(), short.running.len()],
            [ENTRIES_MAX; 3]
        );
        let text = &short.errors[0].text;
        assert!(text.len() <= TEXT_BYTES_MAX && text.ends_with("\u{65e5}..."), "{text}");
        let mut hostile = report();
        // Each of these is six bytes of JSON.
        hostile.errors[0].text = "\u{1}".repeat(TEXT_BYTES_MAX);
        hostile.errors = vec![hostile.errors[0].clone(); ENTRIES_MAX];
        assert_eq!(written(hostile), None, "what is too large is not written at all");
    }

    #[test]
    fn sentences_are_made_from_the_data() {
        let report = report();
        assert_eq!(
            report.progress_sentence("Waiting until X"),
            "Waiting until X; waiting for Worker a/b: no; waiting for (to do: nothing); nodes of the cluster: two"
        );
        assert_eq!(
            report.failure_sentence(),
            "task \"A \\\"quoted\\\" task\" failed: no (really). Operation will be retried. Next try at \
             2026-01-01T00:00:05Z or sooner (transient)."
        );
        assert_eq!(report.errors[0].sentence(), "no (really) (to do: say yes)");
        assert_eq!(OperationReport::default().progress_sentence("Starting"), "Starting");
    }

    #[test]
    fn errors_go_with_their_tasks() {
        let mut report = report();
        report.clear(&["Another".to_owned()]);
        assert_eq!(report.errors.len(), 1);
        report.clear(&["A \"quoted\" task".to_owned()]);
        assert_eq!(report.errors, []);
    }
}
