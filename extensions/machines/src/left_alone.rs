//! Machine classes whose machines the controllers leave alone: a shoot moves to another seed, or has come and is not yet whole.
//! An annotation of ours on the class, so that the standstill outlives the process.

use api_machine::MachineClass;
use api_meta::Fault;
use base_client::patch_changed;
use kube::{Api, ResourceExt};

/// Annotation on a MachineClass: no controller of ours works on its machines, sets and deployments.
pub(crate) const LEFT_ALONE_ANNOTATION: &str = "machines.orangery.dev/left-alone";

/// Whether machines of the class are left alone.
pub(crate) fn is_left_alone(class: &MachineClass) -> bool {
    class.annotations().contains_key(LEFT_ALONE_ANNOTATION)
}

/// Has machines of the class left alone, with the reason as the annotation's value; or no longer, for none.
pub(crate) async fn leave_alone(
    api: &Api<MachineClass>,
    class: &MachineClass,
    reason: Option<&str>,
) -> Result<(), Fault> {
    let mut after = class.clone();
    match reason {
        Some(reason) => {
            let annotations = after.annotations_mut();
            annotations.insert(LEFT_ALONE_ANNOTATION.to_owned(), reason.to_owned());
        }
        None => drop(after.annotations_mut().remove(LEFT_ALONE_ANNOTATION)),
    }
    if is_left_alone(class) == is_left_alone(&after) {
        return Ok(());
    }
    patch_changed(api, class, &after).await.map(drop)
}
