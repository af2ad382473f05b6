//! The keys of an API server: who signs its own certificate, its clients' certificates and its tokens. As long as they
//! stay, so does what was signed with them: kubeconfigs of people, tokens of pods.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, PrivateKey, SecretError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::damaged;
use crate::folder;

/// The keys of one API server.
#[derive(Clone)]
pub struct Keys {
    /// Signs the server's certificate.
    pub authority: Arc<Authority>,
    /// Signs clients' certificates.
    pub clients: Arc<Authority>,
    /// Signs service account tokens.
    pub tokens: PrivateKey,
}

/// As they stand in a file.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    authority: Pair,
    client_authority: Pair,
    service_account_key: String,
}

#[derive(Deserialize, Serialize)]
struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn of(authority: &Authority) -> Self {
        Pair {
            certificate: authority.certificate_pem(),
            key: authority.key_pem().expose().to_owned(),
        }
    }

    fn read(&self) -> Result<Arc<Authority>, SecretError> {
        Authority::from_pem(&self.certificate, &self.key).map(Arc::new)
    }
}

impl Keys {
    /// New ones for the API server of this name.
    pub(super) fn generate(name: &str, clock: &Clock, entropy: &Entropy) -> Result<Self, Fault> {
        let authority = |name: String| {
            let made = Authority::generate(&name, clock, entropy);
            made.map(Arc::new).map_err(|error| Fault::bug(error.to_string()))
        };
        Ok(Self {
            authority: authority(format!("{name}-ca"))?,
            clients: authority(format!("{name}-ca-client"))?,
            tokens: PrivateKey::generate(entropy),
        })
    }

    /// Refuses a time at which they are not valid: no connection would be trusted.
    ///
    /// # Errors
    /// The clock is wrong, or the keys are too old.
    pub fn check(&self, name: &str, clock: &Clock) -> Result<(), Fault> {
        let now = clock.now();
        for authority in [&self.authority, &self.clients] {
            let certificate = authority.certificate();
            let (from, to) = (certificate.not_before(), certificate.not_after());
            if now < from || now > to {
                let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
                return Err(Fault::user(format!(
                    "the clock shows {now}, but the stored keys of {name} are valid from {from} to {to}"
                ))
                .hint("set the clock of this machine; if it is right, name another folder with --data-dir"));
            }
        }
        Ok(())
    }

    /// The ones in a file; `None` when there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Fault> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(damaged(path, "it is not text", "keys"));
            }
            Err(error) => return Err(folder::unusable("read", path, &error)),
        };
        let written: Written = serde_json::from_str(&text)
            // Where it goes wrong, not what stands there: that is secret.
            .map_err(|error| damaged(path, &format!("line {} is not as written", error.line()), "keys"))?;
        let read = || {
            Ok(Self {
                authority: written.authority.read()?,
                clients: written.client_authority.read()?,
                tokens: PrivateKey::from_pem(&written.service_account_key)?,
            })
        };
        let read: Result<Self, SecretError> = read();
        read.map(Some)
            .map_err(|error| damaged(path, &error.to_string(), "keys"))
    }

    /// Writes them into a file that only its owner can read.
    pub(super) fn write(&self, path: &Path) -> Result<(), Fault> {
        let written = Written {
            authority: Pair::of(&self.authority),
            client_authority: Pair::of(&self.clients),
            service_account_key: self.tokens.to_pem().expose().to_owned(),
        };
        let text = serde_json::to_string_pretty(&written).map_err(|error| Fault::bug(error.to_string()))?;
        folder::write(path, &format!("{text}\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_read_as_written_and_only_by_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        assert!(Keys::read(&path).unwrap().is_none());
        let clock = Clock::real();
        let keys = Keys::generate("garden", &clock, &Entropy::seeded(1)).unwrap();
        keys.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let read = Keys::read(&path).unwrap().unwrap();
        assert_eq!((read.authority, read.clients), (keys.authority, keys.clients));
        assert_eq!(read.tokens.public().to_pem(), keys.tokens.public().to_pem());
    }

    #[test]
    fn error_of_broken_keys_does_not_quote_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        Keys::generate("garden", &Clock::real(), &Entropy::seeded(1))
            .unwrap()
            .write(&path)
            .unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for broken in [text.replace("PRIVATE", "PRIVY"), text[..200].to_owned(), String::new()] {
            fs::write(&path, &broken).unwrap();
            let fault = Keys::read(&path).err().unwrap().to_string();
            assert!(
                fault.contains("keys is damaged: ") && !fault.contains("BEGIN"),
                "{fault}"
            );
        }
    }
}
