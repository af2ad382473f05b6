//! How runs go: order, failures, tries, stops. All under tokio's paused clock.

mod order;
mod trace;

use std::cell::RefCell;
use std::time::Duration;

use api_meta::{ErrorCode, Fault, FaultClass};
use base_clock::Clock;
use base_flow::{Backoff, Flow, FlowBuilder, Name};
use base_flow_run::{Event, FlowEnd, Options, Outcome, What, run};
use tokio::time::{Instant, sleep};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    A,
    B,
    C,
    D,
}

impl Name for Task {
    fn name(&self) -> &'static str {
        match self {
            Task::A => "a",
            Task::B => "b",
            Task::C => "c",
            Task::D => "d",
        }
    }
}

fn options() -> Options {
    Options::new(Clock::simulated("2026-01-01T00:00:00Z".parse().expect("a constant")))
}

/// a -> b -> d, a -> c.
fn diamond(change: impl FnOnce(&mut FlowBuilder<Task>)) -> Flow<Task> {
    let mut flow = Flow::builder("test flow");
    flow.task(Task::A);
    flow.task(Task::C).after([Task::A]);
    change(&mut flow);
    flow.build().expect("the graph is sound")
}

fn plain(flow: &mut FlowBuilder<Task>) {
    flow.task(Task::B).after([Task::A]);
    flow.task(Task::D).after([Task::B]);
}

fn transient() -> Fault {
    Fault::new(FaultClass::Transient, std::io::Error::other("connection lost"))
}

