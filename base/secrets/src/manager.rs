//! Which Secrets of a namespace are wanted, which exist, what to generate, keep and delete. Pure: never reads or
//! writes an API server. Labels and names follow Gardener's secrets manager
//! (gardener/gardener v1.150 pkg/utils/secrets/manager), so that its Secrets are found and reused.
//!
//! Secrets are immutable and carry a hash of their content's recipe in their name: what mounts them rolls when they
//! change. Deletions are planned at once, but belong at the end of a flow, when nothing mounts the old ones.

mod generate;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use sha2::{Digest, Sha256};

pub use generate::generate;
pub use plan::{Action, Plan, Reason, lookup, plan};

use crate::{Authority, CertificateSpec, Issued, PrivateKey, SecretError, SecretText, Usage};

/// Labels of managed Secrets.
pub mod label {
    /// Who manages the Secret: always [`MANAGER`].
    pub const MANAGED_BY: &str = "managed-by";
    /// Value of [`MANAGED_BY`].
    pub const MANAGER: &str = "secrets-manager";
    /// Which component manages it, where several share a namespace.
    pub const IDENTITY: &str = "manager-identity";
    /// Name of the wanted secret; the object's own name has a hash behind it.
    pub const NAME: &str = "name";
    /// Hash of what was requested.
    pub const CHECKSUM_CONFIG: &str = "checksum-of-config";
    /// Hash of the authority's Secret that signed.
    pub const CHECKSUM_AUTHORITY: &str = "checksum-of-signing-ca";
    /// When the rotation that led to it began, in seconds since 1970; empty when never rotated.
    pub const ROTATED: &str = "last-rotation-initiation-time";
    /// When it was generated, in seconds since 1970.
    pub const ISSUED_AT: &str = "issued-at-time";
    /// When it expires, in seconds since 1970.
    pub const VALID_UNTIL: &str = "valid-until-time";
    /// On bundles: name of the authority or key they collect.
    pub const BUNDLE_FOR: &str = "bundle-for";
}

/// Keys of the data of managed Secrets.
pub mod data {
    /// Certificate of an authority.
    pub const CA_CERTIFICATE: &str = "ca.crt";
    /// Private key of an authority.
    pub const CA_KEY: &str = "ca.key";
    /// Certificate of a server or client.
    pub const CERTIFICATE: &str = "tls.crt";
    /// Private key of a server or client.
    pub const KEY: &str = "tls.key";
    /// Certificates of all trusted generations of an authority, newest first.
    pub const BUNDLE: &str = "bundle.crt";
    /// Key that signs service account tokens (ECDSA; Gardener's `id_rsa` holds RSA).
    pub const SIGNING_KEY: &str = "signing.key";
    /// Its public half.
    pub const SIGNING_KEY_PUBLIC: &str = "signing.pub";
    /// Public halves of all trusted generations of a signing key, newest first.
    pub const SIGNING_KEY_BUNDLE: &str = "bundle.key";
    /// Private key for SSH, whatever its algorithm: Gardener's name, which its clients read.
    pub const SSH_KEY: &str = "id_rsa";
    /// Its public half, as in `authorized_keys`.
    pub const SSH_KEY_PUBLIC: &str = "id_rsa.pub";
    /// User name that belongs to a password.
    pub const USERNAME: &str = "username";
    /// A password.
    pub const PASSWORD: &str = "password";
}

/// What a secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An authority; a bundle `<name>-bundle` comes with it.
    Authority {
        /// Its common name.
        common_name: String,
    },
    /// A certificate of a wanted authority.
    Certificate {
        /// Its content.
        spec: CertificateSpec,
        /// Name of the wanted authority.
        signed_by: String,
    },
    /// A key that signs service account tokens; a bundle `<name>-bundle` comes with it.
    SigningKey,
    /// A key pair for SSH.
    SshKeyPair,
    /// A random password.
    Password {
        /// User it belongs to.
        username: String,
        /// How many letters and digits.
        length: usize,
    },
}

/// The request for a new generation of a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// When the owner requested a new one; what is older is superseded.
    pub initiated: Option<Timestamp>,
    /// Whether the generation before stays trusted for now: in the phases Preparing and Prepared (gardener/gardener v1.150
    /// docs/usage/security/shoot_credentials_rotation.md).
    pub keep_old: bool,
}

/// One wanted secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name, such as `ca-client`; the object's name has a hash behind it.
    pub name: String,
    /// What it holds.
    pub content: Content,
    /// Whether a new generation is requested.
    pub rotation: Rotation,
}

impl Wanted {
    /// An authority that is not being rotated.
    pub fn authority(name: &str, common_name: &str) -> Self {
        Self::of(
            name,
            Content::Authority {
                common_name: common_name.to_owned(),
            },
        )
    }

    /// A certificate of the wanted authority `signed_by`.
    pub fn certificate(name: &str, signed_by: &str, spec: CertificateSpec) -> Self {
        Self::of(
            name,
            Content::Certificate {
                spec,
                signed_by: signed_by.to_owned(),
            },
        )
    }

    /// A key for service account tokens.
    pub fn signing_key(name: &str) -> Self {
        Self::of(name, Content::SigningKey)
    }

    /// A key pair for SSH.
    pub fn ssh_key_pair(name: &str) -> Self {
        Self::of(name, Content::SshKeyPair)
    }

