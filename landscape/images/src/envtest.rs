//! This program under the names `etcd` and `kube-apiserver`, so that controller-runtime's envtest starts it where it would
//! start those: each suite gets a Kubernetes in memory, with no controllers beside it, as envtest's users know it. Flags
//! and files are the ones that envtest gives (sigs.k8s.io/controller-runtime v0.25
//! pkg/internal/testing/controlplane/apiserver.go and etcd.go).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, PrivateKey, PublicKey};
use cluster_apiserver::{ApiServer, Authorities, DEFAULT_GIT_VERSION, TokenAuthority};
use cluster_front::{ANY_NAME, Front, RegisteredServer};
use cluster_store::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::flags;

/// The names that envtest looks for in its assets.
const ETCD: &str = "etcd";
const KUBE_APISERVER: &str = "kube-apiserver";
/// Flags that make a difference here. Which others there are stands in the tables of the images.
const APISERVER_FLAGS: [&str; 15] = [
    "api-audiences",
    "authorization-mode",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-bootstrap-token-auth",
    "secure-port",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "tls-cert-file",
    "tls-private-key-file",
];
/// Flags that envtest gives in every suite, and which make no difference: they are no reason for a warning.
const APISERVER_FLAGS_IDLE: [&str; 3] = ["advertise-address", "allow-privileged", "etcd-servers"];
const ETCD_FLAGS: [&str; 1] = ["listen-client-urls"];
const ETCD_FLAGS_IDLE: [&str; 4] = [
    "advertise-client-urls",
    "data-dir",
    "listen-peer-urls",
    "unsafe-no-fsync",
];
/// kube-apiserver's default port.
const PORT: u16 = 6443;
/// Where etcd listens by default.
const ETCD_URL: &str = "http://127.0.0.1:2379";
/// How long the certificate is valid that is made where none is given: as kube-apiserver's.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// Bytes of a request's head that are read; who sends more wants no health.
const HEAD_MAX: usize = 8 * 1024;
/// How long a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What this process was started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `etcd`: reports that it is healthy and holds nothing.
    Etcd,
    /// `kube-apiserver`.
    KubeApiserver,
}

impl Program {
    /// By the file name of the command line's first word; none for every other name.
    #[must_use]
    pub fn called(words: &[String]) -> Option<Self> {
        match Path::new(words.first()?).file_name()?.to_str()? {
            ETCD => Some(Self::Etcd),
            KUBE_APISERVER => Some(Self::KubeApiserver),
            _ => None,
        }
    }

    /// Runs until `stop` is done. `print` prints what `--help` or `--version` asks for.
    ///
    /// # Errors
    /// A flag or a file that cannot be used, a port that is taken.
    pub async fn run(
        self,
        words: &[String],
        stop: impl Future<Output = ()>,
        print: impl FnOnce(&str),
    ) -> Result<(), Fault> {
        let flags = Flags::parse(self, words.get(1..).unwrap_or_default())?;
        if flags.values.contains_key("help") {
            print(&self.help());
            return Ok(());
        }
        if flags.values.contains_key("version") {
            print(&format!("Kubernetes {DEFAULT_GIT_VERSION}"));
            return Ok(());
        }
        for flag in flags.idle() {
            tracing::warn!("{}: --{flag} makes no difference here", self.name());
        }
        match self {
            Self::Etcd => etcd(&flags, stop).await,
            Self::KubeApiserver => kube_apiserver(&flags, stop).await,
        }
    }

    /// All of them.
    pub const ALL: [Self; 2] = [Self::Etcd, Self::KubeApiserver];

    /// The name that envtest looks for in its assets.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => ETCD,
            Self::KubeApiserver => KUBE_APISERVER,
        }
    }

    fn flags(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Etcd => (&ETCD_FLAGS, &ETCD_FLAGS_IDLE),
            Self::KubeApiserver => (&APISERVER_FLAGS, &APISERVER_FLAGS_IDLE),
        }
    }

    /// The program that is imitated, of which the flags are known.
    fn imitated(self) -> &'static flags::Program {
        match self {
            Self::Etcd => &super::etcd::PROGRAM,
            Self::KubeApiserver => &super::kube_apiserver::PROGRAM,
        }
    }

    /// envtest reads in it which flags there are. One with `--insecure-port` would be a Kubernetes before 1.24 to it, so
    /// that the tables must not begin earlier.
    fn help(self) -> String {
        let (flags, _) = self.flags();
        let mut text = format!(
            "orangery as {}, for envtest: a Kubernetes in memory that ends with the process.\n\nFlags:\n",
            self.name()
        );
        for flag in flags {
            text += &format!("      --{flag}\n");
        }
        text += "\nThese and all others are taken and make no difference:\n";
        for flag in self.imitated().registered().filter(|flag| !flags.contains(flag)) {
            text += &format!("      --{flag}\n");
        }
        text
    }
}

/// A command line as Go programs take it: `--name=value`, `--name value`, or the name alone for what is switched on.
struct Flags {
    program: Program,
    values: BTreeMap<String, String>,
}

