//! Watching without end: a watch that outlives errors of the API. It never gives up and never polls.

use std::time::Duration;

use api_meta::FaultClass;
use base_client::watch_fault;
use futures::{Stream, StreamExt, future, stream};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// The pause after the first failure of a watch: an API server that restarts is back within seconds.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause: a node should notice within half a minute that its API server is back.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Doubling pauses, the same ones in every run.
#[derive(Debug)]
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Pause(PAUSE_MIN)
    }
}

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        Some(pause)
    }
}

/// Refusals in a row after which a permission counts as missing: the node authorizer refuses an object until it has seen the
/// pod that needs it.
const REFUSALS: u32 = 3;

/// Every event of a watch; errors are logged and waited out. A missing permission is a warning, because what waits for
/// these objects waits without end.
pub(crate) fn follow<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Event<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
{
    let mut refusals = 0;
    base_client::watch(api, config).filter_map(move |event| {
        let event = match event {
            Ok(event) => {
                refusals = 0;
                Some(event)
            }
            Err(error) => {
                let fault = watch_fault(error, &K::plural(&()));
                refusals += u32::from(fault.class == FaultClass::Access);
                match refusals == REFUSALS {
                    true => tracing::warn!(hint = %fault.hint, "{fault}"),
                    false => tracing::debug!("{fault}, trying again"),
                }
                None
            }
        };
        future::ready(event)
    })
}

/// The states of one object, `None` while it is not there. The first item is its present state.
pub(crate) fn follow_one<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Send + 'static,
{
    let events = follow(api, watcher::Config::default().fields(&format!("metadata.name={name}")));
    events
        .scan(None, |listed, event| {
            let items = match event {
                Event::Init => {
                    *listed = None;
                    Vec::new()
                }
                Event::InitApply(object) => {
                    *listed = Some(object);
                    Vec::new()
                }
                Event::InitDone => vec![listed.take()],
                Event::Apply(object) => vec![Some(object)],
                Event::Delete(_) => vec![None],
            };
            future::ready(Some(stream::iter(items)))
        })
        .flatten()
}
