//! The bootstrap token of a worker pool: a Secret in the shoot that lets machines request a node's certificate, and
//! nothing else. One per pool; its life is prolonged by each reconcile, and it dies with the pool's last one.

use std::time::Duration;

use api_meta::{Fault, annotations};
use base_client::{apply, get};
use base_secrets::{BootstrapToken, SecretText, text_of};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};

use super::super::super::operation::Operation;
use crate::context::MANAGER;

/// Long enough for machines to be replaced between two reconciles, with a day of our own absence.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// Not rewritten while it is valid for longer than this.
const RENEW_BELOW: Duration = Duration::from_secs(12 * 3600);

/// The pool's token, made or prolonged as needed.
pub(crate) async fn ensure(op: &Operation, shoot: &kube::Client, pool: &str) -> Result<BootstrapToken, Fault> {
    let api: Api<Secret> = Api::namespaced(shoot.clone(), "kube-system");
    let fresh = BootstrapToken::with_id(&id_of(pool), &op.context.entropy)
        .map_err(|error| Fault::bug(error).hint("report it: the id of a bootstrap token is malformed"))?;
    let present = get(&api, &fresh.secret_name()).await?;
    let now = op.context.clock.now();
    let known = present.as_ref().and_then(read);
    let expires = present
        .as_ref()
        .and_then(|secret| text_of(secret, "expiration").ok())
        .and_then(|text| text.expose().parse::<jiff::Timestamp>().ok());
    let long_enough = expires.is_some_and(|at| op.context.clock.until(at) > RENEW_BELOW);
    if let Some(token) = known.clone().filter(|_| long_enough) {
        return Ok(token);
    }
    let token = known.unwrap_or(fresh);
    let until = now.checked_add(VALIDITY).unwrap_or(jiff::Timestamp::MAX);
    let mut secret = token.to_secret(&format!("lets machines of worker pool {pool} join"), until, &[]);
    secret
        .annotations_mut()
        .insert(annotations::DESCRIPTION.to_owned(), "managed by gardenlet".to_owned());
    apply(&api, &secret, MANAGER).await?;
    Ok(token)
}

fn read(secret: &Secret) -> Option<BootstrapToken> {
    let part = |key: &str| -> Option<SecretText> { text_of(secret, key).ok() };
    BootstrapToken::parse(&format!(
        "{}.{}",
        part("token-id")?.expose(),
        part("token-secret")?.expose()
    ))
    .ok()
}

/// Six of `[a-z0-9]`, the same for the same pool.
fn id_of(pool: &str) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    Sha256::digest(pool)
        .iter()
        .take(6)
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;

    use super::*;

    #[test]
    fn a_pools_token_keeps_its_id_and_can_be_read_back() {
        assert_eq!(id_of("pool-a"), id_of("pool-a"));
        assert_ne!(id_of("pool-a"), id_of("pool-b"));
        let token = BootstrapToken::with_id(&id_of("pool-a"), &Entropy::seeded(1)).unwrap();
        let secret = token.to_secret("d", "2026-01-01T00:00:00Z".parse().unwrap(), &[]);
        assert_eq!(read(&secret), Some(token));
    }
}