impl Flags {
    fn parse(program: Program, words: &[String]) -> Result<Self, Fault> {
        let mut values = BTreeMap::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else {
                return Err(Fault::user(format!("{}: unexpected argument: {word}", program.name())));
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => {
                    let value = words.next_if(|next| !next.starts_with('-'));
                    (flag, value.cloned().unwrap_or_else(|| "true".to_owned()))
                }
            };
            let name = if name == "h" { "help" } else { name };
            // Lists may come in several flags.
            values
                .entry(name.to_owned())
                .and_modify(|list: &mut String| *list = format!("{list},{value}"))
                .or_insert(value);
        }
        Ok(Self { program, values })
    }

    fn get(&self, name: &str) -> Option<&str> {
        let value = self.values.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    fn list(&self, name: &str) -> Vec<&str> {
        let words = self.get(name).unwrap_or_default().split(',');
        words.filter(|word| !word.is_empty()).collect()
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let parse = |value: &str| {
            value
                .parse()
                .map_err(|_| self.wrong(name, &format!("cannot be {value:?}")))
        };
        self.get(name).map(parse).transpose()
    }

    fn file(&self, name: &str) -> Result<Option<String>, Fault> {
        self.get(name).map(|path| self.read(name, Path::new(path))).transpose()
    }

    fn read(&self, name: &str, path: &Path) -> Result<String, Fault> {
        std::fs::read_to_string(path).map_err(|error| self.wrong(name, &format!("names {}: {error}", path.display())))
    }

    fn wrong(&self, name: &str, what: &str) -> Fault {
        Fault::user(format!("{}: --{name} {what}", self.program.name()))
    }

    /// Those that were given and are not known here.
    fn idle(&self) -> impl Iterator<Item = &String> {
        let (flags, idle) = self.program.flags();
        self.values
            .keys()
            .filter(move |name| !flags.contains(&name.as_str()) && !idle.contains(&name.as_str()))
    }
}

async fn kube_apiserver(flags: &Flags, stop: impl Future<Output = ()>) -> Result<(), Fault> {
    if let Some(modes) = flags.get("authorization-mode")
        && !modes.split(',').any(|mode| mode == "RBAC")
    {
        return Err(flags.wrong("authorization-mode", &format!("{modes} is not offered, only RBAC")));
    }
    let clock = Clock::real();
    let (certificate, key) = serving(flags, &clock)?;
    let address = flags.parsed("bind-address")?.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = SocketAddr::new(address, flags.parsed("secure-port")?.unwrap_or(PORT));
    let listener = bind(flags, address).await?;
    let accounts = !flags.list("disable-admission-plugins").contains(&"ServiceAccount");
    let mut builder = ApiServer::builder("envtest")
        .store(MemoryStore::new())
        .authorities(authorities(flags)?)
        .pods_as_accounts(accounts);
    // Services get their addresses from the first range of a dual-stack pair.
    if let Some(range) = flags.list("service-cluster-ip-range").first() {
        let parsed = range.parse();
        builder = builder
            .service_range(parsed.map_err(|error| flags.wrong("service-cluster-ip-range", &format!("{error}")))?);
    }
    let server = builder.build().await.map_err(|status| Fault::bug(status.to_string()))?;
    let registered = RegisteredServer::new(server.service(), &certificate, &key)
        .map_err(|error| flags.wrong("tls-cert-file", &format!("and its key cannot be used: {error}")))?;
    let front = Front::new(clock);
    let _registration = front
        .register([ANY_NAME], registered)
        .map_err(|error| Fault::bug(error.to_string()))?;
    tokio::select! {
        () = front.serve(listener, CancellationToken::new()) => {}
        () = stop => {}
    }
    server.shutdown().await;
    Ok(())
}

/// The server's certificate and key: those of the flags, those in the folder of `--cert-dir`, or new ones.
fn serving(flags: &Flags, clock: &Clock) -> Result<(String, String), Fault> {
    if let (Some(certificate), Some(key)) = (flags.file("tls-cert-file")?, flags.file("tls-private-key-file")?) {
        return Ok((certificate, key));
    }
    let folder = flags.get("cert-dir").map(Path::new);
    if let Some(folder) = folder.filter(|folder| folder.join("apiserver.crt").exists()) {
        let read = |file: &str| flags.read("cert-dir", &folder.join(file));
        return Ok((read("apiserver.crt")?, read("apiserver.key")?));
    }
    let entropy = Entropy::os();
    let names = vec!["localhost".to_owned()];
    let spec = CertificateSpec::server("envtest", names, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], VALIDITY);
    let issued = Authority::generate("envtest-ca", clock, &entropy)
        .and_then(|authority| authority.issue(&spec, clock, &entropy))
        .map_err(|error| Fault::bug(error.to_string()))?;
    Ok((issued.certificate_pem(), issued.key_pem().expose().to_owned()))
}

