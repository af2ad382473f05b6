//! A registry in this process that answers byte for byte as a test defines, right or wrong, over TLS or plain HTTP. It has the
//! hosts whose names end with `.example`; others refuse connections. Each of them is a proxy, too, if it answers as one.

use std::io;
use std::sync::{Arc, Mutex};

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::reference::Digest;
use crate::transport::{Dial, Stream};
use crate::{Client, Settings};

/// Pieces of 64 KiB that stand for a body without an end: three times as many as anything is read of.
const ENDLESS_PIECES: usize = 200;

/// A request as it was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) host: String,
    pub(super) is_plain: bool,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) authorization: Option<String>,
    pub(super) proxy_authorization: Option<String>,
    pub(super) body: String,
}

/// What is sent, and what is done then.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Close,
    Silence,
    Endless,
    /// The connection is one to the requested host
    Tunnel,
}

pub(super) fn reply(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    let length = body.len().to_string();
    let mut all = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| matches!(*name, "content-length" | "transfer-encoding"))
    {
        all.push(("content-length", &length));
    }
    let head = all.iter().fold(
        format!("HTTP/1.1 {status} x\r\nconnection: close\r\n"),
        |head, (name, value)| format!("{head}{name}: {value}\r\n"),
    );
    let mut bytes = (head + "\r\n").into_bytes();
    bytes.extend_from_slice(body);
    Reply {
        bytes,
        then: Then::Close,
    }
}

type Answers = dyn Fn(&Request, usize) -> Reply + Send + Sync;

/// All hosts, with the requests that they received.
pub(super) struct Hosts {
    answers: Box<Answers>,
    received: Mutex<Vec<Request>>,
    tls: TlsAcceptor,
    pub(super) authority: String,
}

impl Hosts {
    /// Hosts that answer so. The function gets the request and how many came before it.
    pub(super) fn new(answers: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        let (clock, entropy) = (Clock::real(), Entropy::seeded(7));
        let authority = Authority::generate("tests", &clock, &entropy).unwrap();
        let names = ["registry", "mirror", "other", "store", "auth", "proxy"].map(|name| format!("{name}.example"));
        let spec = CertificateSpec::server("x", names.to_vec(), Vec::new(), std::time::Duration::from_secs(3600));
        let issued = authority.issue(&spec, &clock, &entropy).unwrap();
        let pem = issued.certificate_pem();
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap);
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem().expose().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.collect(), key)
            .unwrap();
        Arc::new(Self {
            answers: Box::new(answers),
            received: Mutex::default(),
            tls: TlsAcceptor::from(Arc::new(config)),
            authority: authority.certificate_pem(),
        })
    }

    /// All requests so far.
    pub(super) fn received(&self) -> Vec<Request> {
        self.received.lock().unwrap().clone()
    }

    /// The same in short: host and target.
    pub(super) fn requests(&self) -> Vec<String> {
        let short = |request: Request| format!("{} {}", request.host.trim_end_matches(".example"), request.target);
        self.received().into_iter().map(short).collect()
    }

    /// Forgets all requests.
    pub(super) fn forget(&self) {
        self.received.lock().unwrap().clear();
    }

    /// A client that trusts the hosts' authority.
    pub(super) fn client(self: &Arc<Self>, change: impl FnOnce(&mut Settings)) -> Client {
        let mut settings = Settings::new(Clock::real(), Entropy::seeded(1));
        settings.ca_bundle = Some(self.authority.clone());
        change(&mut settings);
        Client::with_dial(settings, Arc::new(Dialled(self.clone()))).unwrap()
    }

    async fn serve(self: Arc<Self>, host: String, is_plain: bool, stream: Box<dyn Stream>) {
        let mut stream: Box<dyn Stream> = match is_plain {
            true => stream,
            false => match self.tls.accept(stream).await {
                Ok(stream) => Box::new(stream),
                Err(_) => return,
            },
        };
        let Some(mut request) = read(&mut stream).await else {
            return;
        };
        (request.host, request.is_plain) = (host, is_plain);
        let count = {
            let mut all = self.received.lock().unwrap();
            all.push(request.clone());
            all.len() - 1
        };
        let reply = (self.answers)(&request, count);
        // The client may close the connection at any time.
        let _ = stream.write_all(&reply.bytes).await;
        let _ = stream.flush().await;
        if request.method == "CONNECT" && reply.then == Then::Tunnel {
            let (host, port) = request.target.rsplit_once(':').unwrap_or_default();
            return Box::pin(self.serve(host.to_owned(), port != "443", stream)).await;
        }
        match reply.then {
            Then::Close | Then::Tunnel => {
                let _ = stream.shutdown().await;
            }
            Then::Silence => std::future::pending().await,
            Then::Endless => {
                let piece = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
                for _ in 0..ENDLESS_PIECES {
                    let _ = stream.write_all(piece.as_bytes()).await;
                }
            }
        }
    }
}

async fn read(stream: &mut Box<dyn Stream>) -> Option<Request> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).ok()?;
    let header = |name: &str| {
        let mut found = text.lines().filter_map(|line| line.split_once(": "));
        found
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
    };
    let length = header("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = bytes[head..].to_vec();
    while body.len() < length {
        body.push(stream.read_u8().await.ok()?);
    }
    let mut words = text.split(' ');
    Some(Request {
        method: words.next()?.to_owned(),
        target: words.next()?.to_owned(),
        authorization: header("authorization"),
        proxy_authorization: header("proxy-authorization"),
        body: String::from_utf8(body).ok()?,
        ..Request::default()
    })
}

struct Dialled(Arc<Hosts>);

impl Dial for Dialled {
    fn dial(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let hosts = self.0.clone();
        async move {
            if !host.ends_with(".example") {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"));
            }
            let (ours, theirs) = tokio::io::duplex(16 << 10);
            match host.as_str() {
                "open.example" => tokio::spawn(answer_without_tls(theirs)),
                _ => tokio::spawn(hosts.serve(host, port != 443, Box::new(theirs))),
            };
            Ok(Box::new(ours) as Box<dyn Stream>)
        }
        .boxed()
    }
}

/// What servers of plain HTTP answer to a TLS handshake.
async fn answer_without_tls(mut stream: tokio::io::DuplexStream) {
    // The client may close the connection at any time.
    let _ = stream.write_all(&reply(400, &[], b"no").bytes).await;
}

/// A chart as a registry stores it.
pub(super) struct Chart {
    pub(super) archive: Vec<u8>,
    pub(super) manifest: String,
}

impl Chart {
    pub(super) fn new(archive: &[u8]) -> Self {
        Self::declaring(archive, archive.len())
    }

    /// One whose manifest declares so many bytes.
    pub(super) fn declaring(archive: &[u8], size: usize) -> Self {
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"{}","size":2}},
                "layers":[{{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"{}","size":{size}}}]}}"#,
            Digest::of(b"{}"),
            Digest::of(archive)
        );
        Self {
            archive: archive.to_vec(),
            manifest,
        }
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.manifest.as_bytes())
    }

    /// What a registry that works answers.
    pub(super) fn answer(&self, target: &str) -> Reply {
        let blob = format!("blobs/{}", Digest::of(&self.archive));
        match target {
            target if target.ends_with(&blob) => reply(200, &[], &self.archive),
            target if target.contains("/manifests/") => reply(200, &[], self.manifest.as_bytes()),
            _ => reply(
                404,
                &[],
                br#"{"errors":[{"code":"BLOB_UNKNOWN","message":"secret words"}]}"#,
            ),
        }
    }
}
