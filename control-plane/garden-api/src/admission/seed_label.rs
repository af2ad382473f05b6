//! The label by which a Seed is found under its own name (gardener/gardener v1.150 plugin/pkg/seed/mutator). The label of
//! the seed on which a Seed's own cluster runs is still to come, as are ManagedSeeds.

use cluster_apiserver::kind::{Call, Objects};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::prepare::{SEED_LABELS, label};

/// The plug-in `SeedMutator`.
pub(crate) struct SeedLabel;

impl Plugin for SeedLabel {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::SeedMutator)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
        _objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        if writes_object(&call) {
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.retain(|label, _| !label.starts_with(SEED_LABELS));
            }
            if !call.name.is_empty() {
                label(object, &format!("{SEED_LABELS}{}", call.name), "true");
            }
        }
        Box::pin(async { Ok(Vec::new()) })
    }
}
