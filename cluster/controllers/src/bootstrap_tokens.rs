//! Bootstrap tokens that have expired are deleted. Whether a token is valid is the API server's decision.
//! After kubernetes v1.35 `pkg/controller/bootstrap/tokencleaner.go`.

use std::sync::Arc;

use api_meta::Fault;
use base_client::delete;
use base_controller::{Controller, Next};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;

/// The type of the Secrets that hold tokens.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The key of the end of a token's life.
const EXPIRATION: &str = "expiration";

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    let controller = Controller::new("tokencleaner", context.caches.bootstrap_tokens())
        // A server that does not select by type shows other Secrets too.
        .only(|secret| secret.type_.as_deref() == Some(TYPE));
    controller
        .run(stop, move |secret| reconcile(secret, context.clone()))
        .await;
}

/// When the token ends; none when it never does. One with an unreadable time ends now.
fn expires_at(secret: &Secret) -> Option<Timestamp> {
    let text = &secret.data.as_ref()?.get(EXPIRATION)?.0;
    Some(
        std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(Timestamp::UNIX_EPOCH),
    )
}

async fn reconcile(secret: Arc<Secret>, context: Context) -> Result<Next, Fault> {
    let Some(at) = expires_at(&secret) else {
        return Ok(Next::Change);
    };
    let left = context.clock.until(at);
    if !left.is_zero() {
        return Ok(Next::After(left));
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &secret.namespace().unwrap_or_default());
    delete(&api, &secret.name_any()).await?;
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn tokens_end_at_their_expiration_and_unreadable_ones_at_once() {
        let of = |data: Value| expires_at(&serde_json::from_value(json!({"data": data})).unwrap());
        assert_eq!(of(json!({})), None);
        assert_eq!(
            of(json!({"expiration": "MjAyNi0wMS0wMVQwMDowMDowMFo="})),
            Some("2026-01-01T00:00:00Z".parse().unwrap())
        );
        assert_eq!(of(json!({"expiration": "bmV2ZXI="})), Some(Timestamp::UNIX_EPOCH));
    }
}
