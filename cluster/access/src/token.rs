//! Service account tokens: JSON Web Tokens signed with ES256, claims as kube-apiserver's
//! (kubernetes/kubernetes v1.35 pkg/serviceaccount/claims.go). Other algorithms are never accepted, whatever the
//! token's header says.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{PrivateKey, PublicKey, SecretText};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::TokenFault;
use crate::recent::Recent;

/// Shortest life of a token, as TokenRequest's validation (kubernetes/kubernetes v1.35 pkg/apis/authentication/validation).
pub const TOKEN_VALIDITY_MIN: Duration = Duration::from_secs(10 * 60);

/// Longest life of a token that can be requested (the same place: 2^32 seconds).
pub const TOKEN_VALIDITY_MAX: Duration = Duration::from_secs(1 << 32);

/// Name of the claims that make a token one of a service account.
const PRIVATE_CLAIMS: &str = "kubernetes.io";

/// Longer tokens are not even parsed: a service account token is below 2 KiB.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// A token to be issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSpec {
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub name: String,
    /// UID of the service account.
    pub uid: String,
    /// Who may accept the token; empty means the API server itself.
    pub audiences: Vec<String>,
    /// How long it is valid.
    pub validity: Duration,
    /// Object with which the token dies.
    pub bound: Option<BoundObject>,
    /// Node of the pod it is bound to: name and UID.
    pub node: Option<(String, String)>,
}

/// A token to be issued for an identity that is no service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTokenSpec {
    /// Who the token's holder is.
    pub subject: String,
    /// Who may accept the token.
    pub audiences: Vec<String>,
    /// How long it is valid.
    pub validity: Duration,
    /// Further claims; registered ones (RFC 7519, 4.1) are overwritten.
    pub claims: Map<String, Value>,
}

/// The object a token dies with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// `Pod`, `Secret` or `Node`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An issued token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: SecretText,
    /// Until when it is valid.
    pub expires: Timestamp,
}

/// Issues and verifies the tokens of one API server.
pub struct ServiceAccountTokens {
    issuer: String,
    audiences: Vec<String>,
    signer: Option<PrivateKey>,
    verifiers: BTreeMap<String, PublicKey>,
    /// Digests of whole tokens, header, claims and signature, whose signature was good: verifying one takes longer than most
    /// requests. The keys never change, so a good signature stays good; all else about a token is verified each time.
    known: Mutex<Recent<()>>,
    clock: Clock,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Claims {
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) private: PrivateClaims,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PrivateClaims {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    /// The id of the key; optional.
    #[serde(default)]
    kid: Option<String>,
}

impl ServiceAccountTokens {
    /// `issuer` is the `iss` of tokens, `audiences` those the API server accepts for itself. `signer` may be absent:
    /// then tokens are verified but none issued. Trusted keys are `verifiers` and the signer's own.
    pub fn new(
        issuer: String,
        audiences: Vec<String>,
        signer: Option<PrivateKey>,
        verifiers: Vec<PublicKey>,
        clock: Clock,
    ) -> Self {
        let own = signer.as_ref().map(PrivateKey::public);
        let verifiers = verifiers
            .into_iter()
            .chain(own)
            .map(|key| (key.key_id(), key))
            .collect();
        let audiences = if audiences.is_empty() {
            vec![issuer.clone()]
        } else {
            audiences
        };
        Self {
            issuer,
            audiences,
            signer,
            verifiers,
            known: Mutex::default(),
            clock,
        }
    }

    /// Audiences the API server accepts for itself.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The `iss` of issued tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The keys whose signatures are good, in the order of their ids.
    pub fn keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.verifiers.values()
    }

    /// Issues a token; `None` when there is no key to sign with.
    pub fn issue(&self, spec: &TokenSpec, entropy: &Entropy) -> Option<IssuedToken> {
        let signer = self.signer.as_ref()?;
        let now = self.clock.now().as_second();
        let validity = i64::try_from(spec.validity.as_secs()).unwrap_or(i64::MAX);
        let exp = now.saturating_add(validity);
        let bound = |kind: &str| {
            let bound = spec.bound.as_ref().filter(|bound| bound.kind == kind);
            bound.map(|bound| Reference {
                name: bound.name.clone(),
                uid: bound.uid.clone(),
            })
        };
        let node = spec.node.clone().map(|(name, uid)| Reference { name, uid });
        let claims = Claims {
            aud: if spec.audiences.is_empty() {
                self.audiences.clone()
            } else {
                spec.audiences.clone()
            },
            exp,
            iat: now,
            iss: self.issuer.clone(),
            jti: entropy.uid(),
            private: PrivateClaims {
                namespace: spec.namespace.clone(),
                node: bound("Node").or(node),
                pod: bound("Pod"),
                secret: bound("Secret"),
                serviceaccount: Reference {
                    name: spec.name.clone(),
                    uid: spec.uid.clone(),
                },
            },
            nbf: now,
            sub: format!(
                "{}{}:{}",
                crate::group::SERVICE_ACCOUNT_PREFIX,
                spec.namespace,
                spec.name
            ),
        };
        Some(sign(signer, &claims, exp))
    }

