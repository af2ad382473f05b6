//! Lives of a Shoot in whose flows something is wrong with a task, for each task that there is, each beside the life of
//! the same Shoot in which nothing is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api_core::v1beta1::{Shoot, ShootStatus};
use api_meta::LastOperationState;
use base_client::{WaitState, wait_until};
use base_clock::Entropy;
use base_flow::Name;
use base_flow_run::{Feed, FlowEnd, TaskLayer, TaskState};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use landscape_local::{NodeAccess, Settings, apply_all};
use serde_json::{Value, json};

use crate::flavour::{Flavour, furniture, referenced};
use crate::harm::{CODE, Harm, Kind, PHASES, Place, SAID, Victims, is_own, places, settings, widest};
use crate::journal::{Journal, held_back, standing};
use crate::life::{Life, runtime};
use crate::picture::Picture;
use crate::script::{NAME, NAMESPACE, PATIENCE, Phase, hibernate, reconcile, succeeded, surround};

/// How much later than its time-out a task may end that waits, so that it can say itself what it waited for.
const GRACE: Duration = Duration::from_secs(2);

/// The life of a Shoot in which nothing is wrong.
#[derive(Clone, Debug)]
pub struct Usual {
    /// Which Shoot.
    pub flavour: Flavour,
    /// Every task that its flows have tried.
    pub places: BTreeSet<Place>,
    pictures: BTreeMap<Phase, Picture>,
}

/// A life in which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Whose: which of the usual ones.
    pub of: usize,
    /// What is wrong.
    pub kind: Kind,
    /// With whom, in each phase; with none in the others.
    pub victims: BTreeMap<Phase, Victims>,
}

impl Story {
    /// What it is called.
    #[must_use]
    pub fn title(&self, usuals: &[Usual]) -> String {
        let name = |victims: &Victims| match victims {
            Victims::None => None,
            Victims::All => Some("every task".to_owned()),
            Victims::One(place) => Some(place.to_string()),
        };
        let mut who: Vec<String> = self.victims.values().filter_map(name).collect();
        who.dedup();
        let flavour = usuals.get(self.of).map(|usual| usual.flavour.to_string());
        format!("{} {}: {}", flavour.unwrap_or_default(), self.kind, who.join(", "))
    }

    fn victims(&self, phase: Phase) -> Victims {
        self.victims.get(&phase).copied().unwrap_or_default()
    }

    /// The phases of this life of a Shoot: it sleeps only if something is to go wrong with it then.
    fn phases(&self, flavour: Flavour) -> impl Iterator<Item = Phase> {
        let sleep = [Phase::Hibernate, Phase::Wake];
        let sleeps = sleep.iter().any(|phase| self.victims(*phase) != Victims::None);
        let phases = flavour.phases().iter().copied();
        phases.filter(move |phase| sleeps || !sleep.contains(phase))
    }
}

/// The lives of all Shoots in which nothing is wrong.
///
/// # Errors
/// One does not end well, or there is a task in none of their flows.
pub fn usual(seed: u64) -> Result<Vec<Usual>, String> {
    let usuals = runtime()?.block_on(async {
        let mut stage = Stage::open(seed).await?;
        let before = stage.life.view.at_rest(Phase::Start).await?;
        let mut usuals = Vec::new();
        for flavour in Flavour::ALL {
            let usual = stage.usual(flavour, &before).await;
            usuals.push(usual.map_err(|why| format!("{flavour}: {why}"))?);
        }
        Ok::<_, String>(usuals)
    })?;
    let tried: BTreeSet<Place> = usuals.iter().flat_map(|usual| usual.places.iter().copied()).collect();
    let skipped = |place: &Place| {
        let flow = widest(place.phase).ok();
        flow.and_then(|flow| flow.step(place.task)?.skipped()).is_some()
    };
    let mut untried = Vec::new();
    for place in places()?.into_values() {
        if is_own(place)? && !tried.contains(&place) && !skipped(&place) {
            untried.push(place.to_string());
        }
    }
    match untried.as_slice() {
        [] => Ok(usuals),
        untried => Err(format!(
            "no Shoot here has the tasks {untried:?} in its flows: give one of them what it takes"
        )),
    }
}

/// For each Shoot and each kind that passes: a life in which it happens to every task.
#[must_use]
pub fn together(usuals: &[Usual]) -> Vec<Story> {
    let kinds = || Kind::ALL.into_iter().filter(|kind| kind.passes());
    let story = |of: usize, usual: &Usual, kind| {
        let phases = usual.flavour.own_phases().iter();
        let victims = phases.map(|phase| (*phase, Victims::All)).collect();
        Story { of, kind, victims }
    };
    let usuals = usuals.iter().enumerate();
    usuals
        .flat_map(|(of, usual)| kinds().map(move |kind| story(of, usual, kind)))
        .collect()
}

