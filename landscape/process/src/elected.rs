//! A process around its work: health, metrics, leader election, and the end. A lost Lease ends the process at once: what the
//! work has started may still write, and another replica works by then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_config::Process;
use api_meta::{Fault, FaultClass};
use base_client::in_cluster_namespace;
use base_clock::{Clock, Entropy};
use base_controller::{Backoff, Terms, lead_by};
use base_telemetry::Metrics;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;

use crate::calls::Calls;
use crate::ports::{self, Answer, Paths};

/// How long work may take to end: less than the 30 s that a pod is given, so that the Lease is released.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// The pause between starts of work that failed: between these bounds, whatever the class.
const RESTART_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A process that works while it is elected.
pub(crate) struct Elected {
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    /// This process among all others: `HOSTNAME_UUID`, another one at every start.
    pub(crate) identity: String,
    name: &'static str,
    settings: Process,
    metrics: Metrics,
    calls: Calls,
    state: Arc<State>,
}

/// What `/readyz` and `/metrics` tell.
#[derive(Default)]
struct State {
    leads: AtomicBool,
    ready: AtomicBool,
    /// Why the work failed last, until it is started again.
    failed: Mutex<Option<String>>,
}

impl Elected {
    pub(crate) fn new(name: &'static str, settings: Process, clock: Clock, entropy: Entropy) -> Self {
        let metrics = Metrics::new();
        Self {
            identity: format!("{}_{}", hostname(), entropy.uid()),
            calls: Calls::new(&metrics),
            state: Arc::default(),
            name,
            settings,
            metrics,
            clock,
            entropy,
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// A client whose calls are counted, and whose lists make the process ready.
    pub(crate) fn watched(&self, client: Client) -> Client {
        self.calls.around(client)
    }

    /// What counts calls, as [`Self::watched`] does, for clients that are made later.
    pub(crate) fn calls(&self) -> Calls {
        self.calls.clone()
    }

    /// Runs `work` until `stop` is done, while this process holds its Lease, which `leases` writes. Work that fails is started
    /// again.
    ///
    /// # Errors
    /// A port that is taken; a lost Lease; work that ends by itself or by a bug.
    pub(crate) async fn run<W, F>(
        self,
        leases: Client,
        stop: impl Future<Output = ()> + Send + 'static,
        work: W,
    ) -> Result<(), Fault>
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = Result<(), Fault>>,
    {
        let namespace = self.lease_namespace()?;
        self.serve().await?;
        let stopping = CancellationToken::new();
        let stopped = stopping.clone();
        tokio::spawn(async move {
            stop.await;
            tracing::info!("stopping");
            stopped.cancel();
        });
        let Some(namespace) = namespace else {
            self.state.leads.store(true, Ordering::Relaxed);
            return self.keep_working(stopping, &work).await;
        };
        let election = &self.settings.leader_election;
        let terms = Terms {
            lease_duration: election.lease_duration,
            renew_deadline: election.renew_deadline,
            retry_pause: election.retry_period,
        };
        let (lease, identity) = (&election.resource_name, &self.identity);
        tracing::info!(identity, "waiting for the Lease {namespace}/{lease}");
        let leases: Api<Lease> = Api::namespaced(leases, &namespace);
        let mut worked = Ok(());
        let (state, ended) = (&self.state, &mut worked);
        let this = &self;
        let led = lead_by(
            terms,
            leases,
            lease,
            identity,
            self.clock.clone(),
            stopping,
            move |leading| async move {
                state.leads.store(true, Ordering::Relaxed);
                *ended = this.keep_working(leading, &work).await;
            },
        );
        Box::pin(led).await.map_err(|lost| {
            Fault::dependency(lost.to_string())
                .hint("start the process again: as a pod, its kubelet does; another replica may work meanwhile")
        })?;
        worked
    }

    /// Namespace of the Lease; none where there is no election.
    fn lease_namespace(&self) -> Result<Option<String>, Fault> {
        let election = &self.settings.leader_election;
        if !election.leader_elect {
            return Ok(None);
        }
        let namespace = election.resource_namespace.clone().or_else(in_cluster_namespace);
        namespace.map(Some).ok_or_else(|| {
            Fault::user("there is no namespace for the Lease: this process is not in a pod")
                .hint("name one in leaderElection.resourceNamespace of the configuration")
        })
    }

    /// Opens both ports and serves them from tasks that end with the process.
    async fn serve(&self) -> Result<(), Fault> {
        let Process {
            health_probes, metrics, ..
        } = &self.settings;
        let health = ports::open(health_probes, "server.healthProbes.port").await?;
        let paths = self.paths();
        if metrics != health_probes {
            let listener = ports::open(metrics, "server.metrics.port").await?;
            tokio::spawn(ports::serve(listener, paths.clone()));
        }
        tokio::spawn(ports::serve(health, paths));
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
        let (metrics, calls, state) = (self.metrics.clone(), self.calls.clone(), self.state.clone());
        Arc::new(move |path: &str| match path {
            "/healthz" => Some(Answer::check(Ok(()))),
            "/readyz" => Some(Answer::check(state.ready(&calls))),
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

    /// A replica that waits for the Lease is ready: its forerunner may hold it until then. One that leads is once it has listed
    /// what it works with; what is asked for later does not count.
    fn ready(&self, calls: &Calls) -> Result<(), String> {
        if !self.leads.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(why) = &*self.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(format!("cannot work yet: {why}"));
        }
        if self.ready.load(Ordering::Relaxed) {
            return Ok(());
        }
        match calls.missing() {
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

#[cfg(test)]
mod tests {
    use api_config::{SchedulerConfiguration, read};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{DeleteParams, ListParams};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    fn free_port() -> std::io::Result<u16> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.local_addr().map(|address| address.port())
    }

    fn settings(ports: [u16; 2]) -> Process {
        let server = |port: u16| json!({"bindAddress": "127.0.0.1", "port": port});
        let document = json!({
            "apiVersion": "scheduler.config.gardener.cloud/v1alpha1", "kind": "SchedulerConfiguration",
            "leaderElection": {"resourceNamespace": "default", "leaseDuration": "3s", "renewDeadline": "2s",
                "retryPeriod": "500ms"},
            "server": {"healthProbes": server(ports[0]), "metrics": server(ports[1])},
        });
        read::<SchedulerConfiguration>(document).unwrap().configuration.process
    }

    fn elected(ports: [u16; 2]) -> Elected {
        Elected::new("test", settings(ports), Clock::real(), Entropy::os())
    }

    async fn ask(port: u16, path: &str) -> String {
        loop {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            return answer;
        }
    }

    /// Asks until the answer begins so.
    async fn until(port: u16, path: &str, beginning: &str) -> String {
        loop {
            let answer = ask(port, path).await;
            if answer.starts_with(beginning) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test]
    async fn a_stop_ends_the_work_and_hands_the_lease_over() {
        let server = tests_kit::embedded().await;
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let first = elected(ports);
        let client = first.watched(server.admin());
        let stop = CancellationToken::new();
        let work = move |until: CancellationToken| {
            let client = client.clone();
            async move {
                let maps: Api<ConfigMap> = Api::all(client);
                maps.list(&ListParams::default()).await.unwrap();
                until.cancelled().await;
                Ok(())
            }
        };
        let running = tokio::spawn(first.run(server.admin(), stop.clone().cancelled_owned(), work));
        let metrics = async {
            loop {
                let text = ask(ports[1], "/metrics").await;
                if text.contains("orangery_leading 1") {
                    return text;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(metrics.await.contains("orangery_api_requests_total"));
        until(ports[0], "/readyz", "HTTP/1.1 200").await;
        assert!(ask(ports[0], "/healthz").await.ends_with("ok"));
        assert!(ask(ports[0], "/other").await.starts_with("HTTP/1.1 404"));

        let others = [free_port().unwrap(), free_port().unwrap()];
        let second = elected(others);
        let idle = |until: CancellationToken| async move {
            until.cancelled().await;
            Ok(())
        };
        let waiting = tokio::spawn(second.run(server.admin(), std::future::pending(), idle));
        until(others[0], "/readyz", "HTTP/1.1 200").await;
        assert!(ask(others[1], "/metrics").await.contains("orangery_leading 0"));
        stop.cancel();
        running.await.unwrap().unwrap();
        // It is not ready before it has listed something, and so it leads now.
        until(others[0], "/readyz", "HTTP/1.1 500").await;
        waiting.abort();
    }

    #[tokio::test]
    async fn a_lease_that_another_takes_ends_the_process_with_a_sentence() {
        let server = tests_kit::embedded().await;
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let idle = |until: CancellationToken| async move {
            until.cancelled().await;
            Ok(())
        };
        let running = tokio::spawn(elected(ports).run(server.admin(), std::future::pending(), idle));
        let leases: Api<Lease> = Api::namespaced(server.admin(), "default");
        let name = "gardener-scheduler-leader-election";
        tests_kit::until(&leases, name, "held", |lease| lease.spec.is_some()).await;
        let theft = json!({"spec": {"holderIdentity": "thief"}});
        let patch = kube::api::Patch::Merge(theft);
        leases.patch(name, &Default::default(), &patch).await.unwrap();
        let fault = running.await.unwrap().unwrap_err();
        let expected = "leadership lost: the lease gardener-scheduler-leader-election is held by thief";
        assert_eq!(fault.to_string(), expected);
        leases.delete(name, &DeleteParams::default()).await.unwrap();
    }

    #[tokio::test]
    async fn work_that_fails_is_tried_again_and_a_taken_port_is_named() {
        let server = tests_kit::embedded().await;
        let ports = [free_port().unwrap(), free_port().unwrap()];
        let stop = CancellationToken::new();
        let tries = Arc::new(Mutex::new(0));
        let (of_work, enough) = (tries.clone(), stop.clone());
        let work = move |_| {
            let (tries, enough) = (of_work.clone(), enough.clone());
            async move {
                *tries.lock().unwrap() += 1;
                if *tries.lock().unwrap() == 2 {
                    enough.cancel();
                }
                Err(Fault::dependency("not yet"))
            }
        };
        let running = tokio::spawn(elected(ports).run(server.admin(), stop.cancelled_owned(), work));
        until(ports[0], "/healthz", "HTTP/1.1 200").await;
        assert!(
            until(ports[0], "/readyz", "HTTP/1.1 500")
                .await
                .contains("cannot work yet: not yet")
        );
        let idle = |_| async { Ok(()) };
        let fault = elected(ports)
            .run(server.admin(), std::future::pending(), idle)
            .await
            .unwrap_err();
        assert!(fault.to_string().starts_with("cannot listen at 127.0.0.1:"), "{fault}");
        assert!(fault.hint.contains("server.healthProbes.port"), "{}", fault.hint);
        running.await.unwrap().unwrap();
        assert_eq!(*tries.lock().unwrap(), 2);
    }
}
