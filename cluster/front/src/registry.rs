//! Which server answers to which name. Never opens a socket; see `serve` and `connect`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base_client::{HttpService, Layers};
use base_clock::Clock;
use rustls::ServerConfig;
use rustls_pki_types::CertificateDer;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{REQUEST_BODIES_BYTES_MAX, REQUEST_BODY_BYTES_MAX};
use crate::program::{Program, RegisteredProgram, authority_of};
use crate::serve::CONNECTIONS_MAX;
use crate::timeouts::Timeouts;
use crate::tls::{self, CertificateError};

/// The name of a server that answers to every name that no other server has, and to clients that name none, such as
/// those that know it by its address.
pub const ANY_NAME: &str = "*";

/// All API servers of a process, by server name. Clones are the same front.
#[derive(Clone)]
pub struct Front {
    pub(crate) clock: Clock,
    table: Arc<Mutex<Table>>,
    /// What the bodies of requests may still take, in bytes.
    pub(crate) bodies: Arc<Semaphore>,
    /// How many more connections may be served that others accepted.
    pub(crate) streams: Arc<Semaphore>,
    /// Around every client in process.
    pub(crate) layers: Layers,
    pub(crate) timeouts: Timeouts,
}

#[derive(Default)]
struct Table {
    /// The last one registered under a name answers; the one before takes over again when it is removed.
    names: BTreeMap<String, Vec<Arc<Server>>>,
    next: u64,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// A server to be registered.
pub struct RegisteredServer {
    service: HttpService,
    shown: Shown,
    body_bytes_max: usize,
}

/// What a server shows its clients.
pub(crate) struct Shown {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

impl Shown {
    fn new(certificates: &str, key: &str) -> Result<Self, CertificateError> {
        let (config, certificates) = tls::server_config(certificates, key)?;
        Ok(Self {
            config: Arc::new(config),
            certificates,
        })
    }
}

impl RegisteredServer {
    /// `certificates` is the server's certificate and, behind it, what signed it, as PEM; `key` its private key.
    ///
    /// # Errors
    /// [`CertificateError`] when they do not parse or do not belong together.
    pub fn new(service: HttpService, certificates: &str, key: &str) -> Result<Self, CertificateError> {
        let shown = Shown::new(certificates, key)?;
        Ok(Self {
            service,
            shown,
            body_bytes_max: REQUEST_BODY_BYTES_MAX,
        })
    }

    /// Takes bodies of requests up to `bytes` instead of [`REQUEST_BODY_BYTES_MAX`].
    #[must_use]
    pub fn with_body_bytes_max(mut self, bytes: usize) -> Self {
        self.body_bytes_max = bytes;
        self
    }
}

/// One registered server while it runs.
pub(crate) struct Server {
    pub(crate) id: u64,
    pub(crate) serves: Serves,
    /// Connections finish what they are doing and take nothing new.
    pub(crate) closing: CancellationToken,
    /// Connections break off.
    pub(crate) cut: CancellationToken,
    pub(crate) open: TaskTracker,
}

/// Who answers.
pub(crate) enum Serves {
    /// A service of this process.
    Here(Here),
    /// A program that speaks TLS itself.
    Program(Program),
}

/// A service of this process, behind TLS that is spoken here.
pub(crate) struct Here {
    pub(crate) service: HttpService,
    /// Largest body of a request.
    pub(crate) body_bytes_max: usize,
    shown: RwLock<Arc<Shown>>,
}

impl Here {
    /// What is shown to clients that connect now.
    pub(crate) fn shown(&self) -> Arc<Shown> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Serves {
    fn authority(&self) -> Option<Vec<u8>> {
        match self {
            Self::Here(here) => authority_of(&here.shown().certificates),
            Self::Program(program) => authority_of(&program.certificates),
        }
    }
}

impl Front {
    /// A front without servers. `clock` is the time at which certificates are verified in process.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            table: Arc::default(),
            bodies: Arc::new(Semaphore::new(REQUEST_BODIES_BYTES_MAX)),
            streams: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            layers: Layers::default(),
            timeouts: Timeouts::default(),
        }
    }

    /// Gives clients of the TLS port other times from now on.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Puts layers around every client that is made in process from now on by this value and its clones.
    #[must_use]
    pub fn with_layers(mut self, layers: Layers) -> Self {
        self.layers = layers;
        self
    }

