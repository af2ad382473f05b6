//! Randomness. Never stores what it has returned: that is as secret as the caller makes it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::{OsRng, StdRng};
use rand::{RngCore, SeedableRng, TryRngCore};

/// What generated names end with: Kubernetes' alphabet, without vowels and look-alikes
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/util/rand).
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of random numbers. Clones draw from the same source.
#[derive(Clone)]
pub struct Entropy(Source);

#[derive(Clone)]
enum Source {
    Os,
    Seeded(Arc<Mutex<StdRng>>),
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::Os => "Entropy::os",
            Source::Seeded(_) => "Entropy::seeded",
        })
    }
}

impl Entropy {
    /// The operating system's generator: fit for keys.
    pub fn os() -> Self {
        Self(Source::Os)
    }

    /// The same numbers for the same seed. Never fit for keys that guard anything but a test.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// The next 64 random bits.
    pub fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            Source::Os => OsRng
                .try_fill_bytes(bytes)
                .expect("an operating system that cannot give random bytes cannot run a TLS server either"),
            Source::Seeded(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes),
        }
    }

    /// A number in `0..bound`; 0 for a bound of 0. The bias of the modulo is below 2^-32 for bounds that fit
    /// 32 bits: fine for jitter and names, not for cryptography.
    pub fn below(&self, bound: u64) -> u64 {
        self.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// `length` characters of [`SUFFIX_ALPHABET`], for names generated from a prefix.
    pub fn suffix(&self, length: usize) -> String {
        let alphabet = SUFFIX_ALPHABET.len() as u64;
        (0..length)
            .map(|_| char::from(SUFFIX_ALPHABET[self.below(alphabet) as usize]))
            .collect()
    }

    /// A version 4 UUID, as `metadata.uid` holds it.
    pub fn uid(&self) -> String {
        let mut b = [0; 16];
        self.fill(&mut b);
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex: String = b.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_the_system_does_not() {
        let draw = |entropy: Entropy| (entropy.next_u64(), entropy.suffix(8), entropy.clone().uid());
        assert_eq!(draw(Entropy::seeded(7)), draw(Entropy::seeded(7)));
        assert_ne!(draw(Entropy::seeded(7)), draw(Entropy::seeded(8)));
        assert_ne!(draw(Entropy::os()), draw(Entropy::os()));
    }

    #[test]
    fn clones_share_one_sequence() {
        let entropy = Entropy::seeded(1);
        assert_ne!(entropy.clone().next_u64(), entropy.next_u64());
    }

    #[test]
    fn uids_carry_version_and_variant_and_suffixes_the_alphabet() {
        let entropy = Entropy::seeded(3);
        for _ in 0..200 {
            let uid = entropy.uid();
            assert_eq!(uid.len(), 36);
            assert_eq!(&uid[14..15], "4");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
        assert!(entropy.suffix(500).bytes().all(|c| SUFFIX_ALPHABET.contains(&c)));
        assert_eq!(entropy.below(0), 0);
    }
}
