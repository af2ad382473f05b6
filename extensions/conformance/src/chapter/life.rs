//! The main chapter: an object is created, reconciled again, left alone, written by others meanwhile, refused, corrected,
//! stopped with its Shoot, and deleted.

use api_extensions::{DefaultStatus, ExtensionClass};
use api_meta::annotations::operation;
use api_meta::{Condition, ConditionStatus};
use serde_json::Value;

use super::{NO_CLOUD_CHECK, NO_SHOOT, NOT_OF_A_SHOOT, contention, deletion, errors};
use crate::check;
use crate::cloud::Inventory;
use crate::episode::{Episode, RequestKind};
use crate::fragments::Field;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Stage, Stop};
use crate::subject::merge;
use crate::template::ShootState;

/// Reports of settled objects that are fine: an extension may look once in a while whether all is as it was.
const REPORTS_MAX: usize = 1;

/// What later chapters compare with.
#[derive(Default)]
pub(crate) struct Known {
    /// Whether the extension has answered a first request.
    pub(crate) is_alive: bool,
    /// What the cloud held before the first object.
    pub(crate) empty: Option<Inventory>,
    /// What it held after an undisturbed create.
    pub(crate) full: Option<Inventory>,
}

/// Runs the chapter.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, known: &mut Known) -> Result<(), Stop> {
    stage.step("create");
    known.empty = stage.inventory().await?;
    let (actor, request) = stage.make(operation::RECONCILE, true).await?;
    let made = stage
        .answered(&actor, request, Expected::of(RequestKind::Create))
        .await?;
    known.is_alive = true;
    known.full = stage.inventory().await?;
    write_condition(stage, &actor).await?;
    again(stage, &actor, &made, known).await?;
    quiet(stage, &actor).await;
    contention::run(stage, &actor).await?;
    change(stage, &actor).await?;
    errors::run(stage, &actor).await?;
    failed_shoot(stage, &actor).await?;
    deletion::run(stage, &actor, known).await
}

/// As a secondary or a health check would.
async fn write_condition(stage: &Stage, actor: &Actor) -> Result<(), Stop> {
    let now = stage.options.clock.now();
    let put = |status: &mut DefaultStatus| {
        let condition = Condition::new(check::CONDITION, ConditionStatus::True, "Conformance", "0", now);
        condition.put_into(&mut status.conditions);
    };
    let written = actor.objects.edit_status(&actor.name, &put).await?;
    stage.present(actor, written).map(drop)
}

async fn again(stage: &mut Stage, actor: &Actor, made: &Episode, known: &Known) -> Result<(), Stop> {
    stage.step("reconcile again");
    let request = stage.request(actor, operation::RECONCILE, None).await?;
    let episode = stage
        .answered(actor, request, Expected::of(RequestKind::Reconcile))
        .await?;
    let outcome = same_status(made, &episode);
    stage.checked(Rule::ReconcileIsIdempotent, &actor.title, outcome);
    if let (Some(full), Some(now)) = (&known.full, stage.inventory().await?) {
        stage.checked(Rule::ReconcileIsIdempotent, &actor.title, full.compare(&now));
    }
    Ok(())
}

/// Whether state and providerStatus are byte by byte what they were.
fn same_status(before: &Episode, after: &Episode) -> Result<(), String> {
    let (before, after) = (&before.newest().status, &after.newest().status);
    let fields = [
        ("state", &before.state, &after.state),
        ("providerStatus", &before.provider_status, &after.provider_status),
    ];
    let changed = fields.into_iter().find(|(_, before, after)| before != after);
    changed.map_or(Ok(()), |(field, before, after)| {
        let shown =
            |value: &Option<api_meta::RawJson>| value.as_ref().map_or("nothing".to_owned(), ToString::to_string);
        Err(format!("{field} was {} and is {}", shown(before), shown(after)))
    })
}

async fn quiet(stage: &mut Stage, actor: &Actor) {
    stage.step("request nothing");
    let from = actor.record.len();
    let before = actor.record.newest();
    let versions = stage.look(actor, from).await;
    let all = before.iter().chain(&versions).map(|version| version.last());
    let reports = all.clone().zip(all.skip(1)).filter(|(one, next)| one != next).count();
    let outcome = match reports <= REPORTS_MAX {
        true => Ok(()),
        false => Err(format!(
            "lastOperation was written {reports} times within {} s",
            stage.options.patience.as_secs()
        )),
    };
    stage.checked(Rule::QuietWhenSettled, &actor.title, outcome);
}

/// Another spec that the author says is accepted.
async fn change(stage: &mut Stage, actor: &Actor) -> Result<(), Stop> {
    let Some(fragment) = stage.subject.fragments.changed_spec.clone() else {
        return Ok(());
    };
    stage.step("change the spec");
    let mut spec = crate::template::spec(&stage.subject, &stage.names);
    merge(&mut spec, &fragment);
    let request = stage
        .request(actor, operation::RECONCILE, Some(Value::Object(spec)))
        .await
        .map_err(|stop| stop.of(Field::ChangedSpec))?;
    stage
        .answered(actor, request, Expected::of(RequestKind::Reconcile))
        .await
        .map(drop)
}

async fn failed_shoot(stage: &mut Stage, actor: &Actor) -> Result<(), Stop> {
    let rules = [Rule::FailedShootUntouched, Rule::FailedShootResumed];
    if let Some(reason) = without_shoot(stage) {
        rules.into_iter().for_each(|rule| stage.ledger.skipped(rule, reason));
        return Ok(());
    }
    stage.step("request a reconcile while the Shoot is Failed");
    stage.shoot(ShootState::Failed).await?;
    let request = stage.request(actor, operation::RECONCILE, None).await?;
    let versions = stage.look(actor, request.at).await;
    if let Some((before, after)) = versions.split_first() {
        stage.checked(
            Rule::FailedShootUntouched,
            &actor.title,
            check::untouched(before, after),
        );
    }
    stage.step("request a reconcile when the Shoot is Failed no more");
    stage.shoot(ShootState::Processing).await?;
    let request = stage.request(actor, operation::RECONCILE, None).await?;
    let expected = Expected::of(RequestKind::Reconcile)
        .by(Rule::FailedShootResumed)
        .disturbed();
    match stage.answered(actor, request, expected).await {
        // It has gone on by itself as soon as the Shoot was Failed no more.
        Ok(_) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Why the Shoot does not matter to the subject's objects.
pub(crate) fn without_shoot(stage: &Stage) -> Option<&'static str> {
    if !stage.subject.kind.is_namespaced() {
        return Some(NO_SHOOT);
    }
    (stage.subject.class != ExtensionClass::Shoot).then_some(NOT_OF_A_SHOOT)
}

/// Notes which rules cannot be looked at without the author's commands.
pub(crate) fn skip_what_needs_commands(stage: &mut Stage) {
    if stage.options.cloud_check.is_none() {
        let rules = [
            Rule::DeletionCleansUp,
            Rule::MigrateLeavesCloud,
            Rule::RestoreTakesOver,
            Rule::CrashDoublesNothing,
        ];
        rules
            .into_iter()
            .for_each(|rule| stage.ledger.skipped(rule, NO_CLOUD_CHECK));
    }
}
