//! The embedded API server behind its real TLS port, so that what the port adds and refuses is judged as well. No
//! controllers and no node: as with the real one, every change is an answer to a request.

use cluster_apiserver::{ApiServer, Authorities, TokenAuthority};
use cluster_front::{Front, RegisteredServer, Registration};
use cluster_store::MemoryStore;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use base_clock::Clock;

use crate::pki::{Pki, SERVER_NAME};
use crate::real::{ISSUER, SERVICE_RANGE, VERSION};
use crate::{Endpoint, Outcome};

/// The embedded server, until it is dropped.
pub struct Ours {
    /// How to reach it.
    pub endpoint: Endpoint,
    _registration: Registration,
    stop: CancellationToken,
}

impl Ours {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start() -> Outcome<Self> {
        let pki = Pki::generate()?;
        let authorities = Authorities {
            client_authorities: pki.authority.certificate_pem(),
            service_accounts: Some(TokenAuthority {
                issuer: ISSUER.to_owned(),
                audiences: Vec::new(),
                signer: Some(pki.accounts.clone()),
                verifiers: Vec::new(),
            }),
            bootstrap_tokens: true,
        };
        let server = ApiServer::builder("conformance")
            .store(MemoryStore::new())
            .git_version(VERSION)
            .authorities(authorities)
            .service_range(
                SERVICE_RANGE
                    .parse()
                    .map_err(|error| format!("{SERVICE_RANGE}: {error}"))?,
            )
            .build()
            .await
            .map_err(|status| format!("the embedded API server did not start: {status:?}"))?;
        let front = Front::new(Clock::real());
        let registered = RegisteredServer::new(
            server.service(),
            &(pki.server.certificate_pem() + &pki.authority.certificate_pem()),
            pki.server.key_pem().expose(),
        )
        .map_err(|error| error.to_string())?;
        let registration = front
            .register([SERVER_NAME], registered)
            .map_err(|error| error.to_string())?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| format!("cannot listen on loopback: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { front.serve(listener, stopped).await });
        Ok(Self {
            endpoint: Endpoint::new("ours", pki.admin_kubeconfig(address.port())?)?,
            _registration: registration,
            stop,
        })
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
