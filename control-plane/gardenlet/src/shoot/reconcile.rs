//! One turn for one shoot: observe, decide, run its flow, report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1 as core;
use api_extensions::Cluster;
use api_meta::{Fault, LastOperationType, OperationReport, Retry, annotations, finalizers};
use api_rules::required_types_for_shoot;
use base_client::{add_finalizer, delete, get, remove_finalizer};
use base_controller::{Change, Controller, EventType, Next, ObjectKey, Retries};
use base_flow_run::{FlowEnd, Outcome};
use control_plane_readiness::with_webhook;
use control_plane_shoot_flow::{Goal, ShootTask, shoot_flow};
use futures::FutureExt;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::observe::{Observed, facts, goal, observe_surroundings};
use super::operation::Operation;
use super::plan::{Decision, OnHold, decide};
use super::report::{
    Failure, ShootStatusWriter, cleaned, failed, failed_with, is_for_good, started, succeeded, summary, taken_up,
};
use super::required::check_installed;
use super::{apply, cluster, interrupt, task};
use crate::context::Context;

/// Task ids of what comes before the flow (contract F.2).
const TASK_READ: &str = "Read the shoot's surroundings";
const TASK_EXTENSIONS: &str = "Check required extensions";
const TASK_PREPARE: &str = "Prepare the operation";

/// The event with what a deletion waits for is repeated after this long: API servers delete events after an hour.
const REMINDER: Duration = Duration::from_secs(30 * 60);

/// Reconciles the shoots of our seed until `stop`.
pub(crate) async fn run(context: Arc<Context>, stop: CancellationToken) {
    let shoots = context.garden_caches.shoots.clone();
    let seed = context.config.seed_name().to_owned();
    let waiting = shoots.clone();
    let controller = Controller::new("shoot", shoots)
        .only(move |shoot| is_on(shoot, &seed))
        .watches(
            &context.garden_caches.installations,
            move |_: &Change<core::ControllerInstallation>| {
                waiting
                    .list()
                    .into_iter()
                    .filter(|shoot| waits_for_extensions(shoot))
                    .map(|shoot| ObjectKey::of(&*shoot))
                    .collect()
            },
        )
        .news(|old, new| {
            REQUESTS
                .iter()
                .any(|key| has_request(new, key) && new.annotations().get(*key) != old.annotations().get(*key))
        })
        .concurrency(context.config.shoots_max);
    let retries = controller.retries();
    controller
        .run(stop, move |shoot| {
            let turn = Turn {
                context: context.clone(),
                retries: retries.clone(),
            };
            reconcile(turn, shoot).boxed()
        })
        .await;
}

/// What a turn works with.
#[derive(Clone)]
struct Turn {
    context: Arc<Context>,
    retries: Retries,
}

/// Annotations with requests of people, beside the operation: a new one is taken up without back-off.
const REQUESTS: [&str; 3] = [
    annotations::CONFIRMATION_DELETION,
    annotations::SHOOT_TASKS,
    annotations::SHOOT_SKIP_READINESS,
];

fn has_request(shoot: &core::Shoot, key: &str) -> bool {
    shoot.annotations().contains_key(key)
}

fn is_on(shoot: &core::Shoot, seed: &str) -> bool {
    let status = shoot.status.as_ref().and_then(|status| status.seed_name.as_deref());
    status.or(shoot.spec.seed_name.as_deref()) == Some(seed)
}

fn waits_for_extensions(shoot: &core::Shoot) -> bool {
    let errors = shoot
        .status
        .as_ref()
        .map(|status| status.last_errors.as_slice())
        .unwrap_or_default();
    errors
        .iter()
        .any(|error| error.task_id.as_deref() == Some(TASK_EXTENSIONS))
}