fn errors(outcome: &Outcome<Task>) -> Vec<(Task, String)> {
    outcome
        .errors
        .iter()
        .map(|error| (error.task, error.fault.to_string()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_stops_only_what_depends_on_it() {
    let started = RefCell::new(Vec::new());
    let flow = diamond(plain);
    let outcome = run(
        &flow,
        &options(),
        async |task, _| {
            started.borrow_mut().push(task);
            if task == Task::B {
                Err(Fault::user("no such region"))
            } else {
                Ok(())
            }
        },
        |_, _| (),
    )
    .await;
    assert_eq!(outcome.end, FlowEnd::Failed);
    assert_eq!(errors(&outcome), [(Task::B, "no such region".to_owned())]);
    started.borrow_mut().sort();
    assert_eq!(*started.borrow(), [Task::A, Task::B, Task::C]);
    assert_eq!(outcome.progress.percent(), 50);
}

#[tokio::test(start_paused = true)]
async fn independent_tasks_run_at_the_same_time() {
    let begun = Instant::now();
    let flow = diamond(plain);
    let work = async |_, _| {
        sleep(Duration::from_secs(10)).await;
        Ok(())
    };
    let outcome = run(&flow, &options(), work, |_, _| ()).await;
    assert_eq!(outcome.end, FlowEnd::Succeeded);
    assert_eq!(begun.elapsed(), Duration::from_secs(30), "b and c share ten seconds");
}

#[tokio::test(start_paused = true)]
async fn events_report_the_whole_run_and_survive_json() {
    let flow = diamond(|flow| {
        flow.task(Task::B).after([Task::A]).skip_if(true, "workerless");
        flow.task(Task::D)
            .after([Task::B])
            .timeout(Duration::from_secs(30))
            .retry(Backoff {
                first: Duration::from_secs(1),
                max: Duration::from_secs(5),
            });
    });
    let mut options = options();
    options.failed_before.insert("d".to_owned());
    let mut events = Vec::new();
    let outcome = run(
        &flow,
        &options,
        async |task, context| match (task, context.attempt) {
            (Task::D, 1) => Err(transient()),
            (Task::C, _) => Err(Fault::user("bad cidr").code(ErrorCode::ConfigurationProblem)),
            _ => Ok(()),
        },
        |event, progress| {
            let text = serde_json::to_string(event).unwrap();
            assert_eq!(&serde_json::from_str::<Event>(&text).unwrap(), event);
            events.push(format!(
                "{} {}% {}",
                event.time,
                progress.percent(),
                serde_json::to_string(&event.what).unwrap()
            ));
        },
    )
    .await;
    assert_eq!(outcome.end, FlowEnd::Failed);
    let expected = [
        r#"2026-01-01T00:00:00Z 0% {"type":"FlowStarted","tasks":3,"skipped":1,"plan":[{"task":"a","after":[]},{"task":"c","after":["a"]},{"task":"d","after":["a"]}]}"#,
        r#"2026-01-01T00:00:00Z 0% {"type":"TaskSkipped","task":"b","reason":"workerless"}"#,
        r#"2026-01-01T00:00:00Z 0% {"type":"TaskStarted","task":"a"}"#,
        r#"2026-01-01T00:00:00Z 33% {"type":"TaskSucceeded","task":"a","failedBefore":false}"#,
        r#"2026-01-01T00:00:00Z 33% {"type":"TaskStarted","task":"c"}"#,
        r#"2026-01-01T00:00:00Z 33% {"type":"TaskStarted","task":"d"}"#,
        r#"2026-01-01T00:00:00Z 33% {"type":"TaskFailed","task":"c","error":"bad cidr","codes":["ERR_CONFIGURATION_PROBLEM"]}"#,
        r#"2026-01-01T00:00:00Z 33% {"type":"TaskRetried","task":"d","attempts":1,"error":"connection lost","waitMs":1000}"#,
        r#"2026-01-01T00:00:01Z 66% {"type":"TaskSucceeded","task":"d","failedBefore":true}"#,
        r#"2026-01-01T00:00:01Z 66% {"type":"FlowFinished","end":"failed"}"#,
    ];
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn tries_end_with_the_time_out_and_the_last_fault_is_reported() {
    let mut flow = Flow::builder("f");
    flow.task(Task::A).timeout(Duration::from_secs(10)).retry(Backoff {
        first: Duration::from_secs(2),
        max: Duration::from_secs(60),
    });
    let flow = flow.build().unwrap();
    let begun = Instant::now();
    let tries = RefCell::new(0);
    let outcome = run(
        &flow,
        &options(),
        async |_, context| {
            *tries.borrow_mut() = context.attempt;
            Err(transient())
        },
        |_, _| (),
    )
    .await;
    assert_eq!(
        (*tries.borrow(), begun.elapsed()),
        (3, Duration::from_secs(6)),
        "a fourth try would be too late"
    );
    assert_eq!(errors(&outcome), [(Task::A, "connection lost".to_owned())]);

    let outcome = run(&flow, &options(), async |_, _| std::future::pending().await, |_, _| ()).await;
    assert_eq!(errors(&outcome), [(Task::A, "not finished within 10s".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn faults_that_will_not_pass_are_not_tried_again() {
    for class in [FaultClass::User, FaultClass::Quota, FaultClass::Access, FaultClass::Bug] {
        let mut flow = Flow::builder("f");
        flow.task(Task::A).timeout(Duration::from_secs(60)).retry(Backoff {
            first: Duration::from_secs(1),
            max: Duration::from_secs(1),
        });
        let begun = Instant::now();
        let outcome = run(
            &flow.build().unwrap(),
            &options(),
            async |_, _| Err(Fault::new(class, std::io::Error::other("no"))),
            |_, _| (),
        )
        .await;
        assert_eq!(
            (outcome.errors.len(), begun.elapsed()),
            (1, Duration::ZERO),
            "{class:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn broken_wait_is_retried_and_one_that_timed_out_is_not() {
    let tries = async |fault: fn() -> Fault| {
        let mut flow = Flow::builder("f");
        let backoff = Backoff {
            first: Duration::from_secs(1),
            max: Duration::from_secs(1),
        };
        flow.task(Task::A)
            .timeout(Duration::from_secs(60))
            .retry(backoff)
            .waits();
        let count = RefCell::new(0);
        let work = async |_, context: base_flow_run::TaskContext| {
            *count.borrow_mut() = context.attempt;
            if context.attempt == 1 { Err(fault()) } else { Ok(()) }
        };
        run(&flow.build().unwrap(), &options(), work, |_, _| ()).await;
        count.into_inner()
    };
    assert_eq!(tries(transient).await, 2);
    assert_eq!(tries(|| Fault::dependency("not ready (waited 30s)")).await, 1);
    let limited = || transient().code(ErrorCode::InfraRateLimitsExceeded);
    assert_eq!(
        tries(limited).await,
        1,
        "an extension's report, which is given its own time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_fault_of_ours_and_other_branches_go_on() {
    let flow = diamond(plain);
    let outcome = run(
        &flow,
        &options(),
        async |task, _| match task {
            Task::B => panic!("index {} out of bounds", 7),
            _ => Ok(()),
        },
        |_, _| (),
    )
    .await;
    assert_eq!(
        errors(&outcome),
        [(Task::B, "task panicked: index 7 out of bounds".to_owned())]
    );
    assert_eq!(outcome.errors[0].fault.class, FaultClass::Bug);
    assert_eq!(outcome.progress.succeeded().collect::<Vec<_>>(), [Task::A, Task::C]);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_waits_lets_work_finish_and_starts_nothing() {
    let mut flow = Flow::builder("f");
    flow.task(Task::A);
    flow.task(Task::B).waits();
    flow.task(Task::C).after([Task::A]);
    let flow = flow.build().unwrap();
    let options = options();
    let interrupt = options.interrupt.clone();
    let work = async |task, _| {
        match task {
            Task::A => {
                interrupt.cancel();
                sleep(Duration::from_secs(5)).await;
            }
            Task::B => std::future::pending().await,
            _ => panic!("c must not start"),
        }
        Ok(())
    };
    let begun = Instant::now();
    let mut stopped = Vec::new();
    let outcome = run(&flow, &options, work, |event, _| {
        if let What::TaskStopped { task } = &event.what {
            stopped.push(task.clone());
        }
    })
    .await;
    assert_eq!(outcome.end, FlowEnd::Interrupted);
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    assert_eq!(outcome.progress.succeeded().collect::<Vec<_>>(), [Task::A]);
    assert_eq!(stopped, ["b"]);
    assert!(outcome.errors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_ends_the_last_wait_is_no_failure() {
    let mut flow = Flow::builder("f");
    flow.task(Task::A).waits();
    let flow = flow.build().unwrap();
    let options = options();
    let interrupt = options.interrupt.clone();
    let work = async |_, _| {
        interrupt.cancel();
        std::future::pending().await
    };
    let outcome = run(&flow, &options, work, |_, _| ()).await;
    assert_eq!(outcome.end, FlowEnd::Interrupted);
    assert!(outcome.errors.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_pause_between_two_tries() {
    let slow = Backoff {
        first: Duration::from_secs(60),
        max: Duration::from_secs(60),
    };
    // Before the first try ends, or during the pause that follows it.
    for (work_secs, at_secs) in [(5, 3), (5, 10)] {
        let mut flow = Flow::builder("f");
        flow.task(Task::A).timeout(Duration::from_secs(600)).retry(slow);
        let flow = flow.build().unwrap();
        let options = options();
        let work = async |_, _| {
            sleep(Duration::from_secs(work_secs)).await;
            Err(transient())
        };
        let begun = Instant::now();
        let mut events = Vec::new();
        let running = run(&flow, &options, work, |event, _| events.push(event.what.clone()));
        let interrupting = async {
            sleep(Duration::from_secs(at_secs)).await;
            options.interrupt.cancel();
        };
        let (outcome, ()) = tokio::join!(running, interrupting);
        assert_eq!(outcome.end, FlowEnd::Interrupted);
        assert_eq!(begun.elapsed(), Duration::from_secs(work_secs.max(at_secs)));
        assert!(outcome.errors.is_empty());
        let retried = events.iter().filter(|what| matches!(what, What::TaskRetried { .. }));
        assert_eq!(retried.count(), 1, "the fault of the try is reported: {events:?}");
        let stopped = What::TaskStopped { task: "a".to_owned() };
        assert!(events.contains(&stopped), "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_after_the_last_start_interrupts_nothing() {
    let flow = diamond(plain);
    let options = options();
    let interrupt = options.interrupt.clone();
    let work = async |task, _| {
        if task == Task::D {
            interrupt.cancel();
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    };
    assert_eq!(run(&flow, &options, work, |_, _| ()).await.end, FlowEnd::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn cancelling_drops_running_tasks_at_once() {
    let flow = diamond(plain);
    let options = options();
    let cancel = options.cancel.clone();
    let begun = Instant::now();
    let work = async |task, _| {
        if task == Task::B {
            cancel.cancel();
        }
        if task != Task::A {
            sleep(Duration::from_secs(3600)).await;
        }
        Ok(())
    };
    let outcome = run(&flow, &options, work, |_, _| ()).await;
    assert_eq!((outcome.end, begun.elapsed()), (FlowEnd::Cancelled, Duration::ZERO));
    assert_eq!(outcome.progress.running().count(), 0);
}
