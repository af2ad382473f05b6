//! A Seed with Shoots is not deleted, and keeps its zones and its internal domain
//! (gardener/gardener v1.150 plugin/pkg/seed/validator).

use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, text};

/// The part of plug-in `SeedValidator` that looks at Shoots.
pub(crate) struct SeedInUse;

impl Plugin for SeedInUse {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::SeedValidator)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(old) = review.old else {
                return Ok(Vec::new());
            };
            let name = text(old, "/metadata/name");
            let Some(what) = needed_by_shoots(&review, old) else {
                return Ok(Vec::new());
            };
            let shoots = review.objects.list(CORE, "shoots", None).await?;
            let using = shoots
                .iter()
                .find(|shoot| text(shoot, "/spec/seedName") == name || text(shoot, "/status/seedName") == name);
            match using {
                None => Ok(Vec::new()),
                Some(shoot) => {
                    let (namespace, shoot) = (text(shoot, "/metadata/namespace"), text(shoot, "/metadata/name"));
                    let why = format!(
                        "cannot {what} seed {name}, which is still used by shoot {namespace}/{shoot}; delete that first"
                    );
                    Err(Status::forbidden(CORE, "seeds", name, &why))
                }
            }
        })
    }
}

/// What the call would remove although Shoots of the seed use it.
fn needed_by_shoots(review: &Review<'_>, old: &Value) -> Option<String> {
    const INTERNAL: &str = "/spec/dns/internal/domain";
    if review.call.operation == Operation::Delete {
        return Some("delete".to_owned());
    }
    let new = review.object.filter(|_| writes_object(&review.call))?;
    let zones = |seed: &Value| -> Vec<String> {
        let zones = seed.pointer("/spec/provider/zones").and_then(Value::as_array);
        let zones = zones.into_iter().flatten().filter_map(Value::as_str);
        zones.map(str::to_owned).collect()
    };
    let retained = zones(new);
    let gone: Vec<String> = zones(old).into_iter().filter(|zone| !retained.contains(zone)).collect();
    if !gone.is_empty() {
        return Some(format!("remove zones {} from", gone.join(", ")));
    }
    let (before, now) = (text(old, INTERNAL), text(new, INTERNAL));
    (!before.is_empty() && !now.is_empty() && before != now).then(|| "change the internal domain of".to_owned())
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