    /// Issues a token of an identity that is no service account: other parties accept it by this issuer's keys, this API
    /// server never does. `None` when there is no key to sign with, and for subjects of service accounts.
    pub fn issue_foreign(&self, spec: &ForeignTokenSpec, entropy: &Entropy) -> Option<IssuedToken> {
        let signer = self.signer.as_ref()?;
        if spec.subject.starts_with(crate::group::SERVICE_ACCOUNT_PREFIX) {
            return None;
        }
        let now = self.clock.now().as_second();
        let exp = now.saturating_add(i64::try_from(spec.validity.as_secs()).unwrap_or(i64::MAX));
        let mut claims = spec.claims.clone();
        // The claims of service accounts are what this API server reads.
        claims.remove(PRIVATE_CLAIMS);
        let registered = [
            ("aud", json!(spec.audiences)),
            ("exp", json!(exp)),
            ("iat", json!(now)),
            ("iss", json!(self.issuer)),
            ("jti", json!(entropy.uid())),
            ("nbf", json!(now)),
            ("sub", json!(spec.subject)),
        ];
        claims.extend(registered.map(|(claim, value)| (claim.to_owned(), value)));
        Some(sign(signer, &claims, exp))
    }

    /// Whether the text claims to be a token of this issuer. Says nothing about its signature.
    pub(crate) fn recognises(&self, token: &str) -> bool {
        parts(token)
            .and_then(|(_, claims, _)| decode::<Claims>(claims))
            .is_some_and(|claims| claims.iss == self.issuer)
    }

    /// Verifies signature, time and audience. `audiences` are the acceptable ones; empty means the API server's own.
    /// Returns the claims and the audiences both sides know. Whether the accounts still exist is the caller's part.
    pub(crate) fn verify(&self, token: &str, audiences: &[String]) -> Result<(Claims, Vec<String>), TokenFault> {
        let (header, claims, signature) = parts(token).ok_or(TokenFault::Form)?;
        self.verify_signature(token, header, signature)?;
        let claims: Claims = decode(claims).ok_or(TokenFault::Form)?;
        let now = self.clock.now().as_second();
        let expected = format!(
            "{}{}:{}",
            crate::group::SERVICE_ACCOUNT_PREFIX,
            claims.private.namespace,
            claims.private.serviceaccount.name
        );
        if claims.iss != self.issuer || claims.sub != expected {
            return Err(TokenFault::Form);
        }
        if now >= claims.exp {
            return Err(TokenFault::Expired);
        }
        if now < claims.nbf {
            return Err(TokenFault::NotYet);
        }
        let wanted = if audiences.is_empty() {
            &self.audiences
        } else {
            audiences
        };
        let common: Vec<String> = claims
            .aud
            .iter()
            .filter(|audience| wanted.contains(audience))
            .cloned()
            .collect();
        if common.is_empty() {
            return Err(TokenFault::Audience(claims.aud));
        }
        Ok((claims, common))
    }

