//! Which objects an actuator or an observer is for, and how it is called.

use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use api_extensions::{ExtensionClass, ExtensionObject};
use base_controller::{Cache, Change, Controller, ObjectKey};
use kube::Resource;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;

use crate::caches::Caches;
use crate::rest::Rests;
use crate::watches::{Due, SecretChecksum, labelled, watch_secrets};

/// Objects of one kind worked on at the same time: upstream's default.
const CONCURRENCY: usize = 5;
/// One operation may take this long (upstream limits infrastructures, workers and bastions to it).
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Less is no time for a single call.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// More is an operation that hangs.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Adds a watch to a controller.
type Watch<K> = Arc<dyn Fn(Controller<K>, &mut Caches, &Arc<Due>) -> Controller<K> + Send + Sync>;

/// Adds a watch to a controller that ends pauses.
type Resume<K> = Arc<dyn Fn(Controller<K>, &Cache<K>, &Arc<Rests>) -> Controller<K> + Send + Sync>;

/// Which objects of kind `K` a registration is for, and how.
pub struct Registration<K: ExtensionObject> {
    type_: String,
    class: ExtensionClass,
    pub(crate) finalizer_suffix: Option<String>,
    pub(crate) concurrency: usize,
    pub(crate) timeout: Duration,
    watches: Vec<Watch<K>>,
    resumes: Vec<Resume<K>>,
    /// Labels of the Secrets that are watched.
    secrets: Option<String>,
}

impl<K: ExtensionObject> Clone for Registration<K> {
    fn clone(&self) -> Self {
        Self {
            type_: self.type_.clone(),
            class: self.class.clone(),
            finalizer_suffix: self.finalizer_suffix.clone(),
            concurrency: self.concurrency,
            timeout: self.timeout,
            watches: self.watches.clone(),
            resumes: self.resumes.clone(),
            secrets: self.secrets.clone(),
        }
    }
}

impl<K: ExtensionObject> Debug for Registration<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("kind", &K::KIND)
            .field("type_", &self.type_)
            .field("class", &self.class)
            .finish_non_exhaustive()
    }
}

impl<K: ExtensionObject> Registration<K> {
    /// For objects of this type, compared without case, of class shoot.
    pub fn of_type(type_: impl Into<String>) -> Self {
        Self {
            type_: type_.into(),
            class: ExtensionClass::Shoot,
            finalizer_suffix: None,
            concurrency: CONCURRENCY,
            timeout: TIMEOUT,
            watches: Vec::new(),
            resumes: Vec::new(),
            secrets: None,
        }
    }

    /// For objects of another class.
    #[must_use]
    pub fn class(mut self, class: ExtensionClass) -> Self {
        self.class = class;
        self
    }

    /// Another end of the finalizer `extensions.gardener.cloud/...`: needed where several extensions act on one
    /// kind in one namespace (Extension).
    #[must_use]
    pub fn finalizer_suffix(mut self, suffix: impl Into<String>) -> Self {
        self.finalizer_suffix = Some(suffix.into());
        self
    }

    /// How many objects are worked on at the same time. One that waits in place counts; one that waits by
    /// [`crate::Context::again`] does not.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long one operation of an actuator may take, from 1 s to 24 h; 20 minutes unless it is set. After that it is cut
    /// off, reported as an error, and tried again.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        self
    }

    /// Reconciles the objects that `map` names at every change of an object of kind `O` that `config` selects, also when
    /// they are settled; an observer looks at them. Objects that are being deleted, were migrated, wait for their state or
    /// belong to a Failed shoot are left alone as ever.
    ///
    /// Which objects are due is in memory: so each start of the process shows every selected object to `map` as new, and
    /// reconciles what `map` names for it. Registrations with the same kind and the same selectors share one cache, of all
    /// namespaces. While an object fails it is called for no sooner than a second after, since the change may be its own
    /// operation's.
    #[must_use]
    pub fn watches<O>(
        mut self,
        config: watcher::Config,
        map: impl Fn(&Change<O>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self
    where
        O: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let map = Arc::new(map);
        self.watches.push(Arc::new(move |controller, caches, due| {
            let (map, due) = (map.clone(), due.clone());
            let cache: Cache<O> = caches.of(config.clone());
            controller.watches_from_start(&cache, move |change| {
                let keys = map(change);
                keys.iter().for_each(|key| due.mark(key));
                keys
            })
        }));
        self
    }

    /// Ends the pause of [`crate::Context::again`] of the objects in a namespace at every change of what `related` has in that
    /// namespace; not sooner than a second after it began. An object that does not pause is left as it is: one that is settled
    /// is not reconciled, one that fails has its back-off.
    #[must_use]
    pub fn resumed_by<O>(mut self, related: &Cache<O>) -> Self
    where
        O: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let related = related.clone();
        self.resumes.push(Arc::new(move |controller, objects, rests| {
            let (objects, rests) = (objects.clone(), rests.clone());
            controller.watches(&related, move |change| {
                let namespace = change.object.meta().namespace.as_deref().unwrap_or_default();
                let mut keys: Vec<ObjectKey> = objects
                    .list_in(namespace)
                    .iter()
                    .map(|object| ObjectKey::of(&**object))
                    .collect();
                keys.retain(|key| rests.signal(key));
                keys
            })
        }));
        self
    }

    /// Reconciles an object when the data of the Secret in its `spec.secretRef` are others than those with which its last
    /// operation succeeded; a change of the Secret's metadata does nothing. A checksum of them stands in an annotation of the
    /// object, so a change while the process was away is seen, and a start without one does nothing.
    ///
    /// All Secrets of the seed are listed and watched for it, of which names and checksums are retained.
    #[must_use]
    pub fn watches_secret_ref(self) -> Self {
        self.watches_secret_ref_labelled("")
    }

    /// As [`Registration::watches_secret_ref`], of Secrets with these labels alone, such as
    /// `gardener.cloud/purpose=cloudprovider`.
    #[must_use]
    pub fn watches_secret_ref_labelled(mut self, labels: impl Into<String>) -> Self {
        self.secrets = Some(labels.into());
        self
    }

    pub(crate) fn selects(&self, object: &K) -> bool {
        object.type_().eq_ignore_ascii_case(&self.type_) && object.class() == self.class
    }

    /// The cache of the Secrets that are watched.
    pub(crate) fn secrets(&self, caches: &mut Caches) -> Option<Cache<SecretChecksum>> {
        self.secrets.as_deref().map(|labels| caches.of(labelled(labels)))
    }

    /// Adds what is watched to a controller of the objects in `objects`.
    pub(crate) fn watch(
        &self,
        controller: Controller<K>,
        caches: &mut Caches,
        objects: &Cache<K>,
        (due, rests): (&Arc<Due>, &Arc<Rests>),
    ) -> Controller<K> {
        let resumed = self
            .resumes
            .iter()
            .fold(controller, |controller, resume| resume(controller, objects, rests));
        let watched = self
            .watches
            .iter()
            .fold(resumed, |controller, watch| watch(controller, caches, due));
        match self.secrets(caches) {
            Some(secrets) => watch_secrets(watched, &secrets, objects, due.clone()),
            None => watched,
        }
    }
}
