//! Servers that are programs: another front on a port of its own stands for one, with its own TLS.

use base_client::{Connection, Dialer};
use base_secrets::Credential;
use cluster_front::{RegisteredProgram, Registration};
use tokio::net::{TcpListener, TcpStream};

use crate::{Landscape, get_data};

const NAME: &str = "api.moon.internal";

/// Leads to a port of loopback.
fn dialer(port: u16) -> Dialer {
    Dialer::new(move || {
        Box::pin(async move {
            let stream = TcpStream::connect(("127.0.0.1", port)).await?;
            Ok(Box::new(stream) as Connection)
        })
    })
}

impl Landscape {
    /// Lets a program that listens on a port answer to a name here, by a certificate of this landscape's authority.
    fn program(&self, port: u16) -> Registration {
        let spec = base_secrets::CertificateSpec::server(NAME, vec![NAME.to_owned()], vec![], crate::DAY);
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        let program = RegisteredProgram::new(dialer(port), &issued.certificate_pem()).unwrap();
        self.front.register_program([NAME], program).unwrap()
    }
}

/// A landscape, and a program of its authority that listens on a port and serves as `NAME`.
async fn landscapes() -> (Landscape, Landscape, Registration) {
    let (landscape, mut program) = (Landscape::new().await, Landscape::new().await);
    program.authority = base_secrets::Authority::from_pem(
        &landscape.authority.certificate_pem(),
        landscape.authority.key_pem().expose(),
    )
    .unwrap();
    let serves = program.front.register([NAME], program.server(NAME)).unwrap();
    (landscape, program, serves)
}

#[tokio::test]
async fn credentials_of_clients_reach_a_program_both_ways() {
    let (landscape, program, _serves) = landscapes().await;
    let _registration = landscape.program(program.port);
    let jane = landscape.kubeconfig(NAME, Credential::Certificate(Box::new(landscape.jane())));
    let token = landscape.kubeconfig(NAME, Credential::Token(base_secrets::SecretText::new("t1")));
    for (way, connector) in landscape.ways() {
        let answer = get_data(&connector, &jane).await.unwrap();
        assert_eq!(
            (answer["server"].as_str(), answer["user"].as_str()),
            (NAME, "jane"),
            "{way}"
        );
        let answer = get_data(&connector, &token).await.unwrap();
        assert_eq!(answer["token"], "Bearer t1", "{way}");
    }
}

#[tokio::test]
async fn a_program_of_another_authority_is_refused_by_its_clients() {
    let (landscape, program, _serves) = landscapes().await;
    let _registration = landscape.program(program.port);
    let mut stranger = landscape.kubeconfig(NAME, Credential::Anonymous);
    let mut other = Landscape::new().await;
    // All landscapes begin with the same randomness: this is drawn after that of the first authority.
    other.authority = base_secrets::Authority::generate("other", &landscape.clock, &landscape.entropy).unwrap();
    stranger.clusters = other.kubeconfig(NAME, Credential::Anonymous).clusters;
    stranger.clusters[0].cluster.as_mut().unwrap().server = Some(format!("https://127.0.0.1:{}", landscape.port));
    for (way, connector) in landscape.ways() {
        let why = get_data(&connector, &stranger).await.unwrap_err();
        assert!(why.contains("certificate"), "{way}: {why}");
    }
}

#[tokio::test]
async fn an_instance_not_yet_listening_is_skipped_and_refused_when_alone() {
    let (landscape, program, _serves) = landscapes().await;
    let old = landscape.program(program.port);
    let closed = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let starting = landscape.program(closed);
    let anonymous = landscape.kubeconfig(NAME, Credential::Anonymous);
    for (way, connector) in landscape.ways() {
        assert_eq!(get_data(&connector, &anonymous).await.unwrap()["server"], NAME, "{way}");
    }
    drop(old);
    for (way, connector) in landscape.ways() {
        assert!(get_data(&connector, &anonymous).await.is_err(), "{way}");
    }
    drop(starting);
    assert!(!landscape.front.has(NAME));
}
