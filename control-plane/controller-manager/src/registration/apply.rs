//! Writes what was planned for one seed. Every write may be repeated: names of installations follow from their owners.

use api_core::v1beta1::{ControllerInstallation, Seed};
use api_meta::{Fault, finalizers};
use base_client::{add_finalizer, create_or_get, delete, has_finalizer, patch_changed, remove_finalizer};
use kube::{Api, Resource, ResourceExt};

use super::observe::Seen;
use super::plan::{Plan, other_name, registration_of, seed_of};
use crate::context::Context;

/// What was done, by name of installation.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) created: Vec<String>,
    pub(crate) updated: Vec<String>,
    pub(crate) deleted: Vec<String>,
}

/// Names that are tried for one installation. Each is taken by another one in at most one of a thousand cases where there are
/// 1,000 seeds.
const ATTEMPTS_MAX: u8 = 10;

pub(crate) async fn apply(context: &Context, seen: &Seen, plan: &Plan) -> Result<Done, Fault> {
    let seeds: Api<Seed> = context.cluster();
    let held = has_finalizer(&*seen.seed, finalizers::CONTROLLER_REGISTRATION);
    // Before the first installation, so that the seed cannot go in between.
    if plan.holds_seed && !held && seen.seed.meta().deletion_timestamp.is_none() {
        add_finalizer(&seeds, (*seen.seed).clone(), finalizers::CONTROLLER_REGISTRATION).await?;
    }
    let api: Api<ControllerInstallation> = context.cluster();
    let mut done = Done::default();
    for installation in &plan.create {
        done.created.push(create(&api, installation).await?);
    }
    for (before, after) in &plan.update {
        patch_changed(&api, before, after).await?;
        done.updated.push(after.name_any());
    }
    for name in &plan.delete {
        delete(&api, name).await?;
        done.deleted.push(name.clone());
    }
    if !plan.holds_seed && held {
        remove_finalizer(&seeds, (*seen.seed).clone(), finalizers::CONTROLLER_REGISTRATION).await?;
    }
    Ok(done)
}

/// Creates an installation, or finds that it is there, and returns its name.
async fn create(api: &Api<ControllerInstallation>, planned: &ControllerInstallation) -> Result<String, Fault> {
    for attempt in 0..ATTEMPTS_MAX {
        let mut installation = planned.clone();
        if attempt > 0 {
            installation.metadata.name = Some(other_name(planned, attempt));
        }
        let present = create_or_get(api, &installation).await?;
        if registration_of(&present) == registration_of(planned) && seed_of(&present) == seed_of(planned) {
            return Ok(installation.name_any());
        }
    }
    let fault = Fault::dependency(format!(
        "no name is free for the ControllerInstallation {}: {ATTEMPTS_MAX} are taken by those of other seeds",
        planned.name_any()
    ));
    Err(fault.hint("delete ControllerInstallations that no seed needs any more"))
}
