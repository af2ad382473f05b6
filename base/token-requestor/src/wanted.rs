//! What a Secret requests, by its annotations. Pure; no code reads the annotations after this.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Classified, FaultClass, GoDuration};
use base_controller::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use crate::Options;

/// Names of the wire (gardener/gardener v1.150 pkg/apis/resources/v1alpha1/types.go).
pub(crate) mod annotation {
    pub(crate) const ACCOUNT_NAME: &str = "serviceaccount.resources.gardener.cloud/name";
    pub(crate) const ACCOUNT_NAMESPACE: &str = "serviceaccount.resources.gardener.cloud/namespace";
    pub(crate) const ACCOUNT_LABELS: &str = "serviceaccount.resources.gardener.cloud/labels";
    pub(crate) const EXPIRATION: &str = "serviceaccount.resources.gardener.cloud/token-expiration-duration";
    pub(crate) const RENEW: &str = "serviceaccount.resources.gardener.cloud/token-renew-timestamp";
    pub(crate) const INJECT_CA_BUNDLE: &str = "serviceaccount.resources.gardener.cloud/inject-ca-bundle";
    pub(crate) const SKIP_DELETION: &str = "serviceaccount.resources.gardener.cloud/skip-deletion";
    pub(crate) const TARGET_NAME: &str = "token-requestor.resources.gardener.cloud/target-secret-name";
    pub(crate) const TARGET_NAMESPACE: &str = "token-requestor.resources.gardener.cloud/target-secret-namespace";
}

/// How long a token lives when the Secret does not say (upstream's default).
const LIFE_DEFAULT: Duration = Duration::from_secs(12 * 3600);
/// The shortest life that Kubernetes grants.
const LIFE_MIN: Duration = Duration::from_secs(600);

/// The ServiceAccount that a Secret names, whether or not the rest of its request can be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The ServiceAccount in the target.
    pub(crate) account: ObjectKey,
    /// Whether it outlives the Secret.
    pub(crate) keep: bool,
}

/// What a Secret requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The ServiceAccount in the target.
    pub(crate) account: ObjectKey,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// How long a token is to live.
    pub(crate) life: Duration,
    /// When the token that is there is to be renewed; none when there is no token yet.
    pub(crate) renew: Option<Timestamp>,
    /// Whether the target's authorities go beside the token.
    pub(crate) ca_bundle: bool,
    /// The Secret of the target that the token goes to, in place of the requesting one.
    pub(crate) target_secret: Option<ObjectKey>,
}

/// An annotation that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation} {problem}")]
pub(crate) struct WantedError {
    annotation: &'static str,
    problem: &'static str,
}

impl Classified for WantedError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        "correct the named annotation of the Secret".to_owned()
    }
}

/// An annotation's value; an empty one is as good as none.
fn given<'a>(secret: &'a Secret, annotation: &str) -> Option<&'a str> {
    let value = secret.metadata.annotations.as_ref()?.get(annotation)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

/// Whether the ServiceAccount outlives the Secret or its request.
pub(crate) fn keeps_account(secret: &Secret) -> bool {
    given(secret, annotation::SKIP_DELETION) == Some("true")
}

fn wrong(annotation: &'static str, problem: &'static str) -> WantedError {
    WantedError { annotation, problem }
}

impl Named {
    pub(crate) fn by(secret: &Secret, options: &Options) -> Result<Self, WantedError> {
        let required = |annotation| given(secret, annotation).ok_or_else(|| wrong(annotation, "is missing"));
        let namespace = match &options.account_namespace {
            Some(namespace) => namespace,
            None => required(annotation::ACCOUNT_NAMESPACE)?,
        };
        Ok(Self {
            account: ObjectKey::namespaced(namespace, required(annotation::ACCOUNT_NAME)?),
            keep: keeps_account(secret),
        })
    }
}

