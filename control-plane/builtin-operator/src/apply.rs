//! Executes the plan. Never decides, and writes no status.

use api_core::v1beta1::ControllerInstallation;
use api_meta::Fault;
use base_client::{add_finalizer, apply as apply_object, delete, remove_finalizer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Api, ResourceExt};

use crate::objects::{Objects, deployment_name, namespace_name, role_name};
use crate::plan::{Plan, Removal};
use crate::{Context, FINALIZER, MANAGER};

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    /// Nothing: it is another operator's, or gone.
    Nothing,
    /// It was refused.
    Refused { problem: String },
    /// It was applied.
    Applied {
        installation: Box<ControllerInstallation>,
        objects: Box<Objects>,
        /// As the seed's API server has it now.
        deployment: Box<Deployment>,
    },
    /// It could not be applied.
    Failed {
        installation: Box<ControllerInstallation>,
        fault: Fault,
    },
    /// It is being taken down.
    Removing { waiting_for: String },
    /// It could not be taken down.
    NotRemoved { fault: Fault },
}

pub(crate) async fn apply(plan: Plan, installation: &ControllerInstallation, context: &Context) -> Result<Done, Fault> {
    match plan {
        Plan::Ignore => Ok(Done::Nothing),
        Plan::Refuse { problem } => Ok(Done::Refused { problem }),
        Plan::Install { objects } => {
            let api: Api<ControllerInstallation> = Api::all(context.garden.clone());
            // Before anything is there to be taken down.
            let installation = Box::new(add_finalizer(&api, installation.clone(), FINALIZER).await?);
            Ok(match install(&objects, context).await {
                Ok(deployment) => Done::Applied {
                    installation,
                    objects,
                    deployment: Box::new(deployment),
                },
                Err(fault) => Done::Failed { installation, fault },
            })
        }
        Plan::Uninstall(removal) => match remove(&removal, installation, context).await {
            Ok(Some(waiting_for)) => Ok(Done::Removing { waiting_for }),
            Ok(None) => Ok(Done::Nothing),
            Err(fault) => Ok(Done::NotRemoved { fault }),
        },
    }
}

/// Applies everything; returns the Deployment as it is then.
async fn install(objects: &Objects, context: &Context) -> Result<Deployment, Fault> {
    let Objects {
        namespace,
        service_account,
        cluster_role,
        cluster_role_binding,
        role,
        role_binding,
        deployment,
    } = objects;
    let (seed, inside) = (&context.seed, namespace.name_any());
    apply_object(&Api::<Namespace>::all(seed.clone()), namespace, MANAGER).await?;
    apply_object(
        &Api::<ServiceAccount>::namespaced(seed.clone(), &inside),
        service_account,
        MANAGER,
    )
    .await?;
    apply_object(&Api::<ClusterRole>::all(seed.clone()), cluster_role, MANAGER).await?;
    apply_object(
        &Api::<ClusterRoleBinding>::all(seed.clone()),
        cluster_role_binding,
        MANAGER,
    )
    .await?;
    apply_object(&Api::<Role>::namespaced(seed.clone(), &inside), role, MANAGER).await?;
    apply_object(
        &Api::<RoleBinding>::namespaced(seed.clone(), &inside),
        role_binding,
        MANAGER,
    )
    .await?;
    apply_object(
        &Api::<Deployment>::namespaced(seed.clone(), &inside),
        deployment,
        MANAGER,
    )
    .await
}

/// One step; returns what it waits for, or nothing when all is gone.
async fn remove(
    removal: &Removal,
    installation: &ControllerInstallation,
    context: &Context,
) -> Result<Option<String>, Fault> {
    let (namespace, name, role) = (
        namespace_name(installation),
        deployment_name(installation),
        role_name(installation),
    );
    let seed = &context.seed;
    match removal {
        Removal::Deployment { is_requested } => {
            if !is_requested {
                delete(&Api::<Deployment>::namespaced(seed.clone(), &namespace), &name).await?;
            }
            Ok(Some(format!("Deployment {namespace}/{name}")))
        }
        Removal::Namespace { is_requested } => {
            if !is_requested {
                delete(&Api::<ClusterRoleBinding>::all(seed.clone()), &role).await?;
                delete(&Api::<ClusterRole>::all(seed.clone()), &role).await?;
                delete(&Api::<Namespace>::all(seed.clone()), &namespace).await?;
            }
            Ok(Some(format!("Namespace {namespace}")))
        }
        Removal::Finalizer => {
            // The namespace may have gone by another's hand, the roles beside it not.
            delete(&Api::<ClusterRoleBinding>::all(seed.clone()), &role).await?;
            delete(&Api::<ClusterRole>::all(seed.clone()), &role).await?;
            remove_finalizer(&Api::all(context.garden.clone()), installation.clone(), FINALIZER).await?;
            Ok(None)
        }
    }
}