/// For each kind and each task: a life in which it happens to that task alone, in the first Shoot that has it. One task of
/// each phase share a life.
#[must_use]
pub fn alone(usuals: &[Usual]) -> Vec<Story> {
    let mut stories = Vec::new();
    let mut tried = BTreeSet::new();
    for (of, usual) in usuals.iter().enumerate() {
        let fresh: Vec<Place> = usual.places.difference(&tried).copied().collect();
        tried.extend(fresh.iter().copied());
        let of_phase = |phase| {
            let places = fresh.iter().filter(move |place| place.phase == phase);
            places.map(|place| Victims::One(*place)).collect::<Vec<_>>()
        };
        let phases = PHASES.map(|phase| (phase, of_phase(phase)));
        let lives = phases
            .iter()
            .map(|(_, victims)| victims.len())
            .max()
            .unwrap_or_default();
        for kind in Kind::ALL {
            stories.extend((0..lives).map(|number| {
                let one = |(phase, victims): &(Phase, Vec<Victims>)| Some((*phase, *victims.get(number)?));
                let victims = phases.iter().filter_map(one).collect();
                Story { of, kind, victims }
            }));
        }
    }
    stories
}

/// So many of the stories, drawn by the seed and spread over all; all when there are no more.
#[must_use]
pub fn sample(stories: Vec<Story>, part: usize, seed: u64) -> Vec<Story> {
    if part == 0 || part >= stories.len() {
        return stories;
    }
    let entropy = Entropy::seeded(seed);
    let stride = stories.len() / part;
    let chosen: BTreeSet<usize> = (0..part)
        .map(|number| number * stride + entropy.below(stride as u64) as usize)
        .collect();
    let numbered = stories.into_iter().enumerate();
    numbered
        .filter(|(number, _)| chosen.contains(number))
        .map(|(_, story)| story)
        .collect()
}

/// Plays all stories on so many threads; `say` hears how each ended. Gives those that did not end well.
#[must_use]
pub fn play_all(
    usuals: &[Usual],
    stories: &[Story],
    seed: u64,
    threads: usize,
    say: impl Fn(&Story, &Result<(), String>) + Sync,
) -> Vec<(Story, String)> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Vec<(Story, String)>> = Mutex::default();
    let take = || stories.get(next.fetch_add(1, Ordering::Relaxed));
    let record = |story: &Story, outcome: Result<(), String>| {
        say(story, &outcome);
        if let Err(why) = outcome {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push((story.clone(), why));
        }
    };
    crate::harm::hush();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(first) = take() {
                    // What went wrong once may go on: after a failure the next story has a stage of its own.
                    play_on_one_stage(usuals, seed, first, &take, &record);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Plays a story, and those that follow it, until one does not end well.
fn play_on_one_stage<'a>(
    usuals: &[Usual],
    seed: u64,
    first: &'a Story,
    take: &impl Fn() -> Option<&'a Story>,
    record: &impl Fn(&Story, Result<(), String>),
) {
    let opened = runtime().and_then(|runtime| Ok((runtime.block_on(Stage::open(seed))?, runtime)));
    let (mut stage, runtime) = match opened {
        Ok(opened) => opened,
        Err(why) => return record(first, Err(why)),
    };
    let mut next = Some(first);
    while let Some(story) = next {
        let outcome = runtime.block_on(stage.play(&usuals[story.of], story));
        let well = outcome.is_ok();
        record(story, outcome);
        next = if well { take() } else { None };
    }
}

/// A landscape in which lives follow each other.
struct Stage {
    life: Life,
    harm: Harm,
    layer: TaskLayer,
    journal: Journal,
    feed: Feed,
    _folder: tempfile::TempDir,
}

/// The settings of a life.
fn changes(node_access: NodeAccess, feed: &Feed, layer: &TaskLayer) -> impl FnOnce(&mut Settings) {
    let (feed, layer) = (feed.clone(), layer.clone());
    move |settings| {
        settings.feed = feed;
        settings.task_layer = layer;
        settings.node_access = Some(node_access);
    }
}

impl Stage {
    async fn open(seed: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder: {error}"))?;
        let (harm, feed) = (Harm::default(), Feed::default());
        let layer = harm.layer()?;
        let journal = Journal::of(&feed, &format!("{NAMESPACE}/{NAME}"));
        let change = changes(NodeAccess::Direct, &feed, &layer);
        let life = Life::start(folder.path(), seed, None, change, |_| {}).await?;
        life.ready().await?;
        surround(&life.view.garden).await?;
        let stage = Self {
            life,
            harm,
            layer,
            journal,
            feed,
            _folder: folder,
        };
        stage.put(referenced()).await?;
        Ok(stage)
    }

