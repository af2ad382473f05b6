//! The certificate that a client of other servers presents. It opens no connection.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A client certificate with its key.
pub(crate) struct ClientIdentity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// From PEM. Errors: what of `whose` cannot be read.
    pub(crate) fn of(whose: &str, chain: &str, key: &[u8]) -> Result<Self, String> {
        let unreadable = |what: &str| format!("the {what} of the {whose} cannot be read");
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let chain = read.ok().filter(|chain| !chain.is_empty());
        Ok(Self {
            chain: chain.ok_or_else(|| unreadable("certificate"))?,
            key: PrivateKeyDer::from_pem_slice(key).map_err(|_| unreadable("private key"))?,
        })
    }
}
