//! ECDSA P-256 keys: generate, read, write, sign. Never prints a private key and never supports another curve
//! for keys of our own.

use std::fmt;

use base_clock::Entropy;
use p256::SecretKey;
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{DerSignature, Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use sha2::{Digest, Sha256};
use x509_cert::der::Encode;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::{Certificate, SecretError, SecretText};

/// A private key. Two draws of the same seeded [`Entropy`] in the same order give the same keys.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(SecretKey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[private key]")
    }
}

impl PrivateKey {
    /// Draws a new key.
    pub fn generate(entropy: &Entropy) -> Self {
        loop {
            let mut scalar = [0_u8; 32];
            entropy.fill(&mut scalar);
            // Only zero and numbers beyond the group's order are refused: about one draw in 2^32.
            if let Ok(key) = SecretKey::from_slice(&scalar) {
                return Self(key);
            }
        }
    }

    /// Reads a key from PEM, PKCS#8 (`PRIVATE KEY`) or SEC1 (`EC PRIVATE KEY`).
    ///
    /// # Errors
    /// [`SecretError::KeyKind`] for anything but an ECDSA P-256 key.
    pub fn from_pem(text: &str) -> Result<Self, SecretError> {
        SecretKey::from_pkcs8_pem(text)
            .or_else(|_| SecretKey::from_sec1_pem(text))
            .map(Self)
            .map_err(|_| SecretError::KeyKind)
    }

    /// The key as PKCS#8 PEM.
    pub fn to_pem(&self) -> SecretText {
        let text = self
            .0
            .to_pkcs8_pem(LineEnding::LF)
            .expect("a valid P-256 key always encodes as PKCS#8");
        SecretText::new(text.as_str())
    }

    /// The key as PKCS#8 DER, as rustls takes it.
    pub fn to_pkcs8_der(&self) -> Vec<u8> {
        self.0
            .to_pkcs8_der()
            .expect("a valid P-256 key always encodes as PKCS#8")
            .as_bytes()
            .to_vec()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key())
    }

    /// Signs with ECDSA-SHA256 and a deterministic nonce (RFC 6979); ASN.1 DER form.
    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature: DerSignature = SigningKey::from(&self.0).sign(message);
        signature.as_bytes().to_vec()
    }

    /// Signs as JSON Web Signatures of algorithm ES256 require: 64 bytes, deterministic nonce.
    pub fn sign_es256(&self, message: &[u8]) -> Vec<u8> {
        let signature: Signature = SigningKey::from(&self.0).sign(message);
        signature.to_bytes().to_vec()
    }
}

/// The public half of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(p256::PublicKey);

impl PublicKey {
    /// Reads a `PUBLIC KEY` PEM block.
    ///
    /// # Errors
    /// [`SecretError::KeyKind`] for anything but an ECDSA P-256 key.
    pub fn from_pem(text: &str) -> Result<Self, SecretError> {
        p256::PublicKey::from_public_key_pem(text)
            .map(Self)
            .map_err(|_| SecretError::KeyKind)
    }

    /// The key as `PUBLIC KEY` PEM.
    pub fn to_pem(&self) -> String {
        self.0
            .to_public_key_pem(LineEnding::LF)
            .expect("a valid P-256 key always encodes")
    }

