//! Certificate signing requests (PKCS#10): make, read, verify. Never decides whether a request is granted.

use std::net::IpAddr;

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_cert::attr::Attributes;
use x509_cert::der::asn1::BitString;
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode, DecodePem, Encode, EncodePem};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::x509::{self, der};
use crate::{PrivateKey, SecretError};

/// A signing request whose signature has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest(CertReq);

impl SigningRequest {
    /// Makes a request for `key`.
    ///
    /// # Errors
    /// [`SecretError::Name`] for names a certificate cannot carry.
    pub fn create(
        key: &PrivateKey,
        common_name: &str,
        organizations: &[String],
        dns_names: &[String],
        ip_addresses: &[IpAddr],
    ) -> Result<Self, SecretError> {
        let write = der("write a signing request");
        let mut attributes = Attributes::default();
        if !dns_names.is_empty() || !ip_addresses.is_empty() {
            let names = x509::alternative_names(dns_names, ip_addresses)?;
            let wanted = ExtensionReq(vec![
                x509::extension(x509::SUBJECT_ALT_NAME, false, &names).map_err(&write)?,
            ]);
            attributes.insert(wanted.try_into().map_err(&write)?).map_err(&write)?;
        }
        let info = CertReqInfo {
            version: Version::V1,
            subject: x509::name(common_name, organizations).map_err(&write)?,
            public_key: key.public().info(),
            attributes,
        };
        let signature = key.sign(&info.to_der().map_err(&write)?);
        let signature = BitString::from_bytes(&signature).map_err(&write)?;
        Ok(Self(CertReq {
            info,
            algorithm: x509::ecdsa_sha256(),
            signature,
        }))
    }

    /// Reads a request and verifies that whoever made it holds the private key.
    ///
    /// # Errors
    /// When the text does not parse or the signature is wrong or of an unknown kind.
    pub fn from_pem(text: &str) -> Result<Self, SecretError> {
        let request = CertReq::from_pem(text.trim_start().as_bytes()).map_err(der("read a signing request"))?;
        verify(&request)?;
        Ok(Self(request))
    }

    /// The request as PEM.
    pub fn to_pem(&self) -> String {
        self.0
            .to_pem(LineEnding::LF)
            .expect("a request that was built or parsed encodes")
    }

    /// Requested common name; empty when there is none.
    pub fn common_name(&self) -> String {
        x509::values(&self.0.info.subject, x509::COMMON_NAME)
            .pop()
            .unwrap_or_default()
    }

    /// Requested organisations.
    pub fn organizations(&self) -> Vec<String> {
        x509::values(&self.0.info.subject, x509::ORGANIZATION)
    }

    /// Requested DNS names.
    pub fn dns_names(&self) -> Vec<String> {
        self.names().0
    }

    /// Requested IP addresses.
    pub fn ip_addresses(&self) -> Vec<IpAddr> {
        self.names().1
    }

    /// Whether it requests names that are neither DNS names nor IP addresses, or that cannot be read.
    pub fn has_other_names(&self) -> bool {
        let extensions = self.extensions();
        let mut of_names = extensions
            .iter()
            .filter(|extension| extension.extn_id == x509::SUBJECT_ALT_NAME);
        let (Some(first), second) = (of_names.next(), of_names.next()) else {
            return false;
        };
        let names = SubjectAltName::from_der(first.extn_value.as_bytes());
        let is_known = names.is_ok_and(|names| {
            let (dns, ips) = x509::split_names(&names);
            dns.len() + ips.len() == names.0.len()
        });
        !is_known || second.is_some()
    }

    fn names(&self) -> (Vec<String>, Vec<IpAddr>) {
        let names: Option<SubjectAltName> = x509::read(&self.extensions(), x509::SUBJECT_ALT_NAME);
        names.map(|names| x509::split_names(&names)).unwrap_or_default()
    }

    fn extensions(&self) -> Vec<Extension> {
        let wanted = self
            .0
            .info
            .attributes
            .iter()
            .filter(|attribute| attribute.oid == <ExtensionReq as x509_cert::der::oid::AssociatedOid>::OID);
        let values = wanted.flat_map(|attribute| attribute.values.iter());
        values
            .filter_map(|value| Vec::<Extension>::from_der(&value.to_der().ok()?).ok())
            .flatten()
            .collect()
    }

    pub(crate) fn public_key(&self) -> SubjectPublicKeyInfoOwned {
        self.0.info.public_key.clone()
    }
}

fn verify(request: &CertReq) -> Result<(), SecretError> {
    let oid = request.algorithm.oid.to_string();
    let algorithm: &dyn VerificationAlgorithm = match oid.as_str() {
        "1.2.840.10045.4.3.2" => &signature::ECDSA_P256_SHA256_ASN1,
        "1.2.840.10045.4.3.3" => &signature::ECDSA_P384_SHA384_ASN1,
        "1.2.840.113549.1.1.11" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "1.2.840.113549.1.1.12" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "1.2.840.113549.1.1.13" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "1.3.101.112" => &signature::ED25519,
        _ => return Err(SecretError::RequestAlgorithm { oid }),
    };
    let message = request.info.to_der().map_err(der("read a signing request"))?;
    let key = UnparsedPublicKey::new(algorithm, request.info.public_key.subject_public_key.raw_bytes());
    key.verify(&message, request.signature.raw_bytes())
        .map_err(|_| SecretError::RequestSignature)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base_clock::{Clock, Entropy};

    use super::*;
    use crate::{Authority, Usage};

    #[tokio::test(start_paused = true)]
    async fn a_signed_request_keeps_its_subject_every_group_and_every_name() {
        let (clock, entropy) = (
            Clock::simulated("2026-01-01T00:00:00Z".parse().expect("time")),
            Entropy::seeded(1),
        );
        let key = PrivateKey::generate(&entropy);
        let groups = ["system:nodes".to_owned(), "second".to_owned()];
        let made = SigningRequest::create(
            &key,
            "system:node:a",
            &groups,
            &["a.local".to_owned()],
            &["10.0.0.7".parse().expect("ip")],
        )
        .expect("request");
        let read = SigningRequest::from_pem(&made.to_pem()).expect("own request");
        let authority = Authority::generate("ca", &clock, &entropy).expect("authority");
        let certificate = authority
            .sign_request(&read, Usage::Client, Duration::from_secs(3600), &clock, &entropy)
            .expect("signed");
        assert_eq!(certificate.common_name(), "system:node:a");
        assert_eq!(certificate.organizations(), groups);
        assert_eq!(certificate.dns_names(), ["a.local"]);
        assert_eq!(certificate.ip_addresses(), ["10.0.0.7".parse::<IpAddr>().expect("ip")]);
        assert!(
            certificate.is_for_clients()
                && !certificate.is_authority()
                && certificate.names_as_issuer(authority.certificate())
        );
    }

    #[test]
    fn a_request_signed_by_another_key_is_refused() {
        let entropy = Entropy::seeded(1);
        let mut made = SigningRequest::create(&PrivateKey::generate(&entropy), "a", &[], &[], &[]).expect("request");
        made.0.info.public_key = PrivateKey::generate(&entropy).public().info();
        assert!(matches!(
            SigningRequest::from_pem(&made.to_pem()),
            Err(SecretError::RequestSignature)
        ));
    }
}
