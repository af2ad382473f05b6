//! What an actuator works with during one operation: the seed, the shoot, and the status of its object while the operation
//! goes on. [`Context::persist`] stands in `persist`, credentials in `credentials`.

use std::any::Any;
use std::error::Error;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_controller::Recorder;
use kube::Resource;
use tokio_util::sync::CancellationToken;

use crate::cluster::ClusterView;
use crate::codes::CodeTable;
use crate::credentials::SecretsRead;
use crate::persist::Work;
use crate::reconcile::api_of;
use crate::shared::classify;
use crate::status::{edit_status, show};

/// The shortest pause of [`Context::again`]: less is a loop.
pub(crate) const AGAIN_MIN: Duration = Duration::from_secs(1);
/// The longest pause of [`Context::again`]: after that a person looks for what hangs.
pub(crate) const AGAIN_MAX: Duration = Duration::from_secs(60 * 60);

/// What an actuator works with during one operation. Clones are for the same operation.
#[derive(Clone)]
pub struct Context {
    /// The seed.
    pub client: kube::Client,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers.
    pub entropy: Entropy,
    /// Events about the objects.
    pub recorder: Recorder,
    /// The operation has become pointless, because the object has changed or goes, or the process stops; or it has ended.
    pub obsolete: CancellationToken,
    pub(crate) cluster: Option<ClusterView>,
    /// The object's namespace.
    pub(crate) namespace: Option<String>,
    pub(crate) secrets: SecretsRead,
    /// The extension's table of error codes.
    pub(crate) codes: Arc<OnceLock<CodeTable>>,
    /// [`Work`] of the object's kind; none while one only looks.
    pub(crate) work: Option<Arc<dyn Any + Send + Sync>>,
    /// What the call before has left for this one.
    pub(crate) carried: Option<Carried>,
}

/// What one call of an operation leaves for the next, in memory.
pub(crate) type Carried = Arc<dyn Any + Send + Sync>;

/// The operation was given up because its object changed meanwhile.
#[derive(Debug, thiserror::Error)]
#[error("given up: the object has changed meanwhile")]
pub(crate) struct Obsolete;

/// The operation is not finished, and is to be called again.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Again {
    pub(crate) after: Duration,
    pub(crate) reason: String,
    pub(crate) carried: Option<Carried>,
}

