//! The reconciler around every actuator: contract G.1. Order of writes: the `reconcile` annotation goes first,
//! then the finalizer comes, then status Processing; at the end status, then finalizer and annotations.
//! It never writes another kind's status and never acts for a shoot that is Failed.

use std::sync::Arc;
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::annotations::{self, operation};
use api_meta::finalizers::EXTENSION_PREFIX;
use api_meta::{Fault, FaultClass, LastOperationState};
use base_client::{add_finalizer, api_in, get, has_finalizer, patch_changed, read_again, remove_finalizer};
use base_controller::{Cache, EventType, Next, ObjectKey};
use kube::Api;

use crate::act::Done;
use crate::actuator::Actuator;
use crate::cluster::ClusterView;
use crate::context::{Again, Carried, Obsolete, cause_of};
use crate::operation::{Facts, Leave, Operation, annotation_of, decide, noted, requested_at};
use crate::persist::{Demand, Overtaken, Work};
use crate::rest::{Rest, Rests};
use crate::shared::Shared;
use crate::status::{ATTEMPTS_MAX, begin, edit_status, fail, put_outcome, put_saved, rest, show, succeed};
use crate::watches::{Due, SECRET_CHECKSUM, SecretChecksum, checksum_for, differs};

/// An API handle for the place `object` lives in.
pub(crate) fn api_of<K: ExtensionObject>(client: &kube::Client, object: &K) -> Api<K> {
    api_in(client, object.meta().namespace.as_deref().unwrap_or_default())
}

/// A primary registration at work.
pub(crate) struct Primary<K: ExtensionObject> {
    pub(crate) shared: Shared,
    pub(crate) cache: Cache<K>,
    pub(crate) actuator: Arc<dyn Actuator<K>>,
    pub(crate) finalizer: String,
    pub(crate) timeout: Duration,
    /// The Secrets whose changes count; none where they do not.
    pub(crate) secrets: Option<Cache<SecretChecksum>>,
    pub(crate) due: Arc<Due>,
    /// Operations that wait to be called again.
    pub(crate) rests: Arc<Rests>,
}

/// An operation that is about to begin.
struct Turn {
    operation: Operation,
    /// The mark by which the object is due.
    mark: Option<u64>,
    /// The checksum of its Secret.
    checksum: Option<String>,
    /// It goes on after a rest, so its status is as it left it.
    resumes: bool,
    /// The last signal for the object, as its operation begins.
    signal: Option<u64>,
    /// What the call before the rest has left.
    carried: Option<Carried>,
}

