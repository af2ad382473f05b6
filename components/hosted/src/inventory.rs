//! What a component consisted of when it was deployed last: an annotation on its workload lists it. So the next deployment
//! deletes what a newer version of us no longer makes, and a destruction what an older one made. It decides only; it never
//! deletes.

use std::collections::{BTreeMap, BTreeSet};

use crate::component::{Component, HostedCluster, Issued, MissingSecret, build};
use crate::object::{HostedObject, MANAGED_BY, MANAGER, NAME, Reference};

/// The annotation: `KIND/NAME` of every other object of the component, separated by commas, in the order of application.
/// Ours. A component that is its workload alone has none.
pub const INVENTORY: &str = "hosted.orangery.dev/inventory";

/// Annotations of an object as they are read.
type Annotations = BTreeMap<String, String>;

/// What the workload with these annotations lists. Nothing where it lists none, and nothing where one entry cannot be read:
/// the annotation is then of another version or another writer, and a half-understood list is no basis for deletions.
#[must_use]
pub fn inventory(workload: Option<&Annotations>) -> Vec<Reference> {
    let list = workload.and_then(|annotations| annotations.get(INVENTORY));
    let list = list.map(String::as_str).filter(|list| !list.is_empty());
    let read: Option<Vec<Reference>> = list
        .into_iter()
        .flat_map(|list| list.split(','))
        .map(Reference::read)
        .collect();
    read.unwrap_or_default()
}

/// What the `present` workload, whose annotations these are, lists and what is not in `wanted`, the result of [`build`]. Never
/// the workload itself, and nothing that the component has early.
///
/// To be deleted after all else of `wanted` has been applied and before the workload is: once the new workload is written,
/// nothing lists these any more.
#[must_use]
pub fn obsolete(present: Option<&Annotations>, wanted: &[HostedObject]) -> Vec<Reference> {
    let retained: BTreeSet<Reference> = wanted
        .iter()
        .flat_map(|object| {
            let listed = inventory(object.metadata().annotations.as_ref());
            listed.into_iter().chain([object.reference()])
        })
        .collect();
    let mut seen = BTreeSet::new();
    inventory(present)
        .into_iter()
        .filter(|one| !retained.contains(one) && seen.insert(one.clone()))
        .collect()
}

/// Whether an object with these labels was made for the component. What an annotation lists and has not these labels belongs
/// to another owner, whatever the annotation says: those who may change the workload, as webhooks of extensions may, could
/// otherwise have any object of the namespace deleted.
#[must_use]
pub fn bears_labels_of(component: &dyn Component, labels: Option<&BTreeMap<String, String>>) -> bool {
    let has = |key: &str, value: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .is_some_and(|label| label == value)
    };
    has(NAME, component.name()) && has(MANAGED_BY, MANAGER)
}

/// What goes with a component, in the order of deletion. Early objects are not among it: a later step deletes those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What only the present workload's annotations list: first, so that no interruption leaves it unlisted. To be deleted
    /// only where [`bears_labels_of`] finds it to be the component's.
    pub listed: Vec<Reference>,
    /// The workload, then its other objects, the last applied first.
    pub built: Vec<Reference>,
}

/// What goes with a component whose `present` workload has these annotations.
///
/// # Errors
/// When the component mounts a Secret that no table names; the tests hold that none does.
pub fn removal(
    component: &dyn Component,
    cluster: &HostedCluster,
    present: Option<&Annotations>,
) -> Result<Removal, MissingSecret> {
    let wanted = build(component, cluster, &Issued::imagined(component, cluster))?;
    Ok(Removal {
        listed: obsolete(present, &wanted),
        built: wanted.iter().rev().map(HostedObject::reference).collect(),
    })
}

/// Writes the annotation onto `workload`, with the references of everything else.
pub(crate) fn write(workload: &mut HostedObject, others: &[Reference]) {
    if others.is_empty() {
        return;
    }
    let list: Vec<String> = others.iter().map(ToString::to_string).collect();
    let annotations = workload.metadata_mut().annotations.get_or_insert_default();
    annotations.insert(INVENTORY.to_owned(), list.join(","));
}
