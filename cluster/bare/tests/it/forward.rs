//! Ports of programs on nodes of this process: forwarded to clients, and behind `proxy`. A program here is a server on a
//! socket that the pod network reaches by connections of bytes.

use base_client::{Connection, Dialer};
use base_clock::{Clock, Entropy};
use cluster_bare::{Cluster, Keys};
use cluster_node::{ContainerContext, Endpoint, Exit, ImageCatalogue, Volumes};
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use kube::Api;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::PATIENCE;
use crate::relay::{account, make, runs, text, tls};

const PORT_FORWARD: &str = "/api/v1/namespaces/default/pods/p/portforward";

/// A program that listens on port 80: it answers each line with the same line, and a request of HTTP with a page.
async fn program(context: ContainerContext) -> Exit {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let dialer = Dialer::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            Ok(Box::new(stream) as Connection)
        })
    });
    let _listening = context.network.bind(80, Endpoint::Bytes(dialer)).unwrap();
    context.ready.set(true);
    let serving = async {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    };
    tokio::select! {
        () = serving => {}
        () = context.stop.cancelled() => {}
    }
    Exit::done()
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut line = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        line.push(byte);
        if line.ends_with(b"\r\n\r\n") {
            let page = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\npage";
            stream.write_all(page.as_bytes()).await?;
            line.clear();
        } else if byte == b'\n' && !line.ends_with(b"\r\n") {
            stream.write_all(&line).await?;
            line.clear();
        }
    }
    Ok(())
}

async fn cluster(keys: &Keys) -> Cluster {
    let builder = Cluster::builder().keys(keys.clone());
    let builder = builder.node(ImageCatalogue::new().with("program", program), Volumes::new());
    let cluster = builder.start().await.unwrap();
    account(&cluster.client()).await;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let spec = json!({"containers": [{"name": "c", "image": "program", "ports": [{"containerPort": 80}]}]});
    let metadata = json!({"name": "p", "labels": {"a": "b"}});
    make(&pods, json!({"metadata": metadata, "spec": spec})).await;
    runs(&pods, "p").await;
    cluster
}

fn keys() -> Keys {
    Keys::generate(&Clock::real(), &Entropy::os()).unwrap()
}

