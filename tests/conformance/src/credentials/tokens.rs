//! Tokens: good ones, those whose owner is gone, and forged ones. Most are made from a good one by changing what it says
//! and signing it again.

use base_secrets::PrivateKey;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::{Case, Party, Shown};
use crate::Outcome;
use crate::real::ISSUER;

/// Where all of it is made.
const NAMESPACE: &str = "/api/v1/namespaces/credentials";
/// Where bootstrap tokens are.
const SYSTEM_SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
/// More than any server reads as a token.
const LONG_CHARS: usize = 20_000;
/// Seconds of an hour.
const HOUR: i64 = 3600;

pub(super) async fn cases(party: &mut Party<'_>) -> Outcome<Vec<Case>> {
    let namespace = json!({"metadata": {"name": "credentials"}});
    party.order(Method::POST, "/api/v1/namespaces", &namespace).await?;
    account(party, "robot").await?;
    let good = token(party, "robot", &json!({})).await?;
    let other = token(party, "robot", &json!({"audiences": ["elsewhere"]})).await?;
    let mut cases = vec![
        ("a token", Shown::token(&good)),
        ("a token for another audience", Shown::token(&other)),
    ];
    cases.extend(gone(party).await?);
    cases.extend(bootstrap(party).await?);
    let parts = Parts::of(&good)?;
    cases.extend(untrue(party, &parts));
    cases.extend(forged(party, &parts, &good));
    cases.extend(schemes(&good));
    let expired = super::certificates::cases(party)?;
    let expired = expired.into_iter().find(|(title, _)| title.contains("has expired"));
    if let Some((_, expired)) = expired {
        let both = expired.with(AUTHORIZATION, format!("Bearer {good}"));
        cases.push(("a token beside a certificate that has expired", both));
    }
    Ok(cases)
}

async fn account(party: &mut Party<'_>, name: &str) -> Outcome {
    let path = format!("{NAMESPACE}/serviceaccounts");
    let account = json!({"metadata": {"name": name}});
    party.order(Method::POST, &path, &account).await.map(drop)
}

async fn token(party: &mut Party<'_>, account: &str, spec: &Value) -> Outcome<String> {
    let path = format!("{NAMESPACE}/serviceaccounts/{account}/token");
    let made = party.order(Method::POST, &path, &json!({"spec": spec})).await?;
    let token = made["status"]["token"].as_str().ok_or("a token was not given")?;
    Ok(token.to_owned())
}

async fn delete(party: &mut Party<'_>, path: &str) -> Outcome {
    let path = format!("{NAMESPACE}/{path}");
    party.order(Method::DELETE, &path, &json!({})).await.map(drop)
}

/// A token of the account `robot` that dies with an object.
async fn bound(party: &mut Party<'_>, kind: &str, plural: &str, object: &Value) -> Outcome<String> {
    let path = format!("{NAMESPACE}/{plural}");
    let made = party.order(Method::POST, &path, object).await?;
    let reference = json!({
        "apiVersion": "v1", "kind": kind, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"],
    });
    token(party, "robot", &json!({"boundObjectRef": reference})).await
}

/// Those whose owner, or what they are bound to, is gone or going.
async fn gone(party: &mut Party<'_>) -> Outcome<Vec<Case>> {
    let mut given = Vec::new();
    for name in ["deleted", "replaced"] {
        account(party, name).await?;
        given.push(token(party, name, &json!({})).await?);
        delete(party, &format!("serviceaccounts/{name}")).await?;
    }
    account(party, "replaced").await?;
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
        given.push(bound(party, kind, plural, &object).await?);
        if deleted {
            delete(party, &format!("{plural}/{name}")).await?;
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
        let shown = Shown::token(&token);
        let is_dead = title.ends_with("is deleted") || title.ends_with("made again");
        (title, if is_dead { shown.dead() } else { shown })
    });
    Ok(cases.collect())
}

/// Bootstrap tokens: a good one, and those that are not.
async fn bootstrap(party: &mut Party<'_>) -> Outcome<Vec<Case>> {
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
        party.order(Method::POST, SYSTEM_SECRETS, &secret).await?;
    }
    let of = |id: &str, secret: &str| Shown::token(&format!("{id}.{secret}"));
    Ok(vec![
        ("a bootstrap token that has expired", of("bbbbbb", SECRET).dead()),
        ("a bootstrap token for something else", of("cccccc", SECRET).dead()),
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

    /// What is signed, with some of it changed.
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

fn signed(content: &str, key: &PrivateKey) -> Shown {
    let signature = URL_SAFE_NO_PAD.encode(key.sign_es256(content.as_bytes()));
    Shown::token(&format!("{content}.{signature}"))
}

/// Those that the key has signed, and whose claims are not true.
fn untrue(party: &Party<'_>, parts: &Parts) -> Vec<Case> {
    let now = party.clock.now().as_second();
    let none = json!({});
    let change = |claims: Value| signed(&parts.encoded(&none, &claims), &party.pki.accounts);
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

/// Those whose form or signature is wrong.
fn forged(party: &Party<'_>, parts: &Parts, good: &str) -> Vec<Case> {
    let (own, foreign) = (&party.pki.accounts, PrivateKey::generate(&party.entropy));
    let now = party.clock.now().as_second();
    let none = json!({});
    let with_old_signature = |content: String| Shown::token(&format!("{content}.{}", parts.signature));
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
            Shown::token(&format!("{}.", parts.encoded(&json!({"alg": "none"}), &none))),
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
            Shown::token(&parts.encoded(&none, &none)),
        ),
        ("a token of four parts", Shown::token(&format!("{good}.a"))),
        (
            "half a token",
            Shown::token(good.get(..good.len() / 2).unwrap_or_default()),
        ),
        ("a token of nonsense", Shown::token("nonsense")),
        ("a token of dots", Shown::token("..")),
        ("a token that is very long", Shown::token(&"a.".repeat(LONG_CHARS / 2))),
    ]
}

/// What stands before a token, and around it.
fn schemes(good: &str) -> Vec<Case> {
    vec![
        (
            "a token behind a scheme in small letters",
            Shown::authorization(format!("bearer {good}")),
        ),
        (
            "a token behind two blanks",
            Shown::authorization(format!("Bearer  {good}")),
        ),
        (
            "a token with a blank behind it",
            Shown::authorization(format!("Bearer {good} more")),
        ),
        ("a scheme without a token", Shown::authorization("Bearer")),
        ("a scheme and a blank", Shown::authorization("Bearer ")),
        ("a token without a scheme", Shown::authorization(good)),
        ("another scheme", Shown::authorization("Basic YTpi")),
        (
            "nonsense before a token",
            Shown::authorization("Bearer nonsense").with(AUTHORIZATION, format!("Bearer {good}")),
        ),
        (
            "nonsense behind a token",
            Shown::token(good).with(AUTHORIZATION, "Bearer nonsense"),
        ),
    ]
}
