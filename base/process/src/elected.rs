//! A process around its work: health, metrics, leader election, and the end. A lost Lease ends the process at once: what the
//! work has started may still write, and another replica works by then.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_clock::{Clock, Entropy};
use base_controller::{Backoff, lead_by};
use base_serve::{Answer, Paths, open, serve};
use base_telemetry::Metrics;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api_requests::ApiRequests;
use crate::settings::{Election, Settings};

/// How long work may take to end: less than the 30 s that a pod is given, so that the Lease is released.
pub const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// The pause between starts of work that failed: between these bounds, whatever the class.
const RESTART_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Work that ran for so long has recovered from its failures before: as a kubelet counts restarts of containers.
const RECOVERED_AFTER: Duration = Duration::from_secs(10 * 60);

/// Why a process is not ready; nothing once it is.
type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A process that works while it is elected.
pub struct Elected {
    /// The clock of the process.
    pub clock: Clock,
    /// Its source of random numbers.
    pub entropy: Entropy,
    /// This process among all others: `HOSTNAME_UUID`, another one at every start.
    pub identity: String,
    name: String,
    settings: Settings,
    metrics: Metrics,
    requests: ApiRequests,
    state: Arc<State>,
}

impl fmt::Debug for Elected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elected")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// What must hold for a process to be ready beside what [`Elected`] sees itself. Clones are the same.
#[derive(Clone)]
pub struct Readiness(Arc<State>);

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Readiness")
    }
}

impl Readiness {
    /// Adds what must hold, whether the process leads or waits. It is called for each probe and must not block.
    pub fn when(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let mut checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.push(Box::new(check));
    }
}

/// What `/readyz` and `/metrics` report.
#[derive(Default)]
struct State {
    leads: AtomicBool,
    ready: AtomicBool,
    /// Why the work failed last, until it is started again.
    failed: Mutex<Option<String>>,
    /// What must hold in every replica.
    checks: Mutex<Vec<Check>>,
}

