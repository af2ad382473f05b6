//! Calls to etcd: which member is called, for how long, and whether a failed call may have been executed. It knows keys
//! and values, nothing of objects.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::ready;
use futures::{Stream, StreamExt, stream};
use http::uri::PathAndQuery;
use prost::Message;
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::ExposeSecret;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, IntoRequest, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::options::{EtcdError, EtcdOptions};
use crate::wire::{
    CompactionRequest, Empty, LeaseGrantRequest, LeaseGrantResponse, RangeRequest, RangeResponse, TxnRequest,
    TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse, Watching,
};

/// How long a call may take, tries included: longer than etcd takes to choose another leader.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a member may take to accept a connection before the next one is called.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a silent connection is pinged, and how long the answer may take; kube-apiserver's (v1.35
/// staging/src/k8s.io/apiserver/pkg/storage/storagebackend/factory/etcd3.go). etcd closes connections that ping more often
/// than every five seconds.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long etcd may take to refuse a watch from a revision that it no longer has: it checks every tenth of a second.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);
/// Between two tries: the first follows at once on another member or on a member that comes back, later ones leave an
/// ailing cluster time.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It was never sent: nothing has happened.
    #[error("etcd cannot be reached: {0}")]
    NotSent(String),
    /// etcd refused it: nothing has happened.
    #[error("etcd refuses: {text}")]
    Refused { code: Code, text: String },
    /// It was sent, and its outcome is unknown.
    #[error("etcd did not answer: {0}")]
    Unknown(String),
}

/// A cluster of etcd.
pub(crate) struct Client {
    members: Vec<Channel>,
    /// Which of them is called.
    current: AtomicUsize,
}

impl Client {
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, EtcdError> {
        let members: Result<Vec<_>, _> = options
            .endpoints
            .iter()
            .map(|endpoint| member(endpoint, options))
            .collect();
        let members = members?;
        if members.is_empty() {
            return Err(EtcdError::NoEndpoint);
        }
        Ok(Client {
            members,
            current: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        self.read("/etcdserverpb.KV/Range", request).await
    }

    pub(crate) async fn transact(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.write("/etcdserverpb.KV/Txn", request).await
    }

    pub(crate) async fn compact(&self, request: CompactionRequest) -> Result<(), Failure> {
        let _: Empty = self.write("/etcdserverpb.KV/Compact", request).await?;
        Ok(())
    }

    pub(crate) async fn grant(&self, request: LeaseGrantRequest) -> Result<LeaseGrantResponse, Failure> {
        // A lease whose grant was never answered is unused, and etcd ends it when its time is over.
        self.read("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    /// Opens a stream of watches. etcd answers once the first watch has been requested.
    pub(crate) async fn watch(
        &self,
        requests: impl Stream<Item = WatchRequest> + Send + 'static,
    ) -> Result<Streaming<WatchResponse>, Failure> {
        let (member, mut grpc) = self.member();
        let open = async {
            grpc.ready()
                .await
                .map_err(|error| Status::from_error(Box::new(error)))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            grpc.streaming(tonic::Request::new(requests), path, ProstCodec::default())
                .await
        };
        match timeout_at(Instant::now() + CALL_TIMEOUT, open).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.classify(member, &status)),
            Err(_) => {
                self.switch_from(member);
                Err(Failure::Unknown(format!("no watch within {CALL_TIMEOUT:?}")))
            }
        }
    }

    /// The revision to which etcd's history is compacted, if it no longer has this one. `None`: it has it.
    pub(crate) async fn oldest(&self, revision: i64) -> Result<Option<i64>, Failure> {
        let create = WatchRequest {
            request: Some(Watching::Create(WatchCreateRequest {
                key: prost::bytes::Bytes::from_static(b"\0"),
                start_revision: revision,
                ..WatchCreateRequest::default()
            })),
        };
        // No other request is sent, and the stream stays open for the answer.
        let requests = stream::once(ready(create)).chain(stream::pending());
        let mut answers = self.watch(requests).await?;
        let outcome = async {
            loop {
                match answers.message().await {
                    Ok(Some(answer)) if answer.canceled => {
                        return Ok(Some(answer.compact_revision).filter(|oldest| *oldest > 0));
                    }
                    Ok(Some(answer)) if answer.created => {}
                    Ok(_) => return Ok(None),
                    Err(status) => return Err(Failure::Unknown(described(&status))),
                }
            }
        };
        // A watch that is not refused may send nothing for long.
        timeout_at(Instant::now() + REFUSED_WITHIN, outcome)
            .await
            .unwrap_or(Ok(None))
    }

    /// A call that may be made twice: it is tried again until it is answered or its time is up.
    async fn read<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.try_until(path, request, |failure| !matches!(failure, Failure::Refused { .. }))
            .await
    }

    /// A call that must not happen twice: it is tried again only while it is certain that it was never sent.
    async fn write<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.try_until(path, request, |failure| matches!(failure, Failure::NotSent(_)))
            .await
    }

