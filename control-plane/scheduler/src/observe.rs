//! What a decision is made from, out of the caches. It never calls the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_core::v1beta1::{CloudProfileSpec, ExposureClass, Seed, Shoot};
use api_meta::Seen as Found;
use api_rules::cloud_profile_name;
use base_controller::ObjectKey;

use crate::Caches;

/// Everything a decision is made from.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The shoot's cloud profile; of a namespaced one, the merged spec.
    pub profile: Found<CloudProfileSpec>,
    /// The shoot's exposure class; absent if it names none that exists.
    pub exposure_class: Found<ExposureClass>,
    /// All seeds, by name.
    pub seeds: Vec<Arc<Seed>>,
    /// Number of shoots by seed.
    pub shoots_per_seed: BTreeMap<String, usize>,
}

/// Waits until all caches have been filled once, then reads them.
pub(crate) async fn observe(shoot: &Shoot, caches: &Caches) -> Seen {
    caches.seeds.ready().await;
    caches.profiles.ready().await;
    caches.namespaced_profiles.ready().await;
    caches.exposure_classes.ready().await;
    let class = shoot.spec.exposure_class_name.as_deref();
    let class = class.and_then(|name| caches.exposure_classes.get(&ObjectKey::cluster(name)));
    Seen {
        profile: profile(shoot, caches),
        exposure_class: class.map_or(Found::Absent, |class| Found::Present((*class).clone())),
        seeds: caches.seeds.list(),
        shoots_per_seed: caches.by_seed.counts(),
    }
}

fn profile(shoot: &Shoot, caches: &Caches) -> Found<CloudProfileSpec> {
    match cloud_profile_name(shoot) {
        Some(("NamespacedCloudProfile", name)) => {
            let namespace = shoot.metadata.namespace.as_deref().unwrap_or_default();
            match caches.namespaced_profiles.get(&ObjectKey::namespaced(namespace, name)) {
                None => Found::Absent,
                Some(profile) => match profile
                    .status
                    .as_ref()
                    .and_then(|status| status.cloud_profile_spec.clone())
                {
                    Some(spec) => Found::Present(spec),
                    None => Found::Unknown(format!(
                        "NamespacedCloudProfile {name} is not merged with its parent yet"
                    )),
                },
            }
        }
        Some((_, name)) => match caches.profiles.get(&ObjectKey::cluster(name)) {
            Some(profile) => Found::Present(profile.spec.clone()),
            None => Found::Absent,
        },
        None => Found::Absent,
    }
}
