//! Admission of a deletion: mutating webhooks are called as well as validating ones, and none can change anything.

use serde_json::Value;

use crate::admission::attributes::{AdmissionAttributes, AdmissionOperation};
use crate::admission::mutating::Rounds;
use crate::admission::outcome::with_warnings;
use crate::admission::selection::is_exempt;
use crate::admission::validating::validate;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Admits the deletion of one object, with the options of the request. Returns warnings for the client. A deletion by an
/// eviction was admitted as the eviction.
pub(crate) async fn review_deletion(
    context: &Context,
    old: &Value,
    options: Value,
    dry_run: bool,
) -> Result<Vec<String>, Status> {
    let hooks = context.server.admission.hooks();
    let Some(hooks) = hooks.filter(|_| context.subresource().is_none()) else {
        return Ok(Vec::new());
    };
    let attributes = AdmissionAttributes::new(context, AdmissionOperation::Delete, context.name(), dry_run, options);
    if is_exempt(&attributes) {
        return Ok(Vec::new());
    }
    let shown = attributes.in_version_of_request(old).await?;
    let mut rounds = Rounds::new(&hooks, &attributes, Some(&shown));
    let outcome = rounds.run_deletion().await;
    let mut warnings = rounds.warnings;
    let outcome = match outcome {
        Ok(()) => validate(&hooks, &attributes, (None, Some(&shown)), &mut warnings).await,
        refused => refused,
    };
    with_warnings(outcome, warnings)
}
