//! Stands in for konnectivity's proxy-server and proxy-agent in tests: `tunnel-stand-in server FLAGS` and `tunnel-stand-in agent FLAGS`
//! take the flags of theirs that matter, and what kube-apiserver sees is theirs (HTTP CONNECT over TLS with client certificates).
//! Between the two it is no gRPC: the agent holds connections open that each carry one, and opens another for each that is taken.
//! `ORANGERY_KONNECTIVITY` names a folder with the real programs, which the same test runs then.
#![allow(clippy::print_stderr, reason = "its log, as a container's")]

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio_rustls::{TlsAcceptor, TlsConnector, server};

/// Connections that the agent holds open for the next ones to come.
const IDLE: usize = 4;
/// Before a connection is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long kube-apiserver waits for an agent.
const AGENT_WITHIN: Duration = Duration::from_secs(2);
/// Longest head of a request.
const HEAD_LINES_MAX: usize = 64;

/// Flags of the real programs that are not about Kubernetes, logs or profiles (kubernetes-sigs/apiserver-network-proxy v0.34.0
/// `cmd/server/app/options/options.go`, `cmd/agent/app/options/options.go`).
const SERVER_FLAGS: [&str; 15] = [
    "admin-port",
    "agent-port",
    "cluster-ca-cert",
    "cluster-cert",
    "cluster-key",
    "frontend-keepalive-time",
    "health-port",
    "keepalive-time",
    "mode",
    "proxy-strategies",
    "server-ca-cert",
    "server-cert",
    "server-count",
    "server-key",
    "server-port",
];
const AGENT_FLAGS: [&str; 11] = [
    "admin-server-port",
    "agent-cert",
    "agent-id",
    "agent-identifiers",
    "agent-key",
    "ca-cert",
    "health-server-port",
    "keepalive-time",
    "proxy-server-host",
    "proxy-server-port",
    "sync-interval",
];

type Flags = BTreeMap<String, String>;
type FromAgent = BufReader<server::TlsStream<TcpStream>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let running = async {
        match role.as_str() {
            "server" => serve(&read(words, &SERVER_FLAGS)?).await,
            "agent" => connect(&read(words, &AGENT_FLAGS)?).await,
            other => Err(io::Error::other(format!("{other:?} is neither server nor agent"))),
        }
    };
    match running.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tunnel-stand-in {role}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads a command line as the real programs do: what they do not know ends them.
fn read(words: impl Iterator<Item = String>, known: &[&str]) -> io::Result<Flags> {
    words
        .map(|word| {
            let parts = word.strip_prefix("--").and_then(|rest| rest.split_once('='));
            match parts {
                Some((name, value)) if known.contains(&name) => Ok((name.to_owned(), value.to_owned())),
                _ => Err(io::Error::other(format!("unknown flag: {word}"))),
            }
        })
        .collect()
}

fn flag<'a>(flags: &'a Flags, name: &str) -> io::Result<&'a str> {
    let found = flags.get(name).map(String::as_str);
    found.ok_or_else(|| io::Error::other(format!("--{name} is missing")))
}

fn port(flags: &Flags, name: &str) -> io::Result<u16> {
    flag(flags, name)?.parse().map_err(io::Error::other)
}

/// Certificates and the key of two files.
fn identity(
    flags: &Flags,
    certificate: &str,
    key: &str,
) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = CertificateDer::pem_file_iter(flag(flags, certificate)?).map_err(io::Error::other)?;
    let chain: Result<Vec<_>, _> = chain.collect();
    let key = PrivateKeyDer::from_pem_file(flag(flags, key)?).map_err(io::Error::other)?;
    Ok((chain.map_err(io::Error::other)?, key))
}

