//! The images of a node that are programs on disk: which program an image stands for, what the program finds, and how it
//! runs and ends. It never pulls an image, and isolates no program from its user: what a program could do when its user
//! started it by hand, it can do here.

mod command_line;
mod commands;
mod dispositions;
mod etc;
mod executable;
mod image_file;
mod kubeconfig;
mod launch;
mod layout;
mod memory;
mod modes;
mod names;
mod outgoing;
mod output;
mod plain;
mod pod;
mod ports;
mod process;
mod program;
mod programs;
mod reload;
mod sandbox;
mod shared_port;
mod termination;
mod volume_folder;

pub use image_file::{ImageFile, Mapping};
pub use outgoing::{ApiServers, AtAddress, ToService};
pub use programs::{Isolation, Options, Programs};
pub use reload::BuildSignal;
