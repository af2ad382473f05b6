//! Caches of the seed's extension objects: one for each kind of the table. Code for all kinds reads and watches them here.
//! It never writes.

use std::collections::BTreeSet;

use api_extensions::{ExtensionKind, ExtensionObject, Family, ForKind, ObjectView, PerKind};
use api_rules::KindType;
use base_controller::{Cache, Change, Controller, Index, ObjectKey};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// The caches of all kinds.
pub(crate) struct ExtensionCaches(PerKind<Caches>);

/// Starts the cache of each kind.
struct Caches {
    seed: Client,
    stop: CancellationToken,
}

/// The cache of one kind.
pub(crate) struct OfKind<K> {
    objects: Cache<K>,
    /// By their types, in lower case.
    by_type: Index<K>,
}

impl Family for Caches {
    type Of<K: ExtensionObject> = OfKind<K>;

    fn make<K: ExtensionObject>(&mut self) -> OfKind<K> {
        let (api, config) = (Api::all(self.seed.clone()), watcher::Config::default());
        let objects = Cache::<K>::start(api, config, self.stop.clone());
        let by_type = objects.index(|object| Some(object.type_().to_lowercase()));
        OfKind { objects, by_type }
    }
}

/// What has happened to an extension object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectEvent<'a> {
    /// It was not known before.
    Appeared,
    /// It has changed from this.
    Changed(ObjectView<'a>),
    /// It is gone.
    Deleted,
}

impl ExtensionCaches {
    /// Starts the caches. The kinds must exist: their watch would fail until they do.
    pub(crate) fn start(seed: &Client, stop: &CancellationToken) -> Self {
        Self(PerKind::new(Caches {
            seed: seed.clone(),
            stop: stop.clone(),
        }))
    }

    /// The cache of one kind.
    pub(crate) fn of<K: ExtensionObject>(&self) -> &Cache<K> {
        &self.0.of::<K>().objects
    }

    /// Every kind and type of which there is an object; none while a kind has not been listed. It takes time with the number
    /// of types, not of objects.
    pub(crate) fn types(&self) -> Option<BTreeSet<KindType>> {
        let all = ExtensionKind::ALL.iter();
        self.are_ready()
            .then(|| all.flat_map(|kind| kind.with(TypesOf(self))).collect())
    }

    /// Whether every kind has been listed once: before that, an object that is not seen may well exist.
    pub(crate) fn are_ready(&self) -> bool {
        ExtensionKind::ALL.iter().all(|kind| kind.with(IsReady(self)))
    }

    /// Shows every object of every kind; with a namespace, those of the shoot that has this namespace in the seed.
    pub(crate) fn each(&self, shoot: Option<&str>, mut look: impl FnMut(ObjectView<'_>)) {
        for kind in ExtensionKind::ALL {
            kind.with(Each {
                caches: self,
                shoot,
                look: &mut look,
            });
        }
    }

    /// Lets whatever happens to an object of any kind call for what `map` names.
    pub(crate) fn watched_by<P>(
        &self,
        controller: Controller<P>,
        map: impl Fn(ObjectView<'_>, ObjectEvent<'_>) -> Vec<ObjectKey> + Clone + Send + Sync + 'static,
    ) -> Controller<P>
    where
        P: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        ExtensionKind::ALL.iter().fold(controller, |controller, kind| {
            kind.with(Watch {
                caches: self,
                controller,
                map: map.clone(),
            })
        })
    }
}

struct IsReady<'a>(&'a ExtensionCaches);

impl ForKind for IsReady<'_> {
    type Output = bool;

    fn call<K: ExtensionObject>(self) -> bool {
        self.0.of::<K>().is_ready()
    }
}

struct TypesOf<'a>(&'a ExtensionCaches);

impl ForKind for TypesOf<'_> {
    type Output = Vec<KindType>;

    fn call<K: ExtensionObject>(self) -> Vec<KindType> {
        let types = self.0.0.of::<K>().by_type.counts().into_keys();
        types.map(|type_| KindType::new(K::ROW, &type_)).collect()
    }
}