fn authorities(flags: &Flags, name: &str) -> io::Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(flag(flags, name)?).map_err(io::Error::other)? {
        roots.add(one.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(Arc::new(roots))
}

/// A port that takes clients of an authority alone.
async fn listen(flags: &Flags, port_flag: &str, prefix: &str) -> io::Result<(TcpListener, TlsAcceptor)> {
    let (chain, key) = identity(flags, &format!("{prefix}-cert"), &format!("{prefix}-key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = authorities(flags, &format!("{prefix}-ca-cert"))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(clients, provider.clone()).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_client_cert_verifier(verifier.map_err(io::Error::other)?)
        .with_single_cert(chain, key)
        .map_err(io::Error::other)?;
    let listener = TcpListener::bind(("0.0.0.0", port(flags, port_flag)?)).await?;
    Ok((listener, TlsAcceptor::from(Arc::new(config))))
}

async fn serve(flags: &Flags) -> io::Result<()> {
    let (idle, agents) = mpsc::channel::<FromAgent>(1024);
    let agents = Arc::new(Mutex::new(agents));
    let (of_agents, tls_of_agents) = listen(flags, "agent-port", "cluster").await?;
    let (of_api_server, tls_of_api_server) = listen(flags, "server-port", "server").await?;
    let healthy = health(port(flags, "health-port")?, || true);
    let taking = async {
        loop {
            let (stream, _) = of_agents.accept().await?;
            let (tls, idle) = (tls_of_agents.clone(), idle.clone());
            tokio::spawn(async move {
                match tls.accept(stream).await {
                    // Without a reader it ends with the process.
                    Ok(stream) => drop(idle.send(BufReader::new(stream)).await),
                    Err(error) => eprintln!("an agent was refused: {error}"),
                }
            });
        }
    };
    let forwarding = async {
        loop {
            let (stream, _) = of_api_server.accept().await?;
            let (tls, agents) = (tls_of_api_server.clone(), agents.clone());
            tokio::spawn(async move {
                let forwarded = async { forward(tls.accept(stream).await?, &agents).await };
                if let Err(error) = forwarded.await {
                    eprintln!("a connection ended: {error}");
                }
            });
        }
    };
    tokio::select! {
        ended = healthy => ended,
        ended = taking => ended,
        ended = forwarding => ended,
    }
}

/// Answers one CONNECT.
async fn forward(stream: server::TlsStream<TcpStream>, agents: &Mutex<mpsc::Receiver<FromAgent>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let head = line(&mut stream).await?;
    for _ in 0..HEAD_LINES_MAX {
        if line(&mut stream).await?.is_empty() {
            break;
        }
    }
    let to = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let dialled = tokio::time::timeout(AGENT_WITHIN, through(agents, &to)).await;
    let dialled = dialled.unwrap_or_else(|_| Err("no agent is connected".to_owned()));
    match dialled {
        Ok(mut agent) => {
            eprintln!("dialled {to}");
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            copy_bidirectional(&mut stream, &mut agent).await.map(drop)
        }
        Err(why) => {
            eprintln!("not dialled {to}: {why}");
            let answer = format!("HTTP/1.1 503 {why}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        }
    }
}

/// A connection through the first agent that still answers. Errors: why its dial failed.
async fn through(agents: &Mutex<mpsc::Receiver<FromAgent>>, to: &str) -> Result<FromAgent, String> {
    loop {
        let Some(mut agent) = agents.lock().await.recv().await else {
            return Err("no agent is connected".to_owned());
        };
        if agent.write_all(format!("{to}\n").as_bytes()).await.is_err() {
            continue;
        }
        match line(&mut agent).await {
            Ok(answer) if answer == "ok" => return Ok(agent),
            Ok(why) => return Err(why),
            Err(_) => {}
        }
    }
}

async fn connect(flags: &Flags) -> io::Result<()> {
    let (chain, key) = identity(flags, "agent-cert", "agent-key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(authorities(flags, "ca-cert")?)
        .with_client_auth_cert(chain, key)
        .map_err(io::Error::other)?;
    let tls = TlsConnector::from(Arc::new(config));
    let (host, port_of_server) = (flag(flags, "proxy-server-host")?, port(flags, "proxy-server-port")?);
    let connected = Arc::new(AtomicUsize::new(0));
    for _ in 0..IDLE {
        let (tls, host, connected) = (tls.clone(), host.to_owned(), connected.clone());
        tokio::spawn(async move {
            loop {
                if let Err(error) = wait_for_one(&tls, &host, port_of_server, &connected).await {
                    eprintln!("the connection to {host}:{port_of_server} ended: {error}");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        });
    }
    health(port(flags, "health-server-port")?, move || {
        connected.load(Ordering::Relaxed) > 0
    })
    .await
}

/// Holds one connection until something is to be carried over it, which goes on by itself.
async fn wait_for_one(tls: &TlsConnector, host: &str, port: u16, connected: &AtomicUsize) -> io::Result<()> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let stream = TcpStream::connect((host, port)).await?;
    let mut server = BufReader::new(tls.connect(name, stream).await?);
    connected.fetch_add(1, Ordering::Relaxed);
    let request = line(&mut server).await;
    connected.fetch_sub(1, Ordering::Relaxed);
    let to = request?;
    tokio::spawn(async move {
        let carried = async {
            match TcpStream::connect(&to).await {
                Ok(mut there) => {
                    server.write_all(b"ok\n").await?;
                    copy_bidirectional(&mut server, &mut there).await.map(drop)
                }
                Err(error) => {
                    server.write_all(format!("dial {to}: {error}\n").as_bytes()).await?;
                    server.shutdown().await
                }
            }
        };
        if let Err(error) = carried.await {
            eprintln!("a connection to {to} ended: {error}");
        }
    });
    Ok(())
}

/// `/healthz`, and `/readyz` by `is_ready`.
async fn health(port: u16, is_ready: impl Fn() -> bool) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let ready = is_ready();
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            let answered = async {
                let head = line(&mut stream).await?;
                while !line(&mut stream).await?.is_empty() {}
                let code = match head.contains("/readyz") && !ready {
                    true => "503 Service Unavailable",
                    false => "200 OK",
                };
                let answer = format!("HTTP/1.1 {code}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await
            };
            if let Err(error) = answered.await {
                eprintln!("a question about health ended: {error}");
            }
        });
    }
}

/// A line without its end.
async fn line<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut BufReader<S>) -> io::Result<String> {
    let mut text = String::new();
    match stream.read_line(&mut text).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(text.trim_end().to_owned()),
    }
}