fn authorities(flags: &Flags) -> Result<Authorities, Fault> {
    let signer = flags.file("service-account-signing-key-file")?;
    let signer = signer.map(|pem| {
        PrivateKey::from_pem(&pem).unwrap_or_else(|_| {
            // RSA, as envtest made them before 2021: clients verify tokens with the server, not with the file.
            tracing::warn!(
                "--service-account-signing-key-file holds no ECDSA P-256 key: tokens are signed with another"
            );
            PrivateKey::generate(&Entropy::os())
        })
    });
    let mut verifiers: Vec<PublicKey> = signer.iter().map(PrivateKey::public).collect();
    if let Some(pem) = flags.file("service-account-key-file")? {
        verifiers.extend(PublicKey::all_from_pem(&pem).unwrap_or_default());
    }
    let audiences = flags.list("api-audiences").into_iter().map(str::to_owned);
    let issuer = flags
        .list("service-account-issuer")
        .first()
        .copied()
        .unwrap_or("https://kubernetes.default.svc");
    Ok(Authorities {
        client_authorities: flags.file("client-ca-file")?.unwrap_or_default(),
        service_accounts: signer.map(|signer| TokenAuthority {
            issuer: issuer.to_owned(),
            keys_url: flags.get("service-account-jwks-uri").map(str::to_owned),
            audiences: audiences.collect(),
            signer: Some(signer),
            verifiers,
        }),
        bootstrap_tokens: flags.parsed("enable-bootstrap-token-auth")?.unwrap_or(false),
    })
}

async fn bind(flags: &Flags, address: SocketAddr) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).await.map_err(|error| {
        Fault::user(format!("{}: cannot listen on {address}: {error}", flags.program.name()))
            .hint("end the process that uses the port")
    })
}

/// Serves health alone: here no client asks an etcd for anything else.
async fn etcd(flags: &Flags, stop: impl Future<Output = ()>) -> Result<(), Fault> {
    let url = flags.list("listen-client-urls").first().copied().unwrap_or(ETCD_URL);
    let address = url
        .split_once("://")
        .map_or(url, |(_, rest)| rest)
        .trim_end_matches('/');
    let address = address.replace("localhost", "127.0.0.1");
    let address = address
        .parse()
        .map_err(|_| flags.wrong("listen-client-urls", &format!("cannot be {url:?}")))?;
    let listener = bind(flags, address).await?;
    let serve = async {
        while let Ok((stream, _)) = listener.accept().await {
            // Who breaks off needs no answer.
            tokio::spawn(tokio::time::timeout(HEAD_TIMEOUT, health(stream)));
        }
    };
    tokio::select! {
        () = serve => {}
        () = stop => {}
    }
    Ok(())
}

async fn health(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_MAX {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let (status, body) = if head.starts_with(b"GET /health") {
        ("200 OK", "{\"health\":\"true\",\"reason\":\"\"}")
    } else {
        ("404 Not Found", "this etcd stands in for one: it holds nothing")
    };
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> Flags {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Flags::parse(Program::KubeApiserver, &words).unwrap()
    }

    #[test]
    fn the_program_is_chosen_by_its_name_alone() {
        let called = |name: &str| Program::called(&[name.to_owned(), "etcd".to_owned()]);
        assert_eq!(called("/a/b/etcd"), Some(Program::Etcd));
        assert_eq!(called("kube-apiserver"), Some(Program::KubeApiserver));
        assert_eq!((called("orangery"), called("etcd/orangery")), (None, None));
        assert_eq!(Program::called(&[]), None);
    }

    #[test]
    fn flags_are_read_as_by_go_and_unknown_ones_reported() {
        let flags = flags(&[
            "--secure-port=1",
            "--bind-address",
            "::1",
            "--a=1",
            "--a=2",
            "--feature-gates=X=true",
        ]);
        assert_eq!(flags.parsed::<u16>("secure-port").unwrap(), Some(1));
        assert_eq!(
            (flags.get("bind-address"), flags.list("a")),
            (Some("::1"), vec!["1", "2"])
        );
        assert_eq!(flags.idle().collect::<Vec<_>>(), ["a", "feature-gates"]);
        let refusal = flags.parsed::<u16>("feature-gates").unwrap_err().to_string();
        assert_eq!(refusal, "kube-apiserver: --feature-gates cannot be \"X=true\"");
    }

    #[test]
    fn what_envtest_looks_for_in_the_help_text_is_found_there() {
        let has = |program: Program, flag: &str| {
            let line = format!("--{flag}");
            program.help().lines().any(|found| found.trim() == line)
        };
        assert!(has(Program::Etcd, "unsafe-no-fsync"));
        assert!(has(Program::KubeApiserver, "secure-port"));
        assert!(!has(Program::KubeApiserver, "insecure-port"));
    }

    #[test]
    fn flags_that_are_known_here_are_flags_of_the_real_program() {
        for program in [Program::Etcd, Program::KubeApiserver] {
            let registered: Vec<&str> = program.imitated().registered().collect();
            let (flags, idle) = program.flags();
            for flag in flags.iter().chain(idle) {
                assert!(registered.contains(flag), "{} has no --{flag}", program.name());
            }
        }
    }
}
