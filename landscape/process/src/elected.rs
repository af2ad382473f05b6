//! From a configuration to what stands around a process's work.

use api_config::{LeaderElection, Process, Server};
use api_meta::Fault;
use base_client::in_cluster_namespace;
use base_clock::{Clock, Entropy};
use base_controller::Terms;
use base_process::{Elected, Election, Port, Settings};

/// The process of this name, around its work.
///
/// # Errors
/// There is no namespace for the Lease.
pub(crate) fn elected(name: &str, process: &Process) -> Result<Elected, Fault> {
    let port = |server: &Server, field: &str| Port {
        address: server.address,
        port: server.port,
        setting: format!("{field} of the configuration"),
    };
    let settings = Settings {
        election: election(&process.leader_election)?,
        health: Some(port(&process.health_probes, "server.healthProbes.port")),
        metrics: Some(port(&process.metrics, "server.metrics.port")),
    };
    Ok(Elected::new(name, settings, Clock::real(), Entropy::os()))
}

fn election(configured: &LeaderElection) -> Result<Option<Election>, Fault> {
    if !configured.leader_elect {
        return Ok(None);
    }
    let namespace = configured.resource_namespace.clone().or_else(in_cluster_namespace);
    let namespace = namespace.ok_or_else(|| {
        Fault::user("there is no namespace for the Lease: this process is not in a pod")
            .hint("name one in leaderElection.resourceNamespace of the configuration")
    })?;
    Ok(Some(Election {
        namespace,
        lease: configured.resource_name.clone(),
        terms: Terms {
            lease_duration: configured.lease_duration,
            renew_deadline: configured.renew_deadline,
            retry_pause: configured.retry_period,
        },
    }))
}

#[cfg(test)]
mod tests {
    use api_config::{SchedulerConfiguration, read};
    use serde_json::{Value, json};

    use super::*;

    fn process(election: Value) -> Process {
        let document = json!({
            "apiVersion": "scheduler.config.gardener.cloud/v1alpha1", "kind": "SchedulerConfiguration",
            "leaderElection": election,
        });
        read::<SchedulerConfiguration>(document).unwrap().configuration.process
    }

    #[test]
    fn the_lease_and_its_times_are_those_of_the_configuration() {
        let configured = json!({"resourceNamespace": "n", "leaseDuration": "3s", "renewDeadline": "2s",
            "retryPeriod": "500ms"});
        let election = election(&process(configured).leader_election).unwrap().unwrap();
        assert_eq!(
            (election.namespace.as_str(), election.terms.lease_duration.as_secs()),
            ("n", 3)
        );
        assert_eq!(election.lease, "gardener-scheduler-leader-election");
        assert_eq!(
            super::election(&process(json!({"leaderElect": false})).leader_election).unwrap(),
            None
        );
    }

    #[test]
    fn without_a_pod_a_lease_needs_a_namespace() {
        let configured = LeaderElection {
            resource_namespace: None,
            ..process(json!({})).leader_election
        };
        let fault = election(&configured).unwrap_err();
        assert!(
            fault.hint.contains("leaderElection.resourceNamespace"),
            "{}",
            fault.hint
        );
    }
}
