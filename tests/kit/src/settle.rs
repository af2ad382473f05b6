//! The last assertion of every plan test: after applying a plan, planning again finds nothing to do.

use std::fmt::Debug;

/// Plans, applies, plans again; `is_empty` must then hold. Returns the first plan for further assertions.
///
/// # Panics
/// When something is left to do, showing what.
#[track_caller]
pub fn settled<State, Plan: Debug>(
    state: &mut State,
    plan: impl Fn(&State) -> Plan,
    apply: impl Fn(&mut State, &Plan),
    is_empty: impl Fn(&Plan) -> bool,
) -> Plan {
    let first = plan(state);
    apply(state, &first);
    let second = plan(state);
    assert!(
        is_empty(&second),
        "something is left to do after applying the plan: {second:#?}"
    );
    first
}
