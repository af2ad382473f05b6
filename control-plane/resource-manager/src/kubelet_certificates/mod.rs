//! Approves the certificates that kubelets of a shoot request for their own port (gardener/gardener v1.150
//! pkg/resourcemanager/controller/csrapprover): kube-controller-manager signs them and approves none. Without them
//! kube-apiserver reads no log and runs no command on a node.
//!
//! A request whose node or machine does not exist yet is pending here, where upstream denies it: the machine controller labels a
//! machine with its node after the node has joined, and the kubelet would have to request again. It is denied when the kubelet
//! has given it up.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use api_machine::Machine;
use api_meta::Fault;
use base_client::{Decision, fault_of, get, list, record_decision};
use base_clock::Clock;
use base_controller::{Cache, Controller, EventType, Next, Recorder};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use self::plan::{Checked, Verdict, Wanted};

/// Between two looks at a node and its machine, which no watch reports here: at first, then a quarter of the request's age.
const LOOK_AGAIN_MIN: Duration = Duration::from_secs(5);
/// How old a request may be that waits. A kubelet gives up as late, and requests with another key (client-go v0.35
/// util/certificate, `certificateWaitTimeout`).
const WAIT_MAX: Duration = Duration::from_secs(15 * 60);

struct Context {
    requests: Api<CertificateSigningRequest>,
    nodes: Api<Node>,
    machines: Api<Machine>,
    machine_namespace: String,
    events: Recorder,
    clock: Clock,
}

/// Runs until `stop`. `machine_namespace`: where the source has the machines of the target's nodes.
pub(crate) async fn run(
    source: Client,
    target: Client,
    machine_namespace: String,
    clock: Clock,
    stop: CancellationToken,
) {
    let requests: Api<CertificateSigningRequest> = Api::all(target.clone());
    let of_kubelets = watcher::Config::default().fields(&format!("spec.signerName={}", plan::SIGNER));
    let cache: Cache<CertificateSigningRequest> = Cache::start(requests.clone(), of_kubelets, stop.clone());
    let context = Arc::new(Context {
        requests,
        nodes: Api::all(target.clone()),
        machines: Api::namespaced(source, &machine_namespace),
        machine_namespace,
        events: Recorder::new(target, "csr-approver-controller", clock.clone()),
        clock,
    });
    Controller::new("csr-approver", cache)
        .when(|_, _| true)
        .run(stop, move |request| {
            let context = context.clone();
            async move { context.reconcile(&request).await }
        })
        .await;
}

impl Context {
    async fn reconcile(&self, request: &Arc<CertificateSigningRequest>) -> Result<Next, Fault> {
        let verdict = match plan::check(request) {
            Checked::NotOurs => return Ok(Next::Change),
            Checked::Deny(why) => Verdict::Deny(why),
            Checked::Of(wanted) => match self.compare(&wanted).await {
                Ok(verdict) => verdict,
                Err(fault) => {
                    self.explain(request, &fault.chain()).await;
                    return Err(fault);
                }
            },
        };
        let age = self.age(request);
        match verdict {
            Verdict::Approve => {
                let message = "all names and addresses are those of the node";
                self.decide(request, Decision::Approved, message).await
            }
            Verdict::Deny(why) => self.decide(request, Decision::Denied, &why).await,
            Verdict::Wait(why) if age > WAIT_MAX => {
                let message = format!("for {} minutes: {why}", WAIT_MAX.as_secs() / 60);
                self.decide(request, Decision::Denied, &message).await
            }
            Verdict::Wait(why) => {
                self.explain(request, &why).await;
                Ok(Next::After((age / 4).max(LOOK_AGAIN_MIN)))
            }
        }
    }

    /// Compares what is requested with the node, its machine and all other nodes.
    async fn compare(&self, wanted: &Wanted) -> Result<Verdict, Fault> {
        let node = get(&self.nodes, &wanted.node).await?;
        let machines = match node {
            Some(_) => self.machines_of(&wanted.node).await?,
            None => Vec::new(),
        };
        let verdict = wanted.verdict(node.as_ref(), &machines, &self.machine_namespace);
        if verdict != Verdict::Approve {
            return Ok(verdict);
        }
        let nodes = list(&self.nodes, "").await?;
        Ok(wanted.shared(&nodes).map_or(verdict, |(other, shared)| {
            Verdict::Wait(format!("node {other:?} has {shared:?} as well"))
        }))
    }

    async fn explain(&self, request: &CertificateSigningRequest, why: &str) {
        self.events
            .record(request, EventType::Warning, "NotApprovedYet", why)
            .await;
    }

    fn age(&self, request: &CertificateSigningRequest) -> Duration {
        let created = request.metadata.creation_timestamp.as_ref();
        let seconds = created.map_or(0, |created| self.clock.now().as_second() - created.0.as_second());
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }

    async fn machines_of(&self, node: &str) -> Result<Vec<String>, Fault> {
        let of_node = ListParams::default().labels(&format!("{}={node}", plan::NODE_LABEL));
        let found = self.machines.list_metadata(&of_node).await;
        let found = found.map_err(|error| fault_of(error, &format!("list the machines of node {node}")))?;
        Ok(found.items.iter().map(ResourceExt::name_any).collect())
    }

    async fn decide(
        &self,
        request: &CertificateSigningRequest,
        decision: Decision,
        message: &str,
    ) -> Result<Next, Fault> {
        tracing::info!(request = request.name_any(), "{decision:?}: {message}");
        let reason = match decision {
            Decision::Approved => "RequestApproved",
            Decision::Denied => "RequestDenied",
        };
        record_decision(&self.requests, request, decision, (reason, message), self.clock.now()).await?;
        Ok(Next::Change)
    }
}
