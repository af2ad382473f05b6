//! New RSA keys: two primes as FIPS 186-5 requires them, tested by `crypto-primes`.

use std::convert::Infallible;
use std::num::NonZeroU32;

use crypto_bigint::BoxedUint;
use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_primes::Flavor;
use crypto_primes::fips::{FipsOptions, is_prime};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieve, random_odd_integer};
use rsa::rand_core::RngCore;
use rsa::{BigUint, RsaPrivateKey};

use super::keys::Random;

/// The public exponent: Go's.
const EXPONENT: u32 = 65537;
/// Keys of fewer bits are broken; Go makes none either.
const BITS_MIN: u32 = 1024;
/// So many numbers in a row without small factors are tested before a new start is drawn. With primes of 1024 bits one in 41 is
/// prime, with 2048 one in 82.
const CANDIDATES_MAX: usize = 512;
/// The primes of a key must differ in one of so many first bits (FIPS 186-5, A.1.3, step 5.5).
const DISTINCT_BITS: usize = 100;

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(RngCore::next_u32(self))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(RngCore::next_u64(self))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        RngCore::fill_bytes(self, bytes);
        Ok(())
    }
}

/// As for `CryptoRng` of the older `rand_core`.
impl TryCryptoRng for Random {}

/// A new key whose modulus has so many bits, an even number of them. Its private exponent is the smallest possible, as in FIPS
/// 186-5 (A.1.1) and Go 1.26. Whether that is too short is not checked: the chance is one in two to the power of half its bits.
///
/// # Errors
/// They are fewer than [`BITS_MIN`].
pub(super) fn rsa_key(bits: u32, random: &mut Random) -> Result<RsaPrivateKey, String> {
    let half = NonZeroU32::new(bits / 2).filter(|_| bits >= BITS_MIN);
    let half = half.ok_or_else(|| format!("an RSA key of {bits} bits is too short: at least {BITS_MIN} are wanted"))?;
    loop {
        let mut draw = || prime(half, random).map_err(|why| why.to_string());
        let (first, second) = (draw()?, draw()?);
        if are_distinct(&first, &second) {
            return RsaPrivateKey::from_p_q(first, second, EXPONENT.into()).map_err(|why| why.to_string());
        }
    }
}

/// Whether they differ by at least two to the power of their bits less [`DISTINCT_BITS`].
fn are_distinct(first: &BigUint, second: &BigUint) -> bool {
    let (low, high) = (first.min(second), first.max(second));
    (high - low).bits() + DISTINCT_BITS > high.bits()
}

/// A prime of so many bits, whose first two are set so that a product of two has twice as many.
///
/// It is the first after a random number. FIPS 186-5 (A.1.3) and Go draw each number that they test, which takes more tests,
/// because neighbours are sieved together. So a prime after a long gap comes more often: that takes 0.61 bits from the thousand
/// that there are to guess (the mean of x log2 x, gaps being distributed as e^-x), and is of no help to an attacker.
fn prime(bits: NonZeroU32, random: &mut Random) -> Result<BigUint, crypto_primes::Error> {
    loop {
        let start = random_odd_integer::<BoxedUint, _>(random, bits, SetBits::TwoMsb)?;
        let mut candidates = SmallFactorsSieve::new(start.get(), bits, false)?.take(CANDIDATES_MAX);
        let found = candidates.find(|candidate| is_probably_prime(candidate, random));
        let found = found.map(|prime| BigUint::from_bytes_be(&prime.to_be_bytes()));
        if let Some(prime) = found.filter(has_private_exponent) {
            return Ok(prime);
        }
    }
}

/// Whether one less than the prime has no factor in common with [`EXPONENT`], which is a prime, too.
fn has_private_exponent(prime: &BigUint) -> bool {
    prime % EXPONENT != BigUint::from(1_u32)
}

/// Whether it passes the test of Miller and Rabin (FIPS 186-5, B.3.1) often enough. Numbers that an attacker chose
/// need more.
fn is_probably_prime(candidate: &BoxedUint, random: &mut Random) -> bool {
    let options = FipsOptions::with_mr_iterations(rounds(candidate.bits()));
    is_prime(random, Flavor::Any, candidate, options)
}

