//! `status.state`: kept, cleared, stored in the middle of an operation, and never written by two at once.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use api_extensions::Infrastructure;
use api_meta::LastOperationState::Succeeded;
use api_meta::{Condition, ConditionStatus, Fault};
use extensions_sdk::{Change, Context, Outcome, Saved};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_kit::{until, until_gone};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::landscape::{NAMESPACE, Seed, state_of};
use crate::script::{Script, raw, state};

const OPERATION: &str = "gardener.cloud/operation";

fn is_done(object: &Infrastructure) -> bool {
    state_of(object).ends_with("Succeeded 100")
}

/// A success that a condition distinguishes from others.
fn numbered(context: &Context, number: u32) -> Outcome<Infrastructure> {
    let now = context.clock.now();
    let condition = Condition::new("Number", ConditionStatus::True, "Done", &number.to_string(), now);
    Outcome {
        conditions: vec![condition],
        ..Outcome::default()
    }
}

fn has_number(object: &Infrastructure, number: u32) -> bool {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    is_done(object) && conditions.into_iter().any(|one| one.message == number.to_string())
}

/// Writes the state as another process does.
async fn write_state(context: &Context, state: Value) {
    let api: Api<Infrastructure> = Api::namespaced(context.client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"status": {"state": state}}));
    api.patch_status("b", &PatchParams::default(), &patch).await.unwrap();
}

