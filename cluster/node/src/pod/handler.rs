//! The handler of a probe or a hook, and how it is run: against what listens in the pod network, or in the container
//! by a command. Certificates are not verified, as a kubelet does not
//! (kubernetes/kubernetes v1.35 pkg/probe).

use std::net::IpAddr;

use base_client::{Connection, Dialer, answer_apart};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::client::Body;
use tokio_util::task::AbortOnDropHandle;

use super::tls;
use crate::{Commands, Endpoint, Network};

/// How much of an answer is read; a health answer of gRPC has seven bytes.
const ANSWER_BYTES_MAX: usize = 10 << 10;
/// `SERVING` as a field of the answer (grpc.health.v1 HealthCheckResponse: field 1, value 1).
const SERVING: [u8; 2] = [0x08, 0x01];

/// What is requested, or run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Http {
        port: u16,
        tls: bool,
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        port: u16,
    },
    Grpc {
        port: u16,
        service: String,
    },
    Command(Vec<String>),
}

impl Handler {
    /// `None`: it cannot be run here. `commands`: whether the container runs commands.
    pub(crate) fn of(wanted: &Probe, container: &Container, commands: bool) -> Option<Self> {
        if let Some(http) = &wanted.http_get {
            return Handler::http(http, container);
        }
        if let Some(grpc) = &wanted.grpc {
            return Some(Handler::Grpc {
                port: u16::try_from(grpc.port).ok()?,
                service: grpc.service.clone().unwrap_or_default(),
            });
        }
        if let Some(exec) = wanted.exec.as_ref().filter(|_| commands) {
            return exec.command.clone().map(Handler::Command);
        }
        let tcp = wanted.tcp_socket.as_ref()?;
        Some(Handler::Tcp {
            port: port(&tcp.port, container)?,
        })
    }

    /// The handler of an `httpGet` of a probe or a hook.
    pub(crate) fn http(http: &HTTPGetAction, container: &Container) -> Option<Self> {
        let headers = http.http_headers.iter().flatten();
        Some(Handler::Http {
            port: port(&http.port, container)?,
            tls: http.scheme.as_deref() == Some("HTTPS"),
            path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
            headers: headers.map(|one| (one.name.clone(), one.value.clone())).collect(),
        })
    }

    /// Runs the check; an error is the message of the event.
    pub(crate) async fn run(self, network: Network, ip: IpAddr, commands: Commands) -> Result<(), String> {
        let Some(code) = self.reach(network, ip, commands).await? else {
            return Ok(());
        };
        let good = code >= StatusCode::OK && code < StatusCode::BAD_REQUEST;
        let failed = || format!("HTTP probe failed with statuscode: {}", code.as_u16());
        good.then_some(()).ok_or_else(failed)
    }

    /// Connects to the container, and returns the status if it speaks HTTP. Errors: no connection, or a failed check without HTTP.
    pub(crate) async fn reach(
        self,
        network: Network,
        ip: IpAddr,
        commands: Commands,
    ) -> Result<Option<StatusCode>, String> {
        let port = match self {
            Handler::Command(command) => return commands.run(command).await.map(|()| None),
            Handler::Http { port, .. } | Handler::Tcp { port } | Handler::Grpc { port, .. } => port,
        };
        let refused = |why: &str| format!("dial tcp {ip}:{port}: connect: {why}");
        let endpoint = network.connect(ip, port).ok_or_else(|| refused("connection refused"))?;
        let dial = |dialer: Dialer| async move { dialer.connect().await.map_err(|error| refused(&error.to_string())) };
        match (self, endpoint) {
            (Handler::Tcp { .. }, Endpoint::Bytes(dialer)) => dial(dialer).await.map(|_| None),
            (Handler::Tcp { .. }, _) => Ok(None),
            (Handler::Http { path, headers, .. }, Endpoint::Http(service)) => {
                let request = request(ip, port, &path, &headers, Body::empty())?;
                let answer = answer_apart(service, request).await;
                Ok(Some(answer.map_err(|error| error.to_string())?.status()))
            }
            (Handler::Http { tls, path, headers, .. }, Endpoint::Bytes(dialer)) => {
                let request = request(ip, port, &path, &headers, Full::<Bytes>::default())?;
                let connection = secured(dial(dialer).await?, tls, ip).await?;
                get(connection, request).await.map(Some)
            }
            (Handler::Grpc { service, .. }, Endpoint::Bytes(dialer)) => {
                serving(dial(dialer).await?, ip, port, &service).await.map(|()| None)
            }
            (Handler::Http { .. }, Endpoint::Store(_)) => Err("what listens there does not speak HTTP".to_owned()),
            (Handler::Grpc { .. } | Handler::Command(_), _) => Err("what listens there does not speak gRPC".to_owned()),
        }
    }
}

async fn secured(connection: Connection, tls: bool, ip: IpAddr) -> Result<Connection, String> {
    if !tls {
        return Ok(connection);
    }
    tls::unverified(connection, ip).await.map_err(|error| error.to_string())
}

/// Headers as a kubelet's (pkg/probe/http/request.go); those of the probe win.
fn request<B>(ip: IpAddr, port: u16, path: &str, headers: &[(String, String)], body: B) -> Result<Request<B>, String> {
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let mut request = Request::get(path);
    let given = |name: &header::HeaderName| {
        headers
            .iter()
            .any(|(given, _)| name.as_str().eq_ignore_ascii_case(given))
    };
    for (name, value) in [
        (header::HOST, authority(ip, port)),
        (header::USER_AGENT, "kube-probe/1.35".to_owned()),
        (header::ACCEPT, "*/*".to_owned()),
    ] {
        if !given(&name) {
            request = request.header(name, value);
        }
    }
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(body).map_err(|error| error.to_string())
}

