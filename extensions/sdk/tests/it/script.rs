//! An actuator whose every call is written out in the test.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use api_extensions::Infrastructure;
use api_meta::{Fault, RawJson};
use async_trait::async_trait;
use extensions_sdk::{Actuator, Context, Extension, Outcome, Registration, Saved};
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::landscape::Seed;

/// The outcome of a reconcile of the test's kind.
pub(crate) type Result<T = Outcome<Infrastructure>> = std::result::Result<T, Fault>;

type Call<T> = Box<dyn FnOnce(Context, Infrastructure) -> BoxFuture<'static, Result<T>> + Send>;

/// Calls in their order; the last of them is repeated as a success that changes nothing.
#[derive(Clone, Default)]
pub(crate) struct Script {
    reconciles: Arc<Mutex<VecDeque<Call<Outcome<Infrastructure>>>>>,
    deletes: Arc<Mutex<VecDeque<Call<()>>>>,
    received: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// The next reconcile.
    pub(crate) fn reconcile<F>(self, call: impl FnOnce(Context, Infrastructure) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result> + Send + 'static,
    {
        let call: Call<_> = Box::new(move |context, object| Box::pin(call(context, object)));
        self.reconciles.lock().unwrap().push_back(call);
        self
    }

    /// The next deletion.
    pub(crate) fn delete<F>(self, call: impl FnOnce(Context, Infrastructure) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let call: Call<_> = Box::new(move |context, object| Box::pin(call(context, object)));
        self.deletes.lock().unwrap().push_back(call);
        self
    }

    /// Calls so far.
    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    /// Runs it in an extension with this registration.
    pub(crate) fn start(&self, extension: Extension, registration: Registration<Infrastructure>) -> JoinHandle<()> {
        tokio::spawn(extension.actuator(registration, Arc::new(self.clone())).run())
    }

    /// Runs it in an extension of `seed`, for its type.
    pub(crate) fn run(&self, seed: &Seed) -> JoinHandle<()> {
        self.start(seed.extension(), Registration::of_type("Example"))
    }

    fn note(&self, what: &str) {
        self.received.lock().unwrap().push(what.to_owned());
    }
}

#[async_trait]
impl Actuator<Infrastructure> for Script {
    async fn reconcile(&self, context: &Context, object: &Infrastructure) -> Result {
        self.note("reconcile");
        let call = self.reconciles.lock().unwrap().pop_front();
        match call {
            Some(call) => call(context.clone(), object.clone()).await,
            None => Ok(Outcome::default()),
        }
    }

    async fn delete(&self, context: &Context, object: &Infrastructure) -> Result<()> {
        self.note("delete");
        let call = self.deletes.lock().unwrap().pop_front();
        match call {
            Some(call) => call(context.clone(), object.clone()).await,
            None => Ok(()),
        }
    }

    async fn migrate(&self, _: &Context, _: &Infrastructure) -> Result<Saved> {
        self.note("migrate");
        Ok(Saved::default())
    }
}

/// A state.
pub(crate) fn raw(value: &Value) -> RawJson {
    RawJson::parse(&value.to_string()).unwrap()
}

/// `status.state` of an object; null where there is none.
pub(crate) fn state(object: &Infrastructure) -> Value {
    let state = object.status.as_ref().and_then(|status| status.state.as_ref());
    state.map_or(Value::Null, RawJson::value)
}
