//! A real registry on loopback (distribution, which Debian ships as docker-registry) that wants TLS and a password, and a real Helm
//! that pushes charts to it. It can be killed and started again where it was.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base_secrets::Authority;
use tempfile::TempDir;

use crate::machine::Certificates;
use crate::{Outcome, Program, cache_folder, free_port};

/// Another process may take a port between the moment it is found free and the moment it is used.
const STARTS_MAX: usize = 3;
/// The hash of [`Registry::PASSWORD`]: bcrypt, the one kind that the registry reads.
const HASH: &str = "$2a$04$zShlx/tXHq77YiNZ36qX1e9gfPUuze9taV99di96bave.RYpN3EWy";
/// Where `cargo xtask real registry` puts the programs, below the cache folder.
const REGISTRY: &str = "real/registry/registry";
const HELM: &str = "real/helm/helm";

/// A running registry, until it is dropped.
pub struct Registry {
    program: Option<Program>,
    port: u16,
    authority: Authority,
    folder: TempDir,
    wants_certificates: bool,
}

impl Registry {
    /// What its certificate calls it beside loopback; only a proxy knows where that is.
    pub const NAME: &str = "registry.example";
    /// Who may push and pull.
    pub const USER: &str = "puller";
    /// With which password.
    pub const PASSWORD: &str = "pulls-charts";

    /// Starts an empty one and waits until it takes connections.
    ///
    /// # Errors
    /// The program is missing, ends while it starts, or is not ready in time.
    pub fn start() -> Outcome<Self> {
        Self::start_with(false)
    }

    /// As [`Registry::start`], for those who have a certificate of its authority: [`Registry::client_files`].
    ///
    /// # Errors
    /// As [`Registry::start`].
    pub fn start_wanting_certificates() -> Outcome<Self> {
        Self::start_with(true)
    }

    fn start_with(wants_certificates: bool) -> Outcome<Self> {
        let Certificates {
            authority,
            server,
            client,
        } = Certificates::new("registry", Self::NAME, Self::USER)?;
        let mut tries = 1;
        loop {
            let folder = tempfile::Builder::new().prefix("orangery-registry-").tempdir();
            let mut registry = Self {
                program: None,
                port: free_port()?,
                authority: authority.clone(),
                folder: folder.map_err(|error| format!("cannot make a temporary folder: {error}"))?,
                wants_certificates,
            };
            registry.write("client.pem", &client.certificate_pem())?;
            registry.write("client.key", client.key_pem().expose())?;
            registry.write("server.pem", &server.certificate_pem())?;
            registry.write("server.key", server.key_pem().expose())?;
            registry.write("ca.pem", &authority.certificate_pem())?;
            registry.write("htpasswd", &format!("{}:{HASH}\n", Self::USER))?;
            registry.write("config.yml", &registry.config())?;
            match registry.start_again() {
                Err(why) if why.contains("address already in use") && tries < STARTS_MAX => tries += 1,
                outcome => return outcome.map(|()| registry),
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address().to_string()
    }

    /// A certificate that it takes, and its key.
    #[must_use]
    pub fn client_files(&self) -> [PathBuf; 2] {
        ["client.pem", "client.key"].map(|name| self.folder.path().join(name))
    }

    /// Who has signed its certificate, in PEM; also in the file [`Registry::authority_file`].
    #[must_use]
    pub fn authority(&self) -> String {
        self.authority.certificate_pem()
    }

    /// Where that stands.
    #[must_use]
    pub fn authority_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Where it keeps what was pushed: the folder with `blobs` and `repositories`.
    #[must_use]
    pub fn storage(&self) -> PathBuf {
        self.folder.path().join("storage/docker/registry/v2")
    }

    /// Kills it at once, as `kill -9` does; what it has written stays.
    pub fn kill(&mut self) {
        drop(self.program.take());
    }

    /// Starts it where it was.
    ///
    /// # Errors
    /// As [`Registry::start`].
    pub fn start_again(&mut self) -> Outcome {
        let program = prepared(REGISTRY)?;
        let config = self.folder.path().join("config.yml");
        let arguments = [
            // It sends traces to loopback unless that is switched off.
            "OTEL_TRACES_EXPORTER=none".to_owned(),
            program.display().to_string(),
            "serve".to_owned(),
            config.display().to_string(),
        ];
        let mut program = Program::start_beside("registry", Path::new("/usr/bin/env"), self.folder.path(), &arguments)?;
        program.await_port(self.address())?;
        self.program = Some(program);
        Ok(())
    }

    fn config(&self) -> String {
        let folder = self.folder.path().display();
        let client_authorities = match self.wants_certificates {
            true => format!(", clientcas: [{folder}/ca.pem]"),
            false => String::new(),
        };
        format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {folder}/storage}}}}\n\
             http:\n  addr: {}\n  secret: none\n  tls: {{certificate: {folder}/server.pem, key: {folder}/server.key{client_authorities}}}\n\
             auth: {{htpasswd: {{realm: tests, path: {folder}/htpasswd}}}}\n",
            self.host()
        )
    }

    fn write(&self, name: &str, text: &str) -> Outcome {
        fs::write(self.folder.path().join(name), text).map_err(|error| format!("cannot write {name}: {error}"))
    }
}