/// How many random bases a prime of so many bits is tested with: one more than FIPS 186-5 requires (table B.1: 5 for 1024 bits
/// and an error of 2^-112, 4 for 2048 and 2^-144), because in a row of neighbours a composite that passes is likelier than
/// among drawn numbers (Brandt, Damgård: On Generation of Probable Primes by Incremental Search, 1992).
fn rounds(bits: u32) -> usize {
    if bits < 1536 { 6 } else { 5 }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use base_clock::Entropy;
    use crypto_bigint::BoxedUint;
    use rsa::traits::{PrivateKeyParts, PublicKeyParts};
    use rsa::{BigUint, RsaPrivateKey};

    use super::{EXPONENT, Random, are_distinct, has_private_exponent, is_probably_prime, prime, rounds, rsa_key};

    fn random(draw: u64) -> Random {
        Random(Entropy::seeded(draw))
    }

    fn number(decimal: &str) -> BigUint {
        BigUint::parse_bytes(decimal.as_bytes(), 10).unwrap()
    }

    fn one() -> BigUint {
        BigUint::from(1_u32)
    }

    fn check(bits: usize, key: &RsaPrivateKey) {
        let [p, q] = key.primes() else { panic!("two primes") };
        for prime in [p, q] {
            // With its first two bits set, a number is at least three quarters of the next power of two.
            assert!(*prime >= BigUint::from(3_u32) << (bits / 2 - 2), "{prime}");
            assert_eq!(prime.bits(), bits / 2);
            assert_ne!(prime % 2_u32, BigUint::from(0_u32));
            assert_ne!((prime - one()) % EXPONENT, BigUint::from(0_u32));
            assert!(rsa::BigUint::from(2_u32).modpow(&(prime - one()), prime) == one());
        }
        assert!((p.max(q) - p.min(q)).bits() > bits / 2 - 100);
        assert_eq!((key.n(), key.n().bits()), (&(p * q), bits));
        assert_eq!(key.e(), &BigUint::from(65537_u32));
        assert!(key.d().bits() > bits / 2);
        // Both are even, so that a common multiple is half their product at the most.
        assert!(*key.d() < ((p - one()) * (q - one())) >> 1_usize);
        assert!(key.validate().is_ok());
    }

    #[test]
    fn keys_conform_to_fips_186_5() {
        for draw in 0..8 {
            check(1024, &rsa_key(1024, &mut random(draw)).unwrap());
        }
        check(2048, &rsa_key(2048, &mut random(8)).unwrap());
    }

    #[test]
    fn equal_randomness_makes_equal_keys() {
        let key = |draw| rsa_key(1024, &mut random(draw)).unwrap();
        assert_eq!(key(1), key(1));
        assert_ne!(key(1).n(), key(2).n());
    }

    #[test]
    fn a_key_that_is_too_short_is_refused() {
        for bits in [0, 1, 2, 512, 1023] {
            let why = format!("an RSA key of {bits} bits is too short: at least 1024 are wanted");
            assert_eq!(rsa_key(bits, &mut random(1)), Err(why));
        }
    }

    /// There are three with 6 bits, and 63 is a start with none above it.
    #[test]
    fn every_prime_with_its_first_two_bits_set_can_be_drawn() {
        let bits = NonZeroU32::new(6).unwrap();
        let random = &mut random(1);
        let mut drawn: Vec<_> = (0..200).map(|_| prime(bits, random).unwrap()).collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn, [53_u32, 59, 61].map(BigUint::from));
    }

    #[test]
    fn primes_that_share_their_first_100_bits_are_too_close() {
        let first = BigUint::from(3_u32) << 1022_usize;
        let apart = |bits: usize| are_distinct(&first, &(&first + (one() << bits)));
        assert_eq!((apart(923), apart(924)), (false, true));
        assert!(!are_distinct(&first, &first));
        assert!(are_distinct(&(&first + (one() << 1000_usize)), &first));
    }

    #[test]
    fn a_prime_without_a_private_exponent_is_refused() {
        // 917519 is 14 times the exponent and one.
        let has = |prime: u32| has_private_exponent(&BigUint::from(prime));
        assert_eq!((has(786_433), has(917_519)), (true, false));
    }

    #[test]
    fn primes_pass_and_pseudoprimes_fail() {
        let random = &mut random(1);
        let mut is_prime = |number: &BigUint| {
            let bits = u32::try_from(number.bits()).unwrap().next_multiple_of(64);
            is_probably_prime(&BoxedUint::from_be_slice(&number.to_bytes_be(), bits).unwrap(), random)
        };
        let mersenne = |bits: usize| (one() << bits) - one();
        for prime in [521, 607, 1279, 2203].map(mersenne) {
            assert!(is_prime(&prime), "{prime}");
            assert!(!is_prime(&(&prime * &prime)), "the square of {prime}");
            assert!(!is_prime(&(&prime * mersenne(127))), "a multiple of {prime}");
        }
        // 2 is no witness against it, as against no Mersenne number.
        assert!(!is_prime(&mersenne(1031)));
        // F. Arnault, Constructing Carmichael numbers which are strong pseudoprimes to several bases, 1995: to all primes
        // below 307.
        let first = number(
            "2967449566868551055015417464290533273077199179985304335099507553127683875317177019959423859642812118\
             8033664754218345562493168782883",
        );
        let of = |factor: u32| (&first - one()) * factor + one();
        assert!([&first, &of(313), &of(353)].into_iter().all(&mut is_prime));
        let arnault = &first * of(313) * of(353);
        for base in [2_u32, 3, 5, 7, 11, 293] {
            let power = BigUint::from(base).modpow(&((&arnault - one()) >> 1_usize), &arnault);
            assert!(power == one() || power == &arnault - one(), "{base}");
        }
        assert!(!is_prime(&arnault));
        // J. Chernick's form of Carmichael numbers.
        let k = (one() << 338_usize) + BigUint::from(809_752_u32);
        let factors = [6_u32, 12, 18].map(|times| &k * times + one());
        assert!(factors.iter().all(&mut is_prime));
        assert!(!is_prime(&factors.iter().product()));
    }

    #[test]
    fn the_length_of_a_prime_decides_how_many_rounds_it_passes() {
        assert_eq!([1024, 1536, 2048].map(rounds), [6, 5, 5]);
    }
}
