//! The rotation of an authority as a value. Never decides when a phase begins; its owner does.
//!
//! Phases as Gardener's (gardener/gardener docs/usage/security/shoot_credentials_rotation.md): while Preparing and
//! Prepared two authorities are trusted; clients get certificates of the new one at once, servers keep certificates
//! of the old one until Completing, when all clients are known to trust the new one.

use crate::{Authority, Usage};

/// The phase of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RotationPhase {
    /// The new authority exists and the bundle with both is being rolled out.
    Preparing,
    /// All clients trust both.
    Prepared,
    /// The old one is being dropped.
    Completing,
    /// One authority again.
    Completed,
}

/// A step that the present phase does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rotation of the authority is {found:?}; this step needs it to be {needed:?}")]
pub struct RotationError {
    /// The phase of the rotation.
    pub found: RotationPhase,
    /// The phase that the step needs.
    pub needed: RotationPhase,
}

/// The one or two authorities that are trusted at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityPair {
    current: Authority,
    old: Option<Authority>,
    phase: RotationPhase,
}

impl AuthorityPair {
    /// An authority that is not being rotated.
    pub fn single(current: Authority) -> Self {
        Self {
            current,
            old: None,
            phase: RotationPhase::Completed,
        }
    }

    /// The authority that signs new client certificates.
    pub fn current(&self) -> &Authority {
        &self.current
    }

    /// The authority that is being replaced.
    pub fn old(&self) -> Option<&Authority> {
        self.old.as_ref()
    }

    /// The phase of the rotation.
    pub fn phase(&self) -> RotationPhase {
        self.phase
    }

    /// Who signs: servers stay with the old authority as long as it is trusted, clients move at once.
    pub fn signer(&self, usage: Usage) -> &Authority {
        match usage {
            Usage::Client => &self.current,
            Usage::Server | Usage::ServerAndClient => self.old.as_ref().unwrap_or(&self.current),
        }
    }

    /// Both certificates as PEM, current first.
    pub fn bundle(&self) -> String {
        let old = self.old.as_ref().map(Authority::certificate_pem).unwrap_or_default();
        format!("{}{old}", self.current.certificate_pem())
    }

    /// Begins: `new` becomes the current one, the present one the old.
    ///
    /// # Errors
    /// While another rotation runs.
    pub fn prepare(self, new: Authority) -> Result<Self, RotationError> {
        self.expect(RotationPhase::Completed)?;
        Ok(Self {
            current: new,
            old: Some(self.current),
            phase: RotationPhase::Preparing,
        })
    }

    /// All clients trust both.
    ///
    /// # Errors
    /// Unless Preparing.
    pub fn prepared(self) -> Result<Self, RotationError> {
        self.expect(RotationPhase::Preparing)?;
        Ok(Self {
            phase: RotationPhase::Prepared,
            ..self
        })
    }

    /// Drops the old authority.
    ///
    /// # Errors
    /// Unless Prepared.
    pub fn complete(self) -> Result<Self, RotationError> {
        self.expect(RotationPhase::Prepared)?;
        Ok(Self {
            old: None,
            phase: RotationPhase::Completing,
            ..self
        })
    }

    /// No client trusts the old one any more.
    ///
    /// # Errors
    /// Unless Completing.
    pub fn completed(self) -> Result<Self, RotationError> {
        self.expect(RotationPhase::Completing)?;
        Ok(Self {
            phase: RotationPhase::Completed,
            ..self
        })
    }

    fn expect(&self, needed: RotationPhase) -> Result<(), RotationError> {
        if self.phase == needed {
            Ok(())
        } else {
            Err(RotationError {
                found: self.phase,
                needed,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;

    use super::*;
    use crate::{VALIDITY_AUTHORITY, split_bundle};

    fn authority(entropy: &Entropy) -> Authority {
        let now = "2026-01-01T00:00:00Z".parse().expect("time");
        Authority::generate_at("ca", VALIDITY_AUTHORITY, now, entropy).expect("authority")
    }

    #[test]
    fn servers_keep_the_old_authority_until_the_rotation_completes_and_clients_move_at_once() {
        let entropy = Entropy::seeded(1);
        let (first, second) = (authority(&entropy), authority(&entropy));
        let pair = AuthorityPair::single(first.clone());
        assert_eq!(
            pair.clone().prepared().expect_err("not begun").needed,
            RotationPhase::Preparing
        );
        let pair = pair.prepare(second.clone()).expect("begin");
        assert_eq!(
            (pair.signer(Usage::Server), pair.signer(Usage::Client)),
            (&first, &second)
        );
        assert_eq!(
            split_bundle(&pair.bundle()),
            [second.certificate_pem(), first.certificate_pem()]
        );
        assert!(pair.clone().prepare(first).is_err(), "two rotations at once");
        let pair = pair.prepared().and_then(AuthorityPair::complete).expect("complete");
        assert_eq!(
            (pair.signer(Usage::Server), pair.bundle()),
            (&second, second.certificate_pem())
        );
        assert_eq!(pair.completed().expect("completed").phase(), RotationPhase::Completed);
    }
}