impl Elected {
    /// A process called `name` in errors and logs.
    #[must_use]
    pub fn new(name: impl Into<String>, settings: Settings, clock: Clock, entropy: Entropy) -> Self {
        let metrics = Metrics::new();
        Self {
            identity: format!("{}_{}", hostname(), entropy.uid()),
            requests: ApiRequests::new(&metrics),
            state: Arc::default(),
            name: name.into(),
            settings,
            metrics,
            clock,
            entropy,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// A client whose requests are counted, and whose lists make the process ready. Must be called within a tokio runtime.
    #[must_use]
    pub fn watched(&self, client: Client) -> Client {
        self.requests.around(client)
    }

    /// What counts requests, as [`Self::watched`] does, for clients that are made later.
    #[must_use]
    pub fn requests(&self) -> ApiRequests {
        self.requests.clone()
    }

    /// What more must hold for the process to be ready.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness(self.state.clone())
    }

    /// Runs `work` until `stop` is done, while this process holds its Lease, which `leases` writes. Work that fails is started
    /// again.
    ///
    /// # Errors
    /// A port that is taken; a lost Lease; work that ends by itself or by a bug.
    pub async fn run<W, F>(
        self,
        leases: Client,
        stop: impl Future<Output = ()> + Send + 'static,
        work: W,
    ) -> Result<(), Fault>
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = Result<(), Fault>>,
    {
        self.serve().await?;
        let stopping = CancellationToken::new();
        let stopped = stopping.clone();
        tokio::spawn(async move {
            stop.await;
            tracing::info!("stopping");
            stopped.cancel();
        });
        let Some(election) = &self.settings.election else {
            self.state.leads.store(true, Ordering::Relaxed);
            return self.keep_working(stopping, &work).await;
        };
        self.lead(election, leases, stopping, &work).await
    }

    /// Works while it holds the Lease.
    async fn lead<W, F>(
        &self,
        election: &Election,
        leases: Client,
        stopping: CancellationToken,
        work: &W,
    ) -> Result<(), Fault>
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = Result<(), Fault>>,
    {
        let Election {
            namespace,
            lease,
            terms,
        } = election;
        let identity = &self.identity;
        tracing::info!(identity, "waiting for the Lease {namespace}/{lease}");
        let leases: Api<Lease> = Api::namespaced(leases, namespace);
        let mut worked = Ok(());
        let (state, ended) = (&self.state, &mut worked);
        let led = lead_by(
            *terms,
            leases,
            lease,
            identity,
            self.clock.clone(),
            stopping,
            move |leading| async move {
                state.leads.store(true, Ordering::Relaxed);
                *ended = self.keep_working(leading, work).await;
            },
        );
        Box::pin(led).await.map_err(|lost| {
            Fault::dependency(lost.to_string())
                .hint("start the process again: as a pod, its kubelet does; another replica may work meanwhile")
        })?;
        worked
    }

    /// Opens both ports and serves them from tasks that end with the process.
    async fn serve(&self) -> Result<(), Fault> {
        let Settings { health, metrics, .. } = &self.settings;
        let paths = self.paths();
        for port in health.iter().chain(
            metrics
                .iter()
                .filter(|metrics| !health.as_ref().is_some_and(|health| health.is(metrics))),
        ) {
            let listener = open(port.address, port.port, &port.setting).await?;
            tokio::spawn(serve(listener, paths.clone()));
        }
        Ok(())
    }

    fn paths(&self) -> Paths {
        let leading: Gauge = self
            .metrics
            .register("leading", "Whether this process holds its Lease", Gauge::default);
        let memory: Gauge = self.metrics.register(
            "process_resident_memory_bytes",
            "Memory of this process",
            Gauge::default,
        );
        let (metrics, requests, state) = (self.metrics.clone(), self.requests.clone(), self.state.clone());
        Arc::new(move |path: &str| match path {
            "/healthz" => Some(Answer::check(Ok(()))),
            "/readyz" => Some(Answer::check(state.ready(&requests))),
            "/metrics" => {
                leading.set(i64::from(state.leads.load(Ordering::Relaxed)));
                memory.set(resident_bytes());
                Some(Answer::metrics(metrics.encode()))
            }
            _ => None,
        })
    }

    /// Runs `work` until `stop`, and again where it fails.
    async fn keep_working<W, F>(&self, stop: CancellationToken, work: &W) -> Result<(), Fault>
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = Result<(), Fault>>,
    {
        let mut failures = 0;
        loop {
            // What an ended run has left running ends with it.
            let until = stop.child_token().drop_guard();
            let begun = Instant::now();
            let running = work(until.token().clone());
            let patience = async {
                stop.cancelled().await;
                tokio::time::sleep(STOP_PATIENCE).await;
            };
            let ended = tokio::select! {
                ended = running => ended,
                () = patience => {
                    tracing::warn!("not everything ended within {STOP_PATIENCE:?}");
                    Ok(())
                }
            };
            if stop.is_cancelled() {
                return Ok(());
            }
            let fault = match ended {
                Ok(()) => return Err(Fault::bug(format!("{} ended by itself", self.name))),
                Err(fault) if fault.class == FaultClass::Bug => return Err(fault),
                Err(fault) => fault,
            };
            if begun.elapsed() >= RECOVERED_AFTER {
                failures = 0;
            }
            failures += 1;
            self.state.failed(Some(fault.chain()));
            let (least, most) = RESTART_AFTER;
            let pause = Backoff::default().delay(fault.class, failures).clamp(least, most);
            let (class, hint) = (fault.class, &fault.hint);
            tracing::error!(%class, %hint, "cannot work yet, tried again in {pause:?}: {}", fault.chain());
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Ok(());
            }
            self.state.failed(None);
        }
    }
}

impl State {
    fn failed(&self, why: Option<String>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// A replica that waits for the Lease is ready: its predecessor may hold it until then. One that leads is once it has listed
    /// what it works with; what is requested later does not count. What was added to [`Readiness`] counts always.
    fn ready(&self, requests: &ApiRequests) -> Result<(), String> {
        for check in &*self.checks.lock().unwrap_or_else(PoisonError::into_inner) {
            check()?;
        }
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(why) = &*self.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(format!("cannot work yet: {why}"));
        }
        if self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        match requests.missing() {
            Some(missing) => Err(missing),
            None => {
                self.ready.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

/// Size of a page of memory on the machines that this is built for; the kernel counts resident memory in pages.
const PAGE_BYTES: i64 = 4096;

fn resident_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<i64>().ok());
    pages.unwrap_or_default().saturating_mul(PAGE_BYTES)
}
