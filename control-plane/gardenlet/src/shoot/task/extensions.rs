//! Objects of kind Extension, at the points of a shoot's life at which their registrations want them handled.

use api_core::v1beta1::ControllerResourceLifecycleStrategy as Strategy;
use api_extensions::{Extension, ExtensionSpec};
use api_meta::Fault;
use control_plane_shoot_flow::Point;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::super::given::Requests;
use super::super::operation::{Operation, left};
use super::super::required::{RECONCILE_TIMEOUT_DEFAULT, ShootExtension};
use super::several;
use crate::outcome::all;

/// The point of a registration's life cycle that is meant.
fn strategy(point: Point) -> Strategy {
    match point {
        Point::BeforeApiServer => Strategy::BeforeKubeAPIServer,
        Point::AfterApiServer => Strategy::AfterKubeAPIServer,
        Point::AfterWorkers => Strategy::AfterWorker,
    }
}

/// Those that are brought up at a point.
fn at(op: &Operation, point: Point) -> impl Iterator<Item = &ShootExtension> {
    let strategy = strategy(point);
    op.shoot
        .extensions
        .iter()
        .filter(move |extension| extension.reconcile == strategy)
}

/// The name of an Extension: its type, which may be written with capitals where names may not.
fn name_of(extension: &ShootExtension) -> String {
    extension.type_.to_lowercase()
}

/// Requests those of a point.
pub(crate) async fn deploy(op: &Operation, point: Point) -> Result<Requests, Fault> {
    let desired = at(op, point).map(|extension| Extension {
        metadata: ObjectMeta {
            name: Some(name_of(extension)),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: ExtensionSpec {
            type_: extension.type_.clone(),
            provider_config: extension.provider_config.clone(),
            ..ExtensionSpec::default()
        },
        status: None,
    });
    several::request(op, desired.collect()).await
}

/// Waits for those of a point. Each has the time that its registration gives it.
pub(crate) async fn wait(
    op: &Operation,
    point: Point,
    requests: &Requests,
    until: Option<Instant>,
) -> Result<(), Fault> {
    let one = |extension: &ShootExtension| {
        let (name, timeout) = (name_of(extension), extension.timeout.min(left(until)));
        async move { several::wait::<Extension>(op, &name, requests, timeout).await }
    };
    all(at(op, point).map(one)).await.map(drop)
}

/// Requests the deletion of those that the shoot no longer has.
pub(crate) async fn delete_stale(op: &Operation) -> Result<(), Fault> {
    several::delete::<Extension>(op, stale(op).await?).await
}

/// Waits until they are gone.
pub(crate) async fn wait_stale(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_gone(op, stale(op).await?, until).await
}

async fn stale(op: &Operation) -> Result<Vec<String>, Fault> {
    let wanted: Vec<String> = op.shoot.extensions.iter().map(name_of).collect();
    let mut names = several::present::<Extension>(op).await?;
    names.retain(|name| !wanted.contains(name));
    Ok(names)
}

/// Each has the time that its registration gives it; those that no registration knows have the default.
async fn wait_gone(op: &Operation, names: Vec<String>, until: Option<Instant>) -> Result<(), Fault> {
    let timeout = |name: &str| {
        let of = op.shoot.extensions.iter().find(|extension| name_of(extension) == name);
        of.map_or(RECONCILE_TIMEOUT_DEFAULT, |extension| extension.timeout)
    };
    several::wait_gone::<Extension>(op, names, until, timeout).await
}

/// Those that a deletion of the shoot deletes at a point. After the workers there is none: `AfterWorker` counts as
/// before the API server there.
fn deleted_at(op: &Operation, point: Point) -> Vec<String> {
    let matches = |extension: &&ShootExtension| match point {
        Point::BeforeApiServer => !extension.deleted_after_api_server(),
        Point::AfterApiServer => extension.deleted_after_api_server(),
        Point::AfterWorkers => false,
    };
    op.shoot.extensions.iter().filter(matches).map(name_of).collect()
}

/// Requests the deletion of those that go at a point.
pub(crate) async fn destroy(op: &Operation, point: Point) -> Result<(), Fault> {
    several::delete::<Extension>(op, deleted_at(op, point)).await
}

/// Waits until they are gone.
pub(crate) async fn wait_destroyed(op: &Operation, point: Point, until: Option<Instant>) -> Result<(), Fault> {
    wait_gone(op, deleted_at(op, point), until).await
}

/// Waits until none is left at all.
pub(crate) async fn wait_all_deleted(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    wait_gone(op, several::present::<Extension>(op).await?, until).await
}
