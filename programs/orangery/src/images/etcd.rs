//! The image `etcd`: one member that keeps its data in the persistent volume at its data directory. It speaks to clients
//! in this process only; its flags and files are checked as etcd would miss them.

use cluster_node::{ContainerContext, Endpoint, Exit};
use cluster_store::MemoryStore;

use super::flags::Flags;

/// The flags it understands; those without an effect in memory are accepted because they change no answer.
const FLAGS: [&str; 14] = [
    "name",
    "data-dir",
    "listen-client-urls",
    "advertise-client-urls",
    "listen-peer-urls",
    "initial-advertise-peer-urls",
    "listen-metrics-urls",
    "client-cert-auth",
    "trusted-ca-file",
    "cert-file",
    "key-file",
    "auto-compaction-mode",
    "auto-compaction-retention",
    "quota-backend-bytes",
];
/// etcd's client port.
const CLIENT_PORT: u16 = 2379;

/// Runs until stopped; the data stays in the volume.
pub async fn etcd(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("etcd", &context.args, &FLAGS)?;
    for file in ["trusted-ca-file", "cert-file", "key-file"] {
        if let Some(path) = flags.get(file) {
            context
                .files
                .read(path)
                .map_err(|error| Exit::failed(format!("etcd: --{file}: {error}")))?;
        }
    }
    let folder = flags.required("data-dir")?;
    let volume = context
        .files
        .volume(folder)
        .ok_or_else(|| Exit::failed(format!("etcd: --data-dir {folder} is not on a persistent volume")))?;
    let store = volume.get_or_init(MemoryStore::new);
    let port = flags.get("listen-client-urls").and_then(port_of).unwrap_or(CLIENT_PORT);
    let _listening = context
        .network
        .bind(port, Endpoint::Store(store))
        .map_err(|error| Exit::failed_by(&error))?;
    context.ready.set(true);
    context.stop.cancelled().await;
    Ok(())
}

/// The port of the first of several URLs.
fn port_of(urls: &str) -> Option<u16> {
    urls.split(',')
        .next()?
        .rsplit_once(':')?
        .1
        .trim_end_matches('/')
        .parse()
        .ok()
}