    async fn put(&self, objects: Vec<Value>) -> Result<(), String> {
        let put = apply_all(&self.life.view.garden, objects).await;
        put.map_err(|fault| fault.to_string())
    }

    fn shoots(&self) -> Api<Shoot> {
        Api::namespaced(self.life.view.garden.clone(), NAMESPACE)
    }

    async fn usual(&mut self, flavour: Flavour, before: &Picture) -> Result<Usual, String> {
        let (mut places, mut pictures) = (BTreeSet::new(), BTreeMap::new());
        for phase in flavour.phases().iter().copied() {
            self.harm.begin(phase, Kind::FailsOnce, Victims::None);
            self.enter(flavour, phase).await?;
            self.over(phase).await?;
            let picture = match phase {
                Phase::Delete => {
                    self.life.view.becomes(phase, before).await?;
                    before.clone()
                }
                phase => self.life.view.at_rest(phase).await?,
            };
            pictures.insert(phase, picture);
            for place in self.harm.seen() {
                if is_own(place)? {
                    places.insert(place);
                }
            }
        }
        Ok(Usual {
            flavour,
            places,
            pictures,
        })
    }

    /// Does what begins a phase, in a landscape with the settings for it.
    async fn enter(&mut self, flavour: Flavour, phase: Phase) -> Result<(), String> {
        let node_access = flavour.node_access(phase);
        if self.life.node_access != node_access {
            let change = changes(node_access, &self.feed, &self.layer);
            self.life.restart(change, |_| {}).await?;
            self.life.ready().await?;
        }
        match phase {
            Phase::Direct => reconcile(&self.shoots()).await,
            Phase::Hibernate | Phase::Wake => hibernate(&self.shoots(), phase == Phase::Hibernate).await,
            Phase::Delete => {
                self.furnish().await?;
                self.delete().await
            }
            _ => self.put(vec![flavour.manifest()?]).await,
        }
    }

    /// Waits until the Shoot is as its user wants it in a phase.
    async fn over(&self, phase: Phase) -> Result<(), String> {
        match phase {
            Phase::Delete => self.gone().await,
            _ => succeeded(&self.shoots()).await,
        }
    }

    async fn furnish(&self) -> Result<(), String> {
        let shoot = self.life.view.shoot().await?;
        apply_all(&shoot, furniture()).await.map_err(|fault| fault.to_string())
    }

    async fn play(&mut self, usual: &Usual, story: &Story) -> Result<(), String> {
        for phase in story.phases(usual.flavour) {
            let victims = story.victims(phase);
            self.journal.forget();
            self.harm.begin(phase, story.kind, victims);
            self.enter(usual.flavour, phase).await?;
            self.ends_as(&usual.pictures[&phase], story.kind, victims, phase)
                .await?;
        }
        Ok(())
    }

    async fn ends_as(&self, wanted: &Picture, kind: Kind, victims: Victims, phase: Phase) -> Result<(), String> {
        match self.gets_over(kind, victims, phase).await {
            Ok(()) => self.life.view.becomes(phase, wanted).await,
            Err(why) => Err(self.life.view.explain(phase, wanted, why).await),
        }
    }

    /// Waits until the Shoot is as its user wants it, whatever is done to its tasks.
    async fn gets_over(&self, kind: Kind, victims: Victims, phase: Phase) -> Result<(), String> {
        if let (Victims::One(place), false) = (victims, kind.passes()) {
            self.suffers(kind, place).await?;
            self.harm.cease();
            if kind == Kind::FailsForGood {
                self.retry().await?;
            }
        }
        self.over(phase).await?;
        self.harm.cease();
        let (done, seen) = (self.harm.done(), self.harm.seen());
        let missed: Vec<String> = match victims {
            Victims::None => Vec::new(),
            Victims::All => seen.difference(&done).map(ToString::to_string).collect(),
            Victims::One(place) => (!done.contains(&place))
                .then(|| place.to_string())
                .into_iter()
                .collect(),
        };
        if !missed.is_empty() {
            return Err(format!("nothing was done to {}", missed.join(", ")));
        }
        let suffered = matches!(victims, Victims::One(_)) && !kind.passes();
        let (runs, enough) = (self.journal.run()?.runs_before + 1, 1 + u32::from(suffered));
        if runs > enough {
            return Err(format!("it took {runs} runs of the flow, where {enough} are enough"));
        }
        self.no_task_works()
    }

    fn no_task_works(&self) -> Result<(), String> {
        match self.harm.working() {
            busy if busy.is_empty() => Ok(()),
            busy => Err(format!("still at work after the end of the run: {busy:?}")),
        }
    }

