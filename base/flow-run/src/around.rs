//! A layer around the tasks of flows, with which tests make them fail, hang or run twice. There is none by
//! default; it sees one try of one task and that task's work, and nothing else. No configuration file knows of it.

use std::fmt;
use std::sync::Arc;

use api_meta::Fault;
use futures::future::BoxFuture;

/// One try of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Try {
    /// What the run works on, "namespace/name" of an object.
    pub subject: String,
    /// The flow's name.
    pub flow: String,
    /// The task's name.
    pub task: &'static str,
    /// Which try this is, from 1.
    pub attempt: u32,
}

/// The work of a try. Every call of it repeats all of that work.
pub type Work<'a> = Box<dyn Fn() -> BoxFuture<'a, Result<(), Fault>> + Send + Sync + 'a>;

type Around = Arc<dyn for<'a> Fn(Try, Work<'a>) -> BoxFuture<'a, Result<(), Fault>> + Send + Sync>;

/// What is put around every try of every task. Clones are the same layer.
#[derive(Clone, Default)]
pub struct TaskLayer(Option<Around>);

impl TaskLayer {
    /// A layer: what it returns takes the place of the work, which it may do before, after, twice or not at all.
    pub fn new(
        around: impl for<'a> Fn(Try, Work<'a>) -> BoxFuture<'a, Result<(), Fault>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(around)))
    }

    /// The try as the engine gets it; without a layer it is the work itself, and `describe` is not called.
    pub fn around<'a>(
        &self,
        describe: impl FnOnce() -> Try,
        work: impl Fn() -> BoxFuture<'a, Result<(), Fault>> + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        match &self.0 {
            Some(layer) => layer(describe(), Box::new(work)),
            None => work(),
        }
    }
}

impl fmt::Debug for TaskLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "one layer" } else { "none" })
    }
}
