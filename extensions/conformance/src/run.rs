//! A run from beginning to end: chapters one after the other, and removing everything, whatever happened.

use api_meta::Fault;
use kube::Client;

use crate::chapter::bystanders::Bystanders;
use crate::chapter::life::{self, Known};
use crate::chapter::secondary::Secondary;
use crate::chapter::{crash, deletion, heartbeat, migration, webhooks};
use crate::fragments;
use crate::options::Options;
use crate::removal;
use crate::report::{Report, Verdict, not_reached};
use crate::stage::{Stage, Stop};
use crate::subject::Subject;
use crate::surroundings;
use crate::template::ShootState;

/// Validates an extension through the API of a seed alone: makes a namespace with objects of its kind and type, does with
/// them what gardenlet does, and looks at everything that happens to them. Everything that it makes is removed before it
/// returns, also when it is ended early by [`Options::stop`]; a future that is dropped removes nothing.
///
/// The extension runs already, and no other extension works on objects of this kind and type.
pub async fn validate(client: Client, subject: Subject, options: Options) -> Report {
    let stop = options.stop.clone();
    let mut stage = Stage::new(client, subject, options);
    let ended = {
        // Boxed because it holds what all chapters hold.
        let running = Box::pin(run(&mut stage));
        tokio::select! {
            biased;
            () = stop.cancelled() => Ended::Interrupted,
            ended = running => ended,
        }
    };
    let mut left_behind = Vec::new();
    if stage.has_begun {
        (stage.options.on_step)("remove what was made");
        left_behind = Box::pin(removal::all(&mut stage, !matches!(ended, Ended::Kit(_)))).await;
    }
    report(stage, &ended, left_behind)
}

/// How a run ended.
enum Ended {
    /// At its end.
    Whole,
    /// The extension did not answer, and nothing that follows could succeed.
    Unanswered(String),
    /// The kit could not go on.
    Kit(Fault),
    Interrupted,
}

fn report(stage: Stage, ended: &Ended, left_behind: Vec<String>) -> Report {
    let ended_early = match ended {
        Ended::Whole => None,
        Ended::Unanswered(why) => Some(why.clone()),
        Ended::Kit(fault) => Some(fault.text_with_hint()),
        Ended::Interrupted => Some("it was interrupted".to_owned()),
    };
    let verdict = match (stage.ledger.has_findings(), &ended_early) {
        (true, _) => Verdict::Failed,
        (false, Some(_)) => Verdict::Undecided,
        (false, None) => Verdict::Passed,
    };
    let took = stage.options.clock.since(stage.began);
    let otherwise = match &ended_early {
        Some(why) => not_reached(why),
        None => "not reached: a request before it was not answered".to_owned(),
    };
    Report {
        kind: stage.subject.kind,
        type_: stage.subject.type_,
        class: stage.subject.class,
        namespace: stage.names.namespace,
        verdict,
        ended_early,
        rules: stage.ledger.results(&otherwise),
        left_behind,
        took,
    }
}

async fn run(stage: &mut Stage) -> Ended {
    match Box::pin(chapters(stage)).await {
        Ok(()) => Ended::Whole,
        Err(Stop::Unanswered(why)) => Ended::Unanswered(why),
        Err(Stop::Kit(fault)) => Ended::Kit(fault),
    }
}

async fn chapters(stage: &mut Stage) -> Result<(), Stop> {
    fragments::check(&stage.subject, &stage.names)?;
    stage.has_begun = true;
    stage.step("make namespace, Cluster and Secret");
    let now = stage.options.clock.now();
    surroundings::make(&stage.client, &stage.subject, &stage.names, now).await?;
    life::skip_what_needs_commands(stage);
    let secondary = Secondary::begin(stage).await?;
    let bystanders = Bystanders::begin(stage).await?;
    let mut known = Known::default();
    let lived = Box::pin(life::run(stage, &mut known)).await;
    if !known.is_alive {
        // What is left alone by an extension that does not work at all says nothing.
        return lived;
    }
    after(stage, lived).await?;
    let unreconciled = Box::pin(deletion::of_unreconciled(stage)).await;
    after(stage, unreconciled).await?;
    let restored = match Box::pin(migration::run(stage, &known)).await {
        Ok(restored) => restored,
        Err(stop) => {
            after(stage, Err(stop)).await?;
            None
        }
    };
    let forced = Box::pin(deletion::forced(stage, restored, &known)).await;
    after(stage, forced).await?;
    let crashed = Box::pin(crash::run(stage, &known)).await;
    after(stage, crashed).await?;
    Box::pin(webhooks::run(stage)).await?;
    bystanders.end(stage);
    secondary.end(stage);
    heartbeat::run(stage).await
}

/// Goes on after a chapter. If the extension did not answer in it, its object is deleted first; without that no other
/// chapter can begin.
async fn after(stage: &mut Stage, outcome: Result<(), Stop>) -> Result<(), Stop> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Stop::Kit(fault)) => Err(Stop::Kit(fault)),
        Err(Stop::Unanswered(why)) => {
            stage.step("delete what the chapter left");
            stage.shoot(ShootState::Processing).await?;
            let name = stage.object_name();
            let (objects, timeout) = (stage.objects.clone(), stage.options.timeout);
            if removal::deleted(stage, &objects, &name, timeout).await? {
                return Ok(());
            }
            stage.gave_up = true;
            Err(Stop::Unanswered(format!("{why}; and its deletion did not end")))
        }
    }
}