struct Each<'a, L> {
    caches: &'a ExtensionCaches,
    shoot: Option<&'a str>,
    look: &'a mut L,
}

impl<L: FnMut(ObjectView<'_>)> ForKind for Each<'_, L> {
    type Output = ();

    fn call<K: ExtensionObject>(self) {
        let cache = self.caches.of::<K>();
        let objects = match self.shoot {
            Some(namespace) if K::ROW.is_namespaced() => cache.list_in(namespace),
            Some(namespace) => cache.list_with_prefix(namespace),
            None => cache.list(),
        };
        let concerned = |object: &ObjectView<'_>| {
            self.shoot
                .is_none_or(|namespace| object.kind.is_of_shoot(object.metadata, namespace))
        };
        let views = objects.iter().map(|object| object.view());
        views.filter(concerned).for_each(self.look);
    }
}

struct Watch<'a, P, M> {
    caches: &'a ExtensionCaches,
    controller: Controller<P>,
    map: M,
}

impl<P, M> ForKind for Watch<'_, P, M>
where
    P: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    M: Fn(ObjectView<'_>, ObjectEvent<'_>) -> Vec<ObjectKey> + Send + Sync + 'static,
{
    type Output = Controller<P>;

    fn call<K: ExtensionObject>(self) -> Controller<P> {
        let map = self.map;
        self.controller
            .watches(self.caches.of::<K>(), move |change: &Change<K>| {
                let event = match (&change.old, change.deleted) {
                    (_, true) => ObjectEvent::Deleted,
                    (None, false) => ObjectEvent::Appeared,
                    (Some(before), false) => ObjectEvent::Changed(before.view()),
                };
                map(change.object.view(), event)
            })
    }
}

#[cfg(test)]
mod tests {
    use api_extensions::{BackupBucket, BackupEntry, Worker};
    use base_client::api_in;
    use kube::api::PostParams;
    use serde_json::{Value, json};

    use super::*;
    use crate::seed::prepare_cluster;

    async fn create<K: ExtensionObject>(seed: &Client, namespace: &str, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        let object: K = serde_json::from_value(object).unwrap();
        let api = api_in::<K>(seed, namespace);
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn objects_of_a_shoot_are_those_in_its_namespace_and_its_backup_entry() {
        let server = tests_kit::embedded().await;
        let seed = server.admin();
        prepare_cluster(&seed).await.unwrap();
        let secret = json!({"name": "s", "namespace": "garden"});
        let worker = json!({"type": "w", "region": "r", "secretRef": secret, "pools": []});
        create::<Worker>(&seed, "default", "a", worker.clone()).await;
        create::<Worker>(&seed, "garden", "other", worker).await;
        let entry = json!({"type": "e", "region": "r", "bucketName": "b", "secretRef": secret});
        create::<BackupEntry>(&seed, "", "default--uid", entry.clone()).await;
        create::<BackupEntry>(&seed, "", "defaults--uid", entry).await;
        let bucket = json!({"type": "b", "region": "r", "secretRef": secret});
        create::<BackupBucket>(&seed, "", "default--bucket", bucket).await;

        let caches = ExtensionCaches::start(&seed, &CancellationToken::new());
        assert!(!caches.are_ready());
        caches.of::<Worker>().ready().await;
        caches.of::<BackupEntry>().ready().await;
        caches.of::<BackupBucket>().ready().await;
        let seen = |shoot: Option<&str>| {
            let mut seen = Vec::new();
            caches.each(shoot, |object| {
                seen.push(format!(
                    "{} {} of type {}",
                    object.kind,
                    object.full_name(),
                    object.type_
                ));
            });
            seen
        };
        assert_eq!(
            seen(Some("default")),
            ["BackupEntry default--uid of type e", "Worker default/a of type w"]
        );
        assert_eq!(seen(None).len(), 5);
    }
}
