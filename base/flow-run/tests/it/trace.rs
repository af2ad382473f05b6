//! What a trace made from events shows of a run, compared with the run itself.

use std::collections::BTreeMap;
use std::time::Duration;

use base_flow::{Backoff, Flow};
use base_flow_run::{Event, FlowEnd, TaskState, Trace, run, wait_over, waits_for};
use jiff::Timestamp;
use tokio::time::sleep;

use crate::{Task, diamond, options, plain, transient};

/// Runs with so many seconds per task; returns the trace as it was after each event, and at the end.
async fn traced(flow: &Flow<Task>, seconds: impl Fn(Task) -> u64) -> (Vec<Trace>, Trace) {
    let mut trace = Trace::default();
    let mut all = Vec::new();
    run(
        flow,
        &options(),
        |task, _| {
            let wait = Duration::from_secs(seconds(task));
            async move {
                sleep(wait).await;
                Ok(())
            }
        },
        |event, progress| {
            trace.take(event);
            assert_eq!(i32::try_from(trace.percent()), Ok(progress.percent()), "{event:?}");
            all.push(trace.clone());
        },
    )
    .await;
    (all, trace)
}

fn path(trace: &Trace) -> Vec<(&str, u64)> {
    let now = Timestamp::MAX;
    trace
        .critical_path()
        .into_iter()
        .map(|task| (task.name.as_str(), task.duration(now).as_secs()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_critical_path_is_the_chain_the_run_took_its_time_from() {
    // a -> b -> d, a -> c: the longest task decides only where the rest of its chain is longest together.
    let flow = diamond(plain);
    let times = |b, c, d| {
        move |task| match task {
            Task::A => 2,
            Task::B => b,
            Task::C => c,
            Task::D => d,
        }
    };
    let (_, trace) = traced(&flow, times(4, 7, 5)).await;
    assert_eq!(path(&trace), [("a", 2), ("b", 4), ("d", 5)]);
    assert_eq!(trace.duration(Timestamp::MAX), Duration::from_secs(11));
    let (_, trace) = traced(&flow, times(1, 7, 5)).await;
    assert_eq!(path(&trace), [("a", 2), ("c", 7)]);
    let (_, trace) = traced(&flow, times(0, 0, 0)).await;
    assert_eq!(trace.critical_path().first().map(|task| task.name.as_str()), Some("a"));
    assert!(Trace::default().critical_path().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_skipped_task_is_not_on_the_path_but_still_orders_it() {
    let flow = diamond(|flow| {
        flow.task(Task::B).after([Task::A]).skip_if(true, "workerless");
        flow.task(Task::D).after([Task::B]);
    });
    let (all, trace) = traced(&flow, |_| 3).await;
    assert_eq!(path(&trace), [("a", 3), ("d", 3)]);
    assert_eq!(trace.skipped, [("b".to_owned(), "workerless".to_owned())]);
    assert_eq!((trace.tasks().len(), trace.percent()), (3, 100));
    let d = |trace: &Trace| trace.tasks().iter().find(|task| task.name == "d").cloned().unwrap();
    let early = all.iter().find(|trace| trace.percent() == 0).unwrap();
    let waits: Vec<_> = early.waits_for(&d(early)).map(|task| task.name.clone()).collect();
    assert_eq!(waits, ["a"]);
    assert_eq!(trace.waits_for(&d(&trace)).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn tries_and_waits_are_reported_with_their_task() {
    waits_for("Nothing", "dropped: no task runs");
    let mut flow = Flow::builder("f");
    let backoff = Backoff {
        first: Duration::from_secs(4),
        max: Duration::from_secs(4),
    };
    flow.task(Task::A).timeout(Duration::from_secs(60)).retry(backoff);
    flow.task(Task::B).timeout(Duration::from_secs(60)).waits();
    let mut trace = Trace::default();
    let mut seen: Vec<(TaskState, BTreeMap<String, String>)> = Vec::new();
    let outcome = run(
        &flow.build().unwrap(),
        &options(),
        async |task, context| match (task, context.attempt) {
            (Task::A, 1) => Err(transient()),
            (Task::B, _) => {
                waits_for("Worker a/b", "not picked up");
                sleep(Duration::from_secs(1)).await;
                waits_for("Worker a/b", "Processing");
                sleep(Duration::from_secs(1)).await;
                wait_over("Worker a/b");
                Ok(())
            }
            _ => Ok(()),
        },
        |event: &Event, _| {
            trace.take(event);
            let [a, b] = trace.tasks() else {
                panic!("two tasks are planned")
            };
            seen.push((a.state.clone(), b.waits.clone()));
        },
    )
    .await;
    assert_eq!(outcome.end, FlowEnd::Succeeded);
    let until: Timestamp = "2026-01-01T00:00:04Z".parse().unwrap();
    let pausing = |waits: &[(&str, &str)]| {
        let waits = waits.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        (TaskState::Pausing { until }, waits)
    };
    for expected in [
        pausing(&[("Worker a/b", "not picked up")]),
        pausing(&[("Worker a/b", "Processing")]),
        pausing(&[]),
    ] {
        assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
    }
    let [a, b] = trace.tasks() else {
        panic!("two tasks are planned")
    };
    assert_eq!((a.failures, a.error.as_deref()), (1, Some("connection lost")));
    assert_eq!(b.waited_for.as_deref(), Some("Worker a/b"));
    assert_eq!(b.duration(Timestamp::MAX), Duration::from_secs(2));
}
