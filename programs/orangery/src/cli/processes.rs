//! Arguments of the processes of the production form, and of a node that joins a cluster.

use std::path::PathBuf;

use clap::Args;
use ipnet::IpNet;
use landscape_process::{Kubeconfigs, NodeSettings};

/// Where `node` keeps the volumes of its pods when the user names no folder, below the working directory.
pub const NODE_DATA_DIR: &str = ".orangery-node";

/// Arguments of `orangery admission-controller`, `orangery controller-manager` and `orangery scheduler`.
#[derive(Args, Debug)]
pub struct OfGarden {
    /// Configuration file, of Gardener's kind for this component; see docs/reference/configuration.md
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Kubeconfig of the garden, instead of the one that the configuration names
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}

/// Arguments of `orangery gardenlet`.
#[derive(Args, Debug)]
pub struct Gardenlet {
    /// Configuration file of kind GardenletConfiguration; see docs/reference/configuration.md
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Kubeconfig of the garden, instead of the one that the configuration names
    #[arg(long, value_name = "FILE", env = "GARDEN_KUBECONFIG")]
    pub garden_kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the seed, instead of the one that the configuration names
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
}

/// Arguments of `orangery resource-manager`.
#[derive(Args, Debug)]
pub struct ResourceManager {
    /// Configuration file of kind ResourceManagerConfiguration; see docs/reference/configuration.md
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Kubeconfig of the source, instead of the one that the configuration names
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the target, instead of the one that the configuration names
    #[arg(long, value_name = "FILE", env = "TARGET_KUBECONFIG")]
    pub target_kubeconfig: Option<PathBuf>,
}

impl From<&OfGarden> for Kubeconfigs {
    fn from(arguments: &OfGarden) -> Self {
        Self {
            kubeconfig: arguments.kubeconfig.clone(),
            ..Self::default()
        }
    }
}

impl From<&Gardenlet> for Kubeconfigs {
    fn from(arguments: &Gardenlet) -> Self {
        Self {
            kubeconfig: arguments.kubeconfig.clone(),
            garden: arguments.garden_kubeconfig.clone(),
            target: None,
        }
    }
}

impl From<&ResourceManager> for Kubeconfigs {
    fn from(arguments: &ResourceManager) -> Self {
        Self {
            kubeconfig: arguments.kubeconfig.clone(),
            garden: None,
            target: arguments.target_kubeconfig.clone(),
        }
    }
}

/// Arguments of `orangery node`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  orangery node --kubeconfig node.kubeconfig --name node-a --port 7443
    A node of a seed that is a Kubernetes elsewhere: pods of control planes run in this process, and the API servers of
    Shoots among them listen at https://127.0.0.1:7443, distinguished by their server names.")]
pub struct Node {
    /// Kubeconfig of the node in its cluster: user system:node:NAME, group system:nodes
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// Name of the node
    #[arg(long, value_name = "NAME", value_parser = super::node_name)]
    pub name: String,
    /// Port on 127.0.0.1 for the API servers that its pods run; 0 takes a free one
    #[arg(long, value_parser = super::port)]
    pub port: u16,
    /// Port on 127.0.0.1 for the cluster's API server, as a kubelet has it; 0 takes a free one
    #[arg(long, default_value_t = 0, value_parser = super::port)]
    pub kubelet_port: u16,
    /// PEM file with the authority of client certificates at that port; by default the one in the kubeconfig
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Range of its pods' addresses; by default the one that the cluster gives it
    #[arg(long, value_name = "CIDR")]
    pub pod_cidr: Option<IpNet>,
    /// File that maps images to programs on disk: the node runs them in pods of these images; see docs/programs.md
    #[arg(long, value_name = "FILE")]
    pub images: Option<PathBuf>,
    /// Also make the volumes that claims ask for, as the user of this kubeconfig
    #[arg(long, value_name = "FILE")]
    pub provisioner_kubeconfig: Option<PathBuf>,
    /// Folder for the volumes of its pods
    #[arg(long, value_name = "FOLDER", default_value = NODE_DATA_DIR)]
    pub data_dir: PathBuf,
}

impl From<Node> for NodeSettings {
    fn from(arguments: Node) -> Self {
        let Node {
            kubeconfig,
            name,
            port,
            kubelet_port,
            client_ca_file,
            pod_cidr,
            images,
            provisioner_kubeconfig,
            data_dir,
        } = arguments;
        Self {
            kubeconfig,
            name,
            port,
            kubelet_port,
            client_ca_file,
            pod_cidr,
            images,
            provisioner_kubeconfig,
            data_dir,
        }
    }
}
