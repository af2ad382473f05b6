//! Programs of pods that clients outside of the pods' cluster reach through the front, each under the names of its certificate: a
//! real kube-apiserver, and konnectivity's server for the agents of its shoot. They speak TLS themselves.

use std::io;

use base_client::Dialer;
use base_secrets::Certificate;
use cluster_front::{Front, RegisteredProgram, Registration};
use cluster_node::{ContainerContext, Endpoint, Exit};

/// A program that listens, as its command line says.
pub(crate) struct Listening<'a> {
    /// The flag with the path of its certificate, and the path.
    pub(crate) certificate: (&'static str, &'a str),
    /// Its port.
    pub(crate) port: u16,
    /// A name beyond those of its certificate.
    pub(crate) external: Option<&'a str>,
}

impl Listening<'_> {
    /// Lets it answer in `front`.
    ///
    /// # Errors
    /// Its certificate cannot be read, or another cluster's server has one of the names.
    pub(crate) fn register(&self, front: &Front, context: &ContainerContext) -> Result<Registration, Exit> {
        let (flag, path) = self.certificate;
        let certificate = context.files.read_text(path);
        let certificate = certificate.map_err(|error| Exit::failed(format!("--{flag}: {error}")))?;
        let (network, port) = (context.network.clone(), self.port);
        let dialer = Dialer::new(move || {
            let endpoint = network.own(port);
            Box::pin(async move {
                match endpoint {
                    Some(Endpoint::Bytes(dialer)) => dialer.connect().await,
                    _ => Err(io::ErrorKind::ConnectionRefused.into()),
                }
            })
        });
        let program = RegisteredProgram::new(dialer, &certificate).map_err(|error| Exit::failed_by(&error))?;
        let names = names(&certificate, self.external)?;
        front
            .register_program(names, program)
            .map_err(|error| Exit::failed_by(&error))
    }
}

/// The names under which the server is reached from outside its own cluster: those of its certificate that no other
/// cluster's server carries as well.
pub(crate) fn names(certificate: &str, external: Option<&str>) -> Result<Vec<String>, Exit> {
    let certificate = Certificate::from_pem(certificate).map_err(|error| Exit::failed_by(&error))?;
    let mut names: Vec<String> = certificate
        .dns_names()
        .into_iter()
        .filter(|name| is_its_own(name))
        .collect();
    if let Some(external) = external.filter(|external| !names.iter().any(|name| name == external)) {
        names.push(external.to_owned());
    }
    Ok(names)
}

/// `localhost`, `kubernetes` and the names of the Service `kubernetes` are on every API server's certificate.
fn is_its_own(name: &str) -> bool {
    name.contains('.') && !name.starts_with("kubernetes.default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_its_own_lead_to_a_server() {
        for (name, own) in [
            ("kubernetes", false),
            ("kubernetes.default.svc.cluster.local", false),
            ("localhost", false),
            ("kube-apiserver", false),
            ("kube-apiserver.shoot--local--a.svc", true),
            ("api.a.local.internal", true),
        ] {
            assert_eq!(is_its_own(name), own, "{name}");
        }
    }
}