fn authority(ip: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(ip, port).to_string()
}

async fn get(connection: Connection, request: Request<Full<Bytes>>) -> Result<StatusCode, String> {
    let begun = http1::handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = begun.map_err(|error| with_cause(&error))?;
    let _carried = AbortOnDropHandle::new(tokio::spawn(connection));
    let answer = sender.send_request(request).await;
    Ok(answer.map_err(|error| with_cause(&error))?.status())
}

/// The health protocol of gRPC (pkg/probe/grpc/grpc.go), without its library: one message each way.
async fn serving(connection: Connection, ip: IpAddr, port: u16, service: &str) -> Result<(), String> {
    let builder = http2::Builder::new(TokioExecutor::new());
    let begun = builder.handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = begun.map_err(|error| with_cause(&error))?;
    let _carried = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::post(format!("http://{}/grpc.health.v1.Health/Check", authority(ip, port)))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, "kube-probe/1.35")
        .body(Full::new(Bytes::from(health_request(service)?)))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| with_cause(&error))?;
    let (head, body) = answer.into_parts();
    if let Some(status) = head.headers.get("grpc-status").filter(|status| *status != "0") {
        let status = status.to_str().unwrap_or_default();
        return Err(format!("service unhealthy: the answer's grpc-status is {status}"));
    }
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    // Five bytes of framing come before the message.
    match body.get(5..) == Some(&SERVING) {
        true => Ok(()),
        false => Err("service unhealthy: it does not answer SERVING".to_owned()),
    }
}

/// One frame with a HealthCheckRequest: field 1, a string.
fn health_request(service: &str) -> Result<Vec<u8>, String> {
    let length = u8::try_from(service.len()).ok().filter(|length| *length < 0x80);
    let length = length.ok_or_else(|| "the probe's service name is longer than 127 bytes".to_owned())?;
    let message = match length {
        0 => Vec::new(),
        length => [&[0x0a, length], service.as_bytes()].concat(),
    };
    let framing = u32::try_from(message.len()).unwrap_or_default().to_be_bytes();
    Ok([&[0], framing.as_slice(), &message].concat())
}

/// The error with its cause, which alone describes what happened.
fn with_cause(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn port(port: &IntOrString, container: &Container) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(name) => {
            let ports = container.ports.iter().flatten();
            let mut named = ports.filter(|port| port.name.as_ref() == Some(name));
            u16::try_from(named.next()?.container_port).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_health_request_is_one_frame() {
        assert_eq!(health_request("").unwrap(), [0, 0, 0, 0, 0]);
        assert_eq!(health_request("ab").unwrap(), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert!(health_request(&"a".repeat(128)).is_err());
    }

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Answers every request on a connection with a body.
    fn serve<S>(stream: S, body: &'static [u8])
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let answer = move |_| async move {
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from_static(body))))
        };
        let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        tokio::spawn(async move {
            let service = hyper::service::service_fn(answer);
            server.serve_connection(TokioIo::new(stream), service).await.unwrap();
        });
    }

    #[tokio::test]
    async fn a_health_service_of_grpc_serves_or_does_not() {
        for (body, serves) in [
            (&[0, 0, 0, 0, 2, 0x08, 1][..], true),
            (&[0, 0, 0, 0, 2, 0x08, 2], false),
            (&[0, 0, 0, 0, 0], false),
            (&[], false),
        ] {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            serve(theirs, body);
            let answer = serving(Box::new(ours), IP, 80, "").await;
            assert_eq!(answer.is_ok(), serves, "{body:?}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn a_certificate_of_an_unknown_authority_is_accepted() {
        use base_secrets::{Authority, CertificateSpec};
        use rustls_pki_types::pem::PemObject;

        let (clock, entropy) = (base_clock::Clock::real(), base_clock::Entropy::os());
        let authority = Authority::generate("ca", &clock, &entropy).unwrap();
        let hour = std::time::Duration::from_secs(3600);
        let spec = CertificateSpec::server("another", vec!["another".to_owned()], Vec::new(), hour);
        let issued = authority.issue(&spec, &clock, &entropy).unwrap();
        let certificate = rustls_pki_types::CertificateDer::from_pem_slice(issued.certificate_pem().as_bytes());
        let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(issued.key_pem().expose().as_bytes());
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.unwrap()], key.unwrap())
            .unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
            serve(acceptor.accept(theirs).await.unwrap(), b"ok");
        });
        let connection = secured(Box::new(ours), true, IP).await.unwrap();
        let request = request(IP, 443, "/healthz", &[], Full::default()).unwrap();
        assert_eq!(get(connection, request).await, Ok(StatusCode::OK));
    }

    #[test]
    fn headers_of_a_probe_win_over_those_of_every_probe() {
        let given = [("host".to_owned(), "example.org".to_owned())];
        let request = request(IpAddr::from([10, 0, 0, 2]), 80, "healthz", &given, ()).unwrap();
        assert_eq!(request.uri(), "/healthz");
        assert_eq!(request.headers().get_all("host").iter().count(), 1);
        assert_eq!(request.headers()["host"], "example.org");
        assert_eq!(request.headers()["user-agent"], "kube-probe/1.35");
    }
}