    /// SHA-256 over the DER form, URL-safe base64: the key id (`kid`) of tokens signed with it, computed as
    /// kube-apiserver does (kubernetes/kubernetes v1.35 pkg/serviceaccount/jwt.go, keyIDFromPublicKey).
    pub fn key_id(&self) -> String {
        use base64::Engine as _;
        let der = self.0.to_public_key_der().expect("a valid P-256 key always encodes");
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(der.as_bytes()))
    }

    /// The point: x and y, 32 bytes each, big-endian, as in a JSON Web Key (RFC 7518, 6.2.1).
    pub fn coordinates(&self) -> ([u8; 32], [u8; 32]) {
        let point = self.0.to_encoded_point(false);
        let coordinate = |at: usize| std::array::from_fn(|place| point.as_bytes()[1 + at + place]);
        (coordinate(0), coordinate(32))
    }

    /// Whether `signature` is the ES256 signature of `message` by this key.
    pub fn verifies_es256(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        VerifyingKey::from(&self.0).verify(message, &signature).is_ok()
    }

    /// The keys of all PEM blocks of a text; private keys and certificates count by their public half, as kube-apiserver
    /// reads the files of `--service-account-key-file`.
    ///
    /// # Errors
    /// [`SecretError::KeyKind`] when there is none or one is not ECDSA P-256.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, SecretError> {
        let mut keys = Vec::new();
        for block in text.split_inclusive("-----END").collect::<Vec<_>>().windows(2) {
            let Some(start) = block[0].find("-----BEGIN") else {
                continue;
            };
            let end = block[1].find("-----").ok_or(SecretError::KeyKind)?;
            let pem = format!("{}{}-----\n", &block[0][start..], &block[1][..end]);
            let private = || PrivateKey::from_pem(&pem).map(|key| key.public());
            let certified = || Certificate::from_pem(&pem).and_then(|certificate| Self::certified(&certificate));
            let key = Self::from_pem(&pem).or_else(|_| private()).or_else(|_| certified());
            keys.push(key.map_err(|_| SecretError::KeyKind)?);
        }
        if keys.is_empty() {
            Err(SecretError::KeyKind)
        } else {
            Ok(keys)
        }
    }

    fn certified(certificate: &Certificate) -> Result<Self, SecretError> {
        let info = &certificate.raw().tbs_certificate.subject_public_key_info;
        let der = info.to_der().map_err(|_| SecretError::KeyKind)?;
        p256::PublicKey::from_public_key_der(&der)
            .map(Self)
            .map_err(|_| SecretError::KeyKind)
    }

    pub(crate) fn info(&self) -> SubjectPublicKeyInfoOwned {
        SubjectPublicKeyInfoOwned::from_key(self.0).expect("a valid P-256 key always encodes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_randomness_gives_equal_keys_and_pem_round_trips() {
        let first = PrivateKey::generate(&Entropy::seeded(7));
        assert_eq!(first, PrivateKey::generate(&Entropy::seeded(7)));
        assert_ne!(first, PrivateKey::generate(&Entropy::seeded(8)));
        assert_eq!(PrivateKey::from_pem(first.to_pem().expose()).expect("own PEM"), first);
        assert_eq!(
            PublicKey::from_pem(&first.public().to_pem()).expect("own PEM"),
            first.public()
        );
        assert!(!format!("{first:?}").contains("SecretKey"));
    }

    #[test]
    fn coordinates_of_a_point_are_the_key() {
        let key = PrivateKey::generate(&Entropy::seeded(7)).public();
        let (x, y) = key.coordinates();
        let point = [&[4], x.as_slice(), y.as_slice()].concat();
        assert_eq!(p256::PublicKey::from_sec1_bytes(&point).expect("a point"), key.0);
    }

    #[test]
    fn keys_of_a_bundle_keep_order_and_verify_only_their_own_signatures() {
        let entropy = Entropy::seeded(1);
        let (first, second) = (PrivateKey::generate(&entropy), PrivateKey::generate(&entropy));
        let third = crate::Authority::generate("ca", &base_clock::Clock::real(), &entropy).expect("an authority");
        let [public, private] = [first.public().to_pem(), second.to_pem().expose().to_owned()];
        let bundle = format!("# newest\n{public}{private}{}", third.certificate_pem());
        let of_third = PrivateKey::from_pem(third.key_pem().expose())
            .expect("own PEM")
            .public();
        assert_eq!(
            PublicKey::all_from_pem(&bundle).expect("keys"),
            [first.public(), second.public(), of_third]
        );
        let signature = first.sign_es256(b"x");
        assert!(first.public().verifies_es256(b"x", &signature));
        assert!(!second.public().verifies_es256(b"x", &signature) && !first.public().verifies_es256(b"y", &signature));
    }

    #[test]
    fn text_that_is_no_key_is_refused_without_repeating_it() {
        let error = PrivateKey::from_pem("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----")
            .expect_err("no key");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
