//! A container's mounts on disk: its volumes as folders, written now and whenever their sources change. It knows nothing of
//! the program that reads them.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use cluster_node::{Files, Mount, Mounted, Scratch};
use cluster_sandbox::{make_folders_beneath, write_new_beneath};
use k8s_openapi::api::core::v1::{Container, Pod as PodObject};

use crate::command_line::Translation;
use crate::kubeconfig;
use crate::modes::Modes;
use crate::pod::{Pod, remove};
use crate::sandbox::MACHINE;
use crate::termination;
use crate::volume_folder::{Content, VolumeFolder, make_folder};

/// A mount and where its content is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Where it is mounted.
    pub(crate) path: String,
    /// The folder of the whole volume, or a file.
    pub(crate) root: PathBuf,
    /// The part of it that is mounted; empty for all of it. Programs of the pod may have put links there.
    pub(crate) sub_path: PathBuf,
    pub(crate) writable: bool,
}

impl Placed {
    /// The folder or file that is mounted.
    fn source(&self) -> PathBuf {
        self.root.components().chain(self.sub_path.components()).collect()
    }
}

/// The folder of a persistent volume that has no folder of its own; removed with the volume.
struct ClaimFolder(PathBuf);

impl Drop for ClaimFolder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// How a program finds its mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// At their paths. The port is the one of the pod's own loopback that leads to the API servers of this process.
    Mounted { shared_port: Option<u16> },
    /// Elsewhere: paths are translated.
    Linked,
}

/// The mounts of one container.
pub(crate) struct Layout {
    found: Found,
    pod: Arc<Pod>,
    object: Arc<PodObject>,
    files: Files,
    placed: Vec<Placed>,
    translation: Translation,
}

impl Layout {
    pub(crate) fn new(
        pod: Arc<Pod>,
        object: Arc<PodObject>,
        container: &Container,
        files: Files,
        found: Found,
    ) -> Self {
        let mut placed: Vec<Placed> = files
            .mounts()
            .iter()
            .map(|mount| Placed {
                path: mount.path().to_owned(),
                root: root(&pod, mount),
                sub_path: PathBuf::from(mount.sub_path()),
                writable: mount.is_writable(),
            })
            .collect();
        let message = Placed {
            path: termination::path(container),
            root: termination::file(&pod.container(&container.name)),
            sub_path: PathBuf::new(),
            writable: true,
        };
        // What the pod mounts there itself wins.
        if placed.iter().all(|placed| placed.path != message.path) {
            let behind = placed.partition_point(|placed| placed.path.len() >= message.path.len());
            placed.insert(behind, message);
        }
        let translated = placed.iter().filter(|_| found == Found::Linked);
        let translation = Translation::new(translated.map(|placed| (placed.path.clone(), placed.source())));
        Layout {
            found,
            pod,
            object,
            files,
            placed,
            translation,
        }
    }

    /// The folder of one container of the pod.
    pub(crate) fn own(&self, container: &str) -> PathBuf {
        self.pod.container(container)
    }

    /// How the program finds its mounts.
    pub(crate) fn found(&self) -> Found {
        self.found
    }

    /// All mounts, those with the longest paths first.
    pub(crate) fn placed(&self) -> &[Placed] {
        &self.placed
    }

    /// Translates paths of mounts to where they are; no path where they are mounted.
    pub(crate) fn translation(&self) -> &Translation {
        &self.translation
    }

    /// Brings the volumes up to what their sources hold now.
    pub(crate) fn write(&self) -> io::Result<()> {
        for mount in self.files.mounts() {
            let root = root(&self.pod, mount);
            match mount.content() {
                Mounted::Files(files) => {
                    let modes = Modes::of(&self.object, mount.volume());
                    let rewritten =
                        |file| kubeconfig::rewritten(file, |path| self.translation.path(path), |url| self.server(url));
                    let files = files.into_iter().map(|(path, file)| {
                        let mode = modes.mode(&path);
                        (path, (rewritten(file), mode))
                    });
                    self.write_volume(mount.volume(), root, files.collect())?;
                }
                Mounted::Scratch(scratch) => {
                    make_writable(&root, mount.sub_path())?;
                    write_scratch(&root, scratch)?;
                }
                Mounted::Claim(_) => make_writable(&root, mount.sub_path())?,
            }
        }
        Ok(())
    }

