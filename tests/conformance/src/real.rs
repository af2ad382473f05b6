//! Real Kubernetes on loopback: etcd and kube-apiserver, with controllers and scheduler on request. It has one folder, by
//! default a temporary one, and ends when its owner is dropped.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use ipnet::Ipv4Net;
use tests_parts::{Folder, Program, etcd_flags, folder_of_programs, free_port};

use base_secrets::SecretText;

use crate::pki::{ACCOUNTS_KEY, AUTHORITY, AUTHORITY_KEY, FRONT_PROXY, MASTERS, Pki};
use crate::wire::Call;
use crate::{Endpoint, Outcome};

/// The address of the endpoints of the Service `kubernetes`, which may not be on loopback. It is one for documentation
/// (RFC 5737); nothing connects to it.
pub const ADVERTISED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The version that is built, and that the embedded server reports in comparisons.
pub const VERSION: &str = "v1.35.4";
/// The issuer of tokens of service accounts.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Where Services get their addresses from.
pub const SERVICE_RANGE: &str = "10.0.0.0/24";
/// Far beyond the three seconds that it takes.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// A file system that lives in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
/// Between two checks whether a program is ready, which nothing announces.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Another process may take a port between the moment it is found free and the moment it is used.
const STARTS_MAX: usize = 3;

const KUBE_APISERVER: &str = "kube-apiserver";

const AUTHORIZATION_CONFIG: &str = "--authorization-config";

const AUDIT_POLICY: &str = "audit-policy.yaml";
const AUDIT_LOG: &str = "audit.log";

/// What runs beside etcd and kube-apiserver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// kube-controller-manager.
    pub controllers: bool,
    /// kube-scheduler.
    pub scheduler: bool,
    /// etcd answers when its data is on the disk, as in production. Otherwise it is in memory where possible.
    pub durable: bool,
    /// Whether the Service `kubernetes` has endpoints: at [`ADVERTISED`], where nothing listens.
    pub published: bool,
    /// The policy of the audit log; without it none is written.
    pub audit_policy: Option<&'static str>,
}

impl Options {
    /// For comparisons with the embedded server, in which the Service `kubernetes` has endpoints, too.
    #[must_use]
    pub fn compared() -> Self {
        Self {
            published: true,
            ..Self::default()
        }
    }
}

/// The folder of a Kubernetes whose data outlives its processes, and what distinguishes it from others beside it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its folder; created when it is missing, and not removed.
    pub folder: PathBuf,
    /// The port of kube-apiserver on loopback, the same at every start: kubeconfigs contain it.
    pub port: u16,
    /// Where its Services get their addresses from.
    pub service_range: Ipv4Net,
    /// Further flags of kube-apiserver; if a flag is given twice, the last counts.
    pub flags: Vec<String>,
}

/// Real Kubernetes, until it is dropped.
pub struct Real {
    /// How to reach it.
    pub endpoint: Endpoint,
    pub(crate) pki: Pki,
    port: u16,
    /// What kube-apiserver was started with.
    kube_apiserver: Vec<String>,
    /// Clients before servers, the store last: fields are dropped in this order.
    programs: Vec<Program>,
    folder: Folder,
}

impl Real {
    /// Starts it and waits until `/readyz` succeeds.
    ///
    /// # Errors
    /// A program is missing, ends while it starts, or is not ready in time.
    pub async fn start(options: Options) -> Outcome<Self> {
        let programs = folder_of_programs()?;
        let mut tries = 1;
        loop {
            let port = free_port()?;
            let setup = Setup {
                folder: temporary_folder(options)?,
                pki: Pki::generate()?,
                port,
                flags: vec![format!("--service-cluster-ip-range={SERVICE_RANGE}")],
            };
            match Box::pin(Self::start_once(&programs, options, setup)).await {
                Err(why) if why.contains("address already in use") && tries < STARTS_MAX => tries += 1,
                outcome => return outcome,
            }
        }
    }

    /// The same at a place, on what is there already.
    ///
    /// # Errors
    /// As [`Real::start`]; or files of the folder cannot be read.
    pub async fn start_at(place: &Place, options: Options) -> Outcome<Self> {
        let range = format!("--service-cluster-ip-range={}", place.service_range);
        let setup = Setup {
            folder: Folder::lasting(place.folder.clone())?,
            pki: Pki::of_folder(&place.folder)?,
            port: place.port,
            flags: std::iter::once(range).chain(place.flags.iter().cloned()).collect(),
        };
        Box::pin(Self::start_once(&folder_of_programs()?, options, setup)).await
    }

    /// The numbers of its processes, by name.
    ///
    /// # Errors
    /// When one has ended.
    pub fn processes(&self) -> Outcome<Vec<(&'static str, u32)>> {
        let programs = self.programs.iter();
        programs
            .map(|program| Ok((program.name(), program.process()?)))
            .collect()
    }

    /// Ends kube-apiserver at once, as `kill -9` does; its etcd goes on.
    pub fn kill_kube_apiserver(&mut self) {
        self.programs.retain(|program| program.name() != KUBE_APISERVER);
    }

