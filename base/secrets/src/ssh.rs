//! Key pairs for SSH, Ed25519 in OpenSSH's own format (openssh-portable `PROTOCOL.key`). Never prints a private key.
//!
//! Gardener makes RSA keys of 4096 bits, which takes seconds on one core and delays every new cluster.
//! An Ed25519 key is a function of 32 random bytes; OpenSSH and the clouds take it wherever they take RSA.

use std::fmt;

use base_clock::Entropy;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::SecretText;

/// Name of the algorithm on the wire.
const ALGORITHM: &str = "ssh-ed25519";
/// First bytes of every private key.
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// Private parts that are not encrypted are padded to this.
const BLOCK: usize = 8;
/// Characters in a line of a private key, as `ssh-keygen` writes it.
const LINE: usize = 70;

/// A key pair for SSH.
#[derive(Clone, PartialEq, Eq)]
pub struct SshKeyPair {
    secret_key: [u8; 32],
    public: [u8; 32],
    /// Written twice: two equal numbers show a reader that decryption succeeded.
    check: [u8; 4],
}

impl fmt::Debug for SshKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[SSH key pair]")
    }
}

impl SshKeyPair {
    /// Draws a new pair.
    #[must_use]
    pub fn generate(entropy: &Entropy) -> Self {
        let (mut secret_key, mut check) = ([0; 32], [0; 4]);
        entropy.fill(&mut secret_key);
        entropy.fill(&mut check);
        let pair = Ed25519KeyPair::from_seed_unchecked(&secret_key).expect("any 32 bytes are an Ed25519 key");
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        Self {
            secret_key,
            public,
            check,
        }
    }

    /// The public half as a line of `authorized_keys`.
    #[must_use]
    pub fn public(&self) -> String {
        format!("{ALGORITHM} {}\n", STANDARD.encode(self.public_blob()))
    }

    /// The private key as OpenSSH writes it, not encrypted.
    #[must_use]
    pub fn private(&self) -> SecretText {
        let mut secret = [self.check, self.check].concat();
        string(&mut secret, ALGORITHM.as_bytes());
        string(&mut secret, &self.public);
        string(&mut secret, &[self.secret_key, self.public].concat());
        string(&mut secret, b"");
        let padding = (1..).take(secret.len().next_multiple_of(BLOCK) - secret.len());
        secret.extend(padding);

        let mut all = MAGIC.to_vec();
        // Cipher, derivation of its key, and what that is derived from: none.
        string(&mut all, b"none");
        string(&mut all, b"none");
        string(&mut all, b"");
        all.extend_from_slice(&1_u32.to_be_bytes());
        string(&mut all, &self.public_blob());
        string(&mut all, &secret);

        let mut text = "-----BEGIN OPENSSH PRIVATE KEY-----\n".to_owned();
        for line in STANDARD.encode(all).as_bytes().chunks(LINE) {
            text.extend(line.iter().copied().map(char::from));
            text.push('\n');
        }
        text.push_str("-----END OPENSSH PRIVATE KEY-----\n");
        SecretText::new(text)
    }

    fn public_blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        string(&mut blob, ALGORITHM.as_bytes());
        string(&mut blob, &self.public);
        blob
    }
}

/// Appends bytes with their length before them.
fn string(to: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("parts of a key are short");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_randomness_gives_equal_pairs_and_none_is_printed() {
        let pair = SshKeyPair::generate(&Entropy::seeded(7));
        assert_eq!(pair, SshKeyPair::generate(&Entropy::seeded(7)));
        assert_ne!(pair, SshKeyPair::generate(&Entropy::seeded(8)));
        assert_eq!(format!("{pair:?} {:?}", pair.private()).matches("BEGIN").count(), 0);
    }

    /// Checked once with `ssh-keygen -y -f` of OpenSSH: it printed `PUBLIC` for `PRIVATE`.
    #[test]
    fn a_pair_is_written_as_openssh_reads_it() {
        let pair = SshKeyPair {
            secret_key: [1; 32],
            public: Ed25519KeyPair::from_seed_unchecked(&[1; 32])
                .expect("a key")
                .public_key()
                .as_ref()
                .try_into()
                .expect("32 bytes"),
            check: [2; 4],
        };
        assert_eq!(pair.public(), PUBLIC);
        assert_eq!(pair.private().expose(), PRIVATE);
    }

    const PUBLIC: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c\n";
    const PRIVATE: &str = "\
-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACCKiOPddAnxlf1S2y08ul1yymcJvx2UEhvzdIgBtA9vXAAAAIgCAgICAgIC
AgAAAAtzc2gtZWQyNTUxOQAAACCKiOPddAnxlf1S2y08ul1yymcJvx2UEhvzdIgBtA9vXA
AAAEABAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAYqI4910CfGV/VLbLTy6XXLK
Zwm/HZQSG/N0iAG0D29cAAAAAAECAwQF
-----END OPENSSH PRIVATE KEY-----
";
}
