//! Machines are pods of the seed, in the shoot's namespace. A pod that has gone, or has ended, is a machine that
//! does not exist. No controller writes Node objects for them: what runs in the pod joins the shoot by itself.

use std::net::Ipv4Addr;
use std::time::Duration;

use api_meta::Fault;
use api_meta::labels::network;
use async_trait::async_trait;
use base_client::{create_or_get, delete_and_wait, get};
use base_controller::{Cache, ObjectKey};
use extensions_machines::{Created, Driver, DriverState, MachineRequest, Standing, USER_DATA_KEY};
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{
    Container, ContainerStatus, EmptyDirVolumeSource, EnvVar, KeyToPath, Pod, PodSpec, SecretVolumeSource, Volume,
    VolumeMount,
};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::machine_address::{MACHINE_ADDRESS_ENV, Turns, address_of, free, subnet_of};
use crate::objects::{MADE_FOR_LABEL, meta};

/// Where a machine finds its user data, as in Gardener's provider-local.
pub const USER_DATA_PATH: &str = "/etc/machine/userdata";
/// Where a machine has its disk: what is there stays as long as the machine, however often it is started.
pub const DISK_PATH: &str = "/var/lib/machine";
/// Exit code of a machine's container whose cluster has refused the bootstrap token: a pod's status has no other field that a
/// program fills with anything but text. (77 is `EX_NOPERM` of BSD's sysexits.h.)
pub const EXIT_TOKEN_REFUSED: i32 = 77;
/// The environment variable with the machine's name, which is its node's.
pub const MACHINE_NAME_ENV: &str = "MACHINE_NAME";

const MADE_FOR: &str = "machine";
/// Before a machine's name, in its pod's.
const POD_PREFIX: &str = "machine-";
/// What machines connect to under the seed's network policies: name servers, everything outside, and the API server of
/// their shoot, which is beside them. (Gardener's provider-local writes policies of its own for its machines.)
const MAY_REACH: [&str; 4] = [
    network::TO_DNS,
    network::TO_PUBLIC_NETWORKS,
    network::TO_PRIVATE_NETWORKS,
    "networking.resources.gardener.cloud/to-kube-apiserver-tcp-443",
];
/// How long a pod may take to end: its grace period and some more.
const DELETE_TIMEOUT: Duration = Duration::from_secs(90);
/// How long a machine has to end in order.
const GRACE_SECONDS: i64 = 30;

/// The driver of machines that are pods.
pub(crate) struct PodDriver {
    client: Client,
    provider: String,
    image: String,
    pods: Cache<Pod>,
    turns: Turns,
}

impl PodDriver {
    pub(crate) fn new(client: Client, provider: &str, image: &str, stop: CancellationToken) -> Self {
        let config = watcher::Config::default().labels(&format!("{MADE_FOR_LABEL}={MADE_FOR}"));
        let pods = Cache::start(Api::all(client.clone()), config, stop);
        Self {
            client,
            provider: provider.to_owned(),
            image: image.to_owned(),
            pods,
            turns: Turns::default(),
        }
    }

    fn api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The pods of all machines of a namespace as the API has them now.
    async fn all(&self, namespace: &str) -> Result<Vec<Pod>, Fault> {
        base_client::list(&self.api(namespace), &format!("{MADE_FOR_LABEL}={MADE_FOR}")).await
    }
}

fn pod_name(machine: &str) -> String {
    format!("{POD_PREFIX}{machine}")
}

/// The pod that is the machine.
fn pod_of(request: MachineRequest<'_>, image: &str, address: Ipv4Addr) -> Pod {
    let secret = request
        .class
        .secret_ref
        .as_ref()
        .and_then(|reference| reference.name.clone());
    let mut metadata = meta(request.namespace(), &pod_name(request.name()), MADE_FOR);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("app".to_owned(), MADE_FOR.to_owned());
    labels.extend(MAY_REACH.map(|label| (label.to_owned(), network::ALLOWED.to_owned())));
    let user_data = SecretVolumeSource {
        secret_name: secret,
        items: Some(vec![KeyToPath {
            key: USER_DATA_KEY.to_owned(),
            path: "userdata".to_owned(),
            mode: None,
        }]),
        ..Default::default()
    };
    Pod {
        metadata,
        spec: Some(PodSpec {
            automount_service_account_token: Some(false),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            containers: vec![Container {
                name: "node".to_owned(),
                image: Some(image.to_owned()),
                env: Some(vec![
                    variable(MACHINE_NAME_ENV, request.name().to_owned()),
                    variable(MACHINE_ADDRESS_ENV, address.to_string()),
                ]),
                volume_mounts: Some(vec![
                    VolumeMount {
                        name: "userdata".to_owned(),
                        mount_path: "/etc/machine".to_owned(),
                        read_only: Some(true),
                        ..Default::default()
                    },
                    VolumeMount {
                        name: "disk".to_owned(),
                        mount_path: DISK_PATH.to_owned(),
                        ..Default::default()
                    },
                ]),
                ..Default::default()
            }],
            volumes: Some(vec![
                Volume {
                    name: "userdata".to_owned(),
                    secret: Some(user_data),
                    ..Default::default()
                },
                Volume {
                    name: "disk".to_owned(),
                    empty_dir: Some(EmptyDirVolumeSource::default()),
                    ..Default::default()
                },
            ]),
            ..Default::default()
        }),
        status: None,
    }
}

fn variable(name: &str, value: String) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value),
        value_from: None,
    }
}

