//! Deletions: of an object, once more of one that the extension has released, of one that was never reconciled, and
//! forced.

use api_meta::annotations::{self, operation};
use serde_json::json;

use super::life::{Known, without_shoot};
use crate::check;
use crate::episode::RequestKind;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Stage, Stop};
use crate::template::ShootState;
use crate::version::Version;

/// Deletes an object that holds the kit's finalizer.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, actor: &Actor, known: &Known) -> Result<(), Stop> {
    stage.step("delete");
    let request = stage.request_deletion(actor).await?;
    stage
        .answered(actor, request, Expected::of(RequestKind::Delete))
        .await?;
    cleaned(stage, actor, known).await?;
    stage.step("request the deletion again");
    let request = stage.request_deletion(actor).await?;
    let versions = stage.look(actor, request.at).await;
    stage.checked(Rule::SecondDeletionHarmless, &actor.title, unaffected(&versions));
    stage.release(actor).await
}

/// Whether the cloud is as it was before the first object.
async fn cleaned(stage: &mut Stage, actor: &Actor, known: &Known) -> Result<(), Stop> {
    if let (Some(empty), Some(now)) = (&known.empty, stage.inventory().await?) {
        stage.checked(Rule::DeletionCleansUp, &actor.title, empty.compare(&now));
    }
    Ok(())
}

/// Whether nothing happened to an object in deletion that is none of the extension's any more.
fn unaffected(versions: &[Version]) -> Result<(), String> {
    versions
        .split_first()
        .map_or(Ok(()), |(before, after)| check::untouched(before, after))
}

/// Deletes an object that the extension never worked on.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn of_unreconciled(stage: &mut Stage) -> Result<(), Stop> {
    stage.step("create with wait-for-state");
    let (actor, request) = stage.make(operation::WAIT_FOR_STATE, true).await?;
    let versions = stage.look(&actor, request.at).await;
    let ignored = unaffected(&versions);
    stage.checked(Rule::WaitForStateIgnored, &actor.title, ignored.clone());
    if ignored.is_err() {
        let reason = "the extension works on an object that waits for its state";
        stage.ledger.skipped(Rule::UnreconciledObjectDeletable, reason);
        return Err(Stop::Unanswered(reason.to_owned()));
    }
    stage.step("delete an object that was never reconciled");
    let request = stage.request_deletion(&actor).await?;
    let without = json!({"metadata": {"annotations": {annotations::OPERATION: null}}});
    actor.objects.merge(&actor.name, without).await?;
    let versions = stage.look(&actor, request.at).await;
    stage.checked(Rule::UnreconciledObjectDeletable, &actor.title, unaffected(&versions));
    match stage.release(&actor).await {
        Err(Stop::Unanswered(why)) => {
            stage.found(Rule::UnreconciledObjectDeletable, &actor.title, why.clone());
            Err(Stop::Unanswered(why))
        }
        other => other,
    }
}

/// Deletes an object while the Shoot asks for a forced deletion. It may leave behind what is in the cloud: that is taken
/// over and deleted afterwards.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn forced(stage: &mut Stage, restored: Option<Actor>, known: &Known) -> Result<(), Stop> {
    if let Some(reason) = without_shoot(stage) {
        stage.ledger.skipped(Rule::ForceDeletionEnds, reason);
        return match restored {
            Some(actor) => plain(stage, &actor, known).await,
            None => Ok(()),
        };
    }
    let actor = match restored {
        Some(actor) => actor,
        None => {
            stage.step("create");
            let (actor, request) = stage.make(operation::RECONCILE, false).await?;
            stage
                .answered(&actor, request, Expected::of(RequestKind::Create))
                .await?;
            actor
        }
    };
    let status = actor.record.newest().map(|version| version.status);
    stage.step("force the deletion");
    stage.shoot(ShootState::ForceDeleted).await?;
    let request = stage.request_deletion(&actor).await?;
    stage.orphan.clone_from(&status);
    let expected = Expected::of(RequestKind::Delete).by(Rule::ForceDeletionEnds);
    let answered = stage.answered(&actor, request, expected).await;
    stage.shoot(ShootState::Processing).await?;
    if answered.is_err() {
        // It is deleted as any other object next.
        stage.orphan = None;
    }
    answered?;
    stage.release(&actor).await?;
    if let (Some(empty), Some(now)) = (&known.empty, stage.inventory().await?)
        && *empty == now
    {
        stage.orphan = None;
        return Ok(());
    }
    stage.step("take over what the forced deletion left");
    let actor = super::migration::restored(stage, status.unwrap_or_default(), |_| Ok(())).await?;
    plain(stage, &actor, known).await
}

/// Deletes an object, without looking twice.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn plain(stage: &mut Stage, actor: &Actor, known: &Known) -> Result<(), Stop> {
    stage.step("delete");
    let request = stage.request_deletion(actor).await?;
    stage
        .answered(actor, request, Expected::of(RequestKind::Delete))
        .await?;
    cleaned(stage, actor, known).await?;
    stage.release(actor).await
}
