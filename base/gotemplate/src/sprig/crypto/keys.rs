//! Private keys as Sprig makes and reads them: RSA, ECDSA, Ed25519; and DSA, which is only read.

use base_clock::Entropy;
use p256::pkcs8::PrivateKeyInfo;
use p256::pkcs8::der::Decode;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256};
use rsa::pkcs1::{self, DecodeRsaPrivateKey, EncodeRsaPrivateKey, EncodeRsaPublicKey};
use rsa::rand_core::{self, CryptoRng, RngCore};
use rsa::signature::{RandomizedSigner, SignatureEncoding};
use rsa::{RsaPrivateKey, pkcs1v15, sha2::Sha256};

use super::curves::Curve;
use super::der::{OCTETS, bits, integer, oid, sequence, tagged};
use super::{pem, primes};
use crate::environment::error::Fault;
use crate::sprig::args::text;
use crate::sprig::random::entropy;
use crate::value::function::{Function, Scope};
use crate::value::{Type, Value};

/// Steps to find the primes of a key of so many bits: some 50 ms, or some 600. Charts need a few; the default limit allows
/// fifty, or four.
const RSA_STEPS: [(u32, usize); 2] = [(2048, 1_000_000), (4096, 12_000_000)];
/// Steps of any other key.
const KEY_STEPS: usize = 50_000;
/// An RSA key of more bits takes too long to sign with.
const RSA_BITS_MAX: usize = 8192;

/// Object identifiers, as they are encoded.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const SHA256_WITH_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const NULL: &[u8] = &[0x05, 0x00];

/// A private key.
pub(super) enum Key {
    Rsa(Box<RsaPrivateKey>),
    Ecdsa(Curve),
    /// The bytes that it is derived from
    Ed25519([u8; 32]),
    /// As it was read
    Dsa(Vec<u8>),
}

/// The caller's randomness as a generator of the crate `rand_core`.
pub(super) struct Random(pub(super) Entropy);

impl RngCore for Random {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        self.0.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
        self.0.fill(bytes);
        Ok(())
    }
}

/// The caller decides what its randomness is good for.
impl CryptoRng for Random {}

pub(super) fn functions() -> Vec<Function> {
    vec![Function::new("genPrivateKey", [Type::Str], |scope, args| {
        let key = match text(args, 0) {
            b"" | b"rsa" => Key::rsa(4096, scope)?,
            b"ecdsa" => Key::ecdsa(scope)?,
            b"ed25519" => Key::ed25519(scope)?,
            b"dsa" => {
                let what = "keys of type dsa are not here: rsa, ecdsa and ed25519 are";
                return Err(Fault::from(what));
            }
            other => return Ok(Value::string([b"Unknown type ", other].concat())),
        };
        Ok(Value::string(key.pem()?))
    })]
}

fn unwritable(why: impl std::fmt::Display) -> Fault {
    Fault::Message(format!("failed to generate private key: {why}"))
}

/// Whether the bytes are a DSA key: a sequence of six numbers.
fn is_dsa(bytes: &[u8]) -> bool {
    use p256::pkcs8::der::asn1::{AnyRef, SequenceOf};
    SequenceOf::<AnyRef<'_>, 6>::from_der(bytes).is_ok_and(|parts| parts.len() == 6)
}

/// The signature of PKCS #1 v1.5, which is deterministic.
fn sign_rsa(key: &RsaPrivateKey, text: &[u8], random: &mut Random) -> Result<Vec<u8>, Fault> {
    // `ring` is twice as fast and signs in constant time, but only with keys of 2048 to 4096 bits.
    let der = key.to_pkcs1_der().map_err(unwritable)?;
    if let Ok(pair) = ring::rsa::KeyPair::from_der(der.as_bytes()) {
        let mut signature = vec![0; pair.public().modulus_len()];
        let unused = &SystemRandom::new();
        let signed = pair.sign(&RSA_PKCS1_SHA256, unused, text, &mut signature);
        return signed.map(|()| signature).map_err(unwritable);
    }
    let signer = pkcs1v15::SigningKey::<Sha256>::new(key.clone());
    let signature = signer.try_sign_with_rng(random, text).map_err(unwritable)?;
    Ok(signature.to_vec())
}

impl Key {
    /// A new RSA key of so many bits: one of [`RSA_STEPS`].
    pub(super) fn rsa(bits: u32, scope: &mut Scope<'_>) -> Result<Self, Fault> {
        let steps = RSA_STEPS.iter().find(|(known, _)| *known == bits);
        scope.spend(steps.map_or(usize::MAX, |(_, steps)| *steps))?;
        let key = primes::rsa_key(bits, &mut Random(entropy(scope)?)).map_err(unwritable)?;
        Ok(Self::Rsa(Box::new(key)))
    }