    /// Waits until the Shoot's status reports the broken task, and checks what it reports.
    async fn suffers(&self, kind: Kind, place: Place) -> Result<(), String> {
        let status = self.complains(place.task.name()).await?;
        let settings = settings(place)?;
        let within = settings.timeout.unwrap_or_default();
        let (state, said, codes) = match kind {
            Kind::FailsForGood => (
                LastOperationState::Failed,
                format!("{SAID} (to do: mend it)"),
                vec![CODE],
            ),
            Kind::Panics => (LastOperationState::Error, format!("task panicked: {SAID}"), Vec::new()),
            _ => {
                let said = format!("not finished within {}s", within.as_secs());
                (LastOperationState::Error, said, Vec::new())
            }
        };
        let last = status.last_operation.unwrap_or_default();
        let [error] = status.last_errors.as_slice() else {
            return Err(format!("there is not one error but {:?}", status.last_errors));
        };
        if last.state != state || !error.description.starts_with(&said) || error.codes != codes {
            return Err(format!(
                "instead of {state}, {said:?} and {codes:?} the Shoot says {}, {error:?}",
                last.state
            ));
        }
        if !last.description.contains(place.task.name()) {
            return Err(format!("lastOperation does not tell of it: {:?}", last.description));
        }
        let run = self.journal.run()?;
        if run.ended.map(|(_, end)| end) != Some(FlowEnd::Failed) {
            return Err(format!("the run has not failed: {:?}", run.ended));
        }
        let name = place.task.name().to_owned();
        let held = held_back(&run, &name);
        let all: BTreeSet<String> = run.tasks().iter().map(|task| task.name.clone()).collect();
        let free = all
            .into_iter()
            .filter(|task| *task != name && !held.contains(task))
            .collect();
        let done = standing(&run, &TaskState::Succeeded);
        if done != free || standing(&run, &TaskState::Planned) != held {
            return Err(format!("these should have been done: {free:?}; these were: {done:?}"));
        }
        if matches!(kind, Kind::Hangs | Kind::HangsAfterwards) {
            let took = run.tasks().iter().find(|task| task.name == name);
            let took = took
                .map(|task| task.duration(task.ended.unwrap_or_default()))
                .unwrap_or_default();
            let latest = if settings.waits { within + GRACE } else { within };
            // Timers fire on the next millisecond.
            if took < within || took > latest + Duration::from_millis(1) {
                return Err(format!("its time-out is {within:?}, it ended after {took:?}"));
            }
        }
        self.no_task_works()
    }

    async fn complains(&self, task: &str) -> Result<ShootStatus, String> {
        let judge = |shoot: Option<&Shoot>| {
            let status = shoot.and_then(|shoot| shoot.status.clone()).unwrap_or_default();
            let mut errors = status.last_errors.iter();
            let over = status
                .last_operation
                .as_ref()
                .is_some_and(|last| matches!(last.state, LastOperationState::Error | LastOperationState::Failed));
            if over && errors.any(|error| error.task_id.as_deref() == Some(task)) {
                WaitState::Done(status)
            } else {
                WaitState::NotYet(format!("its status is {status:?}"))
            }
        };
        let waited = wait_until(&self.shoots(), NAME, PATIENCE, judge).await;
        waited.map_err(|error| error.to_string())
    }

    async fn annotate(&self, key: &str, value: &str) -> Result<(), String> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        let patched = self.shoots().patch(NAME, &PatchParams::default(), &patch).await;
        patched.map(drop).map_err(|error| error.to_string())
    }

    async fn retry(&self) -> Result<(), String> {
        self.annotate("gardener.cloud/operation", "retry").await
    }

    async fn delete(&self) -> Result<(), String> {
        self.annotate("confirmation.gardener.cloud/deletion", "true").await?;
        let deleted = self.shoots().delete(NAME, &DeleteParams::default()).await;
        deleted.map(drop).map_err(|error| error.to_string())
    }

    async fn gone(&self) -> Result<(), String> {
        let judge = |shoot: Option<&Shoot>| match shoot {
            None => WaitState::Done(()),
            Some(shoot) => WaitState::NotYet(format!("its status is {:?}", shoot.status)),
        };
        let waited = wait_until(&self.shoots(), NAME, PATIENCE, judge).await;
        waited.map_err(|error| error.to_string())
    }
}

impl fmt::Display for Usual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |phase| self.places.iter().filter(|place| place.phase == phase).count();
        let counts = PHASES.map(|phase| format!("{} to {phase}", count(phase)));
        write!(f, "{}: tasks: {}", self.flavour, counts.join(", "))
    }
}
