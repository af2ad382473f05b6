//! Answers of the API server, read for people: the `Status` of what is refused, and warnings.

use http::StatusCode;
use http::response::Parts;
use serde_json::Value;

/// In the message about an address outside of the embedded cluster's networks: each cluster has its own.
const OTHER_NETWORK: &str = "does not match the current range";
/// What stands before the unknown fields (`runtime.NewStrictDecodingError` of Kubernetes).
const STRICT: &str = "strict decoding error: ";

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) warnings: Vec<String>,
    /// Null if it is no JSON
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn of(head: &Parts, body: &[u8]) -> Self {
        let warnings = head.headers.get_all(http::header::WARNING);
        Self {
            status: head.status,
            warnings: warnings
                .iter()
                .filter_map(|warning| warning_of(warning.to_str().ok()?))
                .filter(|warning| !cluster_apiserver::is_ineffective_kind_warning(warning))
                .collect(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// What the object has and its kind does not: `unknown field "spec.imag"`. Empty if it was not checked or all is known.
    pub(crate) fn unknown_fields(&self) -> Vec<String> {
        let Some((_, fields)) = self.message().split_once(STRICT) else {
            return Vec::new();
        };
        // Names of fields may have commas in them.
        let mut all: Vec<String> = Vec::new();
        for part in fields.split(", ") {
            match all.last_mut() {
                Some(last) if !part.starts_with("unknown field ") => {
                    last.push_str(", ");
                    last.push_str(part);
                }
                _ => all.push(part.to_owned()),
            }
        }
        all
    }
}

/// Why an object would be refused, a sentence for each reason; empty if it would be accepted, or is there already, as some
/// are in an empty Kubernetes.
pub(crate) fn problems_of(answer: &Answer) -> Vec<String> {
    if answer.status.is_success() || answer.status == StatusCode::CONFLICT {
        return Vec::new();
    }
    let causes = answer.body["details"]["causes"].as_array();
    let causes = causes.into_iter().flatten().filter_map(|cause| {
        let message = cause["message"].as_str()?;
        Some(match cause["field"].as_str() {
            None | Some("" | "<nil>") => message.to_owned(),
            Some(field) => format!("{field}: {message}"),
        })
    });
    let mut causes: Vec<String> = causes.collect();
    match (causes.is_empty(), answer.message()) {
        (false, _) => {
            causes.retain(|cause| !cause.contains(OTHER_NETWORK));
            causes
        }
        (true, "") => vec![format!("refused with status {}", answer.status)],
        (true, message) => vec![message.to_owned()],
    }
}

/// The text of a `Warning` header of Kubernetes: `299 - "text"` (RFC 7234, section 5.5).
fn warning_of(header: &str) -> Option<String> {
    let quoted = header.split_once(" - ")?.1.strip_prefix('"')?.strip_suffix('"')?;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::{Answer, problems_of, warning_of};

    fn refused(body: serde_json::Value) -> Answer {
        Answer {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            warnings: Vec::new(),
            body,
        }
    }

    #[test]
    fn unknown_fields_are_reported_one_by_one() {
        let message = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.a\", unknown field \"spec.b, c\"";
        let answer = refused(json!({"message": message}));
        assert_eq!(
            answer.unknown_fields(),
            ["unknown field \"spec.a\"", "unknown field \"spec.b, c\""]
        );
        assert!(refused(json!({"message": "no"})).unknown_fields().is_empty());
    }

    #[test]
    fn each_cause_of_a_refusal_is_a_separate_problem() {
        let causes = json!([{"field": "spec.a", "message": "Required value"}, {"message": "so"}]);
        let answer = refused(json!({"message": "all of it", "details": {"causes": causes}}));
        assert_eq!(problems_of(&answer), ["spec.a: Required value", "so"]);
        assert_eq!(problems_of(&refused(json!({"message": "why"}))), ["why"]);
        assert_eq!(
            problems_of(&refused(json!(null))),
            ["refused with status 422 Unprocessable Entity"]
        );
    }

    #[test]
    fn warnings_are_read_without_their_quotes() {
        assert_eq!(
            warning_of("299 - \"say \\\"no\\\" \\\\\"").as_deref(),
            Some("say \"no\" \\")
        );
        assert_eq!(warning_of("nonsense"), None);
    }
}
