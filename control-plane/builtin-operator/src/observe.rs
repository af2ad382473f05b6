//! What is there. Reads only the caches; never calls an API server.

use std::sync::Arc;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation};
use api_meta::labels;
use base_controller::ObjectKey;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;

use crate::Context;
use crate::objects::{deployment_name, namespace_name};

/// What concerns one installation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) controller_deployment: Option<Arc<ControllerDeployment>>,
    pub(crate) deployment: Option<Arc<Deployment>>,
    pub(crate) namespace: Option<Arc<Namespace>>,
    /// The pods of the Deployment.
    pub(crate) pods: Vec<Arc<Pod>>,
}

pub(crate) fn observe(installation: &ControllerInstallation, context: &Context) -> Seen {
    let namespace = namespace_name(installation);
    let reference = installation
        .spec
        .deployment_ref
        .as_ref()
        .and_then(|reference| reference.name.clone());
    let name = installation.name_any();
    let is_ours = |pod: &Arc<Pod>| {
        let owner = pod.labels().get(labels::CONTROLLER_INSTALLATION_NAME);
        owner == Some(&name) && pod.namespace().as_deref() == Some(&namespace)
    };
    Seen {
        pods: context.pods.list().into_iter().filter(is_ours).collect(),
        controller_deployment: reference.and_then(|name| context.controller_deployments.get(&ObjectKey::cluster(name))),
        deployment: context
            .deployments
            .get(&ObjectKey::namespaced(namespace.clone(), deployment_name(installation))),
        namespace: context.namespaces.get(&ObjectKey::cluster(namespace)),
    }
}