impl Wanted {
    pub(crate) fn of(secret: &Secret, options: &Options) -> Result<Self, WantedError> {
        let given = |annotation: &str| given(secret, annotation);
        let labels = given(annotation::ACCOUNT_LABELS).map_or(Ok(BTreeMap::new()), |text| {
            serde_json::from_str(text).map_err(|_| wrong(annotation::ACCOUNT_LABELS, "is no JSON object of texts"))
        })?;
        let life = given(annotation::EXPIRATION).map_or(Ok(LIFE_DEFAULT), |text| {
            let life = text.parse::<GoDuration>().map(GoDuration::to_std);
            life.map_err(|_| wrong(annotation::EXPIRATION, "is no duration such as 12h"))
        })?;
        if life < LIFE_MIN {
            return Err(wrong(
                annotation::EXPIRATION,
                "is below 10m, the least that Kubernetes grants",
            ));
        }
        // One that cannot be read is replaced with the token.
        let renew = given(annotation::RENEW).and_then(|text| text.parse().ok());
        let target_secret = given(annotation::TARGET_NAME)
            .zip(given(annotation::TARGET_NAMESPACE))
            .map(|(name, namespace)| ObjectKey::namespaced(namespace, name));
        Ok(Self {
            account: Named::by(secret, options)?.account,
            labels,
            life,
            renew,
            ca_bundle: given(annotation::INJECT_CA_BUNDLE) == Some("true"),
            target_secret,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(annotations: &[(&str, &str)]) -> Secret {
        let mut secret = Secret::default();
        let pairs = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        secret.metadata.annotations = Some(pairs.collect());
        secret
    }

    const ACCOUNT: [(&str, &str); 2] = [(annotation::ACCOUNT_NAME, "a"), (annotation::ACCOUNT_NAMESPACE, "n")];

    fn with(more: &[(&str, &str)]) -> Result<Wanted, WantedError> {
        Wanted::of(&secret(&[&ACCOUNT, more].concat()), &Options::default())
    }

    #[test]
    fn only_name_and_namespace_are_required() {
        let wanted = with(&[]).unwrap();
        assert_eq!(
            (
                wanted.account.to_string(),
                wanted.life,
                wanted.renew,
                wanted.ca_bundle,
                wanted.target_secret
            ),
            ("n/a".to_owned(), LIFE_DEFAULT, None, false, None)
        );
        let all = with(&[
            (annotation::ACCOUNT_LABELS, r#"{"a":"b"}"#),
            (annotation::EXPIRATION, "1h30m"),
            (annotation::RENEW, "2026-01-01T00:00:00Z"),
            (annotation::TARGET_NAME, "t"),
            (annotation::TARGET_NAMESPACE, "tn"),
        ])
        .unwrap();
        assert_eq!((all.labels["a"].as_str(), all.life.as_secs()), ("b", 5400));
        assert_eq!(
            (all.renew.is_some(), all.target_secret),
            (true, Some(ObjectKey::namespaced("tn", "t")))
        );
    }

    #[test]
    fn an_annotation_that_cannot_be_followed_is_named() {
        let error = |more: &[(&str, &str)]| with(more).unwrap_err().to_string();
        let expiration = annotation::EXPIRATION;
        assert_eq!(
            error(&[(expiration, "soon")]),
            format!("annotation {expiration} is no duration such as 12h")
        );
        assert!(error(&[(expiration, "5m")]).ends_with("is below 10m, the least that Kubernetes grants"));
        assert!(error(&[(annotation::ACCOUNT_LABELS, "a=b")]).ends_with("is no JSON object of texts"));
        let nameless = Wanted::of(&secret(&ACCOUNT[1..]), &Options::default()).unwrap_err();
        assert_eq!(
            nameless.to_string(),
            format!("annotation {} is missing", annotation::ACCOUNT_NAME)
        );
    }

    #[test]
    fn a_fixed_namespace_overrules_the_annotation() {
        let fixed = Options {
            account_namespace: Some("fixed".to_owned()),
            ..Options::default()
        };
        for annotations in [&ACCOUNT[..], &ACCOUNT[..1]] {
            let wanted = Wanted::of(&secret(annotations), &fixed).unwrap();
            assert_eq!(wanted.account.to_string(), "fixed/a");
        }
    }
}
