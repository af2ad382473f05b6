//! The loop of development: build, install, wait for a change, again. A build that fails, or a chart that is broken, is
//! reported and waits for the next change; a change in the middle of a build begins another.

use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};

use api_meta::Fault;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::changes::{Builds, Changes};
use crate::folder::Folder;
use crate::logs::Runs;
use crate::manifests::{Manifests, Pods};
use crate::own_writes::OwnWrites;
use crate::parts::Changed;

/// How long a new program may take to be ready before its absence is worth a line: many times what one needs.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// Where an extension is developed.
pub trait Host: Sync {
    /// Applies objects in the garden.
    fn install(&self, objects: Vec<Value>) -> BoxFuture<'_, Result<(), Fault>>;

    /// The program is another one than before, whole and ready to be started.
    fn program_built(&self);

    /// Shows a line that the builder has printed.
    fn line(&self, text: &str);

    /// Shows what has become of the extension; it may have several lines.
    fn report(&self, text: &str);

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
        folder: folder.clone(),
        builds: changes.builds(),
        host,
        runs,
        installed: None,
    };
    let mut own = OwnWrites::default();
    let mut due = Changed::FIRST;
    loop {
        let mut left = None;
        let more = {
            let mut act = pin!(development.act(due));
            loop {
                let held = own.hold_builds();
                let batch = tokio::select! {
                    biased;
                    batch = changes.next(held, |text| host.report(text)) => batch,
                    still = &mut act, if left.is_none() => {
                        left = Some(still);
                        continue;
                    }
                };
                let verdict = own.take(batch, &folder.path);
                if let Some(text) = verdict.report {
                    host.report(&text);
                }
                if verdict.due.any() {
                    break verdict.due;
                }
            }
        };
        // What was interrupted is due again.
        due = left.unwrap_or(due).and(more);
    }
}

struct Development<'a> {
    folder: Folder,
    builds: Builds,
    host: &'a dyn Host,
    runs: watch::Receiver<Runs>,
    /// What has been installed last.
    installed: Option<Manifests>,
}

impl Development<'_> {
    /// Does what is due; returns what is still due because it failed.
    async fn act(&mut self, due: Changed) -> Changed {
        let first = self.installed.is_none();
        let mut before = self.runs.borrow_and_update().clone();
        let mut done = Vec::new();
        let mut pods = Pods::Stay;
        if due.settings
            && let Err(fault) = self.read_again().await
        {
            self.failed("the changed settings do not count", &fault);
            return due;
        }
        let mut began = Instant::now();
        if due.sources || due.settings {
            match self.build(first, &mut done).await {
                Some((built, ended)) => (pods, began) = (built, ended),
                None => return due,
            }
        }
        if first && pods == Pods::Stay {
            // What runs already of an earlier `up` runs this program.
            before = Runs::default();
        }
        if due.manifests || first {
            match self.install().await {
                Ok(Some(installed)) => {
                    done.push("installed".to_owned());
                    pods = pods.max(installed);
                }
                Ok(None) => {}
                Err(fault) => {
                    self.failed("not installed", &fault);
                    return Changed {
                        sources: false,
                        manifests: true,
                        settings: false,
                    };
                }
            }
        }
        if done.is_empty() {
            return Changed::default();
        }
        let done_alone = match pods {
            Pods::Stay => Some(format!("{}, its pods stay as they are", done.join(", "))),
            Pods::Unsure => Some(done.join(", ")),
            Pods::Start => None,
        };
        if let Some(text) = done_alone {
            self.host.report(&text);
            return Changed::default();
        }
        if first && before.0.is_empty() {
            self.host.report(&done.join(", "));
            done.clear();
        }
        self.reloaded(&before, done, began).await;
        Changed::default()
    }

    fn failed(&self, what: &str, fault: &Fault) {
        self.host.report(&format!("{what}: {fault}\nhint: {}", fault.hint));
    }

    async fn read_again(&mut self) -> Result<(), Fault> {
        self.folder = self.folder.read_again().await?;
        self.builds.reads(&self.folder);
        Ok(())
    }

    /// Builds the program; returns when that has ended, and nothing where it failed, which is reported.
    async fn build(&mut self, first: bool, done: &mut Vec<String>) -> Option<(Pods, Instant)> {
        let host = self.host;
        let running = self.builds.begins();
        let built = self.folder.build(host.colour(), |line| host.line(line)).await;
        if let Ok(built) = &built
            && built.changed
        {
            host.program_built();
        }
        let ended = Instant::now();
        running.ends().await;
        match built {
            Ok(built) => {
                let verb = if first { "built" } else { "rebuilt" };
                done.push(format!("{verb} in {:.1} s", built.took.as_secs_f64()));
                let pods = if built.changed { Pods::Start } else { Pods::Stay };
                Some((pods, ended))
            }
            Err(failed) => {
                host.report(&format!("not built: {}; waiting for the next change", failed.0));
                None
            }
        }
    }

    /// Installs chart and registration; returns nothing if they are as before.
    async fn install(&mut self) -> Result<Option<Pods>, Fault> {
        let manifests = self.folder.manifests().await?;
        if !manifests.remarks.is_empty() {
            self.host.report(manifests.remarks.trim_end());
        }
        if !self.folder.is_in(&manifests.images) {
            let (image, images) = (&self.folder.image, manifests.images.join(", "));
            let why = format!("the chart has no image {image} any more: {images}");
            return Err(Fault::user(why).hint("start `up` again to run the program for another image"));
        }
        if self.installed.as_ref().map(|was| &was.objects) == Some(&manifests.objects) {
            return Ok(None);
        }
        self.host.install(manifests.objects.clone()).await?;
        let pods = manifests.pods_after(self.installed.as_ref());
        self.installed = Some(manifests);
        Ok(Some(pods))
    }

    /// Waits for a run that was not there before, and reports it with what was done for it since `began`.
    async fn reloaded(&mut self, before: &Runs, done: Vec<String>, began: Instant) {
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
        self.host.report(&done.join(", "));
    }
}
