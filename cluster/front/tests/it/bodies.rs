//! Requests with bodies that are too large or broken, as bytes on the wire.

use serde_json::Value;

use super::*;

/// A connection after the handshake, in which it has offered this protocol.
pub(crate) async fn connect(
    landscape: &Landscape,
    protocol: Option<&[u8]>,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = base_secrets::Certificate::from_pem(&landscape.authority.certificate_pem()).unwrap();
    roots.add(authority.der().to_vec().into()).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols.extend(protocol.map(<[u8]>::to_vec));
    let stream = TcpStream::connect(("127.0.0.1", landscape.port)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = "garden.internal".try_into().unwrap();
    connector.connect(name, stream).await.unwrap()
}

/// What the server answers to these bytes: code and `Status`.
async fn answer(landscape: &Landscape, parts: &[&[u8]]) -> (u16, Value) {
    let mut stream = connect(landscape, None).await;
    for part in parts {
        stream.write_all(part).await.unwrap();
    }
    stream.flush().await.unwrap();
    let mut all = Vec::new();
    // Some answers end with the connection, and not all connections end well.
    let _ = stream.read_to_end(&mut all).await;
    let text = String::from_utf8(all).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
    assert!(
        body.is_empty() || head.contains("content-type: application/json") || code == 200,
        "{head}"
    );
    (code, serde_json::from_str(body).unwrap_or_default())
}

fn head(length: &str) -> String {
    format!("POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{length}\r\n\r\n")
}

#[tokio::test]
async fn bodies_that_are_too_large_or_broken_get_a_status() {
    let landscape = Landscape::new().await;
    let _garden = landscape
        .front
        .register(["garden.internal"], landscape.server("garden.internal"))
        .unwrap();
    let mib = vec![b' '; 1 << 20];
    let chunk = [b"100000\r\n", &mib[..], b"\r\n"].concat();
    let sized = |count: usize| head(&format!("content-length: {}", count << 20)).into_bytes();
    let chunked = head("transfer-encoding: chunked").into_bytes();

    let (code, _) = answer(&landscape, &[&sized(3), &mib, &mib, &mib]).await;
    assert_eq!(code, 200, "the limit itself is not too much");
    assert_eq!(landscape.seen.lock().unwrap().len(), 1);

    let (code, status) = answer(&landscape, &[&sized(5), &mib, &mib, &mib, &mib, &mib]).await;
    assert_eq!(code, 413);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 413,
        "reason": "RequestEntityTooLarge",
        "message": "Request entity too large: limit is 3145728, the request has 5242880",
    });
    assert_eq!(status, expected);

    let (code, status) = answer(
        &landscape,
        &[&chunked, &chunk, &chunk, &chunk, &chunk, &chunk, b"0\r\n\r\n"],
    )
    .await;
    assert_eq!(
        (code, &status["message"]),
        (413, &json!("Request entity too large: limit is 3145728"))
    );

    let (code, status) = answer(&landscape, &[&chunked, b"5\r\n{    \r\nzz\r\n"]).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")), "{status}");
    assert_eq!(landscape.seen.lock().unwrap().len(), 1, "a refused request arrived");

    let long = format!(
        "GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "x".repeat(3 * cluster_front::HEADER_BYTES_MAX as usize)
    );
    assert_eq!(answer(&landscape, &[long.as_bytes()]).await.0, 431);
    landscape.stop.cancel();
}
