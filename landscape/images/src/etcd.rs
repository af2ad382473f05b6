//! The image `etcd`: one member that keeps its data in the persistent volume at its data directory: in a file where the
//! volume has a path, else in memory. It speaks to clients in this process only; its flags and files are checked as etcd
//! would miss them.

use std::sync::Arc;

use cluster_node::{ContainerContext, Endpoint, Exit, Volume};
use cluster_store::{FileOptions, FileStore, MemoryStore, Store};
use tokio::sync::Mutex;

use super::flags::{Library, Program};

/// Its flags, and those that have an effect here.
pub(crate) const PROGRAM: Program = Program {
    name: "etcd",
    table: include_str!("flags/etcd.tsv"),
    library: Library::Go,
    effective: &["data-dir", "listen-client-urls"],
    files: &[
        "cert-file",
        "client-cert-file",
        "client-key-file",
        "config-file",
        "key-file",
        "peer-cert-file",
        "peer-client-cert-file",
        "peer-client-key-file",
        "peer-key-file",
        "peer-trusted-ca-file",
        "trusted-ca-file",
    ],
};
/// etcd's client port.
const CLIENT_PORT: u16 = 2379;
/// Where in its data directory etcd keeps its data.
const MEMBER: &str = "member";

/// Runs until stopped; the data stays in the volume.
pub async fn etcd(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let flags = PROGRAM.flags(context)?;
    let folder = flags.required("data-dir")?;
    let volume = context
        .files
        .volume(folder)
        .ok_or_else(|| Exit::failed(format!("etcd: --data-dir {folder} is not on a persistent volume")))?;
    let store = open(&volume).await?;
    let port = flags.get("listen-client-urls").and_then(port_of).unwrap_or(CLIENT_PORT);
    let listening = context
        .network
        .bind(port, Endpoint::Store(store))
        .map_err(|error| Exit::failed_by(&error))?;
    context.ready.set(true);
    context.stop.cancelled().await;
    drop(listening);
    close(&volume).await
}

/// The store that a volume with a path keeps open: whoever was killed could not close it, and who comes next takes it up.
#[derive(Default)]
struct Member(Mutex<Option<FileStore>>);

async fn open(volume: &Volume) -> Result<Arc<dyn Store>, Exit> {
    let Some(path) = volume.path() else {
        return Ok(volume.get_or_init(MemoryStore::new));
    };
    let member = volume.get_or_init(Member::default);
    let mut store = member.0.lock().await;
    if store.is_none() {
        let opened = FileStore::open(path.join(MEMBER), FileOptions::default()).await;
        *store = Some(opened.map_err(|error| Exit::failed(format!("etcd: --data-dir: {error}")))?);
    }
    store
        .clone()
        .map(|store| Arc::new(store) as Arc<dyn Store>)
        .ok_or_else(|| Exit::failed("etcd: --data-dir: its store was closed"))
}

async fn close(volume: &Volume) -> Result<(), Exit> {
    let member = volume.get_or_init(Member::default);
    let Some(store) = member.0.lock().await.take() else {
        return Ok(());
    };
    let closed = store.close().await;
    closed.map_err(|error| Exit::failed(format!("etcd: --data-dir: {error}")))
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
