//! Tokens: good ones, those whose owner is deleted, and forged ones. Most are made from a good one by changing its claims and
//! signing it again.

use base_secrets::PrivateKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Case, Credential, Target};
use crate::Outcome;
use crate::real::ISSUER;

/// The namespace of all objects here.
const NAMESPACE: &str = "/api/v1/namespaces/credentials";
/// Where bootstrap tokens are.
const SYSTEM_SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
/// More than any server reads as a token.
const LONG_CHARS: usize = 20_000;
/// Seconds of an hour.
const HOUR: i64 = 3600;

pub(super) async fn cases(target: &mut Target<'_>) -> Outcome<Vec<Case>> {
    let namespace = json!({"metadata": {"name": "credentials"}});
    target.as_admin(Method::POST, "/api/v1/namespaces", &namespace).await?;
    account(target, "robot").await?;
    let good = token(target, "robot", &json!({})).await?;
    let other = token(target, "robot", &json!({"audiences": ["elsewhere"]})).await?;
    let mut cases = vec![
        ("a token", Credential::token(&good)),
        ("a token for another audience", Credential::token(&other)),
    ];
    cases.extend(deleted(target).await?);
    cases.extend(bootstrap(target).await?);
    let parts = Parts::of(&good)?;
    cases.extend(with_false_claims(target, &parts));
    cases.extend(forged(target, &parts, &good));
    cases.extend(schemes(&good));
    let expired = super::certificates::cases(target)?;
    let expired = expired.into_iter().find(|(title, _)| title.contains("has expired"));
    if let Some((_, expired)) = expired {
        let both = expired.with(AUTHORIZATION, format!("Bearer {good}"));
        cases.push(("a token beside a certificate that has expired", both));
    }
    Ok(cases)
}

async fn account(target: &mut Target<'_>, name: &str) -> Outcome {
    let path = format!("{NAMESPACE}/serviceaccounts");
    let account = json!({"metadata": {"name": name}});
    target.as_admin(Method::POST, &path, &account).await.map(drop)
}

async fn token(target: &mut Target<'_>, account: &str, spec: &Value) -> Outcome<String> {
    let path = format!("{NAMESPACE}/serviceaccounts/{account}/token");
    let made = target.as_admin(Method::POST, &path, &json!({"spec": spec})).await?;
    let token = made["status"]["token"].as_str().ok_or("a token was not given")?;
    Ok(token.to_owned())
}

async fn delete(target: &mut Target<'_>, path: &str) -> Outcome {
    let path = format!("{NAMESPACE}/{path}");
    target.as_admin(Method::DELETE, &path, &json!({})).await.map(drop)
}

/// A token of the account `robot` that is bound to an object.
async fn bound(target: &mut Target<'_>, kind: &str, plural: &str, object: &Value) -> Outcome<String> {
    let path = format!("{NAMESPACE}/{plural}");
    let made = target.as_admin(Method::POST, &path, object).await?;
    let reference = json!({
        "apiVersion": "v1", "kind": kind, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"],
    });
    token(target, "robot", &json!({"boundObjectRef": reference})).await
}

/// Tokens whose account or bound object is deleted or being deleted.
async fn deleted(target: &mut Target<'_>) -> Outcome<Vec<Case>> {
    let mut given = Vec::new();
    for name in ["deleted", "replaced"] {
        account(target, name).await?;
        given.push(token(target, name, &json!({})).await?);
        delete(target, &format!("serviceaccounts/{name}")).await?;
    }
    account(target, "replaced").await?;
    let pod = |name: &str, finalizers: &[&str]| {
        json!({
            "metadata": {"name": name, "finalizers": finalizers},
            "spec": {
                "serviceAccountName": "robot", "automountServiceAccountToken": false,
                "containers": [{"name": "a", "image": "x"}],
            },
        })
    };
    for (kind, plural, name, finalizers, deleted) in [
        ("Pod", "pods", "stays", &[][..], false),
        ("Pod", "pods", "goes", &[], true),
        ("Pod", "pods", "going", &["example.com/stays"], true),
        ("Secret", "secrets", "stays", &[], false),
        ("Secret", "secrets", "goes", &[], true),
    ] {
        let object = match kind {
            "Pod" => pod(name, finalizers),
            _ => json!({"metadata": {"name": name}}),
        };
        given.push(bound(target, kind, plural, &object).await?);
        if deleted {
            delete(target, &format!("{plural}/{name}")).await?;
        }
    }
    let titles = [
        "a token of an account that is deleted",
        "a token of an account that was made again",
        "a token bound to a pod",
        "a token bound to a pod that is deleted",
        "a token bound to a pod that is being deleted",
        "a token bound to a secret",
        "a token bound to a secret that is deleted",
    ];
    let cases = titles.into_iter().zip(given).map(|(title, token)| {
        let credential = Credential::token(&token);
        let is_revoked = title.ends_with("is deleted") || title.ends_with("made again");
        (title, if is_revoked { credential.revoked() } else { credential })
    });
    Ok(cases.collect())
}

