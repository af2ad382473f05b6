//! The certificate that the server shows: whether it can be used, before a client connects. It reads no file.

use std::path::Path;

use api_meta::Fault;
use base_clock::Clock;
use base_secrets::{Certificate, parse_chain};

/// The flag that names the certificate.
pub(crate) const CERTIFICATE: &str = "--tls-cert-file";
/// The flag that names its key.
pub(crate) const KEY: &str = "--tls-private-key-file";

/// Checks the certificate that a file holds. A warning for a certificate that kube-apiserver will not accept.
///
/// # Errors
/// There is none, or it is not valid now.
pub(crate) fn check(path: &Path, pem: &str, clock: &Clock) -> Result<Option<String>, Fault> {
    let unusable = |why: String| {
        Fault::user(format!("the certificate in {} of {CERTIFICATE} {why}", path.display())).hint(format!(
            "name a PEM file with a certificate that is valid now, and what signed it behind it, with {CERTIFICATE}"
        ))
    };
    let chain = parse_chain(pem).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    let Some(leaf) = chain.first() else {
        return Err(unusable("is missing".to_owned()));
    };
    let now = clock.now();
    if now > leaf.not_after() {
        return Err(unusable(format!("expired at {}", leaf.not_after())));
    }
    if now < leaf.not_before() {
        return Err(unusable(format!("is not valid before {}", leaf.not_before())));
    }
    Ok(unnamed(leaf).then(|| {
        format!(
            "the certificate in {} of {CERTIFICATE} is for none of SERVICE.NAMESPACE.svc: kube-apiserver expects that name \
             and will not accept the certificate",
            path.display()
        )
    }))
}

/// Whether it has no name by which a Service's servers are known.
fn unnamed(certificate: &Certificate) -> bool {
    !certificate.dns_names().iter().any(|name| name.ends_with(".svc"))
}

/// What certificate and key that do not go together mean to the operator.
pub(crate) fn no_pair(why: &dyn std::fmt::Display) -> Fault {
    Fault::user(format!(
        "the files of {CERTIFICATE} and {KEY} cannot be used together: {why}"
    ))
    .hint(format!(
        "name a certificate with {CERTIFICATE} and its own private key with {KEY}"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base_clock::Entropy;
    use base_secrets::{Authority, CertificateSpec};

    use super::*;

    #[test]
    fn certificate_is_refused_unless_it_is_valid_now() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let later = Clock::simulated("2026-03-01T00:00:00Z".parse().unwrap());
        let earlier = Clock::simulated("2025-03-01T00:00:00Z".parse().unwrap());
        let entropy = Entropy::seeded(1);
        let authority = Authority::generate("a", &clock, &entropy).unwrap();
        let issue = |name: &str| {
            let spec = CertificateSpec::server("a", vec![name.to_owned()], vec![], Duration::from_secs(86_400));
            authority.issue(&spec, &clock, &entropy).unwrap().certificate_pem()
        };
        let path = Path::new("/tls.crt");
        let good = issue("garden.garden.svc");
        assert_eq!(check(path, &good, &clock).unwrap(), None);
        let why = |clock: &Clock, pem: &str| check(path, pem, clock).unwrap_err().to_string();
        assert!(
            why(&later, &good).contains("expired at 2026-01-02"),
            "{}",
            why(&later, &good)
        );
        assert!(why(&earlier, &good).contains("is not valid before"));
        assert!(why(&clock, "nothing").contains("cannot be read"));
        let warning = check(path, &issue("localhost"), &clock).unwrap().unwrap();
        assert!(warning.contains("SERVICE.NAMESPACE.svc"), "{warning}");
    }
}
