//! The keys of a cluster. What they have signed is valid as long as the cluster has them.

use std::fmt;
use std::sync::Arc;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, PrivateKey};

/// The signing keys of a cluster.
#[derive(Clone)]
pub struct Keys {
    /// Signs the API server's certificate.
    pub authority: Arc<Authority>,
    /// Signs clients' certificates.
    pub clients: Arc<Authority>,
    /// Signs service accounts' tokens.
    pub tokens: PrivateKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[keys of a cluster]")
    }
}

impl Keys {
    /// New ones.
    ///
    /// # Errors
    /// Only by a bug.
    pub fn generate(clock: &Clock, entropy: &Entropy) -> Result<Self, Fault> {
        let authority = |name: &str| {
            let made = Authority::generate(name, clock, entropy);
            made.map(Arc::new).map_err(|error| Fault::bug(error.to_string()))
        };
        Ok(Self {
            authority: authority("kubernetes-ca")?,
            clients: authority("kubernetes-ca-client")?,
            tokens: PrivateKey::generate(entropy),
        })
    }
}