    /// A password.
    pub fn password(name: &str, username: &str, length: usize) -> Self {
        Self::of(
            name,
            Content::Password {
                username: username.to_owned(),
                length,
            },
        )
    }

    /// Any content, not being rotated.
    pub fn of(name: &str, content: Content) -> Self {
        Self {
            name: name.to_owned(),
            content,
            rotation: Rotation::default(),
        }
    }

    /// The same with a rotation.
    #[must_use]
    pub fn rotated(self, rotation: Rotation) -> Self {
        Self { rotation, ..self }
    }

    fn has_bundle(&self) -> bool {
        matches!(self.content, Content::Authority { .. } | Content::SigningKey)
    }

    fn bundle_name(&self) -> String {
        format!("{}-bundle", self.name)
    }

    /// Hash of the recipe. Written out field by field: were it to change with our types, every authority there
    /// is would be replaced.
    fn checksum(&self) -> String {
        let text = match &self.content {
            Content::Authority { common_name } => format!("authority\0{common_name}"),
            Content::SigningKey => "signing-key\0ecdsa-p256".to_owned(),
            Content::SshKeyPair => "ssh-key-pair\0ed25519".to_owned(),
            Content::Password { username, length } => format!("password\0{username}\0{length}"),
            Content::Certificate { spec, signed_by } => {
                let CertificateSpec {
                    common_name,
                    organizations,
                    dns_names,
                    ip_addresses,
                    usage,
                    validity,
                } = spec;
                let usage = match usage {
                    Usage::Server => "server",
                    Usage::Client => "client",
                    Usage::ServerAndClient => "server+client",
                };
                let ips: Vec<String> = ip_addresses.iter().map(ToString::to_string).collect();
                format!(
                    "certificate\0{signed_by}\0{common_name}\0{}\0{}\0{}\0{usage}\0{}",
                    organizations.join("\x01"),
                    dns_names.join("\x01"),
                    ips.join("\x01"),
                    validity.as_secs()
                )
            }
        };
        checksum(text.as_bytes())
    }
}

/// What exists of one wanted secret.
#[derive(Clone, Debug)]
pub struct Managed {
    /// The Secret to use.
    pub current: Secret,
    /// The generation before, as long as it is trusted.
    pub old: Option<Secret>,
    /// The bundle of all trusted generations, of authorities and signing keys.
    pub bundle: Option<Secret>,
}

impl Managed {
    /// Name of the object to mount.
    pub fn object(&self) -> &str {
        self.current.metadata.name.as_deref().unwrap_or_default()
    }

    /// The authority.
    ///
    /// # Errors
    /// When the Secret holds none.
    pub fn authority(&self) -> Result<Authority, SecretError> {
        authority_of(&self.current)
    }

    /// PEM certificates of all trusted generations of the authority, newest first.
    ///
    /// # Errors
    /// When a Secret holds no authority.
    pub fn authorities(&self) -> Result<String, SecretError> {
        let mut bundle = text_of(&self.current, data::CA_CERTIFICATE)?.expose().to_owned();
        if let Some(old) = &self.old {
            bundle.push_str(text_of(old, data::CA_CERTIFICATE)?.expose());
        }
        Ok(bundle)
    }

    /// The certificate and key.
    ///
    /// # Errors
    /// When the Secret holds none.
    pub fn issued(&self) -> Result<Issued, SecretError> {
        let (certificate, key) = (
            text_of(&self.current, data::CERTIFICATE)?,
            text_of(&self.current, data::KEY)?,
        );
        Issued::from_pem(certificate.expose(), key.expose())
    }

    /// The key that signs service account tokens.
    ///
    /// # Errors
    /// When the Secret holds none.
    pub fn signing_key(&self) -> Result<PrivateKey, SecretError> {
        PrivateKey::from_pem(text_of(&self.current, data::SIGNING_KEY)?.expose())
    }

    /// The password.
    ///
    /// # Errors
    /// When the Secret holds none.
    pub fn password(&self) -> Result<SecretText, SecretError> {
        text_of(&self.current, data::PASSWORD)
    }
}

/// One entry of a Secret as text.
///
/// # Errors
/// [`SecretError::MissingEntry`] when it is absent or not UTF-8.
pub fn text_of(secret: &Secret, key: &str) -> Result<SecretText, SecretError> {
    let entry = secret.data.as_ref().and_then(|data| data.get(key));
    let text = entry.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
    text.map(SecretText::new).ok_or_else(|| SecretError::MissingEntry {
        secret: secret.metadata.name.clone().unwrap_or_default(),
        key: key.to_owned(),
    })
}

fn authority_of(secret: &Secret) -> Result<Authority, SecretError> {
    let (certificate, key) = (text_of(secret, data::CA_CERTIFICATE)?, text_of(secret, data::CA_KEY)?);
    Authority::from_pem(certificate.expose(), key.expose())
}

fn label_of<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    let labels: &BTreeMap<String, String> = secret.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn seconds_of(secret: &Secret, key: &str) -> Option<i64> {
    label_of(secret, key)?.parse().ok()
}

/// 16 hexadecimal digits of SHA-256: enough against accidents and short enough for a label.
fn checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn checksum_of_data(secret: &Secret) -> String {
    let mut bytes = Vec::new();
    for (key, value) in secret.data.iter().flatten() {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&value.0);
        bytes.push(0);
    }
    checksum(&bytes)
}
