//! Why a webhook refuses a request, and what its client gets. It decides nothing.

use api_meta::{Fault, FaultClass};
use base_client::Admission;
use extensions_sdk::FieldProblem;
use serde_json::json;

/// Problems whose texts stand in the message; all of them are causes.
const SHOWN_MAX: usize = 20;

/// A refusal, made from a [`Fault`] or from what is wrong with fields. The class decides the code: who has sent something wrong
/// gets 422, who may not gets 403; all else is a 5xx, after which API clients try again.
#[derive(Debug)]
pub struct Refusal(Box<Why>);

#[derive(Debug)]
struct Why {
    fault: Fault,
    problems: Vec<FieldProblem>,
}

impl Refusal {
    /// All that is wrong with an object, in one answer. None where nothing is.
    #[must_use]
    pub fn of_fields(problems: Vec<FieldProblem>) -> Option<Self> {
        let (shown, more) = (problems.len().min(SHOWN_MAX), problems.len().saturating_sub(SHOWN_MAX));
        let mut texts: Vec<String> = problems.iter().take(shown).map(ToString::to_string).collect();
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        let text = match texts.as_slice() {
            [] => return None,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let fault = Fault::user(text);
        Some(Self(Box::new(Why { fault, problems })))
    }

    /// Who can act.
    #[must_use]
    pub fn class(&self) -> FaultClass {
        self.0.fault.class
    }

    /// The answer. `about` names extension, webhook and object.
    #[must_use]
    pub(crate) fn admission(&self, about: &str) -> Admission {
        let (code, reason) = match self.0.fault.class {
            FaultClass::User => (422, "Invalid"),
            FaultClass::Quota | FaultClass::Access => (403, "Forbidden"),
            FaultClass::Dependency | FaultClass::Transient => (503, "ServiceUnavailable"),
            FaultClass::Bug => (500, "InternalError"),
        };
        let causes = self.0.problems.iter().map(
            |problem| json!({"reason": "FieldValueInvalid", "message": problem.to_string(), "field": problem.field}),
        );
        Admission::refused(code, reason, format!("{about}: {}", self.0.fault.text_with_hint()))
            .with_causes(causes.collect())
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let problems = Vec::new();
        Self(Box::new(Why { fault, problems }))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.fault.text_with_hint())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn status(refusal: &Refusal) -> Value {
        refusal.admission("about").answer(&Value::Null)["response"]["status"].clone()
    }

    #[test]
    fn class_decides_the_code_and_the_hint_is_part_of_the_message() {
        let cases = [
            (Fault::user("a").hint("b"), 422, "about: a (to do: b)"),
            (Fault::quota("a"), 403, "about: a"),
            (Fault::access("a"), 403, "about: a"),
            (Fault::dependency("a"), 503, "about: a"),
            (Fault::transient("a"), 503, "about: a"),
            (Fault::bug("a"), 500, "about: a"),
        ];
        for (fault, code, message) in cases {
            let status = status(&fault.into());
            assert_eq!((&status["code"], &status["message"]), (&json!(code), &json!(message)));
        }
    }

    #[test]
    fn all_problems_are_causes_and_a_few_of_them_the_message() {
        assert!(Refusal::of_fields(Vec::new()).is_none());
        let problem = |at: usize| FieldProblem::new(format!("spec.zones[{at}]"), "is missing", "a zone");
        let one = status(&Refusal::of_fields(vec![problem(0)]).unwrap());
        assert_eq!(one["message"], "about: spec.zones[0] is missing; expected a zone");
        let many = status(&Refusal::of_fields((0..22).map(problem).collect()).unwrap());
        let causes = many["details"]["causes"].as_array().unwrap();
        assert_eq!((causes.len(), &causes[21]["field"]), (22, &json!("spec.zones[21]")));
        assert_eq!(causes[0]["reason"], "FieldValueInvalid");
        let message = many["message"].as_str().unwrap();
        assert!(
            message.starts_with("about: [spec.zones[0] is missing") && message.ends_with(", and 2 more]"),
            "{message}"
        );
    }
}
