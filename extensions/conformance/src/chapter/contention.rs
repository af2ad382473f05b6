//! Another writer gets in the extension's way: it counts up a label and the message of a condition for as long as an
//! operation is under way.

use std::time::Duration;

use api_meta::annotations::operation;
use api_meta::{Condition, ConditionStatus};
use serde_json::json;

use crate::check;
use crate::episode::RequestKind;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Stage, Stop};

/// Runs the part.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, actor: &Actor) -> Result<(), Stop> {
    stage.step("reconcile while another writer writes the object");
    let (pause, clock) = (stage.options.write_pause, stage.options.clock.clone());
    let request = stage.request(actor, operation::RECONCILE, None).await?;
    let expected = Expected::of(RequestKind::Reconcile)
        .by(Rule::ConflictsSurvived)
        .disturbed();
    let answered = {
        let writer = write(actor, pause, &clock);
        tokio::select! {
            biased;
            answered = stage.answered(actor, request, expected) => answered,
            trouble = writer => return Err(trouble),
        }
    };
    let episode = stage.episode(actor, request, expected)?;
    stage.checked(Rule::ConcurrentWritesKept, &actor.title, check::contended(&episode));
    answered.map(drop)
}

/// Writes until it is dropped.
async fn write(actor: &Actor, pause: Duration, clock: &base_clock::Clock) -> Stop {
    for number in 1_u64.. {
        let text = number.to_string();
        let label = json!({"metadata": {"labels": {check::COUNTER: text}}});
        let now = clock.now();
        let put = |status: &mut api_extensions::DefaultStatus| {
            let condition = Condition::new(check::CONDITION, ConditionStatus::True, "Conformance", &text, now);
            condition.put_into(&mut status.conditions);
        };
        let written = match actor.objects.merge(&actor.name, label).await {
            Ok(_) => actor.objects.edit_status(&actor.name, &put).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = written {
            return Stop::Kit(fault);
        }
        tokio::time::sleep(pause).await;
    }
    std::future::pending().await
}
