//! The way to another seed: an object is migrated, deleted, created again with the state that it left, and restored.

use api_extensions::{DefaultStatus, ExtensionKind};
use api_meta::annotations::operation;
use api_meta::{LastOperationType, RawJson};

use super::life::Known;
use crate::check;
use crate::episode::{Episode, RequestKind};
use crate::objects::Main;
use crate::rule::Rule;
use crate::stage::{Actor, Expected, Stage, Stop};
use crate::version::Version;

/// The rules that are looked at here.
const RULES: [Rule; 9] = [
    Rule::WaitForStateIgnored,
    Rule::MigrateAnnotationRemovedLast,
    Rule::FinalizerGoneAfterMigration,
    Rule::MigrateLeavesState,
    Rule::MigrateLeavesCloud,
    Rule::MigratedObjectIgnored,
    Rule::RestoreAnnotationRemovedLast,
    Rule::RestoreKeepsState,
    Rule::RestoreTakesOver,
];

/// Why rules about state are skipped without one.
const NO_STATE: &str = "the extension leaves no state";

/// Whether gardenlet migrates objects of this kind (gardener/gardener v1.150
/// pkg/gardenlet/controller/shoot/shoot/reconciler_migrate.go).
fn is_migrated(kind: ExtensionKind) -> bool {
    !matches!(
        kind,
        ExtensionKind::BackupBucket | ExtensionKind::Bastion | ExtensionKind::SelfHostedShootExposure
    )
}

/// Runs the chapter; gives the object as it was restored.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn run(stage: &mut Stage, _known: &Known) -> Result<Option<Actor>, Stop> {
    if !is_migrated(stage.subject.kind) {
        let reason = "gardenlet does not migrate objects of this kind";
        RULES.into_iter().for_each(|rule| stage.ledger.skipped(rule, reason));
        return Ok(None);
    }
    stage.step("create");
    let (actor, request) = stage.make(operation::RECONCILE, false).await?;
    let made = stage
        .answered(&actor, request, Expected::of(RequestKind::Create))
        .await?;
    let before = stage.inventory().await?;
    let migrated = migrate(stage, &actor, &made).await?;
    stage.orphan = Some(migrated.newest().status.clone());
    leave(stage, &actor, &migrated).await?;
    if let (Some(before), Some(now)) = (&before, stage.inventory().await?) {
        stage.checked(Rule::MigrateLeavesCloud, &actor.title, before.compare(&now));
    }
    let status = migrated.newest().status.clone();
    let state = status.state.clone();
    let title = actor.title.clone();
    drop(actor);
    let restored = restored(stage, status, move |episode| keeps(state.as_ref(), episode)).await?;
    if let (Some(before), Some(now)) = (&before, stage.inventory().await?) {
        stage.checked(Rule::RestoreTakesOver, &title, before.compare(&now));
    }
    Ok(Some(restored))
}

async fn migrate(stage: &mut Stage, actor: &Actor, made: &Episode) -> Result<Episode, Stop> {
    stage.step("migrate");
    let request = stage.request(actor, operation::MIGRATE, None).await?;
    let episode = stage
        .answered(actor, request, Expected::of(RequestKind::Migrate))
        .await?;
    let newest = episode.newest();
    let finalizers = match newest.finalizers().as_slice() {
        [] => Ok(()),
        held => Err(format!(
            "{} the status is {:?} and the finalizers are {held:?}",
            newest.place(),
            newest.state()
        )),
    };
    stage.checked(Rule::FinalizerGoneAfterMigration, &actor.title, finalizers);
    match (&made.newest().status.state, &newest.status.state) {
        (None, None) => {
            for rule in [Rule::MigrateLeavesState, Rule::RestoreKeepsState] {
                stage.ledger.skipped(rule, NO_STATE);
            }
        }
        (Some(state), None) => {
            let seen = format!("{} there is no state, and it was {state}", newest.place());
            stage.found(Rule::MigrateLeavesState, &actor.title, seen);
        }
        (_, Some(_)) => stage.checked(Rule::MigrateLeavesState, &actor.title, Ok(())),
    }
    Ok(episode)
}

/// Deletes the migrated object, which the extension has to leave alone, and looks at it before it goes.
async fn leave(stage: &mut Stage, actor: &Actor, migrated: &Episode) -> Result<(), Stop> {
    stage.step("delete the migrated object");
    let hold = |main: &mut Main| {
        main.metadata
            .finalizers
            .get_or_insert_default()
            .push(check::MARK.to_owned());
    };
    let held = actor.objects.edit(&actor.name, &hold).await?;
    stage.present(actor, held)?;
    let request = stage.request_deletion(actor).await?;
    let versions = stage.look(actor, request.at).await;
    stage.checked(
        Rule::MigratedObjectIgnored,
        &actor.title,
        stays_migrated(migrated.newest(), &versions),
    );
    stage.release(actor).await
}

fn stays_migrated(migrated: &Version, versions: &[Version]) -> Result<(), String> {
    let other = versions
        .iter()
        .find(|version| !version.succeeded(&LastOperationType::Migrate));
    if let Some(other) = other {
        return Err(format!(
            "{} the status is {:?}, and was {:?}",
            other.place(),
            other.state(),
            migrated.state()
        ));
    }
    // What a finalizer that stayed means is another rule's.
    let added = versions
        .iter()
        .find(|version| version.finalizers().len() > migrated.finalizers().len());
    added.map_or(Ok(()), |version| {
        Err(format!(
            "{} the finalizers are {:?}",
            version.place(),
            version.finalizers()
        ))
    })
}

/// Creates the object with the state that it left and requests its restoration, as gardenlet does on the other seed.
///
/// # Errors
/// See [`Stop`].
pub(crate) async fn restored(
    stage: &mut Stage,
    status: DefaultStatus,
    state: impl FnOnce(&Episode) -> Result<(), String>,
) -> Result<Actor, Stop> {
    stage.step("create with wait-for-state");
    let (actor, request) = stage.make(operation::WAIT_FOR_STATE, false).await?;
    let versions = stage.look(&actor, request.at).await;
    if let Some((before, after)) = versions.split_first() {
        stage.checked(Rule::WaitForStateIgnored, &actor.title, check::untouched(before, after));
    }
    let has_state = status.state.is_some();
    stage.give_state(&actor, &status).await?;
    stage.step("restore");
    let request = stage.request(&actor, operation::RESTORE, None).await?;
    let episode = stage
        .answered(&actor, request, Expected::of(RequestKind::Restore))
        .await?;
    stage.orphan = None;
    if has_state {
        stage.checked(Rule::RestoreKeepsState, &actor.title, state(&episode));
    }
    Ok(actor)
}

fn keeps(state: Option<&RawJson>, episode: &Episode) -> Result<(), String> {
    let newest = episode.newest();
    let shown = |value: Option<&RawJson>| value.map_or("nothing".to_owned(), ToString::to_string);
    let now = newest.status.state.as_ref();
    match now == state {
        true => Ok(()),
        false => Err(format!(
            "{} state is {}, and was {}",
            newest.place(),
            shown(now),
            shown(state)
        )),
    }
}
