//! A Seed is not deleted while Shoots live on it
//! (gardener/gardener v1.150 plugin/pkg/seed/validator).

use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};

use super::{Plugin, Verdict};
use crate::convert::{CORE, text};

/// The part of plug-in `SeedValidator` that looks at Shoots.
pub(crate) struct SeedInUse;

impl Plugin for SeedInUse {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(seed) = review.old.filter(|_| review.call.operation == Operation::Delete) else {
                return Ok(Vec::new());
            };
            let name = text(seed, "/metadata/name");
            let shoots = review.objects.list(CORE, "shoots", None).await?;
            let using = shoots
                .iter()
                .find(|shoot| text(shoot, "/spec/seedName") == name || text(shoot, "/status/seedName") == name);
            match using {
                None => Ok(Vec::new()),
                Some(shoot) => {
                    let (namespace, shoot) = (text(shoot, "/metadata/namespace"), text(shoot, "/metadata/name"));
                    let why = format!(
                        "cannot delete seed {name}, which is still used by shoot {namespace}/{shoot}; delete that first"
                    );
                    Err(Status::forbidden(CORE, "seeds", name, &why))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_seed_goes_after_its_last_shoot() {
        let seed = json!({"kind": "Seed", "metadata": {"name": "a"}});
        let shoot = |on: &str| json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"seedName": on}});
        let delete = |on: &str| {
            let fixture = Fixture::default().with("shoots", shoot(on));
            review(&SeedInUse, Operation::Delete, None, Some(&seed), &fixture)
        };
        assert!(delete("b").is_ok());
        assert!(delete("a").expect_err("in use").contains("shoot n/s"));
    }
}
