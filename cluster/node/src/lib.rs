//! A node that runs pods from an image catalogue, as tasks of this process. To its API server it is an ordinary Node:
//! it registers, renews a Lease, watches the pods bound to it, runs their containers, reports their status.
//!
//! It never pulls anything, starts no thread and no program, opens no socket, and knows nothing about what its images
//! do. Every wait is a watch; under tokio's paused clock it runs in virtual time.

mod context;
mod directory;
mod events;
mod files;
mod follow;
mod guard;
mod image;
mod in_cluster;
mod lease;
mod log;
mod network;
mod node;
mod pod;
mod register;
mod serve;
mod shown;
mod volume;

pub use context::{ContainerContext, ReadySwitch};
pub use files::{FileError, Files};
pub use image::{EXIT_CRASHED, EXIT_KILLED, Exit, Found, Image, ImageCatalogue, image_name, image_tag};
pub use in_cluster::SERVICE_ACCOUNT_FOLDER;
pub use log::{LogWriter, current_log};
pub use network::{AddressInUse, Binding, Endpoint, Network, Networks, PodNetwork, Refused};
pub use node::{NodeOptions, PodAddresses, run};
pub use serve::NodeServices;
pub use volume::{Volume, Volumes};
