//! `orangery garden-apiserver`: the garden's API behind a real kube-apiserver. Prints in one line where it listens, and runs
//! until it is stopped.

use api_meta::Fault;
use landscape_garden_server::run as run_server;
use landscape_terminal::Console;

use crate::cli;

/// Runs the command until `stop` is done.
///
/// # Errors
/// What flags, files, the etcd or the port have that makes a server impossible.
pub(crate) async fn run(
    arguments: &cli::GardenApiserver,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    for sentence in arguments.admission.ineffective_plugins() {
        tracing::warn!("{sentence}");
    }
    let settings = arguments.settings()?;
    run_server(
        settings,
        |address| console.print(&format!("ready: https://{address}")),
        stop,
    )
    .await
}
