//! The provider of local shoots: networks that are only numbers, machines that are pods of the seed, DNS names
//! answered on a loopback port, backup buckets that are folders. It is a whole extension all the same: it talks to
//! nothing but the seed's API (and shoots' nodes, by their access Secrets), keeps what it made as objects there,
//! and leaves nothing behind.

mod backup;
mod control_plane;
mod dns;
mod driver;
mod infrastructure;
mod ledger;
mod local_extension;
mod machine_address;
mod network;
mod objects;
mod operating_system;
mod provider_status;
mod run;
mod worker;

pub use driver::{DISK_PATH, EXIT_TOKEN_REFUSED, MACHINE_NAME_ENV, USER_DATA_PATH};
pub use ledger::ledger;
pub use machine_address::MACHINE_ADDRESS_ENV;
pub use provider_status::InfrastructureStatus;
pub use run::{ABOUT, EXTENSION_NAME, KINDS, Options, extend, run};
