//! Certificates: awaited, replaced while clients connect, refused.

use base_serve::{CertificateError, Limits, ServerCertificate};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use crate::client::{NAME, Signer, lengths, serve};

/// Connections of one client; several certificates come and go meanwhile.
const CONNECTIONS: usize = 60;
const REPLACEMENTS: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_a_certificate_fails_no_connection_old_or_new() {
    let signer = std::sync::Arc::new(Signer::new());
    let certificate = signer.certificate();
    let port = serve(lengths(), certificate.clone(), Limits::default()).await;
    let mut persistent = signer.connect(port.address).await.unwrap();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (signer, address) = (signer.clone(), port.address);
            tokio::spawn(async move {
                for _ in 0..CONNECTIONS {
                    let mut client = signer.connect(address).await.unwrap();
                    assert_eq!(client.post("/", b"abc").await.unwrap(), (200, "3".to_owned()));
                }
            })
        })
        .collect();
    let mut last = String::new();
    for _ in 0..REPLACEMENTS {
        let (pem, key) = signer.pair();
        certificate.replace(&pem, &key).unwrap();
        assert_eq!(persistent.post("/", b"").await.unwrap(), (200, "0".to_owned()));
        last = pem;
    }
    for client in clients {
        client.await.unwrap();
    }
    let shown = signer.connect(port.address).await.unwrap();
    let chain = shown.0.get_ref().1.peer_certificates().unwrap();
    let expected = base_secrets::Certificate::from_pem(&last).unwrap();
    assert_eq!(chain[0].as_ref(), expected.der());
}

#[tokio::test]
async fn a_connection_waits_for_the_first_certificate() {
    let (signer, certificate) = (Signer::new(), ServerCertificate::awaited());
    let port = serve(lengths(), certificate.clone(), Limits::default()).await;
    assert!(!certificate.is_known());
    let connecting = async {
        signer
            .connect(port.address)
            .await
            .unwrap()
            .post("/", b"ab")
            .await
            .unwrap()
    };
    let showing = async {
        let (pem, key) = signer.pair();
        tokio::task::yield_now().await;
        certificate.replace(&pem, &key).unwrap();
    };
    let (answer, ()) = tokio::join!(connecting, showing);
    assert_eq!(answer, (200, "2".to_owned()));
    assert!(certificate.is_known());
}

#[tokio::test]
async fn both_versions_of_tls_are_spoken() {
    let signer = Signer::new();
    let port = serve(lengths(), signer.certificate(), Limits::default()).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let stream = TcpStream::connect(port.address).await.unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let stream = signer.connector(&[version]).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
    }
}

#[test]
fn a_mismatched_key_pair_is_refused_and_the_old_one_stays() {
    let signer = Signer::new();
    let ((first, key), (_, other)) = (signer.pair(), signer.pair());
    let certificate = ServerCertificate::new(&first, &key).unwrap();
    let refused = [
        ("", key.as_str(), "the certificate is not PEM"),
        (first.as_str(), "", "the key is not PEM"),
        (
            first.as_str(),
            other.as_str(),
            "certificate and key cannot be used together",
        ),
    ];
    for (certificates, key, why) in refused {
        let error: CertificateError = certificate.replace(certificates, key).unwrap_err();
        assert!(error.chain().starts_with(why), "{}", error.chain());
        assert!(certificate.is_known());
    }
}
