//! Variables of a policy inside expressions: names below `variables`, computed when they are first used. Which variables
//! there are is the caller's to know: it sets them for the time of one evaluation.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};

use crate::run::meter::{spend, weight};

/// Calls that no expression can spell: a variable of the policy, and a value of which a field is selected.
pub(crate) const VARIABLE: &str = "@variable";
pub(crate) const FIELDS: &str = "@fields";

/// The variables of a policy.
pub(crate) trait Variables {
    /// The value of a variable, or why it has none; `None` where there is no such variable.
    fn value(&self, name: &str) -> Option<Result<CelValue, String>>;
}

thread_local! {
    /// The variables of the expression that runs on this thread.
    static RUNNING: RefCell<Option<Rc<dyn Variables>>> = const { RefCell::new(None) };
}

/// Runs `act` with these variables.
pub(crate) fn with<T>(variables: Rc<dyn Variables>, act: impl FnOnce() -> T) -> T {
    let before = RUNNING.replace(Some(variables));
    let outcome = act();
    RUNNING.set(before);
    outcome
}

/// Adds the functions that rewritten expressions call.
pub(crate) fn register(context: &mut Context<'_>) {
    context.add_function(VARIABLE, |name: Arc<String>| -> ResolveResult { variable(&name) });
    context.add_function(FIELDS, |value: CelValue, field: Arc<String>| -> ResolveResult {
        match value {
            CelValue::Map(_) | CelValue::Opaque(_) => Ok(value),
            CelValue::Null => Err(ExecutionError::function_error(FIELDS, format!("no such key: {field}"))),
            _ => Err(ExecutionError::function_error(FIELDS, "no such overload")),
        }
    });
}

fn variable(name: &str) -> ResolveResult {
    let running = RUNNING.with_borrow(Clone::clone);
    match running.and_then(|variables| variables.value(name)) {
        None => Err(ExecutionError::UndeclaredReference(Arc::new(name.to_owned()))),
        Some(Ok(value)) => {
            spend(weight(&value));
            Ok(value)
        }
        Some(Err(why)) => Err(ExecutionError::function_error(VARIABLE, why)),
    }
}
