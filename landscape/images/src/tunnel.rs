//! konnectivity's programs among the images of this machine: when they make a tunnel, and how agents reach the server.

use api_meta::Fault;
use cluster_front::{Front, Registration};
use cluster_node::{ContainerContext, Exit};
use cluster_programs::ImageFile;
pub use components_hosted::API_SERVER;
use components_hosted::shoot::VPN_SHOOT_IMAGE;
use components_hosted::{ComponentId, Image};

use crate::listening::Listening;

/// The flag with the certificate that the server shows to agents.
const CERTIFICATE: &str = "cluster-cert";
/// The flag with the port at which agents connect.
const PORT: &str = "agent-port";

/// The name of the image with the server's program.
pub(crate) fn server_image() -> &'static str {
    name_of(ComponentId::VpnSeedServer.component().image())
}

fn name_of(image: Image) -> &'static str {
    match image {
        Image::Kubernetes(name) | Image::Own(name) | Image::Upstream { name, .. } => name,
        Image::Program => "orangery",
    }
}

/// The names of the images of both ends of the tunnel.
#[must_use]
pub fn ends() -> [&'static str; 2] {
    [server_image(), name_of(VPN_SHOOT_IMAGE)]
}

/// The names of the images that a tunnel needs.
fn parts() -> [&'static str; 3] {
    let [server, agent] = ends();
    [API_SERVER, server, agent]
}

/// Whether kube-apiserver and both ends of the tunnel are programs of this machine: kube-apiserver reaches nodes of its shoot
/// through the tunnel then, and nodes of shoots run the images that the file maps.
#[must_use]
pub fn is_mapped(file: &ImageFile) -> bool {
    parts().iter().all(|name| maps(file, name))
}

fn maps(file: &ImageFile, name: &str) -> bool {
    let mut patterns = file.mappings.iter().map(|mapping| &mapping.pattern);
    // A wildcard does not take the node's own images away.
    patterns.any(|pattern| pattern.spells_name() && pattern.matches(&format!("orangery.dev/{name}:v1")))
}

/// Refuses a file that maps a part of the tunnel: who maps an end of it means to have one, and would have none. A pattern with a
/// tag maps no part, since a tunnel is for Shoots of every version.
///
/// # Errors
/// What is mapped, and what is missing beside it.
pub fn check(file: &ImageFile) -> Result<(), Fault> {
    let (mapped, missing): (Vec<&str>, Vec<&str>) = parts().into_iter().partition(|name| maps(file, name));
    if missing.is_empty() || !mapped.iter().any(|name| ends().contains(name)) {
        return Ok(());
    }
    let message = format!(
        "the image file {} maps {} and not {}: API servers of Shoots would reach nodes without the tunnel",
        file.path.display(),
        mapped.join(" and "),
        missing.join(" and ")
    );
    let hint = format!(
        "map {} as well, without a tag, or leave out {}; an image of your own with such a name is mapped with its registry before it",
        missing.join(" and "),
        ends().join(" and ")
    );
    Err(Fault::user(message).hint(hint))
}

/// Lets the server, whose container this is, answer to agents in `front`. Its command line and files tell how.
///
/// # Errors
/// They do not.
pub(crate) fn register_program(front: &Front, context: &ContainerContext) -> Result<Registration, Exit> {
    let flag = |name: &str| {
        let prefix = format!("--{name}=");
        let found = context.args.iter().find_map(|word| word.strip_prefix(&prefix));
        found.ok_or_else(|| Exit::failed(format!("its command line has no {prefix}")))
    };
    let port = flag(PORT)?;
    let program = Listening {
        certificate: (CERTIFICATE, flag(CERTIFICATE)?),
        port: port
            .parse()
            .map_err(|_| Exit::failed(format!("--{PORT}={port} is no port")))?,
        external: None,
    };
    program.register(front, context)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use cluster_node::ReferencePattern;
    use cluster_programs::{BuildSignal, Mapping};

    use super::*;

    fn file(images: &[&str]) -> ImageFile {
        let mapping = |image: &&str| Mapping {
            place: "images".to_owned(),
            pattern: ReferencePattern::parse(image).unwrap(),
            command: vec!["/x".to_owned()],
            args: Vec::new(),
            env: BTreeMap::new(),
            working_dir: None,
            built: BuildSignal::default(),
        };
        ImageFile {
            path: PathBuf::from("/images.yaml"),
            mappings: images.iter().map(mapping).collect(),
        }
    }

    #[test]
    fn a_tunnel_needs_the_api_server_and_both_of_its_ends() {
        let all = ["kube-apiserver", "proxy-server", "proxy-agent"];
        assert!(is_mapped(&file(&all)));
        assert!(is_mapped(&file(&[
            "*/kube-apiserver",
            "orangery.dev/proxy-server",
            "proxy-agent"
        ])));
        for missing in all {
            let rest: Vec<&str> = all.into_iter().filter(|one| *one != missing).collect();
            assert!(!is_mapped(&file(&rest)), "{missing}");
        }
        assert!(
            !is_mapped(&file(&["orangery.dev/*"])),
            "a wildcard is about other images"
        );
    }

    #[test]
    fn an_incomplete_tunnel_file_is_refused_with_what_is_missing() {
        let refusal = |images: &[&str]| check(&file(images)).err().map(|fault| fault.chain());
        for fine in [
            &["kube-apiserver", "proxy-server", "proxy-agent"][..],
            &["kube-apiserver", "etcd"],
            &["*"],
            &["acme.example/proxy-agent"],
        ] {
            assert_eq!(refusal(fine), None, "{fine:?}");
        }
        let expected = "the image file /images.yaml maps kube-apiserver and proxy-server and not proxy-agent: API servers of \
                        Shoots would reach nodes without the tunnel";
        let message = refusal(&["kube-apiserver", "proxy-server"]).unwrap();
        assert!(message.starts_with(expected), "{message}");
        let message = refusal(&["proxy-agent"]).unwrap();
        assert!(
            message.contains("maps proxy-agent and not kube-apiserver and proxy-server"),
            "{message}"
        );
    }
}
