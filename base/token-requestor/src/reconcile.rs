//! One reconcile of one Secret: apply the ServiceAccount, validate the token, request another, write it.

use api_meta::Fault;
use api_meta::names::SERVICE_ACCOUNT_USER_PREFIX;
use base_client::{add_finalizer, apply, fault_of, get, has_finalizer, patch_changed, remove_finalizer};
use base_controller::{Next, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{
    TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec, TokenReviewStatus,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;

use crate::clean_up::remove_account;
use crate::wanted::{Wanted, annotation};
use crate::{Context, content};

/// Our field manager.
const MANAGER: &str = "token-requestor";
/// Keeps a Secret until its ServiceAccount is deleted.
pub(crate) const FINALIZER: &str = "resources.gardener.cloud/token-requestor";
/// The longest life of a token that a renewal counts on, whatever the target grants (upstream's bound).
const LIFE_MAX: SignedDuration = SignedDuration::from_hours(24);
/// A token is renewed when this much of its life has passed.
const RENEW_PERCENT: i32 = 80;
/// The ConfigMap that Kubernetes puts into every namespace, and its key.
const ROOT_CA: (&str, &str) = ("kube-root-ca.crt", "ca.crt");

pub(crate) async fn reconcile(secret: &Secret, context: &Context) -> Result<Next, Fault> {
    let api = api(secret, context);
    if secret.metadata.deletion_timestamp.is_some() {
        if has_finalizer(secret, FINALIZER) {
            remove_account(secret, None, context).await?;
            remove_finalizer(&api, secret.clone(), FINALIZER).await?;
        }
        return Ok(Next::Change);
    }
    let wanted = Wanted::of(secret, &context.options)?;
    let secret = match context.options.namespace {
        None => &add_finalizer(&api, secret.clone(), FINALIZER).await?,
        Some(_) => secret,
    };
    context
        .accounts
        .watch(wanted.account.namespace.as_deref().unwrap_or_default());
    apply_account(&wanted, context).await?;
    let bundle = ca_bundle(&wanted, context).await?;
    let target_secret = read_target_secret(&wanted, context).await?;
    let there = match &wanted.target_secret {
        Some(_) => target_secret.as_ref(),
        None => Some(secret),
    };
    let now = context.clock.now();
    if let (Some(there), Some(renew)) = (there, wanted.renew.filter(|renew| *renew > now))
        && is_good(there, &wanted, bundle.as_deref(), context).await?
    {
        return Ok(Next::After(context.clock.until(renew)));
    }
    let (token, expires) = request_token(&wanted, context).await?;
    let renew = renewal(context.clock.now(), expires);
    write(
        secret,
        target_secret,
        &wanted,
        (&token, bundle.as_deref()),
        renew,
        context,
    )
    .await?;
    Ok(Next::After(context.clock.until(renew)))
}

/// When to renew a token that ends at `expires`; whole seconds, as the annotation has no more.
fn renewal(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now).clamp(SignedDuration::ZERO, LIFE_MAX);
    let unrenewed = SignedDuration::from_secs((life * RENEW_PERCENT / 100).as_secs());
    let renewal = now.checked_add(unrenewed).unwrap_or(now);
    Timestamp::from_second(renewal.as_second()).unwrap_or(renewal)
}

pub(crate) fn api(secret: &Secret, context: &Context) -> Api<Secret> {
    Api::namespaced(
        context.source.clone(),
        secret.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

pub(crate) fn accounts(account: &ObjectKey, context: &Context) -> Api<ServiceAccount> {
    Api::namespaced(context.target.clone(), account.namespace.as_deref().unwrap_or_default())
}

async fn apply_account(wanted: &Wanted, context: &Context) -> Result<(), Fault> {
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(wanted.account.name.clone()),
            namespace: wanted.account.namespace.clone(),
            labels: (!wanted.labels.is_empty()).then(|| wanted.labels.clone()),
            ..ObjectMeta::default()
        },
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    };
    apply(&accounts(&wanted.account, context), &account, MANAGER)
        .await
        .map(drop)
}

/// The authorities that go beside the token, if the Secret requests them.
async fn ca_bundle(wanted: &Wanted, context: &Context) -> Result<Option<String>, Fault> {
    if !wanted.ca_bundle {
        return Ok(None);
    }
    if let Some(bundle) = &context.options.ca_bundle {
        return Ok(Some(bundle.clone()));
    }
    let (name, key) = ROOT_CA;
    let namespace = wanted.account.namespace.as_deref().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(context.target.clone(), namespace);
    let bundle = get(&maps, name).await?.and_then(|map| map.data?.remove(key));
    let missing = || {
        Fault::dependency(format!(
            "the target has no authorities in ConfigMap \"{namespace}/{name}\""
        ))
        .hint("see whether the target's kube-controller-manager runs")
    };
    bundle.map(Some).ok_or_else(missing)
}

/// The Secret of the target that the token goes to, if one is named and there.
async fn read_target_secret(wanted: &Wanted, context: &Context) -> Result<Option<Secret>, Fault> {
    match &wanted.target_secret {
        Some(key) => get(&target_secrets(key, context), &key.name).await,
        None => Ok(None),
    }
}

fn target_secrets(key: &ObjectKey, context: &Context) -> Api<Secret> {
    Api::namespaced(context.target.clone(), key.namespace.as_deref().unwrap_or_default())
}

/// Whether the target accepts the token that is there as one of the ServiceAccount, and the authorities are those that are
/// wanted. Only the target knows: its keys or the ServiceAccount may have been replaced.
async fn is_good(there: &Secret, wanted: &Wanted, bundle: Option<&str>, context: &Context) -> Result<bool, Fault> {
    let data = there.data.clone().unwrap_or_default();
    let Some(token) = content::token(&data)? else {
        return Ok(false);
    };
    if let Some(bundle) = bundle
        && !content::has_ca_bundle(&data, bundle)?
    {
        return Ok(false);
    }
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token),
            audiences: None,
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(context.target.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(|error| fault_of(error, "have the token reviewed by the target"))?;
    let ObjectKey { namespace, name } = &wanted.account;
    let namespace = namespace.as_deref().unwrap_or_default();
    let user = format!("{SERVICE_ACCOUNT_USER_PREFIX}{namespace}:{name}");
    let is_user = |status: TokenReviewStatus| status.user.is_some_and(|found| found.username == Some(user));
    Ok(answer
        .status
        .is_some_and(|status| status.authenticated == Some(true) && is_user(status)))
}

async fn request_token(wanted: &Wanted, context: &Context) -> Result<(String, Timestamp), Fault> {
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: i64::try_from(wanted.life.as_secs()).ok(),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let doing = format!("request a token for ServiceAccount \"{}\"", wanted.account);
    let (api, params) = (accounts(&wanted.account, context), PostParams::default());
    let answer = api.create_token_request(&wanted.account.name, &params, &request);
    let answer = answer.await.map_err(|error| fault_of(error, &doing))?;
    let status = answer
        .status
        .ok_or_else(|| Fault::transient(format!("{doing}: the answer is empty")))?;
    Ok((status.token, status.expiration_timestamp.0))
}

/// Writes the token first and then when it is to be renewed: what fails in between is done again.
async fn write(
    secret: &Secret,
    target_secret: Option<Secret>,
    wanted: &Wanted,
    (token, bundle): (&str, Option<&str>),
    renew: Timestamp,
    context: &Context,
) -> Result<(), Fault> {
    let mut after = secret.clone();
    let data = after.data.get_or_insert_default();
    match &wanted.target_secret {
        Some(key) => {
            write_target_secret(key, target_secret, (token, bundle), context).await?;
            content::clear(data);
        }
        None => content::put(data, token, bundle)?,
    }
    let annotations = after.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::RENEW.to_owned(), renew.to_string());
    patch_changed(&api(secret, context), secret, &after).await.map(drop)
}

async fn write_target_secret(
    key: &ObjectKey,
    there: Option<Secret>,
    (token, bundle): (&str, Option<&str>),
    context: &Context,
) -> Result<(), Fault> {
    let api = target_secrets(key, context);
    if let Some(before) = there {
        let mut after = before.clone();
        content::put(after.data.get_or_insert_default(), token, bundle)?;
        return patch_changed(&api, &before, &after).await.map(drop);
    }
    let mut new = Secret {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: key.namespace.clone(),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
    content::put(new.data.get_or_insert_default(), token, bundle)?;
    let created = api.create(&PostParams::default(), &new).await;
    created
        .map(drop)
        .map_err(|error| fault_of(error, &format!("create Secret \"{key}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_at_80_percent_of_its_life_within_a_day() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |hours: i64| renewal(now, now + SignedDuration::from_hours(hours)).to_string();
        assert_eq!(after(1), "2026-01-01T00:48:00Z");
        assert_eq!(after(12), "2026-01-01T09:36:00Z");
        assert_eq!(after(1000), "2026-01-01T19:12:00Z");
        assert_eq!(after(-1), "2026-01-01T00:00:00Z");
    }
}
