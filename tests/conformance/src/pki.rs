//! The certificates of one server and its administrator. They are generated for each run; a server in a persistent folder
//! stores its authority and the key of its tokens there.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, Issued, KubeconfigSpec, PrivateKey, SecretText};

use crate::Outcome;

/// The TLS server name of both servers.
pub(crate) const SERVER_NAME: &str = "localhost";
/// The group whose members may do everything, before any role is bound.
pub(crate) const MASTERS: &str = "system:masters";
/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);

/// Files that persist in a folder from one start to the next: the authority's certificate.
pub(crate) const AUTHORITY: &str = "ca.crt";
/// The authority's key.
pub(crate) const AUTHORITY_KEY: &str = "ca.key";
/// The key of tokens.
pub(crate) const ACCOUNTS_KEY: &str = "accounts.key";

/// The user as which a server sends requests to servers behind it.
pub(crate) const FRONT_PROXY: &str = "front-proxy";

/// One server's authority, its own certificate, and its administrator's.
pub(crate) struct Pki {
    pub(crate) authority: Authority,
    pub(crate) server: Issued,
    pub(crate) admin: Issued,
    /// The authority of front proxies, and the server's certificate as one.
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
        Self::of(authority, PrivateKey::generate(&entropy))
    }

    /// With the authority and the token key of a server that ran in this folder before, so that what they have signed stays
    /// valid; with new ones in a new folder.
    pub(crate) fn of_folder(folder: &Path) -> Outcome<Self> {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let (Some(certificate), Some(key), Some(accounts)) = (read(AUTHORITY), read(AUTHORITY_KEY), read(ACCOUNTS_KEY))
        else {
            return Self::generate();
        };
        let authority = Authority::from_pem(&certificate, &key);
        let accounts = PrivateKey::from_pem(&accounts);
        Self::of(
            authority.map_err(|error| format!("{AUTHORITY}: {error}"))?,
            accounts.map_err(|error| format!("{ACCOUNTS_KEY}: {error}"))?,
        )
    }

    fn of(authority: Authority, accounts: PrivateKey) -> Outcome<Self> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
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
            accounts,
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
