//! Where an inventory is stored, and what else it needs of its surroundings. An inventory decides; a ledger only writes.

use std::time::Duration;

use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use base_clock::Entropy;
use jiff::Timestamp;

/// Characters of a tag that name the shoot, for people who look at the cloud.
const OWNER_MAX: usize = 28;
/// Random characters of a tag: 57 bits.
const SUFFIX_LENGTH: usize = 12;

/// Where an inventory is stored. [`super::Inventory::open`] stores it in `status.state`; another one is for tests, and for
/// extensions that store it elsewhere.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Stores the state, and returns once it is durable.
    ///
    /// # Errors
    /// It was not stored, or may not have been; also when another writer has stored another state since this one was read or
    /// written last.
    async fn save(&self, state: RawJson) -> Result<(), Fault>;

    /// What time it is.
    fn now(&self) -> Timestamp;

    /// A tag that no resource has had before.
    fn tag(&self) -> String;

    /// Whether something new may be begun.
    ///
    /// # Errors
    /// The operation has become pointless.
    fn may_begin(&self) -> Result<(), Fault>;

    /// The error that has the operation called again `after` some time.
    fn again(&self, after: Duration, reason: String) -> Fault;
}

/// A tag for what belongs to `owner`, a namespace or name: as many of its characters as any cloud takes, and random ones. It
/// goes with a shoot to another seed, so it is made from nothing that the seed gives.
pub(super) fn tag_for(owner: &str, entropy: &Entropy) -> String {
    let owner = owner.to_ascii_lowercase();
    let fits = |character: &char| character.is_ascii_alphanumeric() || *character == '-';
    let owner: String = owner.chars().filter(fits).take(OWNER_MAX).collect();
    let begins_with_letter = owner.starts_with(|first: char| first.is_ascii_alphabetic());
    let before = if begins_with_letter { "" } else { "o-" };
    format!("{before}{owner}-{}", entropy.suffix(SUFFIX_LENGTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_owner_and_fits_every_cloud() {
        let entropy = Entropy::seeded(1);
        for (owner, beginning) in [
            ("shoot--a--b", "shoot--a--b-"),
            ("5f0A_x", "o-5f0ax-"),
            (
                "shoot--project---a-name-that-is-too-long",
                "shoot--project---a-name-that-",
            ),
        ] {
            let tag = tag_for(owner, &entropy);
            assert!(tag.starts_with(beginning) && tag.len() <= 43, "{tag}");
            assert_ne!(tag, tag_for(owner, &entropy));
        }
    }
}
