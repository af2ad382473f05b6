//! Certificates of webhook servers on loopback; new ones at every start.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use tests_parts::Outcome;

use crate::confinement::Webhooks;
use crate::garden::VALIDITY;
use crate::write_private;

/// Writes a certificate of an authority of its own into the folder.
///
/// # Errors
/// It cannot be made or written.
pub fn serving(folder: &Path, name: &str, port: u16) -> Outcome<Webhooks> {
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let (clock, entropy) = (Clock::real(), Entropy::os());
    let failed = |error: &dyn std::fmt::Display| format!("no certificate for {name}: {error}");
    let authority = Authority::generate(name, &clock, &entropy).map_err(|error| failed(&error))?;
    let local = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let spec = CertificateSpec::server(name, vec!["localhost".to_owned()], local, VALIDITY);
    let issued = authority.issue(&spec, &clock, &entropy);
    let issued = issued.map_err(|error| failed(&error))?;
    write_private(&folder.join("tls.crt"), &issued.certificate_pem())?;
    write_private(&folder.join("tls.key"), issued.key_pem().expose())?;
    Ok(Webhooks {
        port,
        certificates: folder.to_owned(),
        authority: authority.certificate_pem(),
    })
}
