//! When it is tried again, as gardenlet has reported it.

use api_meta::FaultClass;

use super::*;

fn retried(at: &str, class: FaultClass) -> Facts {
    facts(|shoot| {
        let report = OperationReport {
            errors: vec![problem("Waiting until I", "Infrastructure x: no")],
            next_try: Some(Retry {
                at: at.parse().unwrap(),
                class,
            }),
            ..OperationReport::default()
        };
        failing_as(shoot, "Error", report);
    })
}

#[test]
fn time_and_class_of_the_next_try_are_those_written() {
    for (at, next) in [
        (
            "2026-01-01T00:12:00Z",
            "by itself at 2026-01-01T00:12:00Z, or when what it is about changes",
        ),
        ("2026-01-01T00:09:59Z", "by itself, any moment now"),
    ] {
        let answer = plan(&retried(at, FaultClass::Access));
        let blocker = answer
            .blockers
            .iter()
            .find(|blocker| blocker.cause == Cause::TaskFailed)
            .unwrap();
        assert_eq!((blocker.next_try.as_str(), blocker.class), (next, Some("access")));
        assert_eq!(blocker.message, "Infrastructure x: no");
    }
}

#[test]
fn an_operation_without_errors_is_reported_without_the_next_try() {
    let mut facts = retried("2026-01-01T00:12:00Z", FaultClass::Dependency);
    facts.shoot.status.as_mut().unwrap().last_errors.clear();
    let answer = plan(&facts);
    let blocker = answer
        .blockers
        .iter()
        .find(|blocker| blocker.cause == Cause::TaskFailed)
        .unwrap();
    assert_eq!(blocker.message, "task \"Waiting until I\" failed: Infrastructure x: no");
    assert_eq!(blocker.class, Some("dependency"));
}
