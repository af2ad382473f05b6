//! What our engine makes of a case.

use std::sync::{Arc, LazyLock};

use base_gotemplate::{Context, Error, Functions, Limits, MissingKey, Set};

use crate::case::{Answer, Case};
use crate::{Outcome, data};

/// What errors call the template, here and in the oracle.
pub(crate) const NAME: &str = "t.yaml";

/// Parses and executes a case.
///
/// # Errors
/// The case's data is not what data are.
pub fn answer(case: &Case) -> Outcome<Answer> {
    static PLAIN: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new()));
    static SPRIG: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new().with_sprig()));
    let functions: &Arc<Functions> = if case.sprig { &SPRIG } else { &PLAIN };
    let missing_key = match case.missing_key.as_str() {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Default,
    };
    // The top is what it is, and not behind an interface.
    let data = match data::read(&case.data)? {
        base_gotemplate::Value::Nil => base_gotemplate::Value::Absent,
        data => data,
    };
    let mut set = Set::new(NAME, Arc::clone(functions), missing_key);
    let rendered = set.parse(NAME, case.template.as_bytes()).and_then(|()| {
        let mut context = Context {
            limits: Limits::default(),
            host: &mut (),
        };
        Arc::new(set).render(NAME, data, &mut context)
    });
    Ok(match rendered {
        Ok(output) => Answer::Output(output),
        Err(Error::Parse(why) | Error::Exec(why)) => Answer::Error(why),
        Err(limit) => Answer::Error(limit.to_string()),
    })
}