/// Bootstrap tokens: bad ones of several kinds.
async fn bootstrap(target: &mut Target<'_>) -> Outcome<Vec<Case>> {
    const SECRET: &str = "0123456789abcdef";
    for (id, usage, expiration) in [
        ("aaaaaa", "true", "2999-01-01T00:00:00Z"),
        ("bbbbbb", "true", "2020-01-01T00:00:00Z"),
        ("cccccc", "false", "2999-01-01T00:00:00Z"),
    ] {
        let secret = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id, "token-secret": SECRET, "expiration": expiration,
                "usage-bootstrap-authentication": usage,
            },
        });
        target.as_admin(Method::POST, SYSTEM_SECRETS, &secret).await?;
    }
    let of = |id: &str, secret: &str| Credential::token(&format!("{id}.{secret}"));
    Ok(vec![
        ("a bootstrap token that has expired", of("bbbbbb", SECRET).revoked()),
        ("a bootstrap token for something else", of("cccccc", SECRET).revoked()),
        (
            "a bootstrap token with another secret",
            of("aaaaaa", "fedcba9876543210"),
        ),
        ("an unknown bootstrap token", of("zzzzzz", SECRET)),
    ])
}

/// A token in its parts.
struct Parts {
    header: Value,
    claims: Value,
    signature: String,
}

impl Parts {
    fn of(token: &str) -> Outcome<Self> {
        let parts: Vec<&str> = token.split('.').collect();
        let [header, claims, signature] = parts[..] else {
            return Err("a token has not three parts".to_owned());
        };
        let read = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|error| error.to_string())?;
            serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string())
        };
        Ok(Self {
            header: read(header)?,
            claims: read(claims)?,
            signature: signature.to_owned(),
        })
    }

    /// The signed part, with changes.
    fn encoded(&self, header: &Value, claims: &Value) -> String {
        let part = |was: &Value, change: &Value| {
            let mut now = was.clone();
            for (key, value) in change.as_object().into_iter().flatten() {
                now[key] = value.clone();
            }
            URL_SAFE_NO_PAD.encode(now.to_string())
        };
        format!("{}.{}", part(&self.header, header), part(&self.claims, claims))
    }
}

fn signed(content: &str, key: &PrivateKey) -> Credential {
    let signature = URL_SAFE_NO_PAD.encode(key.sign_es256(content.as_bytes()));
    Credential::token(&format!("{content}.{signature}"))
}

