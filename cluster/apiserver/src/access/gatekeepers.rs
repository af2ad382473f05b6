//! Calls the gatekeepers before the access rules. A refusal that may be outdated is reviewed again for as long as its
//! gatekeeper has patience: its data come to it by watches, as they come to the caller.

use std::sync::Arc;

use cluster_access::{Attributes, Decision, Gatekeeper, Objection, Opinion, Selectors, Target, User, group};
use tokio::time::{Instant, timeout_at};

use crate::kinds::registry::DELETE_COLLECTION;
use crate::wire::query::Query;
use crate::wire::selector::{FieldSelector, LabelRequirement, LabelSelector};

/// What the gatekeepers decide; none if they leave it to the rules.
pub(crate) async fn decide(
    gatekeepers: &[Arc<dyn Gatekeeper>],
    attributes: &Attributes,
    query: &Query,
) -> Option<Decision> {
    let mut selectors = None;
    for gatekeeper in concerned(gatekeepers, &attributes.user) {
        let selectors = selectors.get_or_insert_with(|| selectors_of(attributes, query));
        let opinion = settled(&**gatekeeper, || match gatekeeper.decide(attributes, selectors) {
            Opinion::Deny(objection) => Err(objection),
            Opinion::Allow(why) => Ok(Some(why)),
            Opinion::NoOpinion => Ok(None),
        });
        match opinion.await {
            Ok(None) => {}
            Ok(Some(why)) => return Some(Decision::Allow(why)),
            Err(why) => return Some(Decision::Deny(why)),
        }
    }
    None
}

/// The same without waiting, for requests without selectors.
pub(crate) fn decide_now(gatekeepers: &[Arc<dyn Gatekeeper>], attributes: &Attributes) -> Option<Decision> {
    concerned(gatekeepers, &attributes.user).find_map(|gatekeeper| {
        match gatekeeper.decide(attributes, &Selectors::default()) {
            Opinion::NoOpinion => None,
            Opinion::Allow(why) => Some(Decision::Allow(why)),
            Opinion::Deny(objection) => Some(Decision::Deny(objection.why)),
        }
    })
}

/// Whether any of them decides on requests of this user.
pub(crate) fn concern(gatekeepers: &[Arc<dyn Gatekeeper>], user: &User) -> bool {
    concerned(gatekeepers, user).next().is_some()
}

/// Superusers are not confined.
pub(crate) fn concerned<'a>(
    gatekeepers: &'a [Arc<dyn Gatekeeper>],
    user: &'a User,
) -> impl Iterator<Item = &'a Arc<dyn Gatekeeper>> {
    let superuser = !gatekeepers.is_empty() && user.is_in(group::MASTERS);
    let consulted = gatekeepers.iter().filter(move |_| !superuser);
    consulted.filter(|gatekeeper| gatekeeper.concerns(user))
}

/// Repeats the call until it allows, or there is no more time to wait for a change.
pub(crate) async fn settled<T>(
    gatekeeper: &dyn Gatekeeper,
    review: impl Fn() -> Result<T, Objection>,
) -> Result<T, String> {
    let objection = match review() {
        Err(objection) if !objection.patience.is_zero() => objection,
        outcome => return outcome.map_err(|objection| objection.why),
    };
    let (begun, mut until) = (Instant::now(), objection.patience);
    loop {
        // Subscribed before the call, so that it sees every change after the answer.
        let news = gatekeeper.news();
        let why = match review() {
            Ok(answer) => return Ok(answer),
            Err(Objection { why, patience }) => {
                until = until.max(patience);
                if patience.is_zero() {
                    return Err(why);
                }
                why
            }
        };
        if timeout_at(begun + until, news).await.is_err() {
            return Err(why);
        }
    }
}

/// The equalities of a request for many. What cannot be read narrows nothing: its handler refuses it.
fn selectors_of(attributes: &Attributes, query: &Query) -> Selectors {
    let of_many = matches!(attributes.verb.as_str(), "list" | "watch" | DELETE_COLLECTION);
    if !of_many || !matches!(attributes.target, Target::Resource(_)) {
        return Selectors::default();
    }
    let fields = query.get("fieldSelector").map(FieldSelector::parse);
    let labels = query.get("labelSelector").map(LabelSelector::parse);
    let (fields, labels) = (fields.and_then(Result::ok), labels.and_then(Result::ok));
    let equal = fields
        .iter()
        .flat_map(FieldSelector::requirements)
        .filter(|one| one.equal);
    let held = labels.iter().flat_map(LabelSelector::requirements);
    Selectors {
        fields: equal.map(|one| (one.field.clone(), one.value.clone())).collect(),
        labels: held
            .filter_map(|one| match one {
                LabelRequirement::In(label, values) => match values.as_slice() {
                    [value] => Some((label.clone(), value.clone())),
                    _ => None,
                },
                _ => None,
            })
            .collect(),
    }
}
