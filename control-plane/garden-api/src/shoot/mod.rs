//! The kind Shoot: its parts `status` and `binding`, its actions `adminkubeconfig` and `viewerkubeconfig`, and the
//! plug-ins that look at other objects. Its rules stand in `api/rules`.

mod against;
mod complete;
mod credentials;
mod default_domain;
mod domains;
mod kubeconfig;
mod prepare;
mod profile;
mod quota;
mod scheduling;
mod strategy;
mod tasks;

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use cluster_apiserver::Kind;
use cluster_apiserver::kind::SelectableField;

use crate::admission::{
    DeletionConfirmation, ExposureClass, ExtensionLabels, ExtensionTypes, FinalizerRemoval, MarkSelfHosted, NotYet,
    References, Tolerations,
};
use crate::typed::{Rules, Strategy};
use crate::{GardenSettings, columns, kinds};

const AUTHENTICATION: &str = "authentication.gardener.cloud";

/// The kind, ready to be served.
pub(crate) fn kind(settings: &GardenSettings) -> Arc<dyn Kind> {
    let action = |access| Arc::new(kubeconfig::KubeconfigRequests::new(access, settings));
    Arc::new(kinds::namespaced::<Shoot>("shoots").with(|kind| {
        kind.info = kind
            .info
            .clone()
            .category(&["all"])
            .with_status()
            .part("binding")
            .action(
                "adminkubeconfig",
                (AUTHENTICATION, "v1alpha1", "AdminKubeconfigRequest"),
                action(kubeconfig::Access::Admin),
            )
            .action(
                "viewerkubeconfig",
                (AUTHENTICATION, "v1alpha1", "ViewerKubeconfigRequest"),
                action(kubeconfig::Access::Viewer),
            );
        kind.rules = Rules {
            // Defaults need the cloud profile: `complete` fills them in on admission.
            default: |_| {},
            validate: api_rules::validate_shoot_creation,
            validate_update: api_rules::validate_shoot_update,
            validate_status: api_rules::validate_shoot_status_update,
            validate_part: |_, new, old| api_rules::validate_shoot_binding(new, old),
            ..Rules::default()
        };
        kind.strategy = Strategy {
            changes_generation: strategy::changes_generation,
            refuse_name: cluster_apiserver::fields::names::dns_label,
            prepare: prepare::prepare,
            updates_unconditionally: false,
            ..Strategy::default()
        };
        kind.fields = [
            "spec.seedName",
            "spec.cloudProfileName",
            "spec.cloudProfile.name",
            "status.seedName",
            "status.technicalID",
        ]
        .map(SelectableField::new)
        .to_vec();
        kind.print = columns::shoots();
        kind.plugins = settings.plugins.filter([
            Arc::new(complete::Complete::new(settings)),
            Arc::new(against::Validate),
            Arc::new(default_domain::DefaultDomain),
            Arc::new(Tolerations),
            Arc::new(ExposureClass),
            Arc::new(tasks::DeployTasks),
            Arc::new(ExtensionLabels),
            Arc::new(ExtensionTypes),
            Arc::new(References::SHOOT),
            Arc::new(MarkSelfHosted),
            Arc::new(NotYet::ALL),
            Arc::new(quota::Quotas),
            Arc::new(domains::Domains::new(&settings.plugins)),
            Arc::new(DeletionConfirmation),
            Arc::new(FinalizerRemoval),
        ]);
    }))
}
