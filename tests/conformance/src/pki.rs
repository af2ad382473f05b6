//! The certificates of one server and its administrator. Made anew for each run; nothing of it is kept.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, Issued, KubeconfigSpec, PrivateKey, SecretText};

use crate::Outcome;

/// The name that both servers answer to.
pub(crate) const SERVER_NAME: &str = "localhost";
/// Whose members may do everything, before any role is bound.
pub(crate) const MASTERS: &str = "system:masters";
/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// As whom a server asks servers behind it.
pub(crate) const FRONT_PROXY: &str = "front-proxy";

/// One server's authority, its own certificate, and its administrator's.
pub(crate) struct Pki {
    pub(crate) authority: Authority,
    pub(crate) server: Issued,
    pub(crate) admin: Issued,
    /// Who vouches for front proxies, and the server as one.
    pub(crate) front_authority: Authority,
    pub(crate) front_proxy: Issued,
    /// Signs the tokens of service accounts.
    pub(crate) accounts: PrivateKey,
    clock: Clock,
    entropy: Entropy,
}

impl Pki {
    pub(crate) fn generate() -> Outcome<Self> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let authority = Authority::generate("conformance", &clock, &entropy).map_err(|error| error.to_string())?;
        let names = ["localhost", "kubernetes.default.svc", "behind.default.svc"]
            .map(str::to_owned)
            .to_vec();
        let server = CertificateSpec::server("kube-apiserver", names, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], VALIDITY);
        let front_authority = Authority::generate("front", &clock, &entropy).map_err(|error| error.to_string())?;
        let front_proxy = CertificateSpec::client(FRONT_PROXY, &[], VALIDITY);
        let front_proxy = front_authority.issue(&front_proxy, &clock, &entropy);
        let admin = CertificateSpec::client("admin", &[MASTERS], VALIDITY);
        let issue = |spec| {
            authority
                .issue(spec, &clock, &entropy)
                .map_err(|error| error.to_string())
        };
        Ok(Self {
            server: issue(&server)?,
            admin: issue(&admin)?,
            front_proxy: front_proxy.map_err(|error| error.to_string())?,
            front_authority,
            accounts: PrivateKey::generate(&entropy),
            authority,
            clock,
            entropy,
        })
    }

    /// A client's certificate of the same authority.
    pub(crate) fn client(&self, user: &str) -> Outcome<Issued> {
        self.member(user, &[])
    }

    /// The same of a member of groups.
    pub(crate) fn member(&self, user: &str, groups: &[&str]) -> Outcome<Issued> {
        let spec = CertificateSpec::client(user, groups, VALIDITY);
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy);
        issued.map_err(|error| error.to_string())
    }

    /// The administrator's kubeconfig for the server on that port of loopback.
    pub(crate) fn admin_kubeconfig(&self, port: u16) -> Outcome<SecretText> {
        self.kubeconfig("admin", port, self.admin.clone())
    }

    /// A kubeconfig for the server on that port of loopback.
    pub(crate) fn kubeconfig(&self, name: &str, port: u16, issued: Issued) -> Outcome<SecretText> {
        let spec = KubeconfigSpec {
            name: name.to_owned(),
            server: format!("https://127.0.0.1:{port}"),
            tls_server_name: Some(SERVER_NAME.to_owned()),
            authorities: self.authority.certificate_pem(),
            credential: Credential::Certificate(Box::new(issued)),
            namespace: None,
        };
        base_secrets::to_yaml(&base_secrets::kubeconfig(&spec)).map_err(|error| error.to_string())
    }
}