/// A real Helm with a home of its own.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    /// What stands in its environment beside home and path
    variables: Vec<(&'static str, String)>,
}

impl Helm {
    /// Finds it.
    ///
    /// # Errors
    /// It is missing.
    pub fn find() -> Outcome<Self> {
        let program = prepared(HELM)?;
        let home = tempfile::Builder::new().prefix("orangery-helm-").tempdir();
        let home = home.map_err(|error| format!("cannot make a temporary folder: {error}"))?;
        Ok(Self {
            program,
            home,
            variables: Vec::new(),
        })
    }

    /// The same with these variables in its environment.
    #[must_use]
    pub fn with_variables(self, variables: Vec<(&'static str, String)>) -> Self {
        Self { variables, ..self }
    }

    /// These.
    #[must_use]
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// Its home, where it keeps its configuration and its cache.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// What it does and says.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, words: &[&str]) -> Outcome<Output> {
        Command::new(&self.program)
            .args(words)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.variables.iter().cloned())
            .output()
            .map_err(|error| format!("cannot run helm: {error}"))
    }

    /// What it prints when it succeeds.
    ///
    /// # Errors
    /// It fails; with what it says.
    pub fn prints(&self, words: &[&str]) -> Outcome<String> {
        let output = self.run(words)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "helm {words:?}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )),
        }
    }

    /// The flags that let it reach a registry.
    #[must_use]
    pub fn access(registry: &Registry) -> Vec<String> {
        let [certificate, key] = registry.client_files().map(|path| path.display().to_string());
        let authority = registry.authority_file().display().to_string();
        let mut flags = vec![
            ["--ca-file", &authority],
            ["--username", Registry::USER],
            ["--password", Registry::PASSWORD],
        ];
        if registry.wants_certificates {
            flags.extend([["--cert-file", &certificate], ["--key-file", &key]]);
        }
        flags.into_flattened().into_iter().map(str::to_owned).collect()
    }

    /// Packages a chart with these files and this version, and pushes it below `charts`. Returns the digest that it tells.
    ///
    /// # Errors
    /// Helm does not do it; with what it says.
    pub fn push(&self, registry: &Registry, name: &str, version: &str, files: &[(&str, &[u8])]) -> Outcome<String> {
        let failed = |error: std::io::Error| format!("cannot write a chart: {error}");
        let folder = self.home.path().join(format!("{name}-{version}")).join(name);
        let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        for (file, bytes) in [("Chart.yaml", chart.as_bytes())].iter().chain(files) {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap_or(&folder)).map_err(failed)?;
            fs::write(path, bytes).map_err(failed)?;
        }
        let [folder, home] = [folder.display(), self.home.path().display()].map(|path| path.to_string());
        self.prints(&["package", &folder, "--destination", &home])?;
        let archive = format!("{home}/{name}-{version}.tgz");
        let target = format!("oci://{}/charts", registry.host());
        let access = Self::access(registry);
        let mut words = vec!["push", &archive, &target];
        words.extend(access.iter().map(String::as_str));
        let output = self.run(&words)?;
        // It prints the digest on standard error.
        let printed = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        let digest = printed.lines().find_map(|line| line.strip_prefix("Digest: "));
        match (output.status.success(), digest) {
            (true, Some(digest)) => Ok(digest.trim().to_owned()),
            _ => Err(format!("helm push: {printed}")),
        }
    }
}

fn prepared(place: &str) -> Outcome<PathBuf> {
    let program = cache_folder().ok_or("no home folder is known")?.join(place);
    match program.exists() {
        true => Ok(program),
        false => Err(format!(
            "{} is missing: run `cargo xtask real registry`",
            program.display()
        )),
    }
}
