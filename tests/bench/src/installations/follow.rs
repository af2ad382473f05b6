//! Follows registrations and installations by watches, and notes when each came and was installed. It writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use api_core::v1::ControllerDeployment;
use api_core::v1beta1::{ControllerInstallation, ControllerRegistration};
use api_meta::{Condition, ConditionStatus, conditions};
use futures::stream::{BoxStream, select_all};
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};

use crate::landscape::GIVE_UP;

/// What has changed.
enum News {
    Registration(Box<Event<ControllerRegistration>>),
    Deployment(Box<Event<ControllerDeployment>>),
    Installation(Box<Event<ControllerInstallation>>),
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When the first event of each registration came.
    created: BTreeMap<String, Instant>,
    /// When each installation was first installed, and its registration.
    installed: BTreeMap<String, (String, Instant)>,
    /// What is there, by kind and name.
    there: BTreeSet<(String, String)>,
}

impl Seen {
    /// From the event of a registration's creation to the one by which an installation of it was installed, in seconds;
    /// for every installation of registrations whose names begin with `prefix`, the quickest first.
    pub(super) fn seconds(&self, prefix: &str) -> Vec<f64> {
        let mut all: Vec<f64> = self
            .installed(prefix)
            .filter_map(|(registration, when)| {
                Some(when.duration_since(*self.created.get(registration)?).as_secs_f64())
            })
            .collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// The installations of registrations whose names begin with `prefix` that have been installed: whose, and when.
    pub(super) fn installed(&self, prefix: &str) -> impl Iterator<Item = &(String, Instant)> {
        self.installed
            .values()
            .filter(move |(registration, _)| registration.starts_with(prefix))
    }

    /// How much is there whose name begins with `prefix`.
    pub(super) fn count(&self, prefix: &str) -> usize {
        self.there.iter().filter(|(_, name)| name.starts_with(prefix)).count()
    }

    fn take(&mut self, news: News) {
        match news {
            News::Registration(event) => {
                if let Some(registration) = self.look(&event) {
                    self.created.entry(registration.name_any()).or_insert_with(Instant::now);
                }
            }
            News::Deployment(event) => drop(self.look(&event)),
            News::Installation(event) => {
                if let Some(installation) = self.look(&event)
                    && is_installed(installation)
                {
                    let registration = installation.spec.registration_ref.name.clone().unwrap_or_default();
                    let entry = self.installed.entry(installation.name_any());
                    entry.or_insert_with(|| (registration, Instant::now()));
                }
            }
        }
    }

    /// Notes what is there; gives it.
    fn look<'e, K: Resource<DynamicType = ()>>(&mut self, event: &'e Event<K>) -> Option<&'e K> {
        let key = |object: &K| (K::kind(&()).into_owned(), object.name_any());
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                self.there.insert(key(object));
                Some(object)
            }
            Event::Delete(object) => {
                self.there.remove(&key(object));
                None
            }
            Event::Init | Event::InitDone => None,
        }
    }
}

fn is_installed(installation: &ControllerInstallation) -> bool {
    let known = installation.status.as_ref().map(|status| status.conditions.as_slice());
    Condition::find(known.unwrap_or_default(), conditions::installation::INSTALLED)
        .is_some_and(|installed| installed.status == ConditionStatus::True)
}

/// Watches of a garden.
pub(super) struct Follower {
    news: BoxStream<'static, Result<News, String>>,
    /// What they have shown.
    pub(super) seen: Seen,
}

impl Follower {
    /// Opens the watches.
    pub(super) fn new(garden: &Client) -> Self {
        fn failure<K: Resource<DynamicType = ()>>(error: watcher::Error) -> String {
            format!("cannot watch {}: {error}", K::plural(&()))
        }
        macro_rules! watch {
            ($kind:ident, $news:ident) => {
                base_client::watch::<$kind>(Api::all(garden.clone()), watcher::Config::default())
                    .map_ok(|event| News::$news(Box::new(event)))
                    .map_err(failure::<$kind>)
                    .boxed()
            };
        }
        let all = [
            watch!(ControllerRegistration, Registration),
            watch!(ControllerDeployment, Deployment),
            watch!(ControllerInstallation, Installation),
        ];
        Self {
            news: select_all(all).boxed(),
            seen: Seen::default(),
        }
    }

    /// Takes what the watches tell until `done`.
    ///
    /// # Errors
    /// It does not come to pass, or a watch fails.
    pub(super) async fn until(&mut self, what: &str, done: impl Fn(&Seen) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + GIVE_UP;
        while !done(&self.seen) {
            let left: Duration = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.news.next()).await {
                Ok(Some(news)) => self.seen.take(news?),
                Ok(None) => return Err("the watches have ended".to_owned()),
                Err(_) => return Err(format!("not {what} after {GIVE_UP:?}")),
            }
        }
        Ok(())
    }
}