    fn verify_signature(&self, token: &str, header: &str, signature: &str) -> Result<(), TokenFault> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if self.known().get(&digest).is_some() {
            return Ok(());
        }
        let signed = token
            .rsplit_once('.')
            .map(|(signed, _)| signed)
            .ok_or(TokenFault::Form)?;
        let header: Header = decode(header).ok_or(TokenFault::Form)?;
        if header.alg != "ES256" {
            return Err(TokenFault::Signature);
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Form)?;
        let by = |key: &PublicKey| key.verifies_es256(signed.as_bytes(), &signature);
        let named = header.kid.unwrap_or_default();
        let good = match self.verifiers.get(&named) {
            Some(key) => by(key),
            None => named.is_empty() && self.verifiers.values().any(by),
        };
        if !good {
            return Err(TokenFault::Signature);
        }
        self.known().put(digest, ());
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Recent<()>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sign(signer: &PrivateKey, claims: &impl Serialize, exp: i64) -> IssuedToken {
    let header = Header {
        alg: "ES256".to_owned(),
        kid: Some(signer.public().key_id()),
    };
    let signed = format!("{}.{}", encode(&header), encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(signer.sign_es256(signed.as_bytes()));
    IssuedToken {
        token: SecretText::new(format!("{signed}.{signature}")),
        expires: Timestamp::from_second(exp).unwrap_or(Timestamp::MAX),
    }
}

fn parts(token: &str) -> Option<(&str, &str, &str)> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (header, rest) = token.split_once('.')?;
    let (claims, signature) = rest.split_once('.')?;
    (!signature.contains('.')).then_some((header, claims, signature))
}

/// One audience may be given as a text (RFC 7519, 4.1.3).
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audiences {
        One(String),
        Many(Vec<String>),
    }
    Audiences::deserialize(deserializer).map(|audiences| match audiences {
        Audiences::One(audience) => vec![audience],
        Audiences::Many(audiences) => audiences,
    })
}

fn encode(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).expect("structs of text and numbers always serialise");
    URL_SAFE_NO_PAD.encode(text)
}

fn decode<T: for<'a> Deserialize<'a>>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> (ServiceAccountTokens, Clock, Entropy) {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let entropy = Entropy::seeded(1);
        let key = PrivateKey::generate(&entropy);
        let issuer = "https://issuer.example".to_owned();
        let tokens = ServiceAccountTokens::new(issuer, Vec::new(), Some(key), Vec::new(), clock.clone());
        (tokens, clock, entropy)
    }

    fn issue(tokens: &ServiceAccountTokens, entropy: &Entropy) -> String {
        let spec = TokenSpec {
            namespace: "ns".to_owned(),
            name: "robot".to_owned(),
            uid: "u".to_owned(),
            audiences: Vec::new(),
            validity: TOKEN_VALIDITY_MIN,
            bound: None,
            node: None,
        };
        tokens.issue(&spec, entropy).unwrap().token.expose().to_owned()
    }

    #[test]
    fn foreign_token_is_never_accepted_by_its_own_issuer() {
        let (tokens, _clock, entropy) = tokens();
        let spec = |subject: &str| ForeignTokenSpec {
            subject: subject.to_owned(),
            audiences: tokens.audiences().to_vec(),
            validity: TOKEN_VALIDITY_MIN,
            claims: serde_json::from_value(json!({"example.com": {"a": 1}, "iss": "forged",
                "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "robot", "uid": "u"}}}))
            .unwrap(),
        };
        assert_eq!(
            tokens.issue_foreign(&spec("system:serviceaccount:ns:robot"), &entropy),
            None
        );
        let issued = tokens.issue_foreign(&spec("example.com:a"), &entropy).unwrap();
        let token = issued.token.expose();
        assert!(matches!(tokens.verify(token, &[]), Err(TokenFault::Form)));
        let (header, claims, signature) = parts(token).unwrap();
        tokens.verify_signature(token, header, signature).unwrap();
        let claims: Value = decode(claims).unwrap();
        assert_eq!(claims["iss"], "https://issuer.example");
        assert_eq!(claims["example.com"], json!({"a": 1}));
        assert_eq!(claims.get(PRIVATE_CLAIMS), None);
        assert_eq!(claims["exp"], issued.expires.as_second());
    }

    #[tokio::test(start_paused = true)]
    async fn token_with_a_cached_signature_is_still_verified_for_audience_and_time() {
        let (tokens, _clock, entropy) = tokens();
        let token = issue(&tokens, &entropy);
        for known in [0, 1] {
            assert_eq!(tokens.known().len(), known);
            tokens.verify(&token, &[]).unwrap();
        }
        let other = tokens.verify(&token, &["elsewhere".to_owned()]);
        assert!(matches!(other, Err(TokenFault::Audience(_))));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let forged = format!("{signed}.{}", issue(&tokens, &entropy).rsplit_once('.').unwrap().1);
        assert_ne!(forged, format!("{signed}.{signature}"));
        for _ in 0..2 {
            assert!(matches!(tokens.verify(&forged, &[]), Err(TokenFault::Signature)));
        }
        tokio::time::advance(TOKEN_VALIDITY_MIN).await;
        assert!(matches!(tokens.verify(&token, &[]), Err(TokenFault::Expired)));
    }
}
