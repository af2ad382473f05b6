//! A machine in memory: files in a map, units as tasks of this process where the embedding has an implementation of
//! them. Units without one are noted as running and do nothing. Of its own it reaches no disk, and it starts no program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_meta::Fault;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::desired::Content;
use crate::machine::{Machine, MachineError, Seen, SeenFile, SeenUnit};
use crate::plan::Action;

/// What a unit's implementation is given.
#[derive(Clone, Debug)]
pub struct UnitContext {
    /// The unit file.
    pub content: String,
    /// The machine's files.
    pub files: MemoryFiles,
    /// Cancelled when the unit should stop.
    pub stop: CancellationToken,
}

/// Runs a unit until it is stopped; an error is a failed unit.
pub type UnitImplementation = Arc<dyn Fn(UnitContext) -> BoxFuture<'static, Result<(), Fault>> + Send + Sync>;

/// Where the files of a machine outlive its power. Files that are taken from images are not stored: the configuration
/// brings them again.
pub trait Disk: Send + Sync {
    /// All that was written and not removed, by absolute path.
    fn files(&self) -> Vec<(String, Bytes)>;

    /// Keeps a file. Errors: why the disk cannot.
    fn write(&self, path: &str, bytes: &Bytes) -> Result<(), String>;

    /// Forgets a file; one that is not there is fine. Errors: why the disk cannot.
    fn remove(&self, path: &str) -> Result<(), String>;
}

/// The files of a machine. Clones are the same files.
#[derive(Clone, Default)]
pub struct MemoryFiles {
    by_path: Arc<Mutex<BTreeMap<String, File>>>,
}

struct File {
    digest: String,
    content: Content,
}

impl MemoryFiles {
    /// A file's bytes; none of a file that comes from an image, because programs have no bytes here.
    pub fn read(&self, path: &str) -> Option<Bytes> {
        match &self.lock().get(path)?.content {
            Content::Bytes(bytes) => Some(bytes.clone()),
            Content::Image { .. } => None,
        }
    }

