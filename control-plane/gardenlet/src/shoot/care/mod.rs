//! How a shoot is, beside what was done to it: its conditions and constraints. Everything is seen through caches; they are
//! written when they change.

mod evaluate;
mod extensions;
mod observe;
mod threshold;
mod webhooks;

use std::sync::Arc;

use api_core::v1beta1 as core;
use api_extensions::ObjectView;
use api_meta::{Condition, Fault, LastOperationState, LastOperationType};
use base_controller::{Change, Controller, Index, MirrorChange, Next, ObjectKey};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use kube::Resource;
use tokio_util::sync::CancellationToken;

use super::report::ShootStatusWriter;
use crate::context::{Context, technical_id};
use crate::extension::ObjectEvent;
use evaluate::{evaluate, hibernated};
use threshold::Course;

/// Keeps the conditions of our seed's shoots true until `stop`. `inside`: what has changed inside of them.
pub(crate) async fn run(context: Arc<Context>, inside: BoxStream<'static, MirrorChange>, stop: CancellationToken) {
    let caches = &context.seed_caches;
    let shoots = &context.garden_caches.shoots;
    let by_id = context.garden_caches.shoots_by_id.clone();
    let known = by_id.clone();
    let calls = inside
        .filter_map(move |change| std::future::ready(shoot_of(&known, &change.namespace)))
        .boxed();
    let seed = context.config.seed_name().to_owned();
    let controller = Controller::new("shoot-care", shoots.clone())
        .only(move |shoot| is_cared_for(shoot, &seed))
        .when(|old, new| old.is_none_or(|old| state_of(old) != state_of(new) || missing(new)))
        .watches(&caches.deployments, by_namespace(&by_id))
        .watches(&caches.stateful_sets, by_namespace(&by_id))
        .watches(&caches.managed_resources, by_namespace(&by_id))
        .called_by(calls);
    let controller = caches.extension_objects.watched_by(controller, by_conditions(&by_id));
    controller
        .run(stop, move |shoot| reconcile(context.clone(), shoot).boxed())
        .await;
}

/// Maps an object of a shoot's namespace to the shoot.
fn by_namespace<K>(shoots: &Index<core::Shoot>) -> impl Fn(&Change<K>) -> Vec<ObjectKey> + Send + Sync + 'static
where
    K: Resource<DynamicType = ()>,
{
    let shoots = shoots.clone();
    move |change| {
        let namespace = change.object.meta().namespace.as_deref().unwrap_or_default();
        shoot_of(&shoots, namespace).into_iter().collect()
    }
}

/// Maps an extension object whose conditions have changed to its shoot.
fn by_conditions(
    shoots: &Index<core::Shoot>,
) -> impl Fn(ObjectView<'_>, ObjectEvent<'_>) -> Vec<ObjectKey> + Clone + Send + Sync + 'static {
    let shoots = shoots.clone();
    move |object, event| {
        let changed = match event {
            ObjectEvent::Changed(before) => conditions_of(&object) != conditions_of(&before),
            ObjectEvent::Appeared | ObjectEvent::Deleted => !conditions_of(&object).is_empty(),
        };
        let namespace = changed.then(|| object.shoot_namespace()).flatten();
        namespace
            .and_then(|namespace| shoot_of(&shoots, namespace))
            .into_iter()
            .collect()
    }
}

fn conditions_of<'a>(object: &ObjectView<'a>) -> &'a [Condition] {
    object.status.map_or(&[], |status| status.conditions)
}

/// The shoot whose namespace in the seed this is.
fn shoot_of(shoots: &Index<core::Shoot>, namespace: &str) -> Option<ObjectKey> {
    shoots.get(namespace).map(|shoot| ObjectKey::of(&*shoot))
}

fn state_of(shoot: &core::Shoot) -> Option<(LastOperationType, LastOperationState)> {
    let last = shoot.status.as_ref()?.last_operation.as_ref()?;
    Some((last.type_.clone(), last.state.clone()))
}

fn missing(shoot: &core::Shoot) -> bool {
    shoot.status.as_ref().is_none_or(|status| status.conditions.is_empty())
}

/// Not before it has been there once, and not when it is going.
fn is_cared_for(shoot: &core::Shoot, seed: &str) -> bool {
    let Some(status) = &shoot.status else { return false };
    let Some((type_, state)) = state_of(shoot) else {
        return false;
    };
    let being_made = type_ == LastOperationType::Create && state != LastOperationState::Succeeded;
    status.seed_name.as_deref() == Some(seed)
        && shoot.metadata.deletion_timestamp.is_none()
        && technical_id(shoot).is_some()
        && !being_made
}

async fn reconcile(context: Arc<Context>, shoot: Arc<core::Shoot>) -> Result<Next, Fault> {
    let now = context.clock.now();
    let status = shoot.status.clone().unwrap_or_default();
    let evaluated = match api_rules::is_in_hibernation(&shoot) {
        true => hibernated(shoot.spec.provider.workers.is_empty(), now),
        false => {
            let seen = observe::observe(&context, &shoot).await;
            let course = Course {
                known: &status.conditions,
                last_operation: status.last_operation.as_ref(),
                last_errors: &status.last_errors,
                now,
            };
            evaluate(&seen, &course, &context.config.care)
        }
    };
    let put = |status: &mut core::ShootStatus| {
        for condition in evaluated.conditions.iter().cloned() {
            condition.put_into(&mut status.conditions);
        }
        for constraint in evaluated.constraints.iter().cloned() {
            constraint.put_into(&mut status.constraints);
        }
    };
    let mut after = status.clone();
    put(&mut after);
    if after != status {
        let writer = ShootStatusWriter::new(&context, (*shoot).clone());
        writer.update(put).await?;
    }
    Ok(evaluated.look_after.map_or(Next::Change, Next::After))
}