async fn reconcile(turn: Turn, shoot: Arc<core::Shoot>) -> Result<Next, Fault> {
    let context = &turn.context;
    match decide_now(context, &shoot)? {
        Decision::Leave => Ok(Next::Change),
        Decision::Wait(left) => Ok(Next::After(left)),
        Decision::OnlySync(why) => only_sync(context, &shoot, why).await,
        Decision::Release | Decision::Run(_) => {
            // The cache may be behind what our last turn has written: look again before work begins.
            let api: Api<core::Shoot> = context.in_garden(&shoot.namespace().unwrap_or_default());
            let Some(shoot) = get(&api, &shoot.name_any()).await? else {
                return Ok(Next::Change);
            };
            match decide_now(context, &shoot)? {
                Decision::Leave => Ok(Next::Change),
                Decision::Wait(left) => Ok(Next::After(left)),
                Decision::OnlySync(why) => only_sync(context, &shoot, why).await,
                Decision::Release => {
                    Box::pin(remove_finalizer(&api, shoot, finalizers::GARDENER)).await?;
                    Ok(Next::Change)
                }
                Decision::Run(type_) => {
                    let shoot = match type_ {
                        LastOperationType::Delete => shoot,
                        _ => Box::pin(add_finalizer(&api, shoot, finalizers::GARDENER)).await?,
                    };
                    run_interruptible(turn, shoot, type_).await
                }
            }
        }
    }
}

fn decide_now(context: &Context, shoot: &core::Shoot) -> Result<Decision, Fault> {
    let seed = context.our_seed()?;
    decide(
        shoot,
        &seed,
        &context.config.version,
        context.config.sync_period,
        context.clock.now(),
    )
}

/// Lets extensions see a shoot that is not worked on: its Cluster is kept up to date, if it has one. Its status is left
/// alone as well, as in gardener/gardener v1.150; an event reports what its deletion waits for.
async fn only_sync(context: &Context, shoot: &core::Shoot, why: OnHold) -> Result<Next, Fault> {
    tracing::debug!(shoot = %ObjectKey::of(shoot), "left alone: {why}");
    let mut next = Next::Change;
    if shoot.metadata.deletion_timestamp.is_some()
        && let Some(to_do) = why.to_do()
    {
        let message = format!("deletion waits: {why}; {to_do}");
        context
            .events
            .record(shoot, EventType::Warning, "DeletionWaits", &message)
            .await;
        next = Next::After(REMINDER);
    }
    let name = shoot
        .status
        .as_ref()
        .map(|status| status.technical_id.clone())
        .unwrap_or_default();
    let clusters: Api<Cluster> = Api::all(context.seed.clone());
    if !name.is_empty() && get(&clusters, &name).await?.is_some() {
        let observed = observe_surroundings(context, shoot).await?;
        cluster::sync(context, &name, shoot, &observed.seed, &observed.cloud_profile).await?;
    }
    Ok(next)
}

async fn run_interruptible(turn: Turn, shoot: core::Shoot, type_: LastOperationType) -> Result<Next, Fault> {
    let interrupted = CancellationToken::new();
    let context = turn.context.clone();
    let work = work(turn, shoot.clone(), type_, interrupted.clone()).boxed();
    tokio::select! {
        biased;
        next = work => next,
        never = interrupt::watch(&context.garden_caches.shoots, &shoot, &interrupted) => match never {},
    }
}

async fn work(
    turn: Turn,
    shoot: core::Shoot,
    type_: LastOperationType,
    interrupted: CancellationToken,
) -> Result<Next, Fault> {
    let context = turn.context.clone();
    let status = ShootStatusWriter::new(&context, shoot.clone());
    let failed_before: BTreeSet<String> = shoot
        .status
        .iter()
        .flat_map(|status| &status.last_errors)
        .filter_map(|error| error.task_id.clone())
        .collect();
    let gardener = core::Gardener {
        id: context.config.identity.clone(),
        name: context.config.identity.clone(),
        version: context.config.version.clone(),
    };
    let now = context.clock.now();
    let observed = match observe_surroundings(&context, &shoot).await {
        Ok(observed) => observed,
        Err(fault) => {
            // Nothing is begun for it, so that a deletion need not undo anything; but it has been looked at. Both in one
            // write: a generation that is observed beside the success of the one before would pass for reconciled.
            let observe = |state: &mut core::ShootStatus| taken_up(state, &shoot, &gardener, now);
            return give_up_having(&turn, &status, &type_, 0, vec![failure(TASK_READ, fault)], observe).await;
        }
    };
    let technical_id = observed.validated.namespace.clone();
    status
        .report(|state, report| started(state, report, &type_, &shoot, &technical_id, &gardener, now))
        .await?;
    if type_ != LastOperationType::Delete
        && let Err(fault) = check_extensions(&context, &shoot, &observed.seed)
    {
        return give_up(&turn, &status, &type_, 0, vec![failure(TASK_EXTENSIONS, fault)]).await;
    }
    let goal = match prepare(&context, &status, &observed, &type_).await {
        Ok(goal) => goal,
        Err(fault) => return give_up(&turn, &status, &type_, 0, vec![failure(TASK_PREPARE, fault)]).await,
    };
    // No task of the flow clears the errors that these reported in an earlier attempt.
    let passed = [TASK_READ, TASK_EXTENSIONS, TASK_PREPARE].map(str::to_owned);
    status.report(|state, report| cleaned(state, report, &passed)).await?;
    let flow = shoot_flow(&facts(&context, &observed, &shoot), &goal)
        .map_err(|error| Fault::bug(error).hint("report it: a flow of ours is wrong"))?;
    let operation = Operation::new(context.clone(), observed, status, &goal, known_nodes(&shoot));
    let outcome = apply::run_flow(&operation, &flow, failed_before, interrupted).await;
    Box::pin(conclude(&turn, &operation, &shoot, type_, outcome)).await
}

