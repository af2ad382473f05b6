//! A program for the tests of this crate, run as a container: it serves, asks, and shows what it finds.
#![expect(clippy::print_stdout, reason = "what it prints is its container's log")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;

fn main() {
    // It is the helper of the tests' pods as well.
    cluster_sandbox::run_if_helper();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", port] => serve(port),
        ["get", address, path] => get(address, path),
        ["whoami"] => whoami(),
        _ => Err(std::io::Error::other("serve PORT, get ADDRESS PATH or whoami")),
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

/// Asks the API server that a client finds by itself who it is.
fn whoami() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = runtime.block_on(async {
        let client = kube::Client::try_default().await?;
        let reviews: kube::Api<SelfSubjectReview> = kube::Api::all(client);
        reviews
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
    });
    let review = name.map_err(std::io::Error::other)?;
    println!(
        "{}",
        review
            .status
            .and_then(|status| status.user_info?.username)
            .unwrap_or_default()
    );
    Ok(())
}
