//! Bootstrap tokens and passwords. Never stores them and never shows their secret half.

use base_clock::Entropy;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::SecretText;

/// Letters of bootstrap tokens: `[a-z0-9]` (kubernetes/cluster-bootstrap v0.35 token/api).
const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ALPHABET_PASSWORD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Why a text is no bootstrap token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It does not have the form `[a-z0-9]{6}.[a-z0-9]{16}`.
    #[error("the text does not have the form of a bootstrap token")]
    Form,
}

/// A bootstrap token: `abcdef.0123456789abcdef`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapToken {
    id: String,
    secret: SecretText,
}

impl BootstrapToken {
    /// Draws a token.
    pub fn generate(entropy: &Entropy) -> Self {
        Self {
            id: draw(entropy, ALPHABET, ID_LENGTH),
            secret: SecretText::new(draw(entropy, ALPHABET, SECRET_LENGTH)),
        }
    }

    /// A token with a chosen id, such as Gardener's, which derives it from the machine's name.
    ///
    /// # Errors
    /// [`TokenError::Form`] for an id that is not six of `[a-z0-9]`.
    pub fn with_id(id: &str, entropy: &Entropy) -> Result<Self, TokenError> {
        check(id, ID_LENGTH)?;
        Ok(Self {
            id: id.to_owned(),
            secret: SecretText::new(draw(entropy, ALPHABET, SECRET_LENGTH)),
        })
    }

    /// Reads `id.secret`.
    ///
    /// # Errors
    /// [`TokenError::Form`] for any other form.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError::Form)?;
        check(id, ID_LENGTH)?;
        check(secret, SECRET_LENGTH)?;
        Ok(Self {
            id: id.to_owned(),
            secret: SecretText::new(secret),
        })
    }

    /// The public half.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The secret half.
    pub fn secret(&self) -> &SecretText {
        &self.secret
    }

    /// The whole token, as clients send it.
    pub fn text(&self) -> SecretText {
        SecretText::new(format!("{}.{}", self.id, self.secret.expose()))
    }

    /// Name of the Secret in `kube-system` that holds it.
    pub fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// The Secret that makes the token valid until `expiration` for authentication. `groups` are additional to
    /// `system:bootstrappers` and must begin with `system:bootstrappers:`.
    pub fn to_secret(&self, description: &str, expiration: Timestamp, groups: &[&str]) -> Secret {
        let mut data = vec![
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.expose().to_owned()),
            ("description", description.to_owned()),
            (
                "expiration",
                Timestamp::from_second(expiration.as_second())
                    .unwrap_or(expiration)
                    .to_string(),
            ),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
        ];
        if !groups.is_empty() {
            data.push(("auth-extra-groups", groups.join(",")));
        }
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name()),
                namespace: Some("kube-system".to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("bootstrap.kubernetes.io/token".to_owned()),
            data: Some(
                data.into_iter()
                    .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())))
                    .collect(),
            ),
            ..Secret::default()
        }
    }
}

/// A random password of `length` letters and digits.
pub fn password(length: usize, entropy: &Entropy) -> SecretText {
    SecretText::new(draw(entropy, ALPHABET_PASSWORD, length))
}

fn check(text: &str, length: usize) -> Result<(), TokenError> {
    let fits = text.len() == length && text.bytes().all(|byte| ALPHABET.contains(&byte));
    if fits { Ok(()) } else { Err(TokenError::Form) }
}

fn draw(entropy: &Entropy, alphabet: &[u8], length: usize) -> String {
    let pick = || usize::try_from(entropy.below(alphabet.len() as u64)).unwrap_or(0);
    (0..length).map(|_| char::from(alphabet[pick()])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_and_its_secret_half_is_not_shown() {
        let token = BootstrapToken::generate(&Entropy::seeded(3));
        assert_eq!(BootstrapToken::parse(token.text().expose()), Ok(token.clone()));
        assert!(!format!("{token:?}").contains(token.secret().expose()));
        for wrong in [
            "",
            "abcdef",
            "abcdef.0123",
            "ABCDEF.0123456789abcdef",
            "abcdef.0123456789abcdef.x",
            "äbcde.0123456789abcdef",
        ] {
            assert_eq!(BootstrapToken::parse(wrong), Err(TokenError::Form), "{wrong}");
        }
    }
}