fn failure(task: &str, fault: Fault) -> Failure {
    Failure {
        task: task.to_owned(),
        fault,
    }
}

fn known_nodes(shoot: &core::Shoot) -> Vec<String> {
    let reported = shoot
        .status
        .as_ref()
        .and_then(|status| status.networking.as_ref())
        .map(|found| found.nodes.clone());
    let wanted = || {
        shoot
            .spec
            .networking
            .iter()
            .filter_map(|networking| networking.nodes.clone())
            .collect()
    };
    reported.filter(|nodes| !nodes.is_empty()).unwrap_or_else(wanted)
}

fn check_extensions(context: &Context, shoot: &core::Shoot, seed: &core::Seed) -> Result<(), Fault> {
    let registrations: Vec<core::ControllerRegistration> = context
        .garden_caches
        .registrations
        .list()
        .iter()
        .map(|one| (**one).clone())
        .collect();
    let installations = context.garden_caches.installations.list();
    check_installed(
        &required_types_for_shoot(shoot, seed, &registrations),
        &registrations,
        &installations.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
        context.config.seed_name(),
    )
}

/// The Cluster comes first: extensions look at nothing before it is there.
async fn prepare(
    context: &Context,
    status: &ShootStatusWriter,
    observed: &Observed,
    type_: &LastOperationType,
) -> Result<Goal, Fault> {
    let shoot = status.known().with(observed.validated.spec.clone());
    let name = &observed.validated.namespace;
    cluster::sync(context, name, &shoot, &observed.seed, &observed.cloud_profile).await?;
    goal(context, observed, &shoot, type_).await
}

async fn conclude(
    turn: &Turn,
    operation: &Operation,
    begun: &core::Shoot,
    type_: LastOperationType,
    outcome: Outcome<ShootTask>,
) -> Result<Next, Fault> {
    let percent = outcome.progress.percent();
    match outcome.end {
        FlowEnd::Succeeded => {}
        // What has made it pointless is looked at now.
        FlowEnd::Interrupted | FlowEnd::Cancelled => return Ok(Next::After(Duration::ZERO)),
        FlowEnd::Failed => {
            let failures = outcome
                .errors
                .into_iter()
                .map(|error| failure(base_flow::Name::name(&error.task), error.fault))
                .collect();
            return give_up(turn, &operation.status, &type_, percent, failures).await;
        }
    }
    let ended = match type_ {
        LastOperationType::Delete => Box::pin(finish_deletion(operation)).await,
        _ => Box::pin(finish_reconcile(operation, begun, &type_)).await,
    };
    match ended {
        Ok(next) => Ok(next),
        Err(fault) => {
            give_up(
                turn,
                &operation.status,
                &type_,
                percent,
                vec![failure("Conclude the operation", fault)],
            )
            .await
        }
    }
}

async fn finish_reconcile(
    operation: &Operation,
    begun: &core::Shoot,
    type_: &LastOperationType,
) -> Result<Next, Fault> {
    let context = &operation.context;
    task::secrets::delete_obsolete(operation).await?;
    consume_annotations(operation, begun).await?;
    let at = context.clock.now();
    let asleep = operation.shoot.hibernated;
    let end = |status: &mut core::ShootStatus, report: &mut OperationReport| {
        succeeded(status, report, type_, asleep, at);
    };
    // Extensions first: a Shoot that has succeeded is left alone for an hour, also when we die in between.
    let mut shoot = operation.shoot_at_work();
    end(shoot.status.get_or_insert_default(), &mut OperationReport::default());
    let observed = &operation.observed;
    let (seed, profile) = (&observed.seed, &observed.cloud_profile);
    cluster::sync(context, operation.namespace(), &shoot, seed, profile).await?;
    let known = operation.status.report(end).await?;
    let message = "Shoot cluster has been successfully reconciled.";
    context
        .events
        .record(&known.named(), EventType::Normal, "Reconciled", message)
        .await;
    Ok(Next::After(context.config.sync_period))
}

