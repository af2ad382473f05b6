//! Ends a process at one of its calls of the API server or of the yard: before the call has its effect, or after it and before its
//! answer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api_meta::Fault;
use async_trait::async_trait;
use base_client::Call;
use extensions_machines::{Created, Driver, DriverState, MachineRequest};
use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::Notify;

use crate::yard::{PROVIDER, Yard};

/// Counts the calls of one process. Clones count together.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    /// The call that the process ends at, from 1; none if it does not end.
    end: Option<usize>,
    before: bool,
    count: AtomicUsize,
    ended: AtomicBool,
    ends: Notify,
    last: Mutex<String>,
}

impl Gate {
    /// For a process that ends at this call, before or after its effect.
    pub(crate) fn new(end: Option<usize>, before: bool) -> Self {
        Self(Arc::new(Inner {
            end,
            before,
            count: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            ends: Notify::new(),
            last: Mutex::default(),
        }))
    }

    /// How many calls were made.
    pub(crate) fn count(&self) -> usize {
        self.0.count.load(Ordering::SeqCst)
    }

    /// The call at which the process has ended.
    pub(crate) fn last(&self) -> String {
        self.0.last.lock().unwrap().clone()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::SeqCst)
    }

    /// Done once the process has ended.
    pub(crate) async fn ended(&self) {
        let ends = self.0.ends.notified();
        if !self.has_ended() {
            ends.await;
        }
    }

    async fn make<T>(&self, what: impl FnOnce() -> String, call: impl Future<Output = T>) -> T {
        self.only_before_the_end().await;
        let number = self.0.count.fetch_add(1, Ordering::SeqCst) + 1;
        let is_last = self.0.end == Some(number);
        if is_last {
            *self.0.last.lock().unwrap() = what();
        }
        if is_last && self.0.before {
            self.end();
        }
        self.only_before_the_end().await;
        let ends = is_last.then(|| Ends(self));
        let answer = call.await;
        drop(ends);
        self.only_before_the_end().await;
        answer
    }

    fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.ends.notify_one();
    }

    async fn only_before_the_end(&self) {
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }

    /// The client, whose calls are counted.
    pub(crate) fn client(&self, client: Client) -> Client {
        let (gate, namespace) = (self.clone(), client.default_namespace().to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, gate) = (client.clone(), gate.clone());
            let call = Call::of(&request);
            let what = move || format!("{} {} {:?}", call.verb, call.resource, call.subresource);
            async move { gate.make(what, client.send(request)).await }
        });
        Client::new(service, namespace)
    }
}

/// Ends the process when it is dropped: after the effect of a call, also of one that the process has given up itself.
struct Ends<'a>(&'a Gate);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A driver whose calls are counted.
pub(crate) struct Gated {
    pub(crate) gate: Gate,
    pub(crate) yard: Yard,
}

#[async_trait]
impl Driver for Gated {
    fn provider(&self) -> &str {
        PROVIDER
    }

    async fn create(&self, request: MachineRequest<'_>) -> Result<Created, Fault> {
        let what = || "create machine".to_owned();
        self.gate.make(what, self.yard.create(request)).await
    }

    async fn status(&self, request: MachineRequest<'_>) -> Result<DriverState, Fault> {
        let what = || "look at machine".to_owned();
        self.gate.make(what, self.yard.status(request)).await
    }

    async fn delete(&self, request: MachineRequest<'_>) -> Result<(), Fault> {
        let what = || "delete machine".to_owned();
        self.gate.make(what, self.yard.delete(request)).await
    }
}
