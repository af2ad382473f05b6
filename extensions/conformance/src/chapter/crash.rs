//! The extension's process ends in the middle of an operation. Whoever started it starts it again.

use api_meta::annotations::operation;

use super::life::Known;
use crate::episode::RequestKind;
use crate::options::Hook;
use crate::record::Entry;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Request, Stage, Stop};
use crate::version::Version;

/// The rules that are looked at here.
const RULES: [Rule; 3] = [
    Rule::CrashInReconcileSurvived,
    Rule::CrashInDeletionSurvived,
    Rule::CrashDoublesNothing,
];

/// Runs the chapter.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, known: &Known) -> Result<(), Stop> {
    let Some(kill) = stage.options.kill.clone() else {
        let reason = "no command was given that ends the extension's process (--kill)";
        RULES.into_iter().for_each(|rule| stage.ledger.skipped(rule, reason));
        return Ok(());
    };
    stage.step("end the process while it creates");
    let (actor, request) = stage.make(operation::RECONCILE, false).await?;
    end_process(stage, &actor, request, &kill).await?;
    let expected = Expected::of(RequestKind::Create)
        .by(Rule::CrashInReconcileSurvived)
        .disturbed();
    stage.answered(&actor, request, expected).await?;
    if let (Some(full), Some(now)) = (&known.full, stage.inventory().await?) {
        let outcome = match full.len() == now.len() {
            true => Ok(()),
            false => Err(format!(
                "the cloud holds {} resources, and {} after an undisturbed create: {}",
                now.len(),
                full.len(),
                full.compare(&now).err().unwrap_or_default()
            )),
        };
        stage.checked(Rule::CrashDoublesNothing, &actor.title, outcome);
    }
    stage.step("end the process while it deletes");
    let request = stage.request_deletion(&actor).await?;
    end_process(stage, &actor, request, &kill).await?;
    let expected = Expected::of(RequestKind::Delete)
        .by(Rule::CrashInDeletionSurvived)
        .disturbed();
    stage.answered(&actor, request, expected).await?;
    if let (Some(empty), Some(now)) = (&known.empty, stage.inventory().await?) {
        stage.checked(Rule::DeletionCleansUp, &actor.title, empty.compare(&now));
    }
    stage.release(&actor).await
}

/// Ends the process as soon as it reports work on the request.
async fn end_process(stage: &Stage, actor: &Actor, request: Request, kill: &Hook) -> Result<(), Stop> {
    let works = |entries: &[Entry]| {
        let before = entries.first().and_then(Entry::version).and_then(Version::last);
        let reported = |entry: &Entry| entry.version().is_none_or(|version| version.last() != before);
        entries.iter().any(reported).then_some(())
    };
    // An extension that does not report work is killed all the same.
    actor.record.wait(request.at, stage.options.timeout, works).await;
    kill.call().await?;
    Ok(())
}
