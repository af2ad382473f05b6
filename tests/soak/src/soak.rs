//! A whole soak: fill, deeds and faults, settle, delete, look whether anything is left; measured all along.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base_client::{Connector, Https};
use base_clock::Entropy;
use cluster_store::HISTORY_AGE_MAX;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_crash::picture::Picture;
use tests_crash::process::{VOLUMES, kubeconfigs};
use tests_crash::script::Phase as Step;
use tests_crash::view::{Pace, View};

use crate::fault::{Coming, Fault, RESTARTS_UNTIL, schedule, spare};
use crate::fleet::Fleet;
use crate::product::Product;
use crate::sample::{self, Phase, Sample, Taken};
use crate::settle::settled;
use crate::tally::Tally;
use crate::user::User;
use crate::watching::Watching;
use crate::wish::{Place, VERSIONS};
use crate::{dns, wish};

/// The shortest pause between two deeds.
const DEED_PAUSE: Duration = Duration::from_millis(400);
/// A user who has waited for so long does the next thing, whatever is under way.
const IMPATIENT: Duration = Duration::from_secs(15);
/// How often one looks whether something has come to pass.
const LOOK: Duration = Duration::from_millis(250);
/// How long all Shoots together may take until the first of them have succeeded, until all are as asked, until all are gone.
const LONG: Duration = Duration::from_secs(1800);
/// The seed's node.
const NODE: &str = "seed-local-0";
/// How long a landscape without Shoots is looked at.
const QUIET: Duration = Duration::from_secs(20);
/// As long as stores keep changes, and then until a write has swept them: an idle landscape writes every ten seconds.
const FORGETTING: Duration = HISTORY_AGE_MAX.saturating_add(Duration::from_secs(120));
/// How often lines tell how it goes.
const TELL: Duration = Duration::from_secs(60);
/// How the end is looked at: everything may take its time, on a machine that others use.
const PACE: Pace = Pace {
    rest: Duration::from_secs(300),
    ..Pace::REAL
};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many Shoots.
    pub shoots: usize,
    /// How long deeds and faults go on.
    pub length: Duration,
    /// Where all randomness begins.
    pub seed: u64,
    /// How many Shoots are worked on before the user waits.
    pub in_flight: u64,
    /// Time between samples.
    pub sample_every: Duration,
    /// How long the empty landscape is looked at, before and after.
    pub quiet: Duration,
    /// How long it is left alone after everything has gone: what it tells of it to those who come late is history by then.
    pub forgetting: Duration,
    /// Where the data folder is made.
    pub folder: PathBuf,
}

impl Settings {
    /// As a person asks for it.
    #[must_use]
    pub fn new(shoots: usize, length: Duration, seed: u64, folder: PathBuf) -> Self {
        Self {
            shoots,
            length,
            seed,
            in_flight: 8,
            sample_every: Duration::from_secs(5),
            quiet: QUIET,
            forgetting: FORGETTING,
            folder,
        }
    }
}

/// A soak while it runs; what it has seen stays when it fails.
#[derive(Clone)]
pub struct Soak {
    settings: Settings,
    tally: Tally,
    samples: Arc<Mutex<Vec<Sample>>>,
    phase: Arc<Mutex<Phase>>,
    tell: fn(&str),
}

impl Soak {
    /// Not yet begun. `tell` is given a line now and then.
    #[must_use]
    pub fn new(settings: Settings, tell: fn(&str)) -> Self {
        Self {
            settings,
            tally: Tally::default(),
            samples: Arc::default(),
            phase: Arc::new(Mutex::new(Phase::Empty)),
            tell,
        }
    }

