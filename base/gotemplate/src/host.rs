//! What functions ask of whoever executes templates: a cluster, randomness, the
//! time, names of machines. Nothing here has any of them by itself.

use base_clock::{Clock, Entropy};
use jiff::tz::TimeZone;
use serde_json::Value as Json;

/// What `lookup` asks: the objects of a cluster.
pub trait Lookup: Send {
    /// The object of that name, or the list of all of that kind if the name is empty: of one namespace, or of all if that
    /// is empty too. Nothing if it is not there.
    ///
    /// # Errors
    /// What the template's author is told: the kind is unknown, the cluster does not answer.
    fn lookup(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Option<Json>, String>;
}

/// What `getHostByName` asks: the addresses of machines.
pub trait Names: Send {
    /// An address of that name, nothing if it has none.
    fn address(&mut self, name: &str) -> Option<String>;
}

/// What Helm's and Sprig's functions find in [`crate::Context::host`]. With anything else there it is as if there were
/// nothing of all this.
#[derive(Default)]
pub struct Host {
    /// The cluster, if there is one; else nothing is found, as with `helm template`
    pub lookup: Option<Box<dyn Lookup>>,
    /// Where random texts and keys come from; without it, the functions that make them are errors
    pub entropy: Option<Entropy>,
    /// What time it is; without it, the functions that ask for it are errors
    pub clock: Option<Clock>,
    /// Go's `time.Local`: what `date` tells times in, called by its IANA name; without it, UTC that is called `Local`
    pub zone: Option<TimeZone>,
    /// What `getHostByName` asks; without it, no name has an address, as with Helm that is not told to ask
    pub names: Option<Box<dyn Names>>,
}

/// What a template makes with a host, or what is wrong with it.
#[cfg(test)]
pub(crate) fn rendered(text: &str, host: &mut Host) -> String {
    use crate::{Context, Functions, Limits, MissingKey, Set, Value};
    use std::sync::Arc;

    let functions = Functions::new().with_sprig().with_helm();
    let mut set = Set::new("gotpl", Arc::new(functions), MissingKey::Zero);
    set.parse("t", text.as_bytes()).expect("it is a template");
    let mut context = Context {
        limits: Limits::default(),
        host,
    };
    let rendered = Arc::new(set).render("t", Value::Nil, &mut context);
    rendered.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output).into_owned(),
    )
}
