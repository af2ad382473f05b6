//! Projects (gardener/gardener v1.150 pkg/controllermanager/controller/project): a namespace in the garden for each,
//! roles for its members, its phase; and its orderly end. A namespace that belongs to another project is never taken.

mod apply;
mod plan;
mod roles;

use std::sync::Arc;

use api_core::v1beta1::Project;
use api_meta::{Fault, labels};
use api_rules::project_of_namespace;
use base_controller::{Controller, Next, ObjectKey};
use kube::ResourceExt;
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Keeps all projects.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    let (projects, namespaces) = (caches.projects.clone(), caches.namespaces.clone());
    let project_of_shoot = move |namespace: Option<String>| -> Vec<ObjectKey> {
        let namespace = namespace.unwrap_or_default();
        let found = namespaces.get(&ObjectKey::cluster(&namespace));
        let label = found
            .as_ref()
            .and_then(|found| found.labels().get(labels::PROJECT_NAME));
        let owner = project_of_namespace(&namespace, label.map(String::as_str), projects.list());
        let owner = owner.ok().flatten();
        owner.map(|project| ObjectKey::of(&*project)).into_iter().collect()
    };
    Controller::new("projects", caches.projects.clone())
        .watches(&caches.namespaces, |change| {
            change
                .object
                .labels()
                .get(labels::PROJECT_NAME)
                .map(ObjectKey::cluster)
                .into_iter()
                .collect()
        })
        .watches(&caches.shoots, move |change| {
            // Only a shoot that is gone can let a project go.
            if change.new().is_none() {
                project_of_shoot(change.object.namespace())
            } else {
                Vec::new()
            }
        })
        .run(stop, move |project| {
            let context = context.clone();
            async move { reconcile(&context, &project).await }
        })
        .await;
}

async fn reconcile(context: &Context, project: &Arc<Project>) -> Result<Next, Fault> {
    context.caches.namespaces.ready().await;
    context.caches.shoots.ready().await;
    let namespace = plan::namespace_name(project);
    let seen = plan::Seen {
        project: project.clone(),
        namespace: context.caches.namespaces.get(&ObjectKey::cluster(&namespace)),
        shoots: context
            .caches
            .shoots
            .list_in(&namespace)
            .iter()
            .map(|shoot| shoot.name_any())
            .collect(),
    };
    apply::apply(context, &seen, plan::plan(&seen)).await?;
    Ok(Next::Change)
}
