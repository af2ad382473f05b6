//! The gatekeeper of a garden's API server: what belongs to which seed, evaluated before the access rules and for every write.
//! It decides nothing itself: control-plane/confinement does.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cluster_apiserver::{Attempt, Attributes, Gatekeeper, Objection, Opinion, ResourceTarget, Selectors, Target, User};
use control_plane_confinement::{BEHIND_MAX, Decision, Identity, Keeper, Refusal, Request, Who, Write, identify};

/// User of the part that reads which object belongs to which seed; `manifests/garden.yaml` has its rights.
pub const ADMISSION_CONTROLLER: &str = "gardener.cloud:system:admission-controller";
/// How long the first list of everything is waited for; gardenlets that start with the garden come before it.
const FIRST_LIST_MAX: Duration = Duration::from_secs(30);

/// The gatekeeper over what a keeper knows.
#[must_use]
pub fn confinement(keeper: Keeper) -> Arc<dyn Gatekeeper> {
    Arc::new(Confined(keeper))
}

struct Confined(Keeper);

impl Confined {
    fn objection(&self, refusal: &Refusal) -> Objection {
        let patience = match (refusal.may_change() && !self.0.is_stopped(), self.0.is_ready()) {
            (false, _) => Duration::ZERO,
            (true, true) => BEHIND_MAX,
            (true, false) => FIRST_LIST_MAX,
        };
        Objection {
            why: refusal.to_string(),
            patience,
        }
    }
}

impl Gatekeeper for Confined {
    fn concerns(&self, user: &User) -> bool {
        who(user) != Who::Other
    }

    fn decide(&self, attributes: &Attributes, selectors: &Selectors) -> Opinion {
        let identity = match (who(&attributes.user), &attributes.target) {
            (Who::Other, _) | (Who::Confined(_), Target::Path(_)) => return Opinion::NoOpinion,
            (Who::Unclear(why), _) => return Opinion::Deny(for_good(why)),
            (Who::Confined(identity), Target::Resource(target)) => (identity, target),
        };
        let (identity, target) = identity;
        match self.0.decide(&identity, &request(&attributes.verb, target, selectors)) {
            Decision::Allow => Opinion::Allow(format!("it belongs to seed {:?}", identity.seed)),
            Decision::Deny(refusal) => Opinion::Deny(self.objection(&refusal)),
            Decision::NoOpinion => Opinion::NoOpinion,
        }
    }

    fn admit(&self, attempt: &Attempt<'_>) -> Result<(), Objection> {
        let Attempt {
            user,
            group,
            resource,
            subresource,
            namespace,
            name,
            object,
            old,
        } = *attempt;
        let identity: Identity = match who(user) {
            Who::Other => return Ok(()),
            Who::Unclear(why) => return Err(for_good(why)),
            Who::Confined(identity) => identity,
        };
        let write = Write {
            group,
            resource,
            subresource,
            namespace,
            name,
            object,
            old,
        };
        let outcome = self.0.admit(&identity, &write);
        outcome.map_err(|refusal| self.objection(&refusal))
    }

    fn news(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.news()
    }
}

fn who(user: &User) -> Who {
    identify(&user.name, user.groups.iter().map(String::as_str))
}

fn for_good(why: String) -> Objection {
    Objection {
        why,
        patience: Duration::ZERO,
    }
}

fn request<'a>(verb: &'a str, target: &'a ResourceTarget, selectors: &'a Selectors) -> Request<'a> {
    let pairs = |all: &'a [(String, String)]| all.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Request {
        verb,
        group: &target.group,
        resource: &target.resource,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
        fields: pairs(&selectors.fields),
        labels: pairs(&selectors.labels),
    }
}
