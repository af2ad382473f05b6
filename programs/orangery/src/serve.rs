//! What `orangery apiserver` and `orangery garden` share once their cluster has started: its kubeconfig, the line that
//! reports where it is, and its end.

use std::path::Path;
use std::time::Duration;

use api_meta::Fault;
use cluster_bare::Cluster;
use landscape_data_folder::server_state::Place;
use landscape_data_folder::{folder, kubeconfig};
use landscape_terminal::Console;

/// How long parts may take to end: twice what a node gives its pods.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Writes the kubeconfig of `part`, prints that the cluster is ready, and runs it until `stop` is done.
///
/// # Errors
/// The kubeconfig cannot be written.
pub(crate) async fn serve(
    cluster: Cluster,
    place: &Place<'_>,
    part: &str,
    stop: impl Future<Output = ()>,
    console: &Console,
) -> Result<(), Fault> {
    let path = kubeconfig::path(place.data_dir, part);
    kubeconfig::write(&path, cluster.kubeconfig())?;
    console.print(&ready(&path, cluster.url(), place));
    stop.await;
    if tokio::time::timeout(STOP_PATIENCE, cluster.stop()).await.is_err() {
        tracing::warn!("not everything ended within {STOP_PATIENCE:?}");
    }
    Ok(())
}

/// Where it is, how to use it, how long it is there.
fn ready(path: &Path, url: &str, place: &Place<'_>) -> String {
    let retained = match (place.memory, place.etcd.servers.is_empty()) {
        (true, _) => "in memory alone",
        (false, true) => "kept",
        (false, false) => "kept in etcd",
    };
    format!(
        "ready: {url}, {retained}; export KUBECONFIG={}; Ctrl-C ends it",
        folder::absolute(path).display()
    )
}