    async fn try_until<Q, A>(
        &self,
        path: &'static str,
        request: Q,
        again: impl Fn(&Failure) -> bool,
    ) -> Result<A, Failure>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut pause = PAUSE_MIN;
        loop {
            match self.call(path, request.clone(), deadline).await {
                Err(failure) if again(&failure) && Instant::now() + pause < deadline => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                outcome => return outcome,
            }
        }
    }

    /// One try.
    async fn call<Q, A>(&self, path: &'static str, request: Q, deadline: Instant) -> Result<A, Failure>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let (member, mut grpc) = self.member();
        let ready = async { grpc.ready().await.map_err(|error| Status::from_error(Box::new(error))) };
        match timeout_at(deadline, ready).await {
            Ok(Ok(())) => {}
            Ok(Err(status)) => {
                self.switch_from(member);
                return Err(Failure::NotSent(described(&status)));
            }
            Err(_) => return Err(Failure::NotSent(format!("no connection within {CALL_TIMEOUT:?}"))),
        }
        let codec = ProstCodec::default();
        let answer = grpc.unary(request.into_request(), PathAndQuery::from_static(path), codec);
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.classify(member, &status)),
            Err(_) => {
                self.switch_from(member);
                Err(Failure::Unknown(format!("no answer within {CALL_TIMEOUT:?}")))
            }
        }
    }

    fn member(&self) -> (usize, Grpc<Channel>) {
        let member = self.current.load(Ordering::Relaxed);
        let grpc = Grpc::new(self.members[member].clone()).max_decoding_message_size(usize::MAX);
        (member, grpc)
    }

    /// Sends requests to the next member from now on, unless another caller has switched already.
    fn switch_from(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        // It fails when another caller has switched already.
        let _ = self
            .current
            .compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn classify(&self, member: usize, status: &Status) -> Failure {
        let text = described(status);
        if was_not_connected(status) {
            self.switch_from(member);
            return Failure::NotSent(text);
        }
        match status.code() {
            code @ (Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented) => Failure::Refused { code, text },
            _ => {
                self.switch_from(member);
                Failure::Unknown(text)
            }
        }
    }
}

fn member(endpoint: &str, options: &EtcdOptions) -> Result<Channel, EtcdError> {
    let refused = |found: String| EtcdError::Endpoint {
        endpoint: endpoint.to_owned(),
        found,
    };
    let mut member = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| refused(with_causes(&error)))?;
    match (member.uri().scheme_str(), &options.tls) {
        (Some("http"), _) => {}
        (Some("https"), Some(tls)) => {
            let broken = |found: String| EtcdError::Tls {
                endpoint: endpoint.to_owned(),
                found,
            };
            check_authorities(&tls.authorities_pem).map_err(broken)?;
            let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authorities_pem));
            if let Some(identity) = &tls.identity {
                let key = identity.key_pem.expose_secret();
                config = config.identity(Identity::from_pem(&identity.certificates_pem, key));
            }
            if let Some(name) = &tls.server_name {
                config = config.domain_name(name);
            }
            member = member.tls_config(config).map_err(|error| broken(with_causes(&error)))?;
        }
        (Some("https"), None) => return Err(refused("it needs TLS, and no certificates are given".to_owned())),
        _ => return Err(refused("it begins with neither http:// nor https://".to_owned())),
    }
    Ok(member
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .connect_lazy())
}

/// Without this check, invalid certificates are skipped, and then no etcd is trusted.
fn check_authorities(pem: &[u8]) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("the authorities are no PEM: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("an authority is no certificate: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("there is no certificate among the authorities".to_owned()),
        false => Ok(()),
    }
}

/// Whether there was no connection, so that nothing of the call was sent.
fn was_not_connected(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The message of a status, with its causes.
fn described(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("{}: {}", status.message(), with_causes(source)),
        None => status.message().to_owned(),
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::EtcdTls;

    fn refusal(endpoints: &[&str], tls: Option<EtcdTls>) -> String {
        let options = EtcdOptions {
            endpoints: endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect(),
            tls,
            ..EtcdOptions::default()
        };
        Client::new(&options)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[tokio::test]
    async fn unusable_endpoint_is_refused_with_a_hint() {
        assert!(refusal(&[], None).contains("name at least one"));
        assert!(refusal(&["127.0.0.1:2379"], None).contains("neither http"));
        assert!(refusal(&["https://127.0.0.1:2379"], None).contains("no certificates are given"));
        let nonsense = EtcdTls {
            authorities_pem: b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n".to_vec(),
            ..EtcdTls::default()
        };
        let text = refusal(&["https://127.0.0.1:2379"], Some(nonsense));
        assert!(text.contains("TLS for etcd endpoint https://127.0.0.1:2379"), "{text}");
    }

    #[tokio::test]
    async fn an_unsent_request_differs_from_an_unanswered_one() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = EtcdOptions {
            endpoints: vec![
                format!("http://{free}"),
                format!("http://{}", silent.local_addr().unwrap()),
            ],
            ..EtcdOptions::default()
        };
        let client = Client::new(&options).unwrap();
        let soon = || Instant::now() + Duration::from_secs(2);
        let path = "/etcdserverpb.KV/Txn";
        let refused: Result<TxnResponse, _> = client.call(path, TxnRequest::default(), soon()).await;
        assert!(matches!(refused, Err(Failure::NotSent(_))), "{refused:?}");
        // Now the other member is called, which reads the request and closes the connection.
        let dies = async {
            let (mut connection, _) = silent.accept().await.unwrap();
            let mut sent = Vec::new();
            while !has_headers(&sent) {
                tokio::io::AsyncReadExt::read_buf(&mut connection, &mut sent)
                    .await
                    .unwrap();
            }
        };
        let (unknown, ()) = tokio::join!(client.call::<_, TxnResponse>(path, TxnRequest::default(), soon()), dies);
        assert!(matches!(unknown, Err(Failure::Unknown(_))), "{unknown:?}");
    }

    /// Whether an HTTP/2 client has begun a request: behind its preface of 24 bytes, a frame of type 1.
    fn has_headers(sent: &[u8]) -> bool {
        let mut rest = sent.get(24..).unwrap_or_default();
        while let [high, middle, low, kind, ..] = *rest {
            if kind == 1 {
                return true;
            }
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            rest = rest.get(9 + length..).unwrap_or_default();
        }
        false
    }
}