    /// Starts kube-apiserver again where it was, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Real::start`].
    pub async fn start_kube_apiserver(&mut self) -> Outcome {
        let program = folder_of_programs()?.join(KUBE_APISERVER);
        let started = Program::start_beside(KUBE_APISERVER, &program, self.folder.path(), &self.kube_apiserver)?;
        self.programs.insert(0, started);
        ready(&mut self.programs, &self.endpoint).await
    }

    /// Starts kube-apiserver again with an AuthorizationConfiguration in place of its authorization modes.
    ///
    /// # Errors
    /// As [`Real::start`].
    pub async fn authorize_by(&mut self, configuration: &Path) -> Outcome {
        self.kill_kube_apiserver();
        let flag = authorization_flag(configuration);
        self.kube_apiserver = with_flags(std::mem::take(&mut self.kube_apiserver), [flag]);
        self.start_kube_apiserver().await
    }

    /// The contents of its audit log so far.
    ///
    /// # Errors
    /// There is none.
    pub fn audit_log(&self) -> Outcome<Vec<u8>> {
        std::fs::read(self.folder.path().join(AUDIT_LOG)).map_err(|error| format!("cannot read {AUDIT_LOG}: {error}"))
    }

    /// A kubeconfig of another user.
    ///
    /// # Errors
    /// A certificate cannot be made.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> Outcome<SecretText> {
        self.pki.kubeconfig(user, self.port, self.pki.member(user, groups)?)
    }

    /// The authority of all certificates here, PEM.
    #[must_use]
    pub fn authority(&self) -> String {
        self.pki.authority.certificate_pem()
    }

    async fn start_once(programs: &Path, options: Options, setup: Setup) -> Outcome<Self> {
        let Setup {
            folder,
            pki,
            port,
            flags,
        } = setup;
        let files = Files::write(folder.path(), &pki)?;
        let start = |name: &'static str, arguments: &[String]| match &folder {
            Folder::Temporary(folder) => Program::start(name, &programs.join(name), folder.path(), arguments),
            Folder::Lasting(folder) => Program::start_beside(name, &programs.join(name), folder, arguments),
        };
        if let Some(policy) = options.audit_policy {
            files.put(AUDIT_POLICY, policy)?;
        }
        let etcd_port = free_port()?;
        let mut running = vec![start("etcd", &etcd(&files, options, etcd_port, free_port()?))?];
        listening(&mut running, etcd_port).await?;
        let arguments = with_flags(kube_apiserver(&files, options, etcd_port, port), flags);
        // It may be started again: its folder goes with etcd.
        let program = programs.join(KUBE_APISERVER);
        running.insert(
            0,
            Program::start_beside(KUBE_APISERVER, &program, folder.path(), &arguments)?,
        );
        let mut endpoint = Endpoint::new("real", pki.admin_kubeconfig(port)?)?;
        endpoint.front_authority = pki.front_authority.certificate_pem();
        ready(&mut running, &endpoint).await?;
        for (wanted, name) in [
            (options.controllers, "kube-controller-manager"),
            (options.scheduler, "kube-scheduler"),
        ] {
            if wanted {
                let port = free_port()?;
                let flags = client(&files, &pki, name, endpoint.address.port(), port)?;
                running.insert(0, start(name, &flags)?);
                listening(&mut running, port).await?;
            }
        }
        Ok(Self {
            endpoint,
            pki,
            port,
            kube_apiserver: arguments,
            programs: running,
            folder,
        })
    }
}

/// The flag of kube-apiserver that names an AuthorizationConfiguration.
#[must_use]
pub fn authorization_flag(configuration: &Path) -> String {
    format!("{AUTHORIZATION_CONFIG}={}", configuration.display())
}

/// Adds flags of kube-apiserver, which takes a list of authorizers by one of two flags.
fn with_flags(mut flags: Vec<String>, more: impl IntoIterator<Item = String>) -> Vec<String> {
    flags.extend(more);
    if flags.iter().any(|flag| flag.starts_with(AUTHORIZATION_CONFIG)) {
        flags.retain(|flag| !flag.starts_with("--authorization-mode="));
    }
    flags
}

/// The parameters of a start.
struct Setup {
    folder: Folder,
    pki: Pki,
    port: u16,
    /// Flags of kube-apiserver that differ between starts.
    flags: Vec<String>,
}