    /// The image that a file was taken from.
    pub fn image(&self, path: &str) -> Option<String> {
        match &self.lock().get(path)?.content {
            Content::Bytes(_) => None,
            Content::Image { image, .. } => Some(image.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.by_path.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// A machine in memory. Clones are the same machine; its units end with the last of them.
#[derive(Clone)]
pub struct MemoryMachine {
    inner: Arc<Inner>,
}

struct Inner {
    implementations: BTreeMap<String, UnitImplementation>,
    files: MemoryFiles,
    disk: Option<Arc<dyn Disk>>,
    units: Mutex<BTreeMap<String, Unit>>,
    failures: tokio::sync::Mutex<mpsc::UnboundedReceiver<MachineError>>,
    fail: mpsc::UnboundedSender<MachineError>,
}

struct Unit {
    seen: SeenUnit,
    content: String,
    run: Option<Run>,
}

/// A running implementation. Dropping it is a power cut.
struct Run {
    stop: CancellationToken,
    task: AbortHandle,
    ended: tokio::sync::watch::Receiver<bool>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl MemoryMachine {
    /// An empty machine with these implementations of units, by unit name.
    pub fn new(implementations: BTreeMap<String, UnitImplementation>) -> Self {
        Self::made(implementations, MemoryFiles::default(), None)
    }

    /// A machine that is switched on: it has the files that are on its disk, and no unit runs.
    pub fn on_disk(implementations: BTreeMap<String, UnitImplementation>, disk: Arc<dyn Disk>) -> Self {
        let found = disk.files().into_iter().map(|(path, bytes)| {
            // With which mode it was written is not known: the plan writes the file again.
            let (digest, content) = (String::new(), Content::Bytes(bytes));
            (path, File { digest, content })
        });
        let files = MemoryFiles {
            by_path: Arc::new(Mutex::new(found.collect())),
        };
        Self::made(implementations, files, Some(disk))
    }

    fn made(
        implementations: BTreeMap<String, UnitImplementation>,
        files: MemoryFiles,
        disk: Option<Arc<dyn Disk>>,
    ) -> Self {
        let (fail, failures) = mpsc::unbounded_channel();
        let failures = tokio::sync::Mutex::new(failures);
        let inner = Inner {
            implementations,
            files,
            disk,
            units: Mutex::default(),
            failures,
            fail,
        };
        MemoryMachine { inner: Arc::new(inner) }
    }

    /// A file's bytes.
    pub fn read(&self, path: &str) -> Option<Bytes> {
        self.inner.files.read(path)
    }

    /// Stops all units and waits for them.
    pub async fn stop(&self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        for name in names {
            self.stop_unit(&name).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Unit>> {
        self.inner.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a file on the disk, or forgets it there, if there is one.
    fn keep(&self, path: &str, bytes: Option<&Bytes>) -> Result<(), MachineError> {
        let Some(disk) = &self.inner.disk else { return Ok(()) };
        let retained = match bytes {
            Some(bytes) => disk.write(path, bytes),
            None => disk.remove(path),
        };
        retained.map_err(|why| MachineError {
            doing: format!("keep the file {path}"),
            why,
        })
    }

    async fn stop_unit(&self, name: &str) {
        let run = self.lock().get_mut(name).and_then(|unit| {
            unit.seen.running = false;
            unit.run.take()
        });
        if let Some(mut run) = run {
            run.stop.cancel();
            // An error means that the task is gone already.
            let _ = run.ended.wait_for(|ended| *ended).await;
        }
    }

    fn start_unit(&self, name: &str) {
        let mut units = self.lock();
        let Some(unit) = units.get_mut(name) else { return };
        unit.seen.running = true;
        let Some(implementation) = self.inner.implementations.get(name) else {
            return;
        };
        let stop = CancellationToken::new();
        let (end, ended) = tokio::sync::watch::channel(false);
        // A unit gets only the files of the machine: it must not keep alive the machine that owns it.
        let files = self.inner.files.clone();
        let running = implementation(UnitContext {
            content: unit.content.clone(),
            files,
            stop: stop.clone(),
        });
        let (fail, name) = (self.inner.fail.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            if let Err(fault) = running.await {
                // There may be no receiver any more when the machine goes down.
                let _ = fail.send(MachineError {
                    doing: format!("run {name}"),
                    why: fault.chain(),
                });
            }
            end.send_replace(true);
        });
        unit.run = Some(Run {
            stop,
            task: task.abort_handle(),
            ended,
        });
    }
}

#[async_trait]
impl Machine for MemoryMachine {
    async fn seen(&self) -> Result<Seen, MachineError> {
        let seen = |(path, file): (&String, &File)| {
            (
                path.clone(),
                SeenFile {
                    digest: file.digest.clone(),
                },
            )
        };
        let files = self.inner.files.lock().iter().map(seen).collect();
        let units = self
            .lock()
            .iter()
            .map(|(name, unit)| (name.clone(), unit.seen.clone()))
            .collect();
        Ok(Seen { files, units })
    }

    async fn perform(&self, action: &Action) -> Result<(), MachineError> {
        match action {
            Action::WriteFile { path, file } => {
                let written = File {
                    digest: file.digest(),
                    content: file.content.clone(),
                };
                self.keep(
                    path,
                    match &file.content {
                        Content::Bytes(bytes) => Some(bytes),
                        Content::Image { .. } => None,
                    },
                )?;
                self.inner.files.lock().insert(path.clone(), written);
            }
            Action::RemoveFile { path } => {
                self.keep(path, None)?;
                self.inner.files.lock().remove(path);
            }
            Action::WriteUnit { name, unit } => {
                let mut units = self.lock();
                let known = units.entry(name.clone()).or_insert_with(|| Unit {
                    seen: SeenUnit {
                        digest: String::new(),
                        enabled: false,
                        running: false,
                    },
                    content: String::new(),
                    run: None,
                });
                known.seen.digest = unit.digest();
                known.content = unit.content.clone().unwrap_or_default();
            }
            Action::RemoveUnit { name } => {
                self.stop_unit(name).await;
                self.lock().remove(name);
            }
            Action::Reload => {}
            Action::Enable { name, enabled } => {
                if let Some(unit) = self.lock().get_mut(name) {
                    unit.seen.enabled = *enabled;
                }
            }
            Action::Restart { name } => {
                self.stop_unit(name).await;
                self.start_unit(name);
            }
            Action::Stop { name } => self.stop_unit(name).await,
        }
        Ok(())
    }

    async fn read_file(&self, path: &str) -> Result<Option<Bytes>, MachineError> {
        Ok(self.read(path))
    }

    async fn failed(&self) -> MachineError {
        match self.inner.failures.lock().await.recv().await {
            Some(error) => error,
            // This machine holds a sender itself.
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for MemoryMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMachine")
            .field("files", &self.inner.files)
            .field("units", &self.lock().keys().collect::<Vec<_>>())
            .finish()
    }
}
