//! The loop of development: build, install, wait for a change, again. A build that fails, or a chart that is broken, is
//! reported and waits for the next change; a change in the middle of a build begins another.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use api_meta::Fault;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::changes::{Changed, Changes};
use crate::folder::Folder;
use crate::logs::Runs;

/// How long a new program may take to be ready before its absence is worth a line: many times what one needs.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Where an extension is developed.
pub trait Host: Sync {
    /// Applies objects in the garden.
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>>;

    /// Shows a line that the builder has printed.
    fn line(&self, text: &str);

    /// Shows what has become of the extension; it may have several lines.
    fn say(&self, text: &str);

    /// Whether builders may print in colours.
    fn colour(&self) -> bool;
}

/// Builds and installs the extension, and does so again at each change of its folder. `runs` shows which of its pods run.
///
/// # Errors
/// The folder cannot be watched.
pub async fn develop(folder: &Folder, host: &dyn Host, runs: watch::Receiver<Runs>) -> Result<Infallible, Fault> {
    let mut changes = Changes::watch(folder)?;
    let mut development = Development {
        folder,
        host,
        runs,
        installed: None,
    };
    let mut due = Changed::ALL;
    loop {
        tokio::select! {
            biased;
            // What was interrupted is due again.
            more = changes.next() => due = due.and(more),
            left = development.act(due) => due = left.and(changes.next().await),
        }
    }
}

struct Development<'a> {
    folder: &'a Folder,
    host: &'a dyn Host,
    runs: watch::Receiver<Runs>,
    /// What has been installed last.
    installed: Option<Vec<Value>>,
}

impl Development<'_> {
    /// Does what is due; returns what is still due because it failed.
    async fn act(&mut self, due: Changed) -> Changed {
        let first = self.installed.is_none();
        let before = self.runs.borrow_and_update().clone();
        let mut done = Vec::new();
        let mut reloads = false;
        if due.sources || first {
            let host = self.host;
            match self.folder.build(host.colour(), |line| host.line(line)).await {
                Ok(built) => {
                    let seconds = built.took.as_secs_f64();
                    let verb = if first { "built" } else { "rebuilt" };
                    done.push(format!("{verb} in {seconds:.1} s"));
                    reloads = built.changed;
                }
                Err(failed) => {
                    let waits = "waiting for the next change";
                    self.host.say(&format!("not built: {}; {waits}", failed.0));
                    return due;
                }
            }
        }
        if due.manifests || first {
            match self.install().await {
                Ok(true) => {
                    done.push("installed".to_owned());
                    reloads = true;
                }
                Ok(false) => {}
                Err(fault) => {
                    let hint = &fault.hint;
                    self.host.say(&format!("not installed: {fault}\nhint: {hint}"));
                    return Changed {
                        sources: false,
                        manifests: true,
                    };
                }
            }
        }
        if done.is_empty() {
            return Changed::default();
        }
        if !reloads {
            self.host.say(&format!("{}, nothing has changed", done.join(", ")));
            return Changed::default();
        }
        if first && before.0.is_empty() {
            self.host.say(&done.join(", "));
            done.clear();
        }
        self.reloaded(&before, done).await;
        Changed::default()
    }

    /// Installs chart and registration if they are others than before; returns whether they were.
    async fn install(&mut self) -> Result<bool, Fault> {
        let manifests = self.folder.manifests().await?;
        if !manifests.remarks.is_empty() {
            self.host.say(manifests.remarks.trim_end());
        }
        if !self.folder.is_in(&manifests.images) {
            let (image, images) = (&self.folder.image, manifests.images.join(", "));
            let why = format!("the chart has no image {image} any more: {images}");
            return Err(Fault::user(why).hint("start `up` again to run the program for another image"));
        }
        if self.installed.as_ref() == Some(&manifests.objects) {
            return Ok(false);
        }
        self.host.install(manifests.objects.clone()).await?;
        self.installed = Some(manifests.objects);
        Ok(true)
    }

    /// Waits for a run that was not there before, and reports it with what was done for it.
    async fn reloaded(&mut self, before: &Runs, done: Vec<String>) {
        let began = Instant::now();
        let waiting = tokio::time::timeout(
            RELOAD_PATIENCE,
            self.runs.wait_for(|runs| runs.ready_since(before).is_some()),
        );
        let ready = waiting.await;
        let is_ready = matches!(ready, Ok(Ok(_)));
        drop(ready);
        let what = match (is_ready, before.0.is_empty()) {
            (true, true) => "running".to_owned(),
            (true, false) => format!("reloaded in {:.1} s", began.elapsed().as_secs_f64()),
            (false, _) => {
                let runs = self.runs.borrow();
                let why = runs.0.iter().find_map(|run| run.waits.clone());
                match why {
                    Some(why) => format!("it does not run: {why}"),
                    None => "nothing new of it runs in any seed yet".to_owned(),
                }
            }
        };
        let done = done.into_iter().chain([what]).collect::<Vec<_>>();
        self.host.say(&done.join(", "));
    }
}