impl<K: ExtensionObject> Primary<K> {
    fn facts<'a>(&self, object: &'a K, due: bool) -> Facts<'a> {
        let (last_operation, observed_generation) = object.progress();
        Facts {
            annotation: annotation_of(object),
            requested: requested_at(object),
            confirmed: noted(object, annotations::CONFIRMATION_DELETION) == Some("true"),
            deleting: object.meta().deletion_timestamp.is_some(),
            generation: object.meta().generation.unwrap_or_default(),
            observed_generation,
            last_operation,
            held: has_finalizer(object, &self.finalizer),
            due,
        }
    }

    /// What is to be done for `object`, as it is.
    fn turn(&self, object: &K) -> Result<Turn, Leave> {
        let key = ObjectKey::of(object);
        let mark = self.due.of(&key);
        let checksum = checksum_for(self.secrets.as_ref(), object);
        let due = mark.is_some() || differs(object, checksum.as_deref());
        Ok(Turn {
            operation: decide(&self.facts(object, due))?,
            mark,
            checksum,
            resumes: false,
            signal: self.rests.signal_of(&key),
            carried: None,
        })
    }

    /// One turn for one object.
    pub(crate) async fn reconcile(self: Arc<Self>, known: Arc<K>) -> Result<Next, Fault> {
        let key = ObjectKey::of(&*known);
        match self.turn(&known) {
            Ok(turn) if turn.mark.is_some() => {}
            Ok(turn) => {
                let rest = self.rests.get(&key).filter(|rest| rest.is_of(&*known));
                if let Some(left) = rest.and_then(|rest| rest.left(turn.signal)) {
                    return Ok(Next::After(left));
                }
            }
            Err(_) => return Ok(Next::Change),
        }
        let api = api_of(&self.shared.client, &*known);
        // What we know may be older than our own last write, and then seem to request more.
        let Some(object) = get(&api, &key.name).await? else {
            return Ok(Next::Change);
        };
        let mut turn = match self.turn(&object) {
            Ok(turn) => turn,
            Err(reason) => {
                tracing::debug!(kind = K::KIND, object = %key, "left alone: {reason}");
                return Ok(Next::Change);
            }
        };
        match self.rests.get(&key) {
            Some(rest) if rest.is_of(&object) => {
                turn.resumes = is_processing(&object, turn.operation);
                if let (Some(left), None) = (rest.left(turn.signal), turn.mark) {
                    return Ok(Next::After(left));
                }
                let goes_on = turn.mark.is_none() && (turn.resumes || rest.interrupted);
                turn.carried = rest.carried.filter(|_| goes_on);
            }
            // Not to be found once this request is off the object.
            Some(_) => self.rests.forget(&key),
            None => {}
        }
        let leaving = matches!(turn.operation, Operation::Delete | Operation::Migrate);
        let cluster = self.shared.cluster(&object, !leaving)?;
        if cluster.as_ref().is_some_and(ClusterView::is_failed) {
            tracing::debug!(kind = K::KIND, object = %key, "left alone: its shoot is Failed");
            return Ok(Next::Change);
        }
        let object = self.begin(&api, object, &turn).await?;
        // Only now: what fails before this is to find it again.
        self.rests.forget(&key);
        self.due.done(&key, turn.mark);
        let work = Arc::new(Work::new(api.clone(), turn.operation, object.clone()));
        // Boxed because an actuator's future may be large, and every turn would carry it.
        let acting = self.act(turn.operation, &work, &object, cluster, turn.carried.clone());
        match Box::pin(acting).await {
            Ok(done) => self.finish(&api, &work, &turn, done).await.map(|()| Next::Change),
            Err(fault) => self.end(&work, &object, &turn, fault).await,
        }
    }

    /// Takes the object up: from then on it is not settled.
    async fn begin(&self, api: &Api<K>, object: K, turn: &Turn) -> Result<K, Fault> {
        let mut taken = object.clone();
        drop_operation(&mut taken, operation::RECONCILE);
        // Only this very request: after a conflict it may be another.
        let object = patch_changed(api, &object, &taken).await?.unwrap_or(taken);
        let object = match turn.operation {
            Operation::Delete | Operation::Migrate => object,
            _ => add_finalizer(api, object, &self.finalizer).await?,
        };
        if turn.resumes {
            return Ok(object);
        }
        let clock = &self.shared.clock;
        edit_status(api, &object, |object| begin(object, turn.operation, clock.now())).await
    }

    /// The operation has succeeded.
    async fn finish(&self, api: &Api<K>, work: &Work<K>, turn: &Turn, done: Done<K>) -> Result<(), Fault> {
        let Turn {
            operation, checksum, ..
        } = turn;
        let clock = &self.shared.clock;
        let demand = match &done {
            Done::Stays(_) => Demand::StateIfStored,
            Done::Leaves(_) | Done::Goes => Demand::State,
        };
        let generation = work.generation();
        let edit = |object: &mut K| {
            match &done {
                Done::Stays(outcome) => put_outcome(object, outcome),
                Done::Leaves(saved) => put_saved(object, saved),
                Done::Goes => {}
            }
            succeed(object, *operation, generation, clock.now());
        };
        let object = work.edit(edit, demand).await?;
        match done {
            Done::Stays(_) => {
                let edit = |object: &mut K| {
                    drop_operation(object, operation::RESTORE);
                    if let Some(checksum) = checksum {
                        let annotations = object.meta_mut().annotations.get_or_insert_default();
                        annotations.insert(SECRET_CHECKSUM.to_owned(), checksum.clone());
                    }
                };
                edit_metadata(api, object, edit).await
            }
            Done::Goes => remove_finalizer(api, object, &self.finalizer).await.map(drop),
            Done::Leaves(_) => {
                // In one write: between two, an object would be left that is migrated and held, and asks for nothing.
                let edit = |object: &mut K| {
                    drop_operation(object, operation::MIGRATE);
                    if let Some(finalizers) = &mut object.meta_mut().finalizers {
                        finalizers.retain(|finalizer| !finalizer.starts_with(EXTENSION_PREFIX));
                    }
                };
                edit_metadata(api, object, edit).await
            }
        }
    }

    /// The operation has ended with a fault.
    async fn end(&self, work: &Work<K>, object: &K, turn: &Turn, fault: Fault) -> Result<Next, Fault> {
        // The change that made it obsolete has called for another turn already.
        if cause_of::<Obsolete>(&fault).is_some() {
            return Ok(Next::After(Duration::ZERO));
        }
        // The status is the other process's.
        if cause_of::<Overtaken>(&fault).is_some() {
            return Err(fault);
        }
        let clock = &self.shared.clock;
        if let Some(Again { after, carried, .. }) = cause_of(&fault) {
            let (after, carried, reason) = (*after, carried.clone(), fault.chain());
            let edit = |object: &mut K| match &carried {
                None => rest(object, &reason, clock.now()),
                Some(_) => show(object, &reason, clock.now()),
            };
            let (key, signal) = (ObjectKey::of(object), turn.signal);
            if let Err(unwritten) = work.edit(edit, Demand::StateIfStored).await {
                if is_passing(&unwritten) {
                    self.rests.put(&key, Rest::interrupted(object, signal, carried));
                }
                return Err(unwritten);
            }
            let rest = Rest::new(after, object, signal, carried);
            self.rests.put(&key, rest.clone());
            // Looked at last: a signal that comes later finds the pause, and calls.
            let left = rest.left(self.rests.signal_of(&key));
            return Ok(Next::After(left.unwrap_or_default()));
        }
        let fault = self.shared.classify(fault);
        if is_passing(&fault) && turn.carried.is_some() {
            let rest = Rest::interrupted(object, turn.signal, turn.carried.clone());
            self.rests.put(&ObjectKey::of(object), rest);
        }
        self.report(work, object, turn.operation, &fault).await;
        Err(fault)
    }

    /// Reports in the status what went wrong. A status that cannot be written is logged: the fault itself is what
    /// counts.
    async fn report(&self, work: &Work<K>, object: &K, operation: Operation, fault: &Fault) {
        let clock = &self.shared.clock;
        let generation = work.generation();
        let edit = |object: &mut K| fail(object, operation, generation, fault, clock.now());
        if let Err(failed) = work.edit(edit, Demand::StateIfStored).await {
            tracing::warn!(kind = K::KIND, class = %failed.class, hint = %failed.hint, "status not written: {failed}");
            if cause_of::<Overtaken>(&failed).is_some() {
                return;
            }
        }
        let codes: Vec<String> = fault.codes.iter().map(|code| format!(" [{code}]")).collect();
        let text = format!("{}{}", fault.chain(), codes.concat());
        self.shared
            .recorder
            .record(object, EventType::Warning, "ReconcileError", &text)
            .await;
    }
}

