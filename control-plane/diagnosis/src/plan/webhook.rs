//! What a webhook that stands in the way asks for, and of whom.

use api_meta::WebhookFailure;
use control_plane_readiness::{Webhook, webhook_of};

/// One thing to do about it. `known`: the webhooks of the cluster it is in.
pub(super) fn to_do(failure: &WebhookFailure, known: &[Webhook]) -> String {
    let name = &failure.name;
    match (failure.has_answered, webhook_of(known, failure)) {
        (true, _) => format!("correct what webhook {name} objects to; its message is whole above"),
        (false, Some(webhook)) => webhook.to_do(),
        (false, None) => format!("fix the program that serves webhook {name}: it does not answer"),
    }
}

/// Who serves it.
pub(super) fn who(failure: &WebhookFailure, known: &[Webhook]) -> String {
    webhook_of(known, failure).map_or_else(|| format!("webhook {}", failure.name), Webhook::title)
}
