//! Applies the plan of a project, and reports its phase. Every write may be repeated.

use api_core::v1beta1::{Project, ProjectPhase};
use api_meta::{Fault, finalizers};
use base_client::{
    add_finalizer, apply as apply_object, delete, patch_changed, patch_status_if_changed, remove_finalizer,
};
use base_controller::EventType;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Api, ResourceExt};

use super::plan::{Plan, Seen};
use super::roles;
use crate::context::{Context, MANAGER};

const RECONCILE_FAILED: &str = "NamespaceReconcileFailed";
const RECONCILED: &str = "NamespaceReconcileSuccessful";
const NOT_EMPTY: &str = "NamespaceNotEmpty";
const MARKED_FOR_DELETION: &str = "NamespaceMarkedForDeletion";

pub(crate) async fn apply(context: &Context, seen: &Seen, plan: Plan) -> Result<(), Fault> {
    let project = &*seen.project;
    let api: Api<Project> = context.cluster();
    match plan {
        Plan::Claim { namespace } => {
            let held = add_finalizer(&api, project.clone(), finalizers::GARDENER).await?;
            let mut claimed = held.clone();
            claimed.spec.namespace = Some(namespace);
            // The write calls for the next turn.
            patch_changed(&api, &held, &claimed).await?;
        }
        Plan::Refuse(why) => {
            context
                .recorder
                .record(project, EventType::Warning, RECONCILE_FAILED, &why)
                .await;
            set_phase(&api, project, ProjectPhase::Failed).await?;
        }
        Plan::Keep(namespace) => {
            apply_object(&context.cluster::<Namespace>(), &namespace, MANAGER).await?;
            keep_roles(context, project, &namespace.name_any()).await?;
            if set_phase(&api, project, ProjectPhase::Ready).await? {
                let message = format!("Namespace {} is ready", namespace.name_any());
                context
                    .recorder
                    .record(project, EventType::Normal, RECONCILED, &message)
                    .await;
            }
        }
        Plan::Wait | Plan::WaitForNamespace => {}
        Plan::Blocked(shoots) => {
            let message = format!(
                "Cannot release the namespace: it still has Shoots {}",
                shoots.join(", ")
            );
            context
                .recorder
                .record(project, EventType::Warning, NOT_EMPTY, &message)
                .await;
            set_phase(&api, project, ProjectPhase::Terminating).await?;
        }
        Plan::DeleteNamespace(name) => {
            set_phase(&api, project, ProjectPhase::Terminating).await?;
            delete(&context.cluster::<Namespace>(), &name).await?;
            let message = format!("Namespace {name} is being deleted");
            context
                .recorder
                .record(project, EventType::Normal, MARKED_FOR_DELETION, &message)
                .await;
        }
        Plan::Release => drop(remove_finalizer(&api, project.clone(), finalizers::GARDENER).await?),
    }
    Ok(())
}

async fn keep_roles(context: &Context, project: &Project, namespace: &str) -> Result<(), Fault> {
    let roles::Roles {
        cluster_roles,
        cluster_bindings,
        bindings,
    } = roles::of_project(project, namespace);
    for role in roles::shared().iter().chain(&cluster_roles) {
        apply_object(&context.cluster(), role, MANAGER).await?;
    }
    for binding in &cluster_bindings {
        apply_object(&context.cluster(), binding, MANAGER).await?;
    }
    let api: Api<RoleBinding> = context.namespaced(namespace);
    for binding in &bindings {
        apply_object(&api, binding, MANAGER).await?;
    }
    Ok(())
}

/// Writes the phase; returns whether that changed anything.
async fn set_phase(api: &Api<Project>, project: &Project, phase: ProjectPhase) -> Result<bool, Fault> {
    let mut after = project.clone();
    let status = after.status.get_or_insert_default();
    status.phase = Some(phase);
    status.observed_generation = project.metadata.generation;
    Ok(patch_status_if_changed(api, project, &after).await?.is_some())
}