/// Whether the same call may succeed the next time, so that what was carried is still worth having.
fn is_passing(fault: &Fault) -> bool {
    fault.class == FaultClass::Transient && cause_of::<Overtaken>(fault).is_none()
}

fn is_processing<K: ExtensionObject>(object: &K, operation: Operation) -> bool {
    let last = object.progress().0;
    last.is_some_and(|last| last.state == LastOperationState::Processing && last.type_ == operation.type_())
}

/// Removes the operation annotation if it is this operation.
fn drop_operation<K: ExtensionObject>(object: &mut K, operation: &str) {
    if annotation_of(object) == Some(operation)
        && let Some(annotations) = &mut object.meta_mut().annotations
    {
        annotations.remove(annotations::OPERATION);
    }
}

/// Writes what `edit` changes in the metadata; on a conflict on a fresh copy again. Fine when the object has gone.
async fn edit_metadata<K: ExtensionObject>(
    api: &Api<K>,
    mut object: K,
    edit: impl Fn(&mut K) + Send,
) -> Result<(), Fault> {
    let mut attempt = 1;
    loop {
        let mut after = object.clone();
        edit(&mut after);
        match patch_changed(api, &object, &after).await {
            Ok(_) => return Ok(()),
            Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => attempt += 1,
            Err(fault) => return Err(fault),
        }
        match read_again(api, &object).await? {
            Some(fresh) => object = fresh,
            None => return Ok(()),
        }
    }
}
