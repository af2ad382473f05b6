//! The webhooks of a provider in a seed, as Gardener's library registers them (gardener/gardener v1.150
//! extensions/pkg/webhook/{controlplane,cloudprovider}).

use std::sync::Arc;

use api_meta::labels;
use api_meta::names::CLOUD_PROVIDER_SECRET;
use kube::Client;

use super::control_plane::ControlPlane;
use super::mutator::Ensures;
use crate::selectors;
use crate::webhook::{Target, Webhook, labelled};

/// Whose provider has something to change in a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPlaneKind {
    /// The shoot's: webhook `controlplane`, namespaces with `shoot.gardener.cloud/provider`.
    Shoot,
    /// The seed's: webhook `seedprovider`, namespaces with `seed.gardener.cloud/provider`.
    Seed,
    /// That of backups: webhook `controlplanebackup`, namespaces with `backup.gardener.cloud/provider`.
    Backup,
}

/// Objects that a provider changes. Those that it does not change are not to be named: each write of them would wait for the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// Deployments.
    Deployments,
    /// StatefulSets.
    StatefulSets,
    /// VerticalPodAutoscalers. Only where the kind is installed.
    VerticalPodAutoscalers,
    /// Etcds of etcd-druid. Only where the kind is installed.
    Etcds,
    /// OperatingSystemConfigs.
    OperatingSystemConfigs,
}

/// The webhook that changes control planes of shoots whose `kind` of provider is of this type. `seed` reads Clusters.
///
/// gardenlet labels what it expects to be changed for the shoot's provider: [`selectors::marked`] narrows the webhook to that
/// ([`Webhook::of_objects`]). Etcds and gardener-resource-manager do not have that label.
#[must_use]
pub fn control_plane_webhook(
    kind: ControlPlaneKind,
    type_: &str,
    objects: &[Ensured],
    control_plane: Arc<dyn ControlPlane>,
    seed: &Client,
) -> Webhook {
    let (name, namespaces) = match kind {
        ControlPlaneKind::Shoot => ("controlplane", selectors::shoots_of_provider(type_)),
        ControlPlaneKind::Seed => ("seedprovider", selectors::seeds_of_provider(type_)),
        ControlPlaneKind::Backup => ("controlplanebackup", selectors::backups_of_provider(type_)),
    };
    let ensures = Ensures {
        control_plane,
        client: seed.clone(),
    };
    let webhook = Webhook::new(name, Target::Seed).in_namespaces(namespaces);
    objects.iter().fold(webhook, |webhook, objects| {
        let ensures = ensures.clone();
        match objects {
            Ensured::Deployments => webhook.mutates::<k8s_openapi::api::apps::v1::Deployment>(ensures),
            Ensured::StatefulSets => webhook.mutates::<k8s_openapi::api::apps::v1::StatefulSet>(ensures),
            Ensured::VerticalPodAutoscalers => webhook.mutates::<super::VerticalPodAutoscaler>(ensures),
            Ensured::Etcds => webhook.mutates::<super::Etcd>(ensures),
            Ensured::OperatingSystemConfigs => webhook.mutates::<api_extensions::OperatingSystemConfig>(ensures),
        }
    })
}

/// The webhook that changes the Secret `cloudprovider` of shoots whose provider is of this type.
#[must_use]
pub fn cloud_provider_webhook(type_: &str, control_plane: Arc<dyn ControlPlane>, seed: &Client) -> Webhook {
    let ensures = Ensures {
        control_plane,
        client: seed.clone(),
    };
    Webhook::new(CLOUD_PROVIDER_SECRET, Target::Seed)
        .in_namespaces(selectors::shoots_of_provider(type_))
        .of_objects(labelled(labels::PURPOSE, CLOUD_PROVIDER_SECRET))
        .mutates::<k8s_openapi::api::core::v1::Secret>(ensures)
}
