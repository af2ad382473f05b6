//! What functions need from the caller that executes templates: a cluster, randomness, the
//! time, names of machines. Nothing here has any of them by itself.

use std::fmt;

use base_clock::{Clock, Entropy};
use jiff::tz::TimeZone;
use serde_json::Value as Json;

use crate::syntax::{NodeId, Tree};
use crate::text::Str;

/// What `lookup` reads: the objects of a cluster.
pub trait Lookup: Send {
    /// The object of that name, or the list of all of that kind if the name is empty: of one namespace, or of all if that
    /// is empty too. Nothing if it is not there. `place` is where it is called.
    ///
    /// # Errors
    /// A message for the template's author: the kind is unknown, the cluster does not answer.
    fn lookup(
        &mut self,
        place: &Place<'_>,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Json>, String>;
}

/// Where a template calls a function. The text that `tpl` executes has no name, so that a call in it has the place of the
/// call of `tpl`.
///
/// It is shown as `NAME:LINE:COLUMN`, as in errors, which counts the lines of the text before it: [`Self::text`] and
/// [`Self::offset`] distinguish two places without that.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub(crate) executed: &'a Str,
    pub(crate) tree: &'a Tree,
    pub(crate) node: NodeId,
}

impl<'a> Place<'a> {
    /// The name of the template that the caller has executed, in which all else is.
    pub fn executed(&self) -> &'a Str {
        self.executed
    }

    /// The name of the text in which the call stands.
    pub fn text(&self) -> &'a str {
        &self.tree.parse_name
    }

    /// The byte of that text at which it stands.
    pub fn offset(&self) -> usize {
        self.tree.node(self.node).at
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tree.location(self.node))
    }
}

/// What `getHostByName` resolves with: the addresses of machines.
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
    /// What time it is; without it, the functions that need it are errors
    pub clock: Option<Clock>,
    /// Go's `time.Local`: the zone in which `date` prints times, called by its IANA name; without it, UTC that is called `Local`
    pub zone: Option<TimeZone>,
    /// What `getHostByName` resolves with; without it, no name has an address, as with Helm without `--enable-dns`
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