/// Removes the annotations that requested what has been done.
async fn consume_annotations(operation: &Operation, begun: &core::Shoot) -> Result<(), Fault> {
    let done: Vec<(&str, String)> = [annotations::SHOOT_TASKS, annotations::SHOOT_SKIP_READINESS]
        .into_iter()
        .filter_map(|key| Some((key, begun.annotations().get(key)?.clone())))
        .collect();
    operation.status.consume_annotations(&done).await.map(drop)
}

/// The last traces: what the garden holds for the cluster, its Cluster, and at the very end our finalizer.
async fn finish_deletion(operation: &Operation) -> Result<Next, Fault> {
    let (context, shoot) = (&operation.context, &operation.shoot);
    let namespace = shoot.garden_namespace.as_str();
    task::secrets::delete_published(operation).await?;
    // Its data is retained as long as the settings demand; the backup entry controller does that.
    delete(
        &context.in_garden::<core::BackupEntry>(namespace),
        &shoot.backup_entry(),
    )
    .await?;
    delete(&Api::<Cluster>::all(context.seed.clone()), operation.namespace()).await?;
    let at = context.clock.now();
    let last = operation
        .status
        .report(|status, report| succeeded(status, report, &LastOperationType::Delete, false, at))
        .await?
        .named();
    context
        .events
        .record(
            &last,
            EventType::Normal,
            "Deleted",
            "Shoot cluster has been successfully deleted.",
        )
        .await;
    let api = context.in_garden::<core::Shoot>(namespace);
    Box::pin(remove_finalizer(&api, last, finalizers::GARDENER)).await?;
    Ok(Next::Change)
}

/// The failures, each fault of a task by itself, with the webhooks that stand behind them.
async fn with_webhooks(context: &Context, status: &ShootStatusWriter, failures: Vec<Failure>) -> Vec<Failure> {
    let shoot = status.known().named();
    let namespace = shoot.status.map(|status| status.technical_id).unwrap_or_default();
    let (seed, namespace) = (&context.seed, namespace.as_str());
    let each = failures.into_iter().flat_map(|Failure { task, fault }| {
        let of_task = move |fault| Failure {
            task: task.clone(),
            fault,
        };
        fault.each().into_iter().map(of_task)
    });
    let named = each.map(|Failure { task, fault }| async move {
        let fault = with_webhook(seed, namespace, fault).await;
        Failure { task, fault }
    });
    futures::future::join_all(named).await
}

/// Writes the failures down. Retried by the class of the most hopeful, unless one of them ends it.
async fn give_up(
    turn: &Turn,
    status: &ShootStatusWriter,
    type_: &LastOperationType,
    percent: i32,
    failures: Vec<Failure>,
) -> Result<Next, Fault> {
    give_up_having(turn, status, type_, percent, failures, |_| {}).await
}

/// As [`give_up`], with another edit of the status in the same write.
async fn give_up_having(
    turn: &Turn,
    status: &ShootStatusWriter,
    type_: &LastOperationType,
    percent: i32,
    failures: Vec<Failure>,
    edit: impl Fn(&mut core::ShootStatus) + Send + Sync,
) -> Result<Next, Fault> {
    let context = &turn.context;
    let failures = with_webhooks(context, status, failures).await;
    let fault = summary(&failures);
    let now = context.clock.now();
    let key = ObjectKey::of(&status.known().named());
    let retry = (!is_for_good(&failures)).then(|| Retry {
        at: now + turn.retries.delay(&key, fault.class),
        class: fault.class,
    });
    let failure = failed_with(&failures, retry);
    let shoot = status
        .report(|state, report| {
            edit(state);
            failed(state, type_, percent, &failure, now);
            report.clone_from(&failure);
        })
        .await?
        .named();
    let message = failure.errors_sentence();
    context
        .events
        .record(&shoot, EventType::Warning, "ReconcileError", &message)
        .await;
    match retry {
        Some(_) => Err(fault),
        None => {
            tracing::warn!(shoot = %key, class = %fault.class, hint = fault.hint, "given up: {}", fault.chain());
            Ok(Next::Change)
        }
    }
}
