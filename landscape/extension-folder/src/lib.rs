//! An extension under development, as `orangery up --extension` runs it: its folder is read ([`Folder`]), built and watched,
//! and what is installed follows it ([`develop()`]). It writes to no terminal, and knows no landscape: what it reports and
//! installs it hands to a [`Host`].

mod build;
mod changes;
mod crate_folder;
mod develop;
mod folder;
mod logs;
mod manifests;
mod own_writes;
mod parts;
mod settings;

pub use build::{Built, Failed};
pub use develop::{Host, develop};
pub use folder::Folder;
pub use logs::{Run, Runs, follow};
pub use manifests::Manifests;