/// The files that the programs read from their folder.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn write(folder: &Path, pki: &Pki) -> Outcome<Self> {
        let files = Self {
            folder: folder.to_owned(),
        };
        let authority = pki.authority.certificate_pem();
        files.put(AUTHORITY, &authority)?;
        files.put(AUTHORITY_KEY, pki.authority.key_pem().expose())?;
        files.put("server.crt", &(pki.server.certificate_pem() + &authority))?;
        files.put("server.key", pki.server.key_pem().expose())?;
        files.put("front.crt", &pki.front_authority.certificate_pem())?;
        files.put("front-proxy.crt", &pki.front_proxy.certificate_pem())?;
        files.put("front-proxy.key", pki.front_proxy.key_pem().expose())?;
        let kubelets = pki.member("kube-apiserver-kubelet-client", &[MASTERS])?;
        files.put("kubelets.crt", &kubelets.certificate_pem())?;
        files.put("kubelets.key", kubelets.key_pem().expose())?;
        files.put(ACCOUNTS_KEY, pki.accounts.to_pem().expose())?;
        files.put("accounts.pub", &pki.accounts.public().to_pem())?;
        Ok(files)
    }

    fn put(&self, name: &str, text: &str) -> Outcome {
        std::fs::write(self.path(name), text).map_err(|error| format!("cannot write {name}: {error}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `--flag=PATH` of a file here.
    fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }
}

fn temporary_folder(options: Options) -> Outcome<Folder> {
    const PREFIX: &str = "orangery-real-";
    let memory = Path::new(MEMORY_FOLDER);
    if options.durable || !memory.is_dir() {
        return Folder::temporary(PREFIX);
    }
    let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(memory);
    made.map(Folder::Temporary)
        .map_err(|error| format!("cannot make a temporary folder: {error}"))
}

fn etcd(files: &Files, options: Options, clients: u16, peers: u16) -> Vec<String> {
    let mut flags = etcd_flags(&files.path("etcd"), clients, peers);
    if !options.durable {
        flags.push("--unsafe-no-fsync".to_owned());
    }
    flags
}

fn kube_apiserver(files: &Files, options: Options, etcd_port: u16, port: u16) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!(
            "--advertise-address={}",
            if options.published {
                ADVERTISED
            } else {
                Ipv4Addr::LOCALHOST
            }
        ),
        format!("--secure-port={port}"),
        // Endpoints may not be on loopback.
        format!(
            "--endpoint-reconciler-type={}",
            if options.published { "master-count" } else { "none" }
        ),
        "--allow-privileged=true".to_owned(),
        files.flag("tls-cert-file", "server.crt"),
        files.flag("tls-private-key-file", "server.key"),
        files.flag("client-ca-file", AUTHORITY),
        "--authorization-mode=Node,RBAC".to_owned(),
        files.flag("kubelet-client-certificate", "kubelets.crt"),
        files.flag("kubelet-client-key", "kubelets.key"),
        "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        format!("--service-account-issuer={ISSUER}"),
        files.flag("service-account-key-file", "accounts.pub"),
        files.flag("service-account-signing-key-file", ACCOUNTS_KEY),
        files.flag("requestheader-client-ca-file", "front.crt"),
        format!("--requestheader-allowed-names={FRONT_PROXY}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-uid-headers=X-Remote-Uid".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        files.flag("proxy-client-cert-file", "front-proxy.crt"),
        files.flag("proxy-client-key-file", "front-proxy.key"),
    ];
    if options.audit_policy.is_some() {
        flags.push(files.flag("audit-policy-file", AUDIT_POLICY));
        flags.push(files.flag("audit-log-path", AUDIT_LOG));
    }
    flags
}

/// kube-controller-manager or kube-scheduler.
fn client(files: &Files, pki: &Pki, name: &str, api_port: u16, port: u16) -> Outcome<Vec<String>> {
    let text = pki.kubeconfig(name, api_port, pki.client(&format!("system:{name}"))?)?;
    let file = format!("{name}.kubeconfig");
    files.put(&file, text.expose())?;
    let mut arguments = vec![
        files.flag("kubeconfig", &file),
        files.flag("authentication-kubeconfig", &file),
        files.flag("authorization-kubeconfig", &file),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        files.flag("cert-dir", &format!("{name}-serving")),
        "--leader-elect=false".to_owned(),
    ];
    if name == "kube-controller-manager" {
        arguments.extend([
            files.flag("service-account-private-key-file", ACCOUNTS_KEY),
            "--use-service-account-credentials=true".to_owned(),
            files.flag("root-ca-file", AUTHORITY),
            files.flag("cluster-signing-cert-file", AUTHORITY),
            files.flag("cluster-signing-key-file", AUTHORITY_KEY),
        ]);
    }
    Ok(arguments)
}

/// Waits until the program that was started last accepts connections.
async fn listening(running: &mut [Program], port: u16) -> Outcome {
    let begun = Instant::now();
    while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .is_err()
    {
        pause_or_fail(running, begun).await?;
    }
    Ok(())
}

async fn ready(running: &mut [Program], endpoint: &Endpoint) -> Outcome {
    let begun = Instant::now();
    let call = Call::new(Method::GET, "/readyz");
    loop {
        if let Ok(mut connection) = endpoint.connect().await
            && connection
                .send(&call)
                .await
                .is_ok_and(|answer| answer.status.is_success())
        {
            return Ok(());
        }
        pause_or_fail(running, begun).await?;
    }
}

async fn pause_or_fail(running: &mut [Program], begun: Instant) -> Outcome {
    for program in running.iter_mut() {
        program.check()?;
    }
    if begun.elapsed() > READY_TIMEOUT {
        let logs: Vec<String> = running.iter().map(Program::log_end).collect();
        return Err(format!("not ready within {READY_TIMEOUT:?}:\n{}", logs.join("\n")));
    }
    tokio::time::sleep(LOOK_PAUSE).await;
    Ok(())
}
