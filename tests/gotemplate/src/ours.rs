//! What our engine makes of a case.

use std::sync::{Arc, LazyLock};

use base_clock::{Clock, Entropy};
use base_gotemplate::{Context, Functions, Host, Limits, MissingKey, Set, Value};

use jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};

use crate::case::{Answer, Case};
use crate::{Outcome, data};

/// What errors call the template, here and in the oracle.
pub(crate) const NAME: &str = "t.yaml";

/// What time it is here: in 2026. Go's answers are of any time.
const NOW: i64 = 1_790_000_000;

/// Parses and executes a case.
///
/// # Errors
/// The case's data is not what data are.
pub fn answer(case: &Case) -> Outcome<Answer> {
    static PLAIN: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new()));
    static SPRIG: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new().with_sprig()));
    static HELM: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::new().with_sprig().with_helm()));
    if case.helm {
        return in_chart(case, &HELM);
    }
    let functions: &Arc<Functions> = if case.sprig { &SPRIG } else { &PLAIN };
    let missing_key = match case.missing_key.as_str() {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Default,
    };
    // The top is what it is, and not behind an interface.
    let data = match data::read(&case.data)? {
        Value::Nil => Value::Absent,
        data => data,
    };
    Ok(rendered(
        Set::new(NAME, Arc::clone(functions), missing_key),
        NAME,
        case,
        data,
    ))
}

fn rendered(mut set: Set, name: &str, case: &Case, data: Value) -> Answer {
    /// A moment that does not pass.
    static STILL: LazyLock<Option<Runtime>> = LazyLock::new(|| {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .ok()
    });
    let _still = STILL.as_ref().map(Runtime::enter);
    let clock = Timestamp::from_second(NOW).map_or_else(|_| Clock::real(), Clock::simulated);
    let rendered = set.parse(name, case.template.as_bytes()).and_then(|_| {
        let mut host = Host {
            entropy: Some(Entropy::seeded(1)),
            clock: Some(clock),
            ..Host::default()
        };
        let mut context = Context {
            limits: Limits::default(),
            host: &mut host,
        };
        Arc::new(set).render(name, data, &mut context)
    });
    match rendered {
        Ok(output) => Answer::Output(output),
        Err(why) => Answer::Error(why.to_string()),
    }
}

/// As Helm's engine would: the case's template in a chart, the data as its values.
fn in_chart(case: &Case, functions: &Arc<Functions>) -> Outcome<Answer> {
    let missing_key = match case.missing_key.as_str() {
        "error" => MissingKey::Error,
        _ => MissingKey::Zero,
    };
    let release = Value::map([("Name", Value::from("r")), ("Namespace", Value::from("n"))]);
    let data = Value::map([("Values", data::read(&case.data)?), ("Release", release)]);
    let set = Set::new("gotpl", Arc::clone(functions), missing_key);
    Ok(match rendered(set, &format!("c/templates/{NAME}"), case, data) {
        Answer::Output(output) => {
            Answer::Output(String::from_utf8_lossy(&output).replace("<no value>", "").into_bytes())
        }
        error => error,
    })
}
