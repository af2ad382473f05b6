//! Users by client certificate. The chain is verified against the client authorities at the time of the
//! [`Clock`]; never against the system's roots, and never by the TLS layer alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock};

use base_clock::Clock;
use base_secrets::{Certificate, SecretError, parse_chain};
use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::recent::Recent;
use crate::{AuthenticationError, PeerCertificates, User};

/// Signature algorithms of client chains, as rustls accepts them with ring.
const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    webpki::ring::ECDSA_P256_SHA256,
    webpki::ring::ECDSA_P256_SHA384,
    webpki::ring::ECDSA_P384_SHA256,
    webpki::ring::ECDSA_P384_SHA384,
    webpki::ring::ED25519,
    webpki::ring::RSA_PKCS1_2048_8192_SHA256,
    webpki::ring::RSA_PKCS1_2048_8192_SHA384,
    webpki::ring::RSA_PKCS1_2048_8192_SHA512,
];

/// Extra key that identifies the credential (kubernetes/kubernetes v1.35, since 1.32).
pub(crate) const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Authenticates client certificate chains.
pub(crate) struct Certificates {
    clock: Clock,
    anchors: RwLock<Anchors>,
    cache: Mutex<Cache>,
}

/// The trusted authorities, and how often they were replaced: chains verified against earlier ones are not cached.
#[derive(Default)]
struct Anchors {
    generation: u64,
    list: Vec<TrustAnchor<'static>>,
}

#[derive(Default)]
struct Cache {
    generation: u64,
    /// Verified chains, each with its expiry.
    chains: Recent<(Timestamp, User)>,
}

impl Certificates {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            anchors: RwLock::default(),
            cache: Mutex::default(),
        }
    }

    /// Replaces the trusted authorities. Chains verified against the ones before are forgotten.
    pub(crate) fn trust(&self, bundle: &str) -> Result<(), SecretError> {
        let mut anchors = Vec::new();
        if !bundle.trim().is_empty() {
            for certificate in parse_chain(bundle)? {
                let not_authority = || SecretError::NotAnAuthority {
                    subject: certificate.common_name(),
                };
                let der = CertificateDer::from(certificate.der());
                let anchor = anchor_from_trusted_cert(&der).map_err(|_| not_authority())?;
                anchors.push(anchor.to_owned());
            }
        }
        let mut trusted = self.anchors.write().unwrap_or_else(PoisonError::into_inner);
        let generation = trusted.generation + 1;
        *trusted = Anchors {
            generation,
            list: anchors,
        };
        *self.cache.lock().unwrap_or_else(PoisonError::into_inner) = Cache {
            generation,
            ..Cache::default()
        };
        Ok(())
    }

    pub(crate) fn authenticate(&self, peer: &PeerCertificates) -> Result<User, AuthenticationError> {
        let now = self.clock.now();
        let digest = digest(peer);
        if let Some(user) = self.cached(&digest, now) {
            return Ok(user);
        }
        let Some((leaf, intermediates)) = peer.0.split_first() else {
            return Err(AuthenticationError::CertificateForm);
        };
        let certificate = Certificate::from_der(leaf).map_err(|_| AuthenticationError::CertificateForm)?;
        let name = certificate.common_name();
        let refused = |error: webpki::Error| AuthenticationError::Certificate {
            user: name.clone(),
            reason: error.to_string(),
        };
        let generation = {
            let anchors = self.anchors.read().unwrap_or_else(PoisonError::into_inner);
            let seconds = u64::try_from(now.as_second()).unwrap_or(0);
            let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
            let end = EndEntityCert::try_from(leaf).map_err(refused)?;
            end.verify_for_usage(
                ALGORITHMS,
                &anchors.list,
                intermediates,
                at,
                KeyUsage::client_auth(),
                None,
                None,
            )
            .map_err(refused)?;
            anchors.generation
        };
        if name.is_empty() {
            return Err(AuthenticationError::CertificateWithoutUser);
        }
        let id = format!("X509SHA256={}", certificate.fingerprint());
        let user = User {
            name,
            uid: String::new(),
            groups: certificate.organizations(),
            extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![id])]),
        }
        .authenticated();
        self.remember(generation, digest, self.good_until(peer, &certificate), user.clone());
        Ok(user)
    }

    /// The first expiry within the chain; a verified chain holds until then. (An authority that expires earlier is
    /// replaced long before; its own expiry is checked for every chain that is not in the cache.)
    fn good_until(&self, peer: &PeerCertificates, leaf: &Certificate) -> Timestamp {
        let others = peer.0.iter().skip(1).filter_map(|der| Certificate::from_der(der).ok());
        others
            .map(|certificate| certificate.not_after())
            .fold(leaf.not_after(), Timestamp::min)
    }

    fn cached(&self, digest: &[u8; 32], now: Timestamp) -> Option<User> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, user) = cache.chains.get(digest)?;
        (now <= *until).then(|| user.clone())
    }

    /// Remembers a chain that was verified against the authorities of that generation.
    fn remember(&self, generation: u64, digest: [u8; 32], until: Timestamp, user: User) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.generation != generation {
            return;
        }
        cache.chains.put(digest, (until, user));
    }
}

fn digest(peer: &PeerCertificates) -> [u8; 32] {
    let mut hash = Sha256::new();
    for certificate in peer.0.iter() {
        hash.update(certificate.len().to_be_bytes());
        hash.update(certificate);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_verified_before_the_authorities_changed_is_not_cached() {
        let certificates = Certificates::new(Clock::real());
        certificates.trust("").unwrap();
        let before = certificates.anchors.read().unwrap().generation;
        certificates.trust("").unwrap();
        let now = certificates.clock.now();
        certificates.remember(before, [1; 32], Timestamp::MAX, User::new("jane", &[]));
        assert_eq!(certificates.cached(&[1; 32], now), None);
        certificates.remember(before + 1, [1; 32], Timestamp::MAX, User::new("jane", &[]));
        assert_eq!(
            certificates.cached(&[1; 32], now).map(|user| user.name),
            Some("jane".to_owned())
        );
    }
}
