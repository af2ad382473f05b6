//! The embedded API server behind its real TLS port, so that what the port adds and refuses is compared as well. It has no
//! controllers and no node: as with the real one, every change is the result of a request.

use std::sync::Arc;

use cluster_apiserver::{ApiServer, Authorities, Builder, FrontProxies, TokenAuthority};
use cluster_front::{Front, RegisteredServer, Registration, Timeouts};
use cluster_store::{MemoryStore, Store};
use cluster_store_etcd::{EtcdOptions, EtcdStore};
use tests_parts::Etcd;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use base_clock::Clock;

use crate::pki::{FRONT_PROXY, Pki, SERVER_NAME};
use crate::real::{ADVERTISED, ISSUER, SERVICE_RANGE, VERSION};
use crate::{Endpoint, Outcome};

/// The advertised port: kube-apiserver's default, since the real one is known only later.
const ADVERTISED_PORT: u16 = 6443;

/// The embedded server, until it is dropped.
pub struct Ours {
    /// How to reach it.
    pub endpoint: Endpoint,
    pub(crate) pki: Pki,
    _served: Served,
    _etcd: Option<Etcd>,
}

/// Where the embedded server stores its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In memory.
    Memory,
    /// In an etcd of its own.
    Etcd,
}

impl Ours {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(storage: Storage) -> Outcome<Self> {
        Self::start_with(storage, |builder| builder).await
    }

    /// The same with changes of the builder.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_with(storage: Storage, change: impl FnOnce(Builder) -> Builder) -> Outcome<Self> {
        Self::start_as(storage, change, Timeouts::default()).await
    }

    /// The same with other time-outs of connections.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_with_timeouts(storage: Storage, timeouts: Timeouts) -> Outcome<Self> {
        Self::start_as(storage, |builder| builder, timeouts).await
    }

    async fn start_as(storage: Storage, change: impl FnOnce(Builder) -> Builder, timeouts: Timeouts) -> Outcome<Self> {
        let pki = Pki::generate()?;
        let etcd = match storage {
            Storage::Memory => None,
            Storage::Etcd => Some(Etcd::start()?),
        };
        let store: Arc<dyn Store> = match &etcd {
            None => Arc::new(MemoryStore::new()),
            Some(etcd) => Arc::new(etcd_store(etcd)?),
        };
        let authorities = Authorities {
            client_authorities: pki.authority.certificate_pem(),
            service_accounts: Some(TokenAuthority {
                issuer: ISSUER.to_owned(),
                keys_url: None,
                audiences: Vec::new(),
                signer: Some(pki.accounts.clone()),
                verifiers: Vec::new(),
            }),
            bootstrap_tokens: true,
        };
        let front_proxies = FrontProxies {
            authorities: pki.front_authority.certificate_pem(),
            allowed_names: vec![FRONT_PROXY.to_owned()],
            ..FrontProxies::default()
        };
        let key = pki.front_proxy.key_pem().expose_bytes();
        let builder = ApiServer::builder("conformance")
            .front_proxies(front_proxies)
            .proxy_identity(&pki.front_proxy.certificate_pem(), &key)
            .map_err(|status| format!("{status:?}"))?
            .shared_store(store)
            .git_version(VERSION)
            .advertise((ADVERTISED, ADVERTISED_PORT).into())
            .authorities(authorities)
            .service_range(
                SERVICE_RANGE
                    .parse()
                    .map_err(|error| format!("{SERVICE_RANGE}: {error}"))?,
            );
        let server = change(builder)
            .build()
            .await
            .map_err(|status| format!("the embedded API server did not start: {status:?}"))?;
        let served = Served::start(&server, &pki, [SERVER_NAME], timeouts).await?;
        let mut endpoint = Endpoint::new("ours", pki.admin_kubeconfig(served.port)?)?;
        endpoint.front_authority = pki.front_authority.certificate_pem();
        Ok(Self {
            endpoint,
            pki,
            _served: served,
            _etcd: etcd,
        })
    }
}

fn etcd_store(etcd: &Etcd) -> Outcome<EtcdStore> {
    let options = EtcdOptions {
        endpoints: vec![etcd.url()],
        ..EtcdOptions::default()
    };
    EtcdStore::new(&options).map_err(|error| error.to_string())
}

/// A server behind its TLS port on loopback, until it is dropped.
pub(crate) struct Served {
    pub(crate) port: u16,
    _registration: Registration,
    stop: CancellationToken,
}

impl Served {
    /// Serves under these names, with the server's certificate of that PKI.
    pub(crate) async fn start<const N: usize>(
        server: &ApiServer,
        pki: &Pki,
        names: [&str; N],
        timeouts: Timeouts,
    ) -> Outcome<Self> {
        let front = Front::new(Clock::real()).with_timeouts(timeouts);
        let registered = RegisteredServer::new(
            server.service(),
            &(pki.server.certificate_pem() + &pki.authority.certificate_pem()),
            pki.server.key_pem().expose(),
        )
        .map_err(|error| error.to_string())?;
        let registration = front.register(names, registered).map_err(|error| error.to_string())?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| format!("cannot listen on loopback: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { front.serve(listener, stopped).await });
        Ok(Self {
            port: address.port(),
            _registration: registration,
            stop,
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
