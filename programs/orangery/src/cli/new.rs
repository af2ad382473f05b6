//! Arguments of `orangery new`.

use std::path::PathBuf;

use api_extensions::ExtensionKind;
use clap::{Args, Subcommand};

use super::conformance::kind;

/// What can be begun.
#[derive(Debug, Subcommand)]
pub enum New {
    /// Write a crate with an extension, its chart, its registration, its tests and examples of its use
    Extension(NewExtension),
}

/// Arguments of `orangery new extension`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery new extension moon --kind Infrastructure
    An extension that is responsible for Infrastructures of type moon, in the folder moon.
  orangery new extension provider-moon --type moon --kind Infrastructure --kind ControlPlane --webhook
    Two kinds of type moon, and a webhook that changes control planes of Shoots of this provider.
  orangery up --extension moon
    Builds it, installs it, prints its logs, and reloads it when a file changes.")]
pub struct NewExtension {
    /// Name of the extension: of its crate, its chart and its registration
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Kind of the objects that it is responsible for, such as Infrastructure; may be given several times
    #[arg(long = "kind", value_name = "KIND", value_parser = kind, required = true)]
    pub kinds: Vec<ExtensionKind>,
    /// Type of these objects; by default the name
    #[arg(long = "type", value_name = "TYPE")]
    pub type_: Option<String>,
    /// Add a webhook that changes control planes of Shoots
    #[arg(long)]
    pub webhook: bool,
    /// Folder to write to; by default one called NAME
    #[arg(long, value_name = "FOLDER")]
    pub path: Option<PathBuf>,
    /// Checkout of Orangery with the SDK; by default the one around the current folder, else the one that this program was
    /// built in
    #[arg(long, value_name = "FOLDER")]
    pub sdk: Option<PathBuf>,
}