    /// Lets `server` answer to `names` (compared without case). A name that is taken goes to the newcomer until that
    /// is gone: so the next instance of a server takes over before the one before ends.
    ///
    /// # Errors
    /// [`NameTaken`] when another authority has signed the holder's certificate: then it is no instance of the same
    /// server, and its clients would be led to another one. None of the names is taken then.
    pub fn register<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
        server: RegisteredServer,
    ) -> Result<Registration, NameTaken> {
        let here = Here {
            service: server.service,
            body_bytes_max: server.body_bytes_max,
            shown: RwLock::new(Arc::new(server.shown)),
        };
        self.enter(names, Serves::Here(here))
    }

    /// Lets a program answer to `names`, as [`Front::register`] does a server of this process. While the last program of a
    /// name takes no connections, the one before it gets them.
    ///
    /// # Errors
    /// As of [`Front::register`].
    pub fn register_program<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
        program: RegisteredProgram,
    ) -> Result<Registration, NameTaken> {
        self.enter(names, Serves::Program(program.program))
    }

    fn enter<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
        serves: Serves,
    ) -> Result<Registration, NameTaken> {
        let names: Vec<String> = names.into_iter().map(|name| name.into().to_ascii_lowercase()).collect();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let authority = serves.authority();
        let holder = |name: &String| table.names.get(name).and_then(|servers| servers.last());
        if let Some(taken) = names
            .iter()
            .find(|name| holder(name).is_some_and(|holder| holder.serves.authority() != authority))
        {
            return Err(NameTaken(taken.clone()));
        }
        let id = table.next;
        table.next += 1;
        let (closing, cut) = (CancellationToken::new(), CancellationToken::new());
        let server = Arc::new(Server {
            id,
            serves,
            closing,
            cut,
            open: TaskTracker::new(),
        });
        for name in &names {
            table.names.entry(name.clone()).or_default().push(server.clone());
        }
        Ok(Registration {
            front: self.clone(),
            names,
            server,
        })
    }

    /// The server that answers to a name now.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Server>> {
        self.find_all(name).pop()
    }

    /// All that are registered under a name, the one that answers last.
    pub(crate) fn find_all(&self, name: &str) -> Vec<Arc<Server>> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let named = table.names.get(&name.to_ascii_lowercase());
        named.or_else(|| table.names.get(ANY_NAME)).cloned().unwrap_or_default()
    }

    /// The names that have a server at present.
    pub fn names(&self) -> Vec<String> {
        self.table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .names
            .keys()
            .cloned()
            .collect()
    }

    /// Whether a server is registered under exactly this name, compared without case.
    pub fn has(&self, name: &str) -> bool {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.names.contains_key(&name.to_ascii_lowercase())
    }

    fn remove(&self, names: &[String], id: u64) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            if let Some(servers) = table.names.get_mut(name) {
                servers.retain(|server| server.id != id);
                if servers.is_empty() {
                    table.names.remove(name);
                }
            }
        }
    }
}

/// A server of another authority answers to a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name {0:?} is held by a server whose certificate another authority has signed; end that one first, or take another name"
)]
pub struct NameTaken(String);

/// No server is registered under a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no API server is registered as {0:?}")]
pub struct NotRegistered(pub(crate) String);

/// The registration of a server. Dropping it refuses new connections and cuts the open ones, as when a process
/// is killed; [`Self::close`] lets them finish first.
#[must_use = "dropping the registration cuts the server off"]
pub struct Registration {
    front: Front,
    names: Vec<String>,
    server: Arc<Server>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.names).finish()
    }
}

impl Registration {
    /// Refuses new connections, lets the open ones finish the requests they are at, and cuts what is left after
    /// `grace`. Streams such as watches end only when the server ends them.
    pub async fn close(self, grace: Duration) {
        self.front.remove(&self.names, self.server.id);
        self.server.closing.cancel();
        self.server.open.close();
        // What is still open after the grace time is cut by the drop of `self`.
        let _ = tokio::time::timeout(grace, self.server.open.wait()).await;
    }

    /// Shows another certificate from now on, of whatever authority; connections that are open stay as they are. For a
    /// program, which shows its own, nothing changes.
    ///
    /// # Errors
    /// [`CertificateError`] when certificate and key do not parse or do not belong together. The one before stays.
    pub fn renew(&self, certificates: &str, key: &str) -> Result<(), CertificateError> {
        let shown = Arc::new(Shown::new(certificates, key)?);
        if let Serves::Here(here) = &self.server.serves {
            *here.shown.write().unwrap_or_else(PoisonError::into_inner) = shown;
        }
        Ok(())
    }

    /// How many connections and in-process calls are open.
    pub fn open(&self) -> usize {
        self.server.open.len()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.front.remove(&self.names, self.server.id);
        self.server.closing.cancel();
        self.server.cut.cancel();
        self.server.open.close();
    }
}
