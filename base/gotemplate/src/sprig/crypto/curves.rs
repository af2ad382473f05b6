//! ECDSA keys on the curves of NIST, but for P-224.

use p256::elliptic_curve::sec1::ToEncodedPoint;
use p256::pkcs8::PrivateKeyInfo;
use rsa::signature::{RandomizedSigner, Signer};

use super::keys::Random;
use crate::environment::error::Fault;

/// A private key.
pub(super) enum Curve {
    P256(p256::SecretKey),
    P384(p384::SecretKey),
    P521(p521::SecretKey),
}

impl Curve {
    /// Reads a key encoded as in SEC 1.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let p256 = || p256::SecretKey::from_sec1_der(bytes).map(Self::P256);
        let p384 = |_| p384::SecretKey::from_sec1_der(bytes).map(Self::P384);
        let p521 = |_| p521::SecretKey::from_sec1_der(bytes).map(Self::P521);
        p256().or_else(p384).or_else(p521).ok()
    }

    /// Reads a key encoded as in PKCS #8.
    pub(super) fn read_pkcs8(info: &PrivateKeyInfo<'_>) -> Option<Self> {
        let p256 = || p256::SecretKey::try_from(info.clone()).map(Self::P256);
        let p384 = |_| p384::SecretKey::try_from(info.clone()).map(Self::P384);
        let p521 = |_| p521::SecretKey::try_from(info.clone()).map(Self::P521);
        p256().or_else(p384).or_else(p521).ok()
    }

    /// The object identifiers of the curve, and of how its keys sign.
    pub(super) fn names(&self) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::P256(_) => (
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
            ),
            Self::P384(_) => (
                &[0x2b, 0x81, 0x04, 0x00, 0x22],
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
            ),
            Self::P521(_) => (
                &[0x2b, 0x81, 0x04, 0x00, 0x23],
                &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
            ),
        }
    }

    /// The secret number.
    pub(super) fn secret(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => key.to_bytes().to_vec(),
            Self::P384(key) => key.to_bytes().to_vec(),
            Self::P521(key) => key.to_bytes().to_vec(),
        }
    }

    /// The public point.
    pub(super) fn point(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => key.public_key().to_encoded_point(false).as_bytes().to_vec(),
            Self::P384(key) => key.public_key().to_encoded_point(false).as_bytes().to_vec(),
            Self::P521(key) => key.public_key().to_encoded_point(false).as_bytes().to_vec(),
        }
    }

    /// The signature of a text. On P-521 it uses randomness; on the others it is deterministic (RFC 6979).
    pub(super) fn sign(&self, text: &[u8], random: &mut Random) -> Result<Vec<u8>, Fault> {
        let unfit = |why: rsa::signature::Error| Fault::Message(why.to_string());
        Ok(match self {
            Self::P256(key) => {
                let signature: p256::ecdsa::Signature = p256::ecdsa::SigningKey::from(key).sign(text);
                signature.to_der().as_bytes().to_vec()
            }
            Self::P384(key) => {
                let signature: p384::ecdsa::Signature = p384::ecdsa::SigningKey::from(key).sign(text);
                signature.to_der().as_bytes().to_vec()
            }
            Self::P521(key) => {
                let signer = p521::ecdsa::SigningKey::from_slice(&key.to_bytes()).map_err(unfit)?;
                let signature: p521::ecdsa::Signature = signer.sign_with_rng(random, text);
                signature.to_der().as_bytes().to_vec()
            }
        })
    }
}
