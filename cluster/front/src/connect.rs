//! Clients in process: the kubeconfig picks the server, is verified as a TLS client would verify it, and travels with
//! every request. Never gives a client more than its kubeconfig says.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connector, ResponseBody, Target, answer_apart};
use cluster_access::PeerCertificates;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use rustls_pki_types::UnixTime;
use tower::BoxError;

use crate::cut::{cut_with, reset};
use crate::over_tls::OverTls;
use crate::registry::{Front, Here, Server, Serves};
use crate::tls::{client_config, holds_key, verify_server};

/// How long a server's certificate is not verified again: long enough that a client verifies it once in thousands of
/// requests, short enough that an expired certificate is noticed.
const VERIFIED_FOR: Duration = Duration::from_secs(60);

impl Connector for Front {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<Client, Fault> {
        let caller = Arc::new(Caller::new(self.clone(), kubeconfig)?);
        let namespace = caller.target.namespace.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let caller = caller.clone();
            async move { caller.call(request).await }
        });
        Ok(self.layers.around(Client::new(service, namespace), kubeconfig))
    }
}

struct Caller {
    front: Front,
    target: Target,
    bearer: Option<HeaderValue>,
    peer: Option<PeerCertificates>,
    /// Which server was last verified, and when.
    verified: Mutex<Option<(u64, Timestamp)>>,
    /// The connection to the server where it is a program.
    over_tls: OverTls,
}

impl Caller {
    fn new(front: Front, kubeconfig: &Kubeconfig) -> Result<Self, Fault> {
        let target = Target::of(kubeconfig)?;
        let by_file = |user: &kube::config::AuthInfo| user.token.is_none() && user.token_file.is_some();
        if kubeconfig
            .auth_infos
            .iter()
            .filter_map(|named| named.auth_info.as_ref())
            .any(by_file)
        {
            return Err(
                Fault::user("the kubeconfig names a token file, which a client in process cannot read")
                    .hint("put the token itself into the kubeconfig"),
            );
        }
        let bearer = target.token().map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Fault::user("the kubeconfig's token is not printable"))?;
            value.set_sensitive(true);
            Ok::<_, Fault>(value)
        });
        let chain = target.client_certificates()?;
        let unusable = |error| Fault::user(format!("the kubeconfig's client certificate cannot be used: {error}"));
        let key = match chain.is_empty() {
            true => None,
            false => {
                let key = target
                    .client_key_pem()?
                    .ok_or_else(|| Fault::user("the kubeconfig has a client certificate without its key"))?;
                holds_key(&chain, &key).map_err(unusable)?;
                Some(key)
            }
        };
        let over_tls = OverTls::new(client_config(&target, &chain, key.as_deref()).map_err(unusable)?);
        Ok(Self {
            front,
            bearer: bearer.transpose()?,
            target,
            peer: key.map(|_| PeerCertificates::new(chain)),
            verified: Mutex::default(),
            over_tls,
        })
    }

    async fn call(&self, mut request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
        let name = self.target.server_name();
        let refused = || {
            io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("connection refused: no API server is registered as {name}"),
            )
        };
        let server = self.front.find(name).ok_or_else(refused)?;
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
        }
        let here = match &server.serves {
            Serves::Here(here) => here,
            Serves::Program(_) => return self.over_tls.call(&self.front, name, request).await,
        };
        self.verify(&server, here, name)?;
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let open = server.open.token();
        let response = tokio::select! {
            biased;
            () = server.cut.cancelled() => return Err(reset().into()),
            answered = answer_apart(here.service.clone(), request) => answered?,
        };
        Ok(response.map(|body| cut_with(body, server.cut.clone(), open)))
    }

    /// Verifies the server's certificate as a TLS client with this kubeconfig would.
    fn verify(&self, server: &Server, here: &Here, name: &str) -> Result<(), io::Error> {
        if self.target.insecure {
            return Ok(());
        }
        let now = self.front.clock.now();
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, at)) = *verified
            && id == server.id
            && self.front.clock.since(at) < VERIFIED_FOR
        {
            return Ok(());
        }
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        verify_server(&here.shown().certificates, &self.target.authorities, name, at).map_err(|why| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the certificate of the API server {name} is not accepted: {why}"),
            )
        })?;
        *verified = Some((server.id, now));
        Ok(())
    }
}
