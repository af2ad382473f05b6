//! Reports in events what was done for a seed and what cannot be done, at the objects that need it.

use base_controller::EventType;
use kube::Resource;

use super::apply::Done;
use super::observe::Seen;
use super::plan::{Needer, Plan, Problem};
use crate::context::Context;

const NOT_REGISTERED: &str = "ExtensionNotRegistered";
const NOT_INSTALLABLE: &str = "ExtensionNotInstallable";
const INSTALLATIONS_CHANGED: &str = "InstallationsChanged";

pub(crate) async fn report(context: &Context, seen: &Seen, plan: &Plan, done: &Done) {
    let seed = &*seen.seed;
    for problem in &plan.problems {
        match problem {
            Problem::NotRegistered { wanted, needed_by } => {
                let message = format!(
                    "need to install an extension controller for \"{wanted}\" but no appropriate ControllerRegistration found"
                );
                report_missing(context, seen, needed_by.iter(), &message).await;
            }
            Problem::NoDeployment {
                registration,
                deployment,
            } => {
                let message =
                    format!("cannot install {registration}: ControllerDeployment {deployment} does not exist");
                context
                    .recorder
                    .record(seed, EventType::Warning, NOT_INSTALLABLE, &message)
                    .await;
            }
            Problem::NoRegistration {
                installation,
                registration,
            } => {
                let message = format!(
                    "extension objects still need ControllerInstallation {installation}, but ControllerRegistration {registration} does not exist"
                );
                context
                    .recorder
                    .record(seed, EventType::Warning, NOT_INSTALLABLE, &message)
                    .await;
            }
            Problem::BadSelector { registration, error } => {
                let message = format!("seed selector of ControllerRegistration {registration} is invalid: {error}");
                context
                    .recorder
                    .record(seed, EventType::Warning, NOT_INSTALLABLE, &message)
                    .await;
            }
        }
    }
    let changes = [
        ("created", &done.created),
        ("updated", &done.updated),
        ("deleted", &done.deleted),
    ];
    let changes: Vec<String> = changes
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {}", names.join(", ")))
        .collect();
    if !changes.is_empty() {
        let message = format!("ControllerInstallations: {}", changes.join("; "));
        context
            .recorder
            .record(seed, EventType::Normal, INSTALLATIONS_CHANGED, &message)
            .await;
    }
    for sentence in &plan.waiting {
        tracing::debug!(seed = seed.meta().name, "{sentence}");
    }
}

async fn report_missing(context: &Context, seen: &Seen, needed_by: impl Iterator<Item = &Needer>, message: &str) {
    for needer in needed_by {
        match needer {
            Needer::Seed | Needer::Backup(_) => {
                context
                    .recorder
                    .record(&*seen.seed, EventType::Warning, NOT_REGISTERED, message)
                    .await;
            }
            Needer::Shoot(name) => {
                if let Some(shoot) = context.caches.shoots.get(name) {
                    context
                        .recorder
                        .record(&*shoot, EventType::Warning, NOT_REGISTERED, message)
                        .await;
                }
            }
        }
    }
}
