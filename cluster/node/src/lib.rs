//! A node that runs pods from an image catalogue, as tasks of this process. To its API server it is an ordinary Node:
//! it registers, renews a Lease, watches the pods bound to it, runs their containers, reports their status.
//!
//! It never pulls anything, starts no thread and no program, opens no socket, and knows nothing about what its images
//! do: one may stand for a program on disk. Every wait is a watch; under tokio's paused clock it runs in virtual time.

mod command;
mod context;
mod directory;
mod events;
mod exec;
mod files;
mod follow;
mod forward;
mod guard;
mod image;
mod in_cluster;
mod lease;
mod log;
mod network;
mod node;
mod pattern;
mod pod;
mod register;
mod serve;
mod shown;
mod volume;

pub use api_meta::names::SERVICE_ACCOUNT_FOLDER;
pub use cluster_network_policy::{Protocol, Refusal};
pub use command::{CommandStreams, Commands, RunCommand, RunningCommand, TerminalSize};
pub use context::{ContainerContext, PodValues, ReadySwitch};
pub use files::{FileError, Files, Mount, Mounted, Scratch};
pub use image::{CannotStart, EXIT_CRASHED, EXIT_KILLED, Exit, Found, Image, ImageCatalogue, image_name, image_tag};
pub use log::{LogWriter, current_log};
pub use network::{
    AddressInUse, AllPorts, Binding, Endpoint, Network, Networks, PodNetwork, Refused, Resolved, Suggestion,
};
pub use node::{NodeOptions, PodAddresses, run};
pub use pattern::{PatternError, ReferencePattern};
pub use serve::NodeServices;
pub use volume::{Volume, Volumes};