#[tokio::test]
async fn pods_and_services_of_programs_answer_behind_proxy() {
    let cluster = cluster(&keys()).await;
    let client = cluster.client();
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let spec = json!({"selector": {"a": "b"}, "ports": [{"name": "web", "port": 8080, "targetPort": 80}]});
    make(&services, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    let endpoints: Api<Endpoints> = Api::namespaced(client.clone(), "default");
    let listed = base_client::wait_until(&endpoints, "s", PATIENCE, |endpoints| {
        let mut subsets = endpoints.iter().flat_map(|one| one.subsets.iter().flatten());
        match subsets.any(|subset| subset.addresses.is_some()) {
            true => base_client::WaitState::Done(()),
            false => base_client::WaitState::NotYet("no address".to_owned()),
        }
    });
    listed.await.unwrap();
    for path in [
        "pods/p/proxy/a",
        "pods/p:80/proxy/",
        "services/s:web/proxy/a",
        "services/s:8080/proxy/",
    ] {
        let path = format!("/api/v1/namespaces/default/{path}");
        assert_eq!(text(&client, &path).await, "page", "{path}");
    }
    cluster.stop().await;
}

/// Requests an upgrade with more headers, and reads the head of the answer.
async fn upgraded(stream: &mut TlsStream<TcpStream>, headers: &str) -> String {
    let request = format!("GET {PORT_FORWARD} HTTP/1.1\r\nhost: api\r\nconnection: Upgrade\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

/// A frame that begins a stream; its headers are not compressed.
fn opened(stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
        block.extend(text.as_bytes());
    }
    let length = u16::try_from(block.len()).unwrap();
    let mut content = stream.to_be_bytes().to_vec();
    content.extend([0; 6]);
    if stream == 1 {
        content.extend([0x78, 0x01]);
    }
    content.push(0);
    content.extend(length.to_le_bytes());
    content.extend((!length).to_le_bytes());
    content.extend(block);
    let mut frame = vec![0x80, 3, 0, 1, 0];
    frame.extend(&u32::try_from(content.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(content);
    frame
}

fn data(stream: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    frame.push(u8::from(is_last));
    frame.extend(&u32::try_from(bytes.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(bytes);
    frame
}

/// The bytes of all frames of data until both streams have ended, by stream.
async fn received(stream: &mut TlsStream<TcpStream>, streams: [u32; 2]) -> [String; 2] {
    let (mut bytes, mut ended) = ([Vec::new(), Vec::new()], [false, false]);
    while ended != [true, true] {
        let mut head = [0; 8];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]);
        let mut content = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut content).await.unwrap();
        let of = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        if let Some(at) = streams.iter().position(|stream| *stream == of) {
            bytes[at].extend(content);
            ended[at] = head[4] == 1;
        }
    }
    bytes.map(|bytes| String::from_utf8(bytes).unwrap())
}

fn pair(first: u32, port: &str) -> Vec<u8> {
    let of = |type_| [("streamtype", type_), ("port", port), ("requestid", port)];
    [
        opened(first, &of("error")),
        data(first, b"", true),
        opened(first + 2, &of("data")),
    ]
    .concat()
}

#[tokio::test]
async fn ports_of_a_program_are_forwarded_over_spdy() {
    let keys = keys();
    let cluster = cluster(&keys).await;
    let address = cluster.url().trim_start_matches("https://").to_owned();
    let mut stream = tls(&keys, &address, Some(("root", "system:masters"))).await;
    let head = upgraded(
        &mut stream,
        "upgrade: SPDY/3.1\r\nx-stream-protocol-version: portforward.k8s.io\r\n",
    )
    .await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    assert!(head.contains("x-stream-protocol-version: portforward.k8s.io"), "{head}");
    let sent = [pair(1, "80"), data(3, b"ping\n", false), data(3, b"", true)].concat();
    stream.write_all(&sent).await.unwrap();
    assert_eq!(received(&mut stream, [3, 1]).await, ["ping\n", ""]);
    stream.write_all(&pair(5, "81")).await.unwrap();
    let [bytes, why] = received(&mut stream, [7, 5]).await;
    assert_eq!(bytes, "");
    assert!(why.starts_with("error forwarding port 81 to pod p, uid "), "{why}");
    assert!(why.ends_with("connect: connection refused"), "{why}");
    stream.write_all(&pair(9, "none")).await.unwrap();
    let [_, why] = received(&mut stream, [11, 9]).await;
    assert!(why.contains("unable to parse"), "{why}");
    cluster.stop().await;
}

#[tokio::test]
async fn ports_of_a_program_are_forwarded_within_websocket_messages() {
    let keys = keys();
    let cluster = cluster(&keys).await;
    let address = cluster.url().trim_start_matches("https://").to_owned();
    let user = Some(("root", "system:masters"));
    let mut stream = tls(&keys, &address, user).await;
    let handshake =
        "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let tunnel = "sec-websocket-protocol: SPDY/3.1+portforward.k8s.io\r\n";
    let head = upgraded(&mut stream, &format!("{handshake}{tunnel}")).await;
    assert!(head.starts_with("http/1.1 101"), "{head}");
    assert!(
        head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
        "{head}"
    );
    // Shorter than 126 bytes each, masked with zeros.
    for part in [pair(1, "80"), data(3, b"ping\n", false), data(3, b"", true)]
        .concat()
        .chunks(100)
    {
        let head = [0x82, 0x80 | u8::try_from(part.len()).unwrap(), 0, 0, 0, 0];
        stream.write_all(&[&head, part].concat()).await.unwrap();
    }
    let mut bytes = Vec::new();
    while !bytes.windows(5).any(|part| part == b"ping\n") {
        bytes.push(stream.read_u8().await.unwrap());
    }
    assert_eq!(bytes[0], 0x82, "a binary message");
    for (headers, code) in [
        (String::new(), "400"),
        (
            "upgrade: SPDY/3.1\r\nx-stream-protocol-version: v4.channel.k8s.io\r\n".to_owned(),
            "400",
        ),
        (handshake.to_owned(), "400"),
    ] {
        let mut stream = tls(&keys, &address, user).await;
        let head = upgraded(&mut stream, &headers).await;
        assert!(head.starts_with(&format!("http/1.1 {code}")), "{headers}: {head}");
    }
    cluster.stop().await;
}