    /// What was done.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What was measured so far.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        (self.tell)(&format!("{}:", phase.name()));
    }

    /// Runs all of it on a product that has just been started.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    pub async fn run(&self, product: &Product) -> Result<(), String> {
        let user = User::of(product.folder())?;
        surroundings(&user, product.folder()).await?;
        let view = view(product.folder())?;
        let before = view.at_rest(Step::Start).await?;
        let watching = Watching::begin(user.garden.clone());
        let entropy = Entropy::seeded(self.settings.seed);
        let measuring = self.measure(product, &watching);
        let doing = async {
            self.enter(Phase::Empty);
            tokio::time::sleep(self.settings.quiet).await;
            let mut fleet = Fleet::new(self.settings.shoots, &user, &self.tally);
            self.fill(&mut fleet, &watching, product, &entropy).await?;
            self.deeds(&mut fleet, &watching, product, &user, &entropy).await?;
            self.settle(&mut fleet, &watching, product, &user).await?;
            self.delete(&mut fleet, &watching, product, &user).await?;
            self.look_around(&view, &before, product).await
        };
        tokio::select! {
            done = doing => done,
            () = measuring => Err("measuring never ends".to_owned()),
        }
    }

    /// Takes samples and tells how it goes, for ever.
    async fn measure(&self, product: &Product, watching: &Watching) {
        let mut every = tokio::time::interval(self.settings.sample_every);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reported_at = Instant::now();
        let state = product.folder().join("state");
        loop {
            every.tick().await;
            let (process, life) = product.process();
            let counts = watching.counts();
            if let Some(taken) = Taken::by(process) {
                let seconds = product.elapsed().as_secs_f64();
                let sample = Sample::new(
                    &taken,
                    seconds,
                    self.phase(),
                    life,
                    [counts.all, counts.under_way],
                    &state,
                );
                self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
            }
            if reported_at.elapsed() >= TELL {
                reported_at = Instant::now();
                self.tell_all(product, watching);
            }
        }
    }

    fn tell_all(&self, product: &Product, watching: &Watching) {
        let counts = watching.counts();
        let (deeds, faults) = self.tally.sums();
        let samples = self.samples();
        let memory = samples.last().map_or(f64::NAN, |sample| sample.rss_anon_mb);
        (self.tell)(&format!(
            "{:.0} min, {}: {} Shoots, {} worked on, {} failed; {deeds} deeds, {faults} faults, {} restarts; {memory:.0} MB, load {:.1}",
            product.elapsed().as_secs_f64() / 60.0,
            self.phase().name(),
            counts.all,
            counts.under_way,
            counts.failed,
            product.events().len(),
            sample::load()
        ));
        for line in watching.under_way().iter().take(4) {
            (self.tell)(&format!("    {}", line.chars().take(240).collect::<String>()));
        }
    }

    /// Nothing has gone wrong so far.
    fn check(&self, product: &Product) -> Result<(), String> {
        product.check()?;
        match self.tally.all_wrong().as_slice() {
            [] => Ok(()),
            wrong => Err(wrong.join("\n    ")),
        }
    }

    /// Waits while so many are worked on that one more would only wait.
    async fn room(
        &self,
        fleet: &Fleet,
        watching: &Watching,
        product: &Product,
        patience: Duration,
    ) -> Result<(), String> {
        let begun = Instant::now();
        while watching.counts().under_way.max(fleet.waiting()) >= self.settings.in_flight && begun.elapsed() < patience
        {
            tokio::time::sleep(LOOK).await;
            self.check(product)?;
        }
        Ok(())
    }

    /// Creates all Shoots, some at a time; half-way the process is killed.
    async fn fill(
        &self,
        fleet: &mut Fleet,
        watching: &Watching,
        product: &Product,
        entropy: &Entropy,
    ) -> Result<(), String> {
        self.enter(Phase::Fill);
        let places: Vec<Place> = fleet.wishes().keys().cloned().collect();
        for (number, place) in places.iter().enumerate() {
            self.room(fleet, watching, product, LONG).await?;
            fleet.create(place, entropy);
            tokio::time::sleep(DEED_PAUSE).await;
            if number == places.len() / 2 {
                product.restart(true).await?;
                self.tally.fault(Fault::Kill);
            }
        }
        self.done(fleet, watching, product).await
    }

    /// Waits until nothing is worked on and nothing is ordered.
    async fn done(&self, fleet: &Fleet, watching: &Watching, product: &Product) -> Result<(), String> {
        let begun = Instant::now();
        let wanted = fleet.wishes().values().flatten().count() as u64;
        loop {
            let counts = watching.counts();
            if counts.all == wanted && counts.under_way == 0 && fleet.waiting() == 0 {
                return Ok(());
            }
            self.check(product)?;
            if begun.elapsed() > LONG {
                return Err(format!(
                    "{} of {wanted} Shoots are there, {} are worked on after {LONG:?}:\n    {}",
                    counts.all,
                    counts.under_way,
                    watching.under_way().join("\n    ")
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Deeds and faults for the whole time.
    async fn deeds(
        &self,
        fleet: &mut Fleet,
        watching: &Watching,
        product: &Product,
        user: &User,
        entropy: &Entropy,
    ) -> Result<(), String> {
        self.enter(Phase::Deeds);
        let length = self.settings.length;
        let begun = Instant::now();
        let faults = schedule(length, &Entropy::seeded(self.settings.seed.wrapping_add(1)));
        let (ends, others): (Vec<Coming>, Vec<Coming>) = faults.into_iter().partition(Coming::is_end);
        let ending = self.disturb(&ends, begun, length.mul_f64(RESTARTS_UNTIL), product, user);
        let disturbing = self.disturb(&others, begun, length, product, user);
        let doing = async {
            while begun.elapsed() < length {
                fleet.do_something(entropy);
                tokio::time::sleep(DEED_PAUSE).await;
                let left = length.saturating_sub(begun.elapsed());
                self.room(fleet, watching, product, IMPATIENT.min(left)).await?;
            }
            Ok::<(), String>(())
        };
        tokio::try_join!(ending, disturbing, doing).map(drop)
    }

    /// Makes faults happen one after the other, the last of them before `until`.
    async fn disturb(
        &self,
        faults: &[Coming],
        begun: Instant,
        until: Duration,
        product: &Product,
        user: &User,
    ) -> Result<(), String> {
        for coming in faults {
            tokio::time::sleep(coming.at.saturating_sub(begun.elapsed())).await;
            // What came before took longer than it should on a quiet machine.
            if begun.elapsed() > until {
                break;
            }
            coming.happen(product, user).await?;
            self.tally.fault(coming.fault);
        }
        Ok(())
    }

    /// Nothing more is asked for but that what cannot work is taken back.
    async fn settle(
        &self,
        fleet: &mut Fleet,
        watching: &Watching,
        product: &Product,
        user: &User,
    ) -> Result<(), String> {
        self.enter(Phase::Settle);
        fleet.mend();
        let begun = Instant::now();
        while fleet.waiting() > 0 {
            self.check(product)?;
            if begun.elapsed() > LONG {
                return Err(format!("{} orders are not done after {LONG:?}", fleet.waiting()));
            }
            tokio::time::sleep(LOOK).await;
        }
        self.check(product)?;
        settled(user, watching, fleet.wishes(), LONG).await?;
        let wanted = fleet.wishes().values().flatten().count();
        (self.tell)(&format!(
            "{wanted} Shoots are as asked for, the rest is gone, {:.0} s after the last deed",
            begun.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// Deletes everything; names of Shoots are asked for before and after.
    async fn delete(
        &self,
        fleet: &mut Fleet,
        watching: &Watching,
        product: &Product,
        user: &User,
    ) -> Result<(), String> {
        let names = dns::names(user).await?;
        let (process, _) = product.process();
        dns::check(process, &names, true).await?;
        self.enter(Phase::Delete);
        let begun = Instant::now();
        fleet.delete_all();
        while watching.counts().all > 0 || fleet.waiting() > 0 {
            self.check(product)?;
            if begun.elapsed() > LONG {
                let left = watching.under_way();
                return Err(format!(
                    "{} Shoots are not gone after {LONG:?}:\n    {}",
                    left.len(),
                    left.join("\n    ")
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        (self.tell)(&format!("all are gone after {:.0} s", begun.elapsed().as_secs_f64()));
        dns::check(process, &names, false).await?;
        (self.tell)(&format!(
            "{} names were answered before and are unknown now",
            names.len()
        ));
        Ok(())
    }

    /// Looks whether anything is left, at once and in the next life.
    async fn look_around(&self, view: &View, before: &Picture, product: &Product) -> Result<(), String> {
        self.enter(Phase::After);
        view.becomes(Step::Delete, before).await?;
        (self.tell)("garden, seed and folders hold what they held before the first Shoot");
        let events = forget_events(&view.garden).await? + forget_events(&view.seed).await?;
        (self.tell)(&format!("{events} events deleted that would have stayed for an hour"));
        tokio::time::sleep(self.settings.forgetting).await;
        tokio::time::sleep(self.settings.quiet).await;
        product.restart(false).await?;
        self.enter(Phase::Again);
        view.becomes(Step::Delete, before).await?;
        tokio::time::sleep(self.settings.quiet).await;
        self.check(product)
    }
}

/// Deletes all Events, namespace by namespace: they tell of what has gone, are kept for an hour as in Kubernetes, and would
/// be in the memory of the next life. Says how many there were.
async fn forget_events(client: &kube::Client) -> Result<usize, String> {
    let failed = |error: kube::Error| format!("cannot delete events: {error}");
    let events = Api::<Event>::all(client.clone());
    let listed = events
        .list_metadata(&ListParams::default())
        .await
        .map_err(failed)?
        .items;
    let namespaces: BTreeSet<String> = listed.iter().filter_map(ResourceExt::namespace).collect();
    for namespace in namespaces {
        let events = Api::<Event>::namespaced(client.clone(), &namespace);
        events
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .map_err(failed)?;
    }
    Ok(listed.len())
}

fn view(folder: &Path) -> Result<View, String> {
    let [garden, seed] = kubeconfigs(folder)?;
    let connector: Arc<dyn Connector> = Arc::new(Https::new("soak"));
    let client = |kubeconfig| connector.client(kubeconfig).map_err(|fault| fault.to_string());
    Ok(View {
        garden: client(&garden)?,
        seed: client(&seed)?,
        connector: connector.clone(),
        folders: vec![
            folder.join(landscape_local::BACKUPS),
            folder.join(VOLUMES).join("persistent"),
            // The node's own folder comes with its first pod that has a volume, and stays.
            folder.join(VOLUMES).join("pods").join(NODE),
        ],
        pace: PACE,
    })
}

const PROFILE: &str = include_str!("../../../examples/20-cloudprofile.yaml");
const CREDENTIALS: &str = include_str!("../../../examples/30-credentials.yaml");

/// Projects with credentials, a cloud profile with the versions that Shoots are raised to, and the spare registration.
async fn surroundings(user: &User, data_dir: &Path) -> Result<(), String> {
    let documents = |text| landscape_local::documents(text).map_err(|fault| fault.to_string());
    let mut profile = documents(PROFILE)?;
    let versions: Vec<Value> = VERSIONS.iter().map(|version| json!({"version": version})).collect();
    profile[0]["spec"]["kubernetes"]["versions"] = json!(versions);
    user.apply(&profile).await?;
    user.apply(&spare(data_dir)).await?;
    for project in wish::PROJECTS {
        let namespace = format!("garden-{project}");
        user.apply(&[json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Project",
            "metadata": {"name": project}, "spec": {"namespace": namespace}})])
            .await?;
        let mut credentials = documents(CREDENTIALS)?;
        for object in &mut credentials {
            object["metadata"]["namespace"] = json!(namespace);
            if object["credentialsRef"].is_object() {
                object["credentialsRef"]["namespace"] = json!(namespace);
            }
        }
        // The namespace comes with the project, in a moment.
        user.apply(&credentials).await?;
    }
    Ok(())
}
