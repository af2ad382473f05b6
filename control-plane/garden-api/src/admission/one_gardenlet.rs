//! A Gardenlet and a ManagedSeed of the same name would deploy one gardenlet by two recipes (gardener/gardener v1.150
//! plugin/pkg/global/resourcereferencemanager). It changes nothing.

use cluster_apiserver::kind::Review;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{SEED_MANAGEMENT, is_leaving, text, uncoded};

/// Refuses a Gardenlet named as a ManagedSeed, and the other way round.
pub(crate) struct OneGardenlet;

impl Plugin for OneGardenlet {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ResourceReferenceManager)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(object) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let (kind, other, resource) = match text(object, "/kind") {
                "Gardenlet" => ("Gardenlet", "ManagedSeed", "managedseeds"),
                _ => ("ManagedSeed", "Gardenlet", "gardenlets"),
            };
            let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
            if is_leaving(object) {
                return Ok(Vec::new());
            }
            let found = review
                .objects
                .get(SEED_MANAGEMENT, resource, Some(namespace), name)
                .await?;
            if found.is_some() {
                return Err(uncoded(format!(
                    "{kind} {namespace}/{name} cannot be stored: there is a {other} with the same name; take another name, \
                     or delete the {other}"
                )));
            }
            Ok(Vec::new())
        })
    }
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_gardenlet_and_a_managed_seed_have_different_names() {
        let object = |kind: &str| json!({"kind": kind, "metadata": {"name": "a", "namespace": "garden"}});
        let create = |kind: &str, fixture: &Fixture| {
            review(&OneGardenlet, Operation::Create, Some(&object(kind)), None, fixture)
        };
        let with = |resource: &str| Fixture::default().with(resource, object(""));
        assert!(create("Gardenlet", &with("gardenlets")).is_ok());
        assert!(create("ManagedSeed", &with("managedseeds")).is_ok());
        let refusal = create("Gardenlet", &with("managedseeds")).expect_err("taken");
        assert!(
            refusal.contains("there is a ManagedSeed with the same name; take another"),
            "{refusal}"
        );
        let refusal = create("ManagedSeed", &with("gardenlets")).expect_err("taken");
        assert!(
            refusal.contains("there is a Gardenlet with the same name; take another"),
            "{refusal}"
        );
    }
}
