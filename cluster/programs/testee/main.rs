//! A program for the tests of this crate, run as a container: it serves, asks, and shows what it finds.
#![expect(clippy::print_stdout, reason = "what it prints is its container's log")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client, Config, ResourceExt};

fn main() {
    // It is the helper of the tests' pods as well.
    cluster_sandbox::run_if_helper();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", port] => serve(port),
        ["get", address, path] => get(address, path),
        ["whoami"] => whoami(),
        ["namespaces-by-file", path] => block_on(namespaces(Kubeconfig::read_from(path))),
        ["namespaces-by-secret", name] => block_on(async { namespaces(secret(name).await).await }),
        _ => Err(std::io::Error::other(
            "serve PORT, get ADDRESS PATH, whoami, namespaces-by-file PATH or namespaces-by-secret NAME",
        )),
    };
    if let Err(error) = done {
        println!("{error}");
        std::process::exit(1);
    }
}

/// Answers every request with its own name and the peer's address.
fn serve(port: &str) -> std::io::Result<()> {
    let port = port.parse().map_err(std::io::Error::other)?;
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("serving");
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let Some(Ok(first)) = lines.next() else { continue };
        // The head ends with an empty line.
        let _ = lines.find(|line| line.as_ref().is_ok_and(String::is_empty));
        let name = std::env::var("HOSTNAME").unwrap_or_default();
        let body = format!("{name} to {} for {first}", stream.peer_addr()?.ip());
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )?;
    }
    Ok(())
}

fn get(address: &str, path: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("{answer}");
    Ok(())
}

/// Requests its own identity from the API server that a client finds by default.
fn whoami() -> std::io::Result<()> {
    let review = block_on(async {
        let reviews: Api<SelfSubjectReview> = Api::all(default_client().await?);
        reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .map_err(std::io::Error::other)
    })?;
    let user = review.status.and_then(|status| status.user_info?.username);
    println!("{}", user.unwrap_or_default());
    Ok(())
}

/// The kubeconfig in a Secret of the own namespace, read as extensions read it.
async fn secret(name: &str) -> Result<Kubeconfig, kube::config::KubeconfigError> {
    let read = async {
        let client = default_client().await?;
        let secret = Api::<Secret>::default_namespaced(client).get(name).await;
        let data = secret.map_err(std::io::Error::other)?.data.unwrap_or_default();
        let bytes = data.get("kubeconfig").map(|bytes| bytes.0.clone()).unwrap_or_default();
        String::from_utf8(bytes).map_err(std::io::Error::other)
    };
    let text = read
        .await
        .map_err(|error| kube::config::KubeconfigError::ReadConfig(error, name.into()))?;
    Kubeconfig::from_yaml(&text)
}

/// Lists the namespaces of the cluster that a kubeconfig names.
async fn namespaces(kubeconfig: Result<Kubeconfig, kube::config::KubeconfigError>) -> std::io::Result<()> {
    let listed = async {
        let config = Config::from_custom_kubeconfig(kubeconfig?, &Default::default()).await?;
        let client = Client::try_from(config)?;
        let listed = Api::<Namespace>::all(client).list(&ListParams::default()).await?;
        let names: Vec<String> = listed.iter().map(ResourceExt::name_any).collect();
        println!("namespaces: {}", names.join(" "));
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    listed.await.map_err(std::io::Error::other)
}

async fn default_client() -> std::io::Result<Client> {
    Client::try_default().await.map_err(std::io::Error::other)
}

fn block_on<T>(work: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
