//! `orangery provider-local`: the local provider as a process of its own, with the kubeconfig of its service account.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api_meta::Fault;
use base_client::{Connector, Https};
use base_clock::{Clock, Entropy};
use extensions_provider_local::{Options, run as run_provider};
use kube::config::Kubeconfig;
use landscape_data_folder::kubeconfig::read_with_files;
use landscape_local::BACKUPS;
use tokio_util::sync::CancellationToken;

use crate::cli;

/// Runs the provider until `stop` is done.
///
/// # Errors
/// A kubeconfig that cannot be used, a DNS port that is taken.
pub(crate) async fn run(arguments: &cli::ProviderLocal, stop: impl Future<Output = ()>) -> Result<(), Fault> {
    let connector: Arc<dyn Connector> = Arc::new(Https::new("provider-local"));
    let kubeconfig = read(arguments).await?;
    let client = Https::new("provider-local").with_token_files().client(&kubeconfig)?;
    let options = Options {
        dns_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.dns_port))),
        ..Options::new(arguments.data_dir.join(BACKUPS)).named(&arguments.provider_type)
    };
    let (stopping, surroundings) = (CancellationToken::new(), (Clock::real(), Entropy::os()));
    let provider = run_provider(client, connector, None, options, surroundings, stopping.clone());
    tokio::pin!(provider);
    tokio::select! {
        ended = &mut provider => ended,
        () = stop => {
            stopping.cancel();
            provider.await
        }
    }
}

async fn read(arguments: &cli::ProviderLocal) -> Result<Kubeconfig, Fault> {
    let path = &arguments.kubeconfig;
    read_with_files(
        path,
        "name the kubeconfig of the extension's service account with --kubeconfig",
    )
    .await
}