async fn errors(seed: &Seed) -> usize {
    let events: Api<Event> = Api::namespaced(seed.client.clone(), NAMESPACE);
    let all = events.list(&ListParams::default()).await.unwrap();
    all.items
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ReconcileError"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_field_left_out_is_retained_until_it_is_cleared() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(|context, _| async move {
            Ok(Outcome {
                state: Change::Set(raw(&json!({"vpc": "v"}))),
                provider_status: Change::Set(raw(&json!({"subnet": "s"}))),
                own: Change::Set(extensions_sdk::InfrastructureOwn {
                    nodes_cidr: Some("10.0.0.0/16".into()),
                    ..Default::default()
                }),
                ..numbered(&context, 1)
            })
        })
        .reconcile(|context, _| async move { Ok(numbered(&context, 2)) })
        .reconcile(|context, _| async move {
            Ok(Outcome {
                state: Change::Clear,
                own: Change::Clear,
                ..numbered(&context, 3)
            })
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    let mut seen = Vec::new();
    for number in 1..=3 {
        let object = until(&api, "b", "done", |object| has_number(object, number)).await;
        let status = object.status.clone().unwrap();
        let provider_status = status.provider_status.map(|raw| raw.value());
        seen.push((state(&object), provider_status, status.nodes_cidr));
        seed.annotate(OPERATION, Some("reconcile")).await;
    }
    let (provider_status, nodes) = (Some(json!({"subnet": "s"})), Some("10.0.0.0/16".to_owned()));
    let first = (json!({"vpc": "v"}), provider_status.clone(), nodes);
    assert_eq!(seen, [first.clone(), first, (Value::Null, provider_status, None)]);
}

#[tokio::test(start_paused = true)]
async fn what_was_persisted_survives_a_failure_and_is_read_by_the_next_call() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .reconcile(|context, object| async move {
            context.persist(&object, Saved::state(raw(&json!({"step": 1})))).await?;
            assert_eq!(context.state::<Value>(&object).unwrap(), Some(json!({"step": 1})));
            context.persist(&object, Saved::state(raw(&json!({"step": 2})))).await?;
            Err(Fault::dependency("no answer"))
        })
        .reconcile(|context, object| async move {
            let before: Value = context.state(&object)?.unwrap();
            let saved = Saved {
                provider_status: Change::Set(raw(&before)),
                ..Saved::default()
            };
            context.persist(&object, saved).await?;
            Ok(Outcome::default())
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    let object = until(&api, "b", "failed", |object| state_of(object) == "Create Error 50").await;
    assert_eq!(state(&object), json!({"step": 2}));
    let object = until(&api, "b", "created", is_done).await;
    assert_eq!(state(&object), json!({"step": 2}));
    assert_eq!(
        object.status.unwrap().provider_status.unwrap().value(),
        json!({"step": 2})
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_persisted_survives_a_process_that_ends_at_an_await() {
    let mut seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let first = Script::default().reconcile(|context, object| async move {
        context
            .persist(&object, Saved::state(raw(&json!({"announced": "vpc"}))))
            .await?;
        std::future::pending().await
    });
    let running = first.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "announced", |object| !state(object).is_null()).await;
    seed.stop.cancel();
    running.await.unwrap();

    seed.stop = CancellationToken::new();
    let second = Script::default().reconcile(|context, object| async move {
        assert_eq!(context.state::<Value>(&object)?, Some(json!({"announced": "vpc"})));
        Ok(Outcome::default())
    });
    second.run(&seed);
    let object = until(&api, "b", "created", is_done).await;
    assert_eq!(state(&object), json!({"announced": "vpc"}));
    assert_eq!((first.calls(), second.calls()), (1, 1));
}

/// Polls a future so many times and drops it.
async fn cut_off(future: impl Future, polls: usize) {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 || future.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_persist_cut_off_at_any_await_does_not_stop_the_next_one() {
    const CUTS: usize = 40;
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default().reconcile(|context, object| async move {
        for polls in 0..CUTS {
            let saved = |what: &str| Saved::state(raw(&json!({what: polls})));
            cut_off(context.persist(&object, saved("cut")), polls).await;
            context.persist(&object, saved("whole")).await?;
            let api: Api<Infrastructure> = Api::namespaced(context.client.clone(), NAMESPACE);
            assert_eq!(state(&api.get("b").await.unwrap()), json!({"whole": polls}));
        }
        Ok(Outcome::default())
    });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let object = until(&seed.infrastructures(), "b", "created", is_done).await;
    assert_eq!(state(&object), json!({"whole": CUTS - 1}));
    assert_eq!(script.calls(), 1, "no persist has failed");
}

#[tokio::test(start_paused = true)]
async fn several_that_persist_at_once_and_other_writers_do_not_stop_each_other() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default().reconcile(|context, object| async move {
        // Numbers and members that an API server writes in its own way.
        let saved = |n: u32| Saved::state(raw(&json!({"z": 1.0, "n": n, "none": null, "a": "é"})));
        tokio::try_join!(
            context.persist(&object, saved(1)),
            context.persist(&object, saved(2)),
            context.show(&object, "waiting"),
        )?;
        let api: Api<Infrastructure> = Api::namespaced(context.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        api.patch("b", &PatchParams::default(), &patch).await.unwrap();
        context.persist(&object, saved(3)).await?;
        Ok(Outcome::default())
    });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let object = until(&seed.infrastructures(), "b", "created", is_done).await;
    assert_eq!(state(&object)["n"], json!(3));
    assert_eq!(script.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_writer_of_the_state_stops_the_operation_without_status_change() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let (reports, reported) = oneshot::channel();
    let script = Script::default().reconcile(|context, object| async move {
        context.persist(&object, Saved::state(raw(&json!({"mine": 1})))).await?;
        write_state(&context, json!({"others": 1})).await;
        // What only shows something does not hide that the state is another's.
        context.show(&object, "waiting").await.unwrap_err();
        let fault = context
            .persist(&object, Saved::state(raw(&json!({"mine": 2}))))
            .await
            .unwrap_err();
        reports.send(fault.text_with_hint()).unwrap();
        Err(fault)
    });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let object = until(&seed.infrastructures(), "b", "created", is_done).await;
    let text = reported.await.unwrap();
    assert!(
        text.starts_with("another process works on Infrastructure shoot--a--b/b (to do: "),
        "{text}"
    );
    assert_eq!(state(&object)["others"], json!(1));
    assert_eq!((script.calls(), errors(&seed).await), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_does_not_overwrite_the_state_of_another_process() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let outcome = || Outcome {
        state: Change::Set(raw(&json!({"mine": 1}))),
        ..Outcome::default()
    };
    let script = Script::default()
        .reconcile(move |context, _| async move {
            write_state(&context, json!({"others": 1})).await;
            Ok(outcome())
        })
        .reconcile(|context, object| async move {
            assert_eq!(context.state::<Value>(&object)?, Some(json!({"others": 1})));
            Ok(Outcome::default())
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let object = until(&seed.infrastructures(), "b", "created", is_done).await;
    assert_eq!(state(&object), json!({"others": 1}));
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_deletion_does_not_release_the_object() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let script = Script::default()
        .delete(|context, _| async move {
            write_state(&context, json!({"made meanwhile": 1})).await;
            Ok(())
        })
        .delete(|context, object| async move {
            assert_eq!(context.state::<Value>(&object)?, Some(json!({"made meanwhile": 1})));
            Ok(())
        });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let api = seed.infrastructures();
    until(&api, "b", "created", is_done).await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    until_gone(&api, "b").await;
    assert_eq!(script.received(), ["reconcile", "delete", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_its_operation_writes_nothing() {
    let seed = Seed::new().await;
    seed.cluster(Succeeded, json!({})).await;
    let (reports, reported) = oneshot::channel();
    let script = Script::default().reconcile(|context, object| async move {
        tokio::spawn(async move {
            context.obsolete.cancelled().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
            let late = context.persist(&object, Saved::state(raw(&json!({"late": 1})))).await;
            reports.send(late.unwrap_err().to_string()).unwrap();
        });
        Ok(Outcome::default())
    });
    script.run(&seed);
    seed.create("example", json!({})).await;
    let text = reported.await.unwrap();
    assert!(text.ends_with("has ended"), "{text}");
    let object = seed.infrastructures().get("b").await.unwrap();
    assert_eq!(state(&object), Value::Null);
}