/// Tokens that the right key has signed, with false claims.
fn with_false_claims(target: &Target<'_>, parts: &Parts) -> Vec<Case> {
    let now = target.clock.now().as_second();
    let none = json!({});
    let change = |claims: Value| signed(&parts.encoded(&none, &claims), &target.pki.accounts);
    let private = |key: &str, value: Value| {
        let mut private = parts.claims["kubernetes.io"].clone();
        private[key] = value;
        json!({"kubernetes.io": private})
    };
    let other = json!({"name": "other", "uid": "u"});
    vec![
        (
            "a token that has expired",
            change(json!({"exp": now - HOUR, "nbf": now - 2 * HOUR})),
        ),
        (
            "a token that is not valid yet",
            change(json!({"nbf": now + HOUR, "exp": now + 2 * HOUR})),
        ),
        (
            "a token of another issuer",
            change(json!({"iss": "https://issuer.example.com"})),
        ),
        ("a token without an issuer", change(json!({"iss": null}))),
        ("a token without an end", change(json!({"exp": null}))),
        ("a token without an audience", change(json!({"aud": null}))),
        ("a token whose audience is one text", change(json!({"aud": ISSUER}))),
        (
            "a token with the subject of another account",
            change(json!({"sub": "system:serviceaccount:kube-system:root"})),
        ),
        (
            "a token without what Kubernetes says of itself",
            change(json!({"kubernetes.io": null})),
        ),
        (
            "a token of another account",
            change(private("serviceaccount", other.clone())),
        ),
        (
            "a token of another namespace",
            change(private("namespace", "default".into())),
        ),
        ("a token bound to a pod that never was", change(private("pod", other))),
    ]
}

/// Tokens whose format or signature is wrong.
fn forged(target: &Target<'_>, parts: &Parts, good: &str) -> Vec<Case> {
    let (own, foreign) = (&target.pki.accounts, PrivateKey::generate(&target.entropy));
    let now = target.clock.now().as_second();
    let none = json!({});
    let with_old_signature = |content: String| Credential::token(&format!("{content}.{}", parts.signature));
    let foreign_kid = json!({"kid": foreign.public().key_id()});
    vec![
        (
            "a token signed by a foreign key",
            signed(&parts.encoded(&foreign_kid, &none), &foreign),
        ),
        (
            "a token signed by a foreign key under our key's name",
            signed(&parts.encoded(&none, &none), &foreign),
        ),
        (
            "a token that names no key",
            signed(&parts.encoded(&json!({"kid": null}), &none), own),
        ),
        (
            "a token that names an unknown key",
            signed(&parts.encoded(&json!({"kid": "k"}), &none), own),
        ),
        (
            "a token that says something else than was signed",
            with_old_signature(parts.encoded(&none, &json!({"exp": now + 99 * HOUR}))),
        ),
        (
            "a token without an algorithm",
            Credential::token(&format!("{}.", parts.encoded(&json!({"alg": "none"}), &none))),
        ),
        (
            "a token of no algorithm that is signed",
            with_old_signature(parts.encoded(&json!({"alg": "none"}), &none)),
        ),
        (
            "a token of another algorithm",
            signed(&parts.encoded(&json!({"alg": "HS256"}), &none), own),
        ),
        (
            "a token without its signature",
            Credential::token(&parts.encoded(&none, &none)),
        ),
        ("a token of four parts", Credential::token(&format!("{good}.a"))),
        (
            "half a token",
            Credential::token(good.get(..good.len() / 2).unwrap_or_default()),
        ),
        ("a token of nonsense", Credential::token("nonsense")),
        ("a token of dots", Credential::token("..")),
        (
            "a token that is very long",
            Credential::token(&"a.".repeat(LONG_CHARS / 2)),
        ),
    ]
}

/// What stands before a token, and around it.
fn schemes(good: &str) -> Vec<Case> {
    vec![
        (
            "a token behind a scheme in small letters",
            Credential::authorization(format!("bearer {good}")),
        ),
        (
            "a token behind two blanks",
            Credential::authorization(format!("Bearer  {good}")),
        ),
        (
            "a token with a blank behind it",
            Credential::authorization(format!("Bearer {good} more")),
        ),
        ("a scheme without a token", Credential::authorization("Bearer")),
        ("a scheme and a blank", Credential::authorization("Bearer ")),
        ("a token without a scheme", Credential::authorization(good)),
        ("another scheme", Credential::authorization("Basic YTpi")),
        (
            "nonsense before a token",
            Credential::authorization("Bearer nonsense").with(AUTHORIZATION, format!("Bearer {good}")),
        ),
        (
            "nonsense behind a token",
            Credential::token(good).with(AUTHORIZATION, "Bearer nonsense"),
        ),
    ]
}