/// The error of type `E` that stands behind a fault, whatever was put around it.
pub(crate) fn cause_of<E: Error + 'static>(fault: &Fault) -> Option<&E> {
    let mut next: Option<&(dyn Error + 'static)> = Some(&*fault.source);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

impl Context {
    /// The shoot the object belongs to. Objects of seeds and backup objects belong to none.
    ///
    /// # Errors
    /// A dependency fault where it belongs to none.
    pub fn cluster(&self) -> Result<&ClusterView, Fault> {
        self.cluster.as_ref().ok_or_else(|| {
            Fault::dependency("the object belongs to no shoot: there is no Cluster named as its namespace")
        })
    }

    /// Waits for `waiting` unless the operation becomes pointless first. For long waits.
    ///
    /// # Errors
    /// Those of `waiting`; a transient fault of the SDK's own, which an actuator returns as it is.
    pub async fn unless_obsolete<T>(&self, waiting: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        tokio::select! {
            biased;
            result = waiting => result,
            () = self.obsolete.cancelled() => Err(Fault::transient(Obsolete)),
        }
    }

    /// The error of an operation that is not finished and has nothing to complain of: what it waits for takes longer than it
    /// is worth to wait for in place, which holds one of the few places of [`crate::Registration::concurrency`]. The object
    /// stays Processing with `reason` as its description, an earlier error goes, and the operation is called again after
    /// `after` (1 s to 1 h), or sooner when the object or something watched changes.
    ///
    /// It is returned as it is, or with [`Fault::doing`] around it: `return Err(context.again(..))`. [`Fault::joined`] with
    /// other faults makes an error of it.
    pub fn again(&self, after: Duration, reason: impl Into<String>) -> Fault {
        Fault::transient(Again {
            after: after.clamp(AGAIN_MIN, AGAIN_MAX),
            reason: reason.into(),
            carried: None,
        })
    }

    /// As [`Context::again`] for a wait that goes on over several calls: leaves `carried` for the next call of the same operation,
    /// which finds it by [`Context::carried`], such as when the wait began and what need not be written once more. It is in memory
    /// alone. An earlier error stays until the operation succeeds, as it does while an actuator waits in place.
    pub fn again_with<T: Any + Send + Sync>(&self, after: Duration, reason: impl Into<String>, carried: T) -> Fault {
        Fault::transient(Again {
            after: after.clamp(AGAIN_MIN, AGAIN_MAX),
            reason: reason.into(),
            carried: Some(Arc::new(carried)),
        })
    }

    /// The value that [`Context::again_with`] carries, of type `T`. None for a new operation: after a start of the process, for
    /// another request or generation, after an error that is not transient, and after a change that starts a new operation.
    pub fn carried<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.carried.as_ref()?.downcast_ref()
    }

    /// The fault with the codes of the extension's table, as the reconciler would add them to an actuator's fault: for an
    /// actuator that decides by them.
    pub fn classify(&self, fault: Fault) -> Fault {
        classify(&self.codes, fault)
    }

    /// Shows in the status what the operation waits for ("machine x has not joined: ..."), while it goes on.
    ///
    /// # Errors
    /// The status cannot be written; another process works on the object; the operation has ended.
    pub async fn show<K: ExtensionObject>(&self, object: &K, text: &str) -> Result<(), Fault> {
        let now = self.clock.now();
        self.edit(object, |fresh| show(fresh, text, now)).await
    }

    /// Writes the kind's own status before the operation ends: for what others wait for meanwhile.
    ///
    /// # Errors
    /// As [`Context::show`].
    pub async fn publish<K: ExtensionObject>(&self, object: &K, own: K::Own) -> Result<(), Fault> {
        self.edit(object, |fresh| fresh.set_own(own.clone())).await
    }

    /// Writes into the status of `object`, which may be another than the one of the operation.
    async fn edit<K: ExtensionObject>(&self, object: &K, edit: impl Fn(&mut K) + Send + Sync) -> Result<(), Fault> {
        match self.work_on(object) {
            Some(work) => work.edit_while_at_work(edit).await,
            None => edit_status(&api_of::<K>(&self.client, object), object, edit)
                .await
                .map(drop),
        }
    }

    /// The operation, if it is about `object`.
    pub(crate) fn work_on<K: ExtensionObject>(&self, object: &K) -> Option<Arc<Work<K>>> {
        let work = self.work.clone()?.downcast::<Work<K>>().ok()?;
        work.is_about(object).then_some(work)
    }
}

/// Kind, namespace and name, for error texts.
pub(crate) fn title<K: Resource<DynamicType = ()>>(object: &K) -> String {
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().map(|namespace| format!("{namespace}/"));
    let name = meta.name.as_deref().unwrap_or_default();
    format!("{} {}{name}", K::kind(&()), namespace.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Context {
        /// A context of no object.
        pub(crate) fn for_tests(embedded: &tests_kit::Embedded) -> Self {
            let client = embedded.admin();
            Self {
                recorder: Recorder::new(client.clone(), "test", embedded.clock.clone()),
                client,
                clock: embedded.clock.clone(),
                entropy: embedded.entropy.clone(),
                obsolete: CancellationToken::new(),
                cluster: None,
                namespace: None,
                secrets: SecretsRead::default(),
                codes: Arc::default(),
                work: None,
                carried: None,
            }
        }
    }

    #[test]
    fn a_cause_is_found_below_everything_put_around_it() {
        let fault = Fault::transient(Obsolete).doing("create vpc").doing("ensure network");
        assert!(cause_of::<Obsolete>(&fault).is_some());
        assert!(cause_of::<Again>(&fault).is_none());
        assert!(cause_of::<Obsolete>(&Fault::transient("given up")).is_none());
    }
}
