//! A process of an extension whose only kind is Worker.

use std::sync::Arc;

use api_extensions::Worker;
use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use base_client::Connector;
use base_telemetry::Metrics;
use extensions_machines::{ClassPart, Driver, MachineClasses, Machines, Marks, Place, Surroundings, Workers};
use extensions_sdk::{CodeTable, Context, Extension};
use kube::Client;
use kube::config::Kubeconfig;
use serde_json::json;
use tests_kit::Embedded;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The type of the Workers.
pub(crate) const TYPE: &str = "Yard";
pub(crate) const MARKS: Marks = Marks {
    label: "yard.example.com/made-for",
    value: "worker",
    manager: "provider-yard",
};

/// Connects every kubeconfig to one cluster: the seed is its own shoot.
struct To(Client);

impl Connector for To {
    fn client(&self, _: &Kubeconfig) -> Result<Client, Fault> {
        Ok(self.0.clone())
    }
}

/// Zones have the numbers of their letters.
struct Classes;

#[async_trait]
impl MachineClasses for Classes {
    type Facts = ();

    fn marks(&self) -> Marks {
        MARKS
    }

    async fn facts(&self, _: &Context, _: &Worker) -> Result<(), Fault> {
        Ok(())
    }

    fn class(&self, (): &(), place: Place<'_>) -> Result<ClassPart, Fault> {
        let Place { worker, pool, zone } = place;
        let number = zone.bytes().next().map_or(1, |letter| u32::from(letter - b'a') + 1);
        let spec = json!({"machineType": pool.machine_type, "zone": zone});
        Ok(ClassPart {
            hash_data: pool.provider_config.iter().map(|raw| raw.get().to_owned()).collect(),
            credentials: Some(worker.spec.secret_ref.clone()),
            ..ClassPart::new(number, spec.into())
        })
    }
}

/// A running process.
pub(crate) struct Process {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Process {
    /// Starts one. Its calls go through `client`, and to machines through `driver`.
    pub(crate) fn start(embedded: &Embedded, client: Client, driver: Arc<dyn Driver>) -> Self {
        let stop = CancellationToken::new();
        let (clock, entropy) = (embedded.clock.clone(), embedded.entropy.clone());
        let surroundings = Surroundings {
            client: client.clone(),
            connector: Arc::new(To(client.clone())),
            clock: clock.clone(),
            entropy: entropy.clone(),
            metrics: Metrics::new(),
            stop: stop.clone(),
        };
        let machines = Machines::new(driver, surroundings);
        let workers = Workers::new(Classes, &machines);
        let registration = workers.registration(TYPE);
        let codes = [(r"\bQuotaExceeded: ", ErrorCode::InfraQuotaExceeded)];
        let extension = Extension::builder("provider-yard", client, clock, entropy, stop.clone())
            .codes(CodeTable::new(codes).unwrap())
            .actuator::<Worker>(registration, Arc::new(workers))
            .task(machines.run());
        Self {
            task: tokio::spawn(extension.run()),
            stop,
        }
    }

    /// Ends it wherever it is.
    pub(crate) fn kill(self) {
        self.task.abort();
        self.stop.cancel();
    }
}
