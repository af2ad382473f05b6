//! A real etcd on loopback, which can be killed and started again where it was.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use base_secrets::{Authority, Issued};

use crate::machine::Certificates;
use crate::{Folder, Outcome, Program, folder_of_programs, free_port};

/// Another process may take a port between the moment it is found free and the moment it is used.
const STARTS_MAX: usize = 3;

/// An etcd of one member, until it is dropped.
pub struct Etcd {
    program: Option<Program>,
    clients: u16,
    peers: u16,
    /// How its clients reach it, when not in the open.
    tls: Option<ServerTls>,
    folder: Folder,
}

/// What clients of an etcd need that wants to know them.
pub struct Secured {
    /// Who has signed what the etcd shows, and what it wants to see.
    pub authority: Authority,
    /// The client that it knows.
    pub client: Issued,
}

/// What an etcd shows its clients, and what it wants of them; all PEM.
#[derive(Clone)]
struct ServerTls {
    certificates: String,
    key: String,
    /// What its clients' certificates must be signed by. Without one a client is turned away.
    client_authorities: String,
}

impl Etcd {
    /// Starts an empty one and waits until it takes connections.
    ///
    /// # Errors
    /// The program is missing, ends while it starts, or is not ready in time.
    pub fn start() -> Outcome<Self> {
        Self::start_with(None)
    }

    /// Starts one whose data stays in this folder, on what is there already, and waits until it takes connections.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub fn start_in(folder: PathBuf) -> Outcome<Self> {
        let mut etcd = Self::at(Folder::lasting(folder)?, None)?;
        etcd.start_again()?;
        Ok(etcd)
    }

    fn at(folder: Folder, tls: Option<ServerTls>) -> Outcome<Self> {
        Ok(Self {
            program: None,
            clients: free_port()?,
            peers: free_port()?,
            tls,
            folder,
        })
    }

    /// As [`Etcd::start`], for a client of this name that has a certificate.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub fn start_secured(client: &str) -> Outcome<(Self, Secured)> {
        let Certificates {
            authority,
            server,
            client,
        } = Certificates::new("etcd", "etcd.example", client)?;
        let etcd = Self::start_with(Some(ServerTls {
            certificates: server.certificate_pem(),
            key: server.key_pem().expose().to_owned(),
            client_authorities: authority.certificate_pem(),
        }))?;
        Ok((etcd, Secured { authority, client }))
    }

    fn start_with(tls: Option<ServerTls>) -> Outcome<Self> {
        let mut tries = 1;
        loop {
            let mut etcd = Etcd::at(Folder::temporary("orangery-etcd-")?, tls.clone())?;
            match etcd.start_again() {
                Err(why) if why.contains("address already in use") && tries < STARTS_MAX => tries += 1,
                outcome => return outcome.map(|()| etcd),
            }
        }
    }

    /// Where its clients reach it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// The same, for who speaks to it in another way.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.clients))
    }

    /// Kills it at once, as `kill -9` does; what it has written stays.
    pub fn kill(&mut self) {
        drop(self.program.take());
    }

    /// Ends it, and starts it on the data of that folder, which it takes: what `etcdutl snapshot restore` has made.
    ///
    /// # Errors
    /// As [`Etcd::start`], and where the folder cannot be moved.
    pub fn replace_data(&mut self, data: &Path) -> Outcome {
        self.kill();
        let place = self.data();
        let failed = |error: std::io::Error| format!("cannot move {} to {}: {error}", data.display(), place.display());
        std::fs::remove_dir_all(&place).map_err(failed)?;
        std::fs::rename(data, &place).map_err(failed)?;
        self.start_again()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts it where it was.
    ///
    /// # Errors
    /// As [`Etcd::start`].
    pub fn start_again(&mut self) -> Outcome {
        let program = folder_of_programs()?.join("etcd");
        let mut arguments = flags(&self.data(), self.clients, self.peers);
        if let Some(tls) = &self.tls {
            arguments.extend(tls.flags(self.folder.path(), &self.url())?);
        }
        let mut program = Program::start_beside("etcd", &program, self.folder.path(), &arguments)?;
        program.await_port(self.address())?;
        self.program = Some(program);
        Ok(())
    }
}

impl ServerTls {
    /// The last flag of a name counts.
    fn flags(&self, folder: &Path, url: &str) -> Outcome<Vec<String>> {
        let mut flags = vec![
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            "--client-cert-auth".to_owned(),
        ];
        for (flag, text) in [
            ("cert-file", &self.certificates),
            ("key-file", &self.key),
            ("trusted-ca-file", &self.client_authorities),
        ] {
            let path = folder.join(flag);
            std::fs::write(&path, text).map_err(|error| format!("cannot write {flag}: {error}"))?;
            flags.push(format!("--{flag}={}", path.display()));
        }
        Ok(flags)
    }
}

/// What an etcd of one member is started with.
#[must_use]
pub fn flags(data: &Path, clients: u16, peers: u16) -> Vec<String> {
    vec![
        "--name=real".to_owned(),
        format!("--data-dir={}", data.display()),
        "--log-level=warn".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{clients}"),
        format!("--advertise-client-urls=http://127.0.0.1:{clients}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
        format!("--initial-cluster=real=http://127.0.0.1:{peers}"),
    ]
}
