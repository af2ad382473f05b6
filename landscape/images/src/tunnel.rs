//! konnectivity's programs among the images of this machine: when they make a tunnel, and how agents reach the server.

use cluster_front::{Front, Registration};
use cluster_node::{ContainerContext, Exit};
use cluster_programs::ImageFile;
use components_hosted::shoot::VPN_SHOOT_IMAGE;
use components_hosted::{API_SERVER, ComponentId, Image};

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

/// Whether kube-apiserver and both ends of the tunnel are programs of this machine: kube-apiserver reaches nodes of its shoot
/// through the tunnel then, and nodes of shoots run the images that the file maps.
#[must_use]
pub fn is_mapped(file: &ImageFile) -> bool {
    [API_SERVER, server_image(), name_of(VPN_SHOOT_IMAGE)]
        .iter()
        .all(|name| {
            let mut patterns = file.mappings.iter().map(|mapping| &mapping.pattern);
            // A wildcard does not take the node's own images away.
            patterns.any(|pattern| pattern.spells_name() && pattern.matches(&format!("orangery.dev/{name}:v1")))
        })
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
}
