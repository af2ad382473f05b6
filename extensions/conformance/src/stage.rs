//! What a run works with: the client, names, findings, and the few things that gardenlet does with an object: create it,
//! request an operation, wait for the answer, request its deletion. What was seen is checked here for every request.

use std::sync::Arc;
use std::time::Duration;

use api_extensions::DefaultStatus;
use api_meta::{ErrorCode, Fault, annotations, annotations::operation};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Map, Value, json};

use crate::check;
use crate::cloud::Inventory;
use crate::episode::{End, Episode, RequestKind, end, is_tidy};
use crate::fragments::Field;
use crate::ledger::Ledger;
use crate::objects::{Main, Objects, objects};
use crate::options::Options;
use crate::record::{Entry, Record};
use crate::report::Evidence;
use crate::rule::Rule;
pub(crate) use crate::stop::Stop;
use crate::subject::Subject;
use crate::surroundings;
use crate::template::{self, Names, ShootState};
use crate::version::Version;

/// What an author does whose extension finds the kit's objects wrong.
const NEEDS_SPEC: &str = "; name what such an object needs in spec of --config";
/// How long the kit's own writes may take to come back in its watch.
const ECHO_TIMEOUT: Duration = Duration::from_secs(30);

/// An object of a run, and everything that happened to it.
pub(crate) struct Actor {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) name: String,
    /// Kind, namespace and name.
    pub(crate) title: String,
    pub(crate) record: Record,
}

/// A request as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The time that it carries.
    pub(crate) stamp: Timestamp,
    /// Which entry of the record has it first.
    pub(crate) at: usize,
}

/// What is expected of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) kind: RequestKind,
    /// The rule that is broken if it is not answered.
    pub(crate) answered: Rule,
    /// Whether the extension is left to work in peace.
    pub(crate) is_calm: bool,
}

impl Expected {
    pub(crate) fn of(kind: RequestKind) -> Self {
        let answered = match kind {
            RequestKind::Delete => Rule::FinalizerGoneAfterDeletion,
            RequestKind::Refusal => Rule::BadConfigReported,
            RequestKind::Correction => Rule::RecoversAfterCorrection,
            RequestKind::Create | RequestKind::Reconcile | RequestKind::Migrate | RequestKind::Restore => {
                Rule::RequestAnswered
            }
        };
        Self {
            kind,
            answered,
            is_calm: true,
        }
    }

    /// The same, but for another rule.
    pub(crate) fn by(self, answered: Rule) -> Self {
        Self { answered, ..self }
    }

    /// The same, while something gets in the way.
    pub(crate) fn disturbed(self) -> Self {
        Self { is_calm: false, ..self }
    }
}

/// A run.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) subject: Subject,
    pub(crate) options: Options,
    pub(crate) names: Names,
    pub(crate) ledger: Ledger,
    /// The subject's objects.
    pub(crate) objects: Arc<dyn Objects>,
    /// Objects that the kit has made and that may still be there.
    pub(crate) made: Vec<(Arc<dyn Objects>, String)>,
    /// Further namespaces that it has made.
    pub(crate) namespaces: Vec<String>,
    /// What an object that is gone has left outside of the seed: its status, by which it is taken over.
    pub(crate) orphan: Option<DefaultStatus>,
    /// Whether the extension did not release an object though its deletion was waited for.
    pub(crate) gave_up: bool,
    /// Whether something may have been made.
    pub(crate) has_begun: bool,
    /// What it does at the moment, for evidence.
    step: String,
    last_stamp: Timestamp,
    pub(crate) began: Timestamp,
}

impl Stage {
    pub(crate) fn new(client: Client, subject: Subject, options: Options) -> Self {
        let names = Names::draw(&options.entropy);
        let objects = objects(subject.kind, &client, &names.namespace, &options.clock).into();
        let began = options.clock.now();
        Self {
            client,
            subject,
            names,
            ledger: Ledger::default(),
            objects,
            made: Vec::new(),
            namespaces: Vec::new(),
            orphan: None,
            gave_up: false,
            has_begun: false,
            step: String::new(),
            last_stamp: began,
            began,
            options,
        }
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, step: &str) {
        (self.options.on_step)(step);
        step.clone_into(&mut self.step);
    }

    /// Records whether a rule holds in the present step.
    pub(crate) fn checked(&mut self, rule: Rule, title: &str, outcome: Result<(), String>) {
        self.ledger.checked(rule, &self.step, title, outcome);
    }