    fn server(&self, url: &str) -> Option<String> {
        match self.found {
            Found::Mounted { shared_port } => machine_url(url, shared_port),
            Found::Linked => None,
        }
    }

    fn write_volume(&self, name: &str, path: PathBuf, content: Content) -> io::Result<()> {
        let mut volumes = self.pod.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let volume = volumes
            .entry(name.to_owned())
            .or_insert_with(|| VolumeFolder::new(path));
        volume.write(content)
    }

    /// Makes a folder in which all mounts are at their paths, as links.
    pub(crate) fn link_below(&self, root: &Path) -> io::Result<()> {
        make_folder(root)?;
        // Those further up first: the others lie in them.
        for placed in self.placed.iter().rev() {
            let link = root.join(placed.path.trim_start_matches('/'));
            if let Some(above) = link.parent() {
                make_folder(above)?;
            }
            match symlink(placed.source(), &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked?,
            }
        }
        Ok(())
    }
}

/// Servers at loopback are the machine's: a pod with a network of its own reaches them at another address, except those at
/// `shared_port`.
fn machine_url(url: &str, shared_port: Option<u16>) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let behind = rest
        .strip_prefix("127.0.0.1")
        .or_else(|| rest.strip_prefix("localhost"))?;
    let whole = behind.is_empty() || behind.starts_with([':', '/']);
    let port = behind.strip_prefix(':').unwrap_or_default();
    let port = port.split('/').next().and_then(|port| port.parse().ok());
    let is_rewritten = whole && (shared_port.is_none() || port != shared_port);
    is_rewritten.then(|| format!("{scheme}://{MACHINE}{behind}"))
}

/// The folder of the whole volume.
fn root(pod: &Pod, mount: &Mount) -> PathBuf {
    let own = || pod.volume(mount.volume());
    match mount.content() {
        Mounted::Files(_) => own(),
        Mounted::Scratch(scratch) => scratch.folder().map_or_else(own, Path::to_owned),
        Mounted::Claim(volume) => volume.path().map_or_else(
            || {
                // It outlives the pod: its folder lies beside the pods'.
                let folder = volume.get_or_init(|| ClaimFolder(claim_folder(&own())));
                folder.0.clone()
            },
            Path::to_owned,
        ),
    }
}

/// The folder for a claim: named by the first pod that uses it and the pod's volume, so that no other claim has it.
fn claim_folder(own: &Path) -> PathBuf {
    let mut parts = own
        .components()
        .rev()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    let (volume, _volumes, pod) = (parts.next(), parts.next(), parts.next());
    let name = format!("claim-{}-{}", pod.unwrap_or_default(), volume.unwrap_or_default());
    let data = own.ancestors().nth(3).unwrap_or(own);
    data.join(name)
}

/// Makes a volume's folder, and folders in it, that its programs may write to as any user. Errors: the path leads out of the
/// volume, be it by a link that a program has made.
fn make_writable(root: &Path, sub_path: &str) -> io::Result<()> {
    if !root.exists() {
        make_folder(root)?;
        fs::set_permissions(root, fs::Permissions::from_mode(0o777))?;
    }
    make_folders_beneath(root, Path::new(sub_path))
}

/// Writes what containers of this process have put into an `emptyDir` in memory. What programs have written stays.
fn write_scratch(root: &Path, scratch: Scratch<'_>) -> io::Result<()> {
    if scratch.folder().is_some() {
        return Ok(());
    }
    for (path, bytes) in scratch.files() {
        write_new_beneath(root, Path::new(&path), &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_at_loopback_are_rewritten_to_the_machine_except_the_shared_port() {
        let rewritten = |url| machine_url(url, Some(6443));
        assert_eq!(
            rewritten("https://127.0.0.1:8443/x").as_deref(),
            Some("https://169.254.20.1:8443/x")
        );
        assert_eq!(rewritten("http://localhost").as_deref(), Some("http://169.254.20.1"));
        for same in [
            "https://127.0.0.1:6443",
            "https://localhost:6443/clusters/a",
            "https://127.0.0.1.example.org:8443",
            "https://10.0.0.1:8443",
        ] {
            assert_eq!(rewritten(same), None, "{same}");
        }
        assert!(machine_url("https://127.0.0.1", None).is_some());
    }
}