    fn ecdsa(scope: &mut Scope<'_>) -> Result<Self, Fault> {
        scope.spend(KEY_STEPS)?;
        let key = p256::SecretKey::random(&mut Random(entropy(scope)?));
        Ok(Self::Ecdsa(Curve::P256(key)))
    }

    fn ed25519(scope: &mut Scope<'_>) -> Result<Self, Fault> {
        scope.spend(KEY_STEPS)?;
        let mut secret_bytes = [0; 32];
        entropy(scope)?.fill(&mut secret_bytes);
        Ok(Self::Ed25519(secret_bytes))
    }

    /// Reads a key.
    ///
    /// # Errors
    /// There is none, or its type is not supported: Sprig's message, but for the details of a malformed key.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let block = pem::read(text).ok_or("no PEM data in input")?;
        let kind = String::from_utf8_lossy(&block.kind).into_owned();
        if block.bytes.is_empty() && matches!(kind.as_str(), "PRIVATE KEY" | "RSA PRIVATE KEY") {
            let what = match kind.as_str() {
                "PRIVATE KEY" => "decoding PEM as PKCS#8",
                _ => "parsing RSA private key from PEM",
            };
            return Err(format!("{what}: asn1: syntax error: sequence truncated"));
        }
        if kind == "PRIVATE KEY" {
            return Self::read_pkcs8(&block.bytes).map_err(|why| format!("decoding PEM as PKCS#8: {why}"));
        }
        let Some(short) = kind.strip_suffix(" PRIVATE KEY") else {
            return Err(format!("no private key data in PEM block of type {kind}"));
        };
        match short {
            "RSA" => Self::read_rsa(&block.bytes).map_err(|why| format!("parsing RSA private key from PEM: {why}")),
            "EC" => Curve::read(&block.bytes).map(Self::Ecdsa).ok_or_else(|| {
                let curves = "P-256, P-384 and P-521";
                format!("parsing EC private key from PEM: x509: it is no key on one of the curves {curves}")
            }),
            "DSA" if is_dsa(&block.bytes) => Ok(Self::Dsa(block.bytes)),
            "DSA" => Err("parsing DSA private key from PEM: it is no sequence of six numbers".to_owned()),
            _ => Err(format!("invalid private key type {kind}")),
        }
    }

    fn read_rsa(bytes: &[u8]) -> Result<Self, String> {
        let wrong = || "x509: it is no RSA key".to_owned();
        let numbers = pkcs1::RsaPrivateKey::from_der(bytes).map_err(|_| wrong())?;
        let numbers = [
            numbers.modulus,
            numbers.public_exponent,
            numbers.private_exponent,
            numbers.prime1,
            numbers.prime2,
            numbers.exponent1,
            numbers.exponent2,
            numbers.coefficient,
        ];
        // Their consistency is validated by multiplying them.
        let size = numbers.iter().map(|number| number.as_bytes().len() * 8).max();
        if let Some(size) = size.filter(|size| *size > RSA_BITS_MAX) {
            return Err(format!("x509: it has {size} bits, at most {RSA_BITS_MAX} are read"));
        }
        let key = RsaPrivateKey::from_pkcs1_der(bytes).map_err(|_| wrong())?;
        Ok(Self::Rsa(Box::new(key)))
    }

    fn read_pkcs8(bytes: &[u8]) -> Result<Self, String> {
        let wrong = || "x509: it is no key that is read here: RSA, ECDSA on P-256, P-384 or P-521, Ed25519".to_owned();
        let info = PrivateKeyInfo::from_der(bytes).map_err(|_| wrong())?;
        let algorithm = info.algorithm.oid;
        if algorithm.as_bytes() == RSA {
            return Self::read_rsa(info.private_key);
        }
        if algorithm.as_bytes() == EC {
            return Curve::read_pkcs8(&info).map(Self::Ecdsa).ok_or_else(wrong);
        }
        if algorithm.as_bytes() == ED25519
            && let [OCTETS, 32, secret_bytes @ ..] = info.private_key
            && let Ok(secret_bytes) = secret_bytes.try_into()
        {
            return Ok(Self::Ed25519(secret_bytes));
        }
        Err(wrong())
    }

    /// As Sprig writes it.
    pub(super) fn pem(&self) -> Result<Vec<u8>, Fault> {
        Ok(match self {
            Self::Rsa(key) => {
                let der = key.to_pkcs1_der().map_err(unwritable)?;
                pem::write("RSA PRIVATE KEY", der.as_bytes())
            }
            Self::Ecdsa(key) => {
                let curve = tagged(0xa0, &oid(key.names().0));
                let public = tagged(0xa1, &bits(&key.point()));
                let secret = tagged(OCTETS, &key.secret());
                pem::write("EC PRIVATE KEY", &sequence(&[&integer(&[1]), &secret, &curve, &public]))
            }
            Self::Ed25519(secret_bytes) => {
                let secret = tagged(OCTETS, &tagged(OCTETS, secret_bytes));
                let algorithm = sequence(&[&oid(ED25519)]);
                pem::write("PRIVATE KEY", &sequence(&[&integer(&[]), &algorithm, &secret]))
            }
            Self::Dsa(bytes) => pem::write("DSA PRIVATE KEY", bytes),
        })
    }

    /// The public half: its algorithm, and what its bits hold.
    ///
    /// # Errors
    /// It can have no certificate.
    pub(super) fn public(&self) -> Result<(Vec<u8>, Vec<u8>), Fault> {
        Ok(match self {
            Self::Rsa(key) => {
                let der = key.to_public_key().to_pkcs1_der().map_err(unwritable)?;
                (sequence(&[&oid(RSA), NULL]), der.as_bytes().to_vec())
            }
            Self::Ecdsa(key) => (sequence(&[&oid(EC), &oid(key.names().0)]), key.point()),
            Self::Ed25519(secret_bytes) => {
                let pair = Ed25519KeyPair::from_seed_unchecked(secret_bytes).map_err(unwritable)?;
                (sequence(&[&oid(ED25519)]), pair.public_key().as_ref().to_vec())
            }
            Self::Dsa(_) => return Err(Fault::from("x509: unsupported public key type: *dsa.PublicKey")),
        })
    }

    /// How it signs.
    pub(super) fn signing(&self) -> Result<Vec<u8>, Fault> {
        Ok(match self {
            Self::Rsa(_) => sequence(&[&oid(SHA256_WITH_RSA), NULL]),
            Self::Ecdsa(key) => sequence(&[&oid(key.names().1)]),
            Self::Ed25519(_) => sequence(&[&oid(ED25519)]),
            Self::Dsa(_) => {
                let what = "x509: certificate private key does not implement crypto.Signer";
                return Err(Fault::from(what));
            }
        })
    }

    /// The signature of a text.
    pub(super) fn sign(&self, text: &[u8], scope: &mut Scope<'_>) -> Result<Vec<u8>, Fault> {
        scope.spend(KEY_STEPS)?;
        Ok(match self {
            Self::Rsa(key) => {
                let size = rsa::traits::PublicKeyParts::size(&**key);
                // Twice the bits take eight times as long.
                scope.spend(size * size * size / 1000)?;
                sign_rsa(key, text, &mut Random(entropy(scope)?))?
            }
            Self::Ecdsa(key) => key.sign(text, &mut Random(entropy(scope)?))?,
            Self::Ed25519(secret_bytes) => {
                let pair = Ed25519KeyPair::from_seed_unchecked(secret_bytes).map_err(unwritable)?;
                pair.sign(text).as_ref().to_vec()
            }
            Self::Dsa(_) => return self.signing(),
        })
    }
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use rsa::signature::{SignatureEncoding, Signer, Verifier};
    use rsa::{RsaPublicKey, pkcs1v15, sha2::Sha256};

    use super::{Key, RSA_BITS_MAX, Random, integer, pem, primes, sequence, sign_rsa};

    #[test]
    fn ring_and_the_crate_rsa_make_the_same_signature() {
        for bits in [1024, 2048] {
            let random = &mut Random(Entropy::seeded(1));
            let key = primes::rsa_key(bits, random).unwrap();
            let signature = sign_rsa(&key, b"text", random).unwrap();
            let signer = pkcs1v15::SigningKey::<Sha256>::new(key.clone());
            assert_eq!(signature, signer.sign(b"text").to_vec(), "{bits} bits");
            let reader = pkcs1v15::VerifyingKey::<Sha256>::new(RsaPublicKey::from(&key));
            let signature = pkcs1v15::Signature::try_from(signature.as_slice()).unwrap();
            assert!(reader.verify(b"text", &signature).is_ok(), "{bits} bits");
            assert!(reader.verify(b"next", &signature).is_err(), "{bits} bits");
        }
    }

    #[test]
    fn an_rsa_key_with_an_overlong_number_is_refused_before_multiplication() {
        let key = |prime_bytes: usize| {
            let (small, prime) = (integer(&[3]), integer(&vec![0x7f; prime_bytes]));
            let numbers = [
                &integer(&[]),
                &small,
                &small,
                &small,
                &prime,
                &prime,
                &small,
                &small,
                &small,
            ];
            let der = sequence(&numbers.map(Vec::as_slice));
            Key::read(&pem::write("RSA PRIVATE KEY", &der))
                .err()
                .unwrap_or_default()
        };
        let why = |why: &str| format!("parsing RSA private key from PEM: x509: {why}");
        assert_eq!(key(RSA_BITS_MAX / 8), why("it is no RSA key"));
        assert_eq!(key(1 << 20), why("it has 8388608 bits, at most 8192 are read"));
    }
}