    /// Kind, namespace and name, for evidence.
    pub(crate) fn title(&self, objects: &dyn Objects, name: &str) -> String {
        let kind = objects.kind();
        match kind.is_namespaced() {
            true => format!("{kind} {}/{name}", self.names.namespace),
            false => format!("{kind} {name}"),
        }
    }

    /// The name of the subject's object.
    pub(crate) fn object_name(&self) -> String {
        self.names.object(self.subject.kind, &self.subject.type_)
    }

    /// What the cloud holds, if the author gave a command.
    ///
    /// # Errors
    /// The command's.
    pub(crate) async fn inventory(&self) -> Result<Option<Inventory>, Fault> {
        let Some(check) = &self.options.cloud_check else {
            return Ok(None);
        };
        Ok(Some(Inventory::of(&check.call().await?)))
    }

    /// Waits until caches of the extension have followed.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(self.options.settle).await;
    }

    /// Writes the Cluster, and waits until the extension has seen it.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn shoot(&self, state: ShootState) -> Result<(), Fault> {
        let now = self.options.clock.now();
        surroundings::cluster(&self.client, &self.subject, &self.names, state, now).await?;
        self.settle().await;
        Ok(())
    }

    /// A time that no request had before.
    fn stamp(&mut self) -> Timestamp {
        let now = self.options.clock.now();
        let next = self.last_stamp.checked_add(Duration::from_nanos(1)).unwrap_or(now);
        self.last_stamp = now.max(next);
        self.last_stamp
    }

    /// Creates the subject's object as gardenlet does, with this operation. `held`: with marks of another writer, and
    /// its finalizer.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn make(&mut self, operation: &str, held: bool) -> Result<(Actor, Request), Stop> {
        let spec = template::spec(&self.subject, &self.names);
        let name = self.object_name();
        let made = self
            .make_with(self.objects.clone(), &name, spec, Some(operation), held)
            .await;
        made.map_err(|stop| stop.of(Field::Spec))
    }

    /// The same for any object.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn make_with(
        &mut self,
        objects: Arc<dyn Objects>,
        name: &str,
        spec: Map<String, Value>,
        operation: Option<&str>,
        held: bool,
    ) -> Result<(Actor, Request), Stop> {
        let record = Record::begin(&*objects, name).await?;
        let stamp = self.stamp();
        let mut metadata = json!({"name": name, "annotations": {annotations::TIMESTAMP: stamp.to_string()}});
        if let Some(operation) = operation {
            metadata["annotations"][annotations::OPERATION] = json!(operation);
        }
        if objects.kind().is_namespaced() {
            metadata["namespace"] = json!(self.names.namespace);
        }
        if held {
            metadata["labels"] = json!({check::MARK: "true"});
            metadata["annotations"][check::MARK] = json!("true");
            metadata["finalizers"] = json!([check::MARK]);
        }
        let title = self.title(&*objects, name);
        // Before it is created: the run may be interrupted in between.
        self.made.push((objects.clone(), name.to_owned()));
        objects.create(json!({"metadata": metadata, "spec": spec})).await?;
        let actor = Actor {
            objects,
            name: name.to_owned(),
            title,
            record,
        };
        let request = self.echo(&actor, 0, stamp).await?;
        Ok((actor, request))
    }

    /// Waits until the kit's own write is in the record.
    async fn echo(&self, actor: &Actor, from: usize, stamp: Timestamp) -> Result<Request, Stop> {
        let wanted = stamp.to_string();
        let has_it = |entry: &Entry| {
            let version = entry.version();
            version.is_some_and(|version| version.annotation(annotations::TIMESTAMP) == Some(&wanted))
        };
        let at = actor
            .record
            .wait(from, ECHO_TIMEOUT, |entries| entries.iter().position(has_it))
            .await;
        let missing = || Fault::dependency(format!("a write to {} did not come back in its watch", actor.title));
        let at = at.ok_or_else(|| missing().hint("look at the API server: its watches lag behind"))?;
        Ok(Request { stamp, at: from + at })
    }

    /// Requests an operation of an object that exists, with another spec if one is given.
    ///
    /// # Errors
    /// What the API server returns; an object that is gone.
    pub(crate) async fn request(
        &mut self,
        actor: &Actor,
        operation: &str,
        spec: Option<Value>,
    ) -> Result<Request, Stop> {
        let stamp = self.stamp();
        let from = actor.record.len();
        let edit = |main: &mut Main| {
            let notes = main.metadata.annotations.get_or_insert_default();
            notes.insert(annotations::OPERATION.to_owned(), operation.to_owned());
            notes.insert(annotations::TIMESTAMP.to_owned(), stamp.to_string());
            if let Some(spec) = &spec {
                main.spec = spec.clone();
            }
        };
        let written = actor.objects.edit(&actor.name, &edit).await?;
        self.present(actor, written)?;
        self.echo(actor, from, stamp).await
    }

    /// Writes another spec and nothing else.
    ///
    /// # Errors
    /// What the API server returns; an object that is gone.
    pub(crate) async fn respec(&mut self, actor: &Actor, spec: Value) -> Result<Request, Stop> {
        let from = actor.record.len();
        let edit = |main: &mut Main| main.spec = spec.clone();
        let written = actor.objects.edit(&actor.name, &edit).await?;
        let generation = self.present(actor, written)?.generation();
        let has_it = |entry: &Entry| {
            entry
                .version()
                .is_some_and(|version| version.generation() >= generation)
        };
        let at = actor
            .record
            .wait(from, ECHO_TIMEOUT, |entries| entries.iter().position(has_it))
            .await;
        let at = from + at.unwrap_or_default();
        Ok(Request {
            stamp: self.last_stamp,
            at,
        })
    }

    /// An object that was to be written, which the extension must not have deleted.
    pub(crate) fn present(&self, actor: &Actor, written: Option<Version>) -> Result<Version, Stop> {
        written.ok_or_else(|| Stop::Unanswered(format!("{} is gone, and the kit did not delete it", actor.title)))
    }

    /// Confirms and requests the deletion, as gardenlet does.
    ///
    /// # Errors
    /// What the API server returns.
    pub(crate) async fn request_deletion(&mut self, actor: &Actor) -> Result<Request, Stop> {
        let stamp = self.stamp();
        let from = actor.record.len();
        let confirmation = json!({"metadata": {"annotations": {
            annotations::CONFIRMATION_DELETION: "true",
            annotations::TIMESTAMP: stamp.to_string(),
        }}});
        let written = actor.objects.merge(&actor.name, confirmation).await?;
        self.present(actor, written)?;
        actor.objects.delete(&actor.name).await?;
        self.echo(actor, from, stamp).await
    }

    /// Waits for the answer to a request and checks everything that was seen until then.
    ///
    /// # Errors
    /// [`Stop::Unanswered`] if it did not come; the rule for it is broken then.
    pub(crate) async fn answered(
        &mut self,
        actor: &Actor,
        request: Request,
        expected: Expected,
    ) -> Result<Episode, Stop> {
        let Expected { kind, answered, .. } = expected;
        let (timeout, patience) = (self.options.timeout, self.options.patience);
        let ended = actor
            .record
            .wait(request.at, timeout, |entries| end(entries, kind))
            .await;
        if ended.is_some() {
            let tidy = |entries: &[Entry]| is_tidy(entries, kind).then_some(());
            actor.record.wait(request.at, patience, tidy).await;
            self.settle().await;
        }
        let episode = self.episode(actor, request, expected)?;
        for (rule, outcome) in check::episode(&episode) {
            self.checked(rule, &actor.title, outcome);
        }
        let outcome = self.outcome(&episode, ended, kind);
        self.checked(answered, &actor.title, outcome.clone());
        match (outcome, ended) {
            // It was answered, though the annotation stayed.
            (Err(_), Some(End::Succeeded)) if kind != RequestKind::Refusal => Ok(episode),
            (Err(why), _) => Err(Stop::Unanswered(why)),
            (Ok(()), _) => Ok(episode),
        }
    }

    /// What happened since a request.
    ///
    /// # Errors
    /// A request that is not in the record, which is a defect of the kit.
    pub(crate) fn episode(&self, actor: &Actor, request: Request, expected: Expected) -> Result<Episode, Stop> {
        let mut versions = actor
            .record
            .since(request.at)
            .into_iter()
            .filter_map(|entry| match entry {
                Entry::Present(version) => Some(*version),
                Entry::Gone => None,
            });
        let before = versions
            .next()
            .ok_or_else(|| Fault::bug("a request is not in the record of its object"))?;
        Ok(Episode {
            kind: expected.kind,
            requested: request.stamp,
            before,
            after: versions.collect(),
            is_whole: actor.record.is_whole(),
            is_calm: expected.is_calm,
        })
    }

    fn outcome(&self, episode: &Episode, ended: Option<End>, kind: RequestKind) -> Result<(), String> {
        let newest = episode.newest();
        let error = newest.status.last_error.as_ref();
        let reported = error
            .map(|error| format!(" and lastError {:?}", error.description))
            .unwrap_or_default();
        let late = || {
            format!(
                "{} s after the request the status is {:?}{reported}, finalizers {:?}, annotation {:?}",
                self.options.timeout.as_secs(),
                newest.state(),
                newest.finalizers(),
                newest.operation().unwrap_or_default()
            )
        };
        match (ended, kind) {
            (None, _) => Err(late()),
            (Some(End::Failed), RequestKind::Refusal) => Ok(()),
            (Some(_), RequestKind::Refusal) => Err(format!(
                "{} the status is {:?}{reported}",
                newest.place(),
                newest.state()
            )),
            (Some(End::Failed), _) => {
                let codes = error.iter().flat_map(|error| &error.codes);
                let is_wrong = kind == RequestKind::Create
                    && codes.into_iter().any(|code| *code == ErrorCode::ConfigurationProblem);
                let needs = if is_wrong { NEEDS_SPEC } else { "" };
                let state = newest.state();
                Err(format!("{} the status is {state:?}{reported}{needs}", newest.place()))
            }
            (Some(End::Gone), RequestKind::Delete) => Ok(()),
            (Some(End::Gone), _) => Err("the object is gone, and the kit did not delete it".to_owned()),
            (Some(End::Succeeded), _) => match newest.operation() {
                Some(operation @ (operation::RECONCILE | operation::MIGRATE | operation::RESTORE)) => Err(format!(
                    "{} the status is {:?} and the annotation gardener.cloud/operation is still {operation:?}",
                    newest.place(),
                    newest.state()
                )),
                _ => Ok(()),
            },
        }
    }

    /// Looks at an object that has to be left alone for a while; the versions since `from`.
    pub(crate) async fn look(&self, actor: &Actor, from: usize) -> Vec<Version> {
        tokio::time::sleep(self.options.patience).await;
        let entries = actor.record.since(from).into_iter();
        entries.filter_map(|entry| entry.version().cloned()).collect()
    }

    /// Removes the kit's finalizer and waits until the object is gone.
    ///
    /// # Errors
    /// [`Stop::Unanswered`] if something else holds it.
    pub(crate) async fn release(&mut self, actor: &Actor) -> Result<(), Stop> {
        let edit = |main: &mut Main| {
            if let Some(finalizers) = &mut main.metadata.finalizers {
                finalizers.retain(|name| name != check::MARK);
            }
        };
        actor.objects.edit(&actor.name, &edit).await?;
        let gone = |entries: &[Entry]| matches!(entries.last(), Some(Entry::Gone) | None).then_some(());
        if actor.record.wait(0, self.options.timeout, gone).await.is_some() {
            self.forget(&*actor.objects, &actor.name);
            return Ok(());
        }
        let held = actor.record.newest().and_then(|newest| newest.metadata.finalizers);
        let held = held.unwrap_or_default().join(", ");
        Err(Stop::Unanswered(format!(
            "{} is held by the finalizers [{held}]",
            actor.title
        )))
    }

    /// An object is gone.
    pub(crate) fn forget(&mut self, gone: &dyn Objects, name: &str) {
        self.made
            .retain(|(objects, known)| objects.kind() != gone.kind() || known != name);
    }

    /// Writes the state that an object on another seed has left.
    ///
    /// # Errors
    /// What the API server returns; an object that is gone.
    pub(crate) async fn give_state(&self, actor: &Actor, status: &DefaultStatus) -> Result<(), Stop> {
        let put = |new: &mut DefaultStatus| {
            new.state.clone_from(&status.state);
            new.resources.clone_from(&status.resources);
        };
        let written = actor.objects.edit_status(&actor.name, &put).await?;
        self.present(actor, written).map(drop)
    }

    /// A finding that needs no version.
    pub(crate) fn found(&mut self, rule: Rule, title: &str, seen: String) {
        let evidence = Evidence::new(&self.step, title, seen);
        self.ledger.broken(rule, evidence);
    }
}