/// What a pod reports about its machine.
fn state_of(pod: &Pod) -> DriverState {
    let status = pod.status.as_ref();
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded" | "Failed") => return DriverState::Gone,
        _ if pod.metadata.deletion_timestamp.is_some() => {
            return DriverState::Exists(Some(standing("its pod is being deleted".to_owned())));
        }
        _ => {}
    }
    let containers: &[ContainerStatus] = status
        .and_then(|status| status.container_statuses.as_deref())
        .unwrap_or_default();
    let scheduled = || {
        let conditions = status?.conditions.as_deref()?;
        let condition = conditions
            .iter()
            .find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
        Some(standing(format!(
            "its pod is not scheduled: {}",
            condition.message.as_deref().unwrap_or_default()
        )))
    };
    DriverState::Exists(containers.iter().find_map(trouble_of).or_else(scheduled))
}

fn standing(text: String) -> Standing {
    Standing {
        text,
        token_refused: false,
    }
}

/// Why a container does not run, or ended before.
fn trouble_of(container: &ContainerStatus) -> Option<Standing> {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let ended = [container.state.as_ref(), container.last_state.as_ref()];
    let ended = ended.into_iter().flatten().find_map(|state| state.terminated.as_ref());
    let text = |reason: Option<&str>, message: Option<&str>| match (reason, message) {
        (_, Some(message)) if !message.is_empty() => Some(message.to_owned()),
        (reason, _) => reason.map(str::to_owned),
    };
    let why = ended
        .and_then(|ended| text(ended.reason.as_deref(), ended.message.as_deref()))
        .or_else(|| waiting.and_then(|waiting| text(waiting.reason.as_deref(), waiting.message.as_deref())));
    why.map(|text| Standing {
        text,
        token_refused: ended.is_some_and(|ended| ended.exit_code == EXIT_TOKEN_REFUSED),
    })
}

#[async_trait]
impl Driver for PodDriver {
    fn provider(&self) -> &str {
        &self.provider
    }

    async fn create(&self, request: MachineRequest<'_>) -> Result<Created, Fault> {
        let subnet = subnet_of(request.class)?;
        let name = pod_name(request.name());
        {
            let _turn = self.turns.take(request.namespace()).await;
            let machines = self.all(request.namespace()).await?;
            if !machines.iter().any(|pod| pod.name_any() == name) {
                let taken = machines.iter().filter_map(address_of).collect();
                let pod = pod_of(request, &self.image, free(subnet, &taken)?);
                create_or_get(&self.api(request.namespace()), &pod).await?;
            }
        }
        Ok(Created {
            provider_id: format!("{}://{}/{}", self.provider, request.namespace(), name),
            node_name: request.name().to_owned(),
        })
    }

    async fn status(&self, request: MachineRequest<'_>) -> Result<DriverState, Fault> {
        let name = pod_name(request.name());
        if let Some(pod) = self.pods.get(&ObjectKey::namespaced(request.namespace(), &name)) {
            return Ok(state_of(&pod));
        }
        // The cache may not have seen a pod just made, and a machine believed gone is replaced.
        let pod = get(&self.api(request.namespace()), &name).await?;
        Ok(pod.as_ref().map_or(DriverState::Gone, state_of))
    }

    async fn delete(&self, request: MachineRequest<'_>) -> Result<(), Fault> {
        let name = pod_name(request.name());
        delete_and_wait(&self.api(request.namespace()), &name, DELETE_TIMEOUT)
            .await
            .map_err(Fault::from)
    }

    fn changes(&self) -> BoxStream<'static, ObjectKey> {
        let changes = self.pods.subscribe();
        Box::pin(futures::stream::unfold(changes, |mut changes| async move {
            loop {
                let change = changes.next().await;
                let before = change.old.as_deref().map(state_of);
                let now = change.new().map_or(DriverState::Gone, state_of);
                let key = ObjectKey::of(&*change.object);
                // Most changes of a pod are none of its machine.
                if before.as_ref() != Some(&now)
                    && let Some(machine) = key.name.strip_prefix(POD_PREFIX)
                {
                    return Some((
                        ObjectKey {
                            name: machine.to_owned(),
                            ..key
                        },
                        changes,
                    ));
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStateWaiting, PodStatus};

    use super::*;

    fn pod(phase: &str, state: ContainerState, last: Option<ContainerState>) -> Pod {
        let container = ContainerStatus {
            state: Some(state),
            last_state: last,
            ..Default::default()
        };
        let status = PodStatus {
            phase: Some(phase.into()),
            container_statuses: Some(vec![container]),
            ..Default::default()
        };
        Pod {
            status: Some(status),
            ..Default::default()
        }
    }

    #[test]
    fn an_ended_pod_is_no_machine_and_a_failing_one_reports_why() {
        let waiting = ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some("CrashLoopBackOff".into()),
                message: None,
            }),
            ..Default::default()
        };
        let ended = ContainerState {
            terminated: Some(ContainerStateTerminated {
                message: Some("401".into()),
                exit_code: EXIT_TOKEN_REFUSED,
                ..Default::default()
            }),
            ..Default::default()
        };
        let running = ContainerState::default;
        assert_eq!(state_of(&pod("Failed", running(), None)), DriverState::Gone);
        assert_eq!(state_of(&pod("Running", running(), None)), DriverState::Exists(None));
        assert_eq!(
            state_of(&pod("Pending", waiting.clone(), None)),
            DriverState::Exists(Some(standing("CrashLoopBackOff".into())))
        );
        assert_eq!(
            state_of(&pod("Running", waiting, Some(ended))),
            DriverState::Exists(Some(Standing {
                text: "401".into(),
                token_refused: true
            }))
        );
    }
}
