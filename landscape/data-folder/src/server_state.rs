//! What one API server of its own keeps: in memory, in the data folder, or in an etcd; and whose data folder it is. For
//! `orangery apiserver` and `orangery garden`; a landscape of `orangery up` has a state of its own.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use cluster_bare::Cluster;
use cluster_node::Volumes;
use cluster_store::FileStore;
use cluster_store_etcd::EtcdStore;
use tokio::net::TcpListener;

use crate::on_etcd::EtcdSettings;
use crate::server_data::{self, ServerData, VOLUMES};
use crate::{folder, on_etcd};

/// The folder of a landscape's state, in the data folder.
pub const OF_LANDSCAPE: &str = "state";

/// Whose state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// `orangery up`.
    Landscape,
    /// `orangery apiserver`.
    Kubernetes,
    /// `orangery garden`.
    Garden,
}

impl Owner {
    const ALL: [Owner; 3] = [Owner::Landscape, Owner::Kubernetes, Owner::Garden];

    /// The folders of its state, in the data folder: that with objects, and that without, where these are in an etcd.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Owner::Landscape => &[OF_LANDSCAPE],
            Owner::Kubernetes => &["apiserver", "apiserver-on-etcd"],
            Owner::Garden => &["garden", "garden-on-etcd"],
        }
    }

    fn described(self) -> &'static str {
        match self {
            Owner::Landscape => "a landscape of `orangery up`",
            Owner::Kubernetes => "the Kubernetes of an `orangery apiserver`",
            Owner::Garden => "the garden of an `orangery garden`",
        }
    }

    /// Refuses a data folder that holds the state of another.
    ///
    /// # Errors
    /// It does; the error names its owner.
    pub fn refuse_others(self, data_dir: &Path) -> Result<(), Fault> {
        let others = Owner::ALL.into_iter().filter(|other| *other != self);
        let held = others
            .filter(|other| {
                other
                    .folders()
                    .iter()
                    .any(|folder| server_data::is_in(&data_dir.join(folder)))
            })
            .map(Owner::described)
            .next();
        held.map_or(Ok(()), |what| {
            let why = format!("the data folder {} holds {what}", data_dir.display());
            Err(Fault::user(why).hint("name another folder with --data-dir"))
        })
    }
}

/// A data folder that is ours, and the port.
pub struct Claimed {
    /// The port, open.
    pub listener: TcpListener,
    _lock: File,
}

/// Takes the data folder and the port of 127.0.0.1 for `command`. Where there is a folder, it tells which process is in
/// the way; where there is none, none is made in vain.
///
/// # Errors
/// Another process has one of them, the folder cannot be used, or holds the state of another command.
pub async fn claim(owner: Owner, command: &str, data_dir: &Path, port: u16) -> Result<Claimed, Fault> {
    let vacant = match data_dir.exists() {
        true => None,
        false => Some(bind(port).await?),
    };
    folder::make("the data folder", data_dir)?;
    let lock = folder::take(data_dir, command)?;
    owner.refuse_others(data_dir)?;
    let listener = match vacant {
        Some(listener) => listener,
        None => bind(port).await?,
    };
    Ok(Claimed { listener, _lock: lock })
}

/// Whether the port can be opened, for who wants to know before anything is made.
///
/// # Errors
/// It is taken.
pub async fn vacant(port: u16) -> Result<(), Fault> {
    bind(port).await.map(drop)
}

/// Opens a port of loopback.
///
/// # Errors
/// It is taken.
pub async fn bind(port: u16) -> Result<TcpListener, Fault> {
    TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        Fault::user(format!("cannot listen on 127.0.0.1:{port}: {error}"))
            .hint("end the process that uses the port, or choose another with --port (0 takes a free one)")
    })
}

/// Where a state is.
pub struct Place<'a> {
    /// Whose it is.
    pub owner: Owner,
    /// The server's name, that of its folder within the state's.
    pub name: &'a str,
    /// The data folder.
    pub data_dir: &'a Path,
    /// Nothing is retained: the state ends with the process.
    pub memory: bool,
    /// The etcd of its objects, if they are in one.
    pub etcd: &'a EtcdSettings,
}

/// What outlives the process, or does not.
pub struct ServerState {
    /// Store and keys.
    pub data: ServerData,
    /// Volumes of its nodes' pods.
    pub volumes: Volumes,
    files: Vec<FileStore>,
    etcd: Option<Arc<EtcdStore>>,
}

impl ServerState {
    /// Opens it, or begins it.
    ///
    /// # Errors
    /// The folder or the etcd cannot be used, or is damaged. It is left as it was.
    pub async fn open(place: &Place<'_>) -> Result<Self, Fault> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let mut files = Vec::new();
        if place.memory {
            return Ok(Self {
                data: ServerData::memory(place.name, &clock, &entropy)?,
                volumes: Volumes::new(),
                files,
                etcd: None,
            });
        }
        let is_on_etcd = !place.etcd.servers.is_empty();
        let folder = place.data_dir.join(place.owner.folders()[usize::from(is_on_etcd)]);
        folder::make("the state's folder", &folder)?;
        server_data::check(&folder)?;
        let (data, etcd) = if is_on_etcd {
            let keys = server_data::keys(&folder, place.name, VOLUMES, &clock, &entropy)?;
            let path = folder.join(place.name).join(server_data::KEYS);
            let etcd = Arc::new(on_etcd::open(place.etcd, &keys, &path).await?);
            let store = etcd.clone();
            (ServerData { store, keys }, Some(etcd))
        } else {
            (
                server_data::open(&folder, place.name, VOLUMES, &clock, &entropy, &mut files).await?,
                None,
            )
        };
        data.keys.check(place.name, &clock)?;
        let path = folder.join(VOLUMES);
        let volumes =
            Volumes::in_folder(&path).map_err(|error| folder::unusable("open the volumes in", &path, &error))?;
        Ok(Self {
            data,
            volumes,
            files,
            etcd,
        })
    }

    /// A cluster on it, which listens there.
    #[must_use]
    pub fn cluster(&self, listener: TcpListener, etcd: &EtcdSettings) -> cluster_bare::Builder {
        let ServerData { store, keys } = self.data.clone();
        let builder = Cluster::builder()
            .listener(listener)
            .store(store)
            .keys(cluster_bare::Keys {
                authority: keys.authority,
                clients: keys.clients,
                tokens: keys.tokens,
            });
        match self.etcd {
            Some(_) => builder.replicated(etcd.leader_elect),
            None => builder,
        }
    }

    /// Lets the server's `/readyz` tell when its etcd is out of reach.
    pub fn watch_etcd(&self, cluster: &Cluster) {
        let Some(etcd) = &self.etcd else { return };
        let is_connected = etcd.is_connected();
        cluster.server().readiness().add("etcd", move || {
            let down = "the watches of etcd broke, and it is not reached again yet";
            is_connected().then_some(()).ok_or_else(|| down.to_owned())
        });
    }

    /// Closes what is open. Without it nothing is lost either.
    pub async fn close(self) {
        for store in &self.files {
            if let Err(error) = store.close().await {
                tracing::warn!("not closed in order: {error}");
            }
        }
    }
}
