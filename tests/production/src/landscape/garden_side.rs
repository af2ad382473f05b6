//! The garden of a landscape: Kubernetes, the garden's API server behind it, what confines gardenlets, controllers and
//! scheduler, each a process.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use ipnet::Ipv4Net;
use serde_json::Value;
use tests_conformance::real::{Place, authorization_flag};
use tests_parts::Outcome;

use super::configuration::{Election, process, write};
use super::part::{Health, Part};
use super::ports::Ports;
use super::serving::serving;
use super::{Settings, rights};
use crate::confinement::Webhooks;
use crate::garden::Garden;

/// Where Services of the garden get their addresses from; no seed's range overlaps it.
const SERVICES: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 24);
/// The garden's identity, which is part of that of every Shoot.
const IDENTITY: &str = "--cluster-identity=landscape";

/// The garden, until it is dropped; its parts end before what they work on.
pub struct OfGarden {
    /// `orangery garden-apiserver`.
    pub apiserver: Part,
    /// `orangery admission-controller`.
    pub admission_controller: Part,
    /// `orangery controller-manager`.
    pub controller_manager: Part,
    /// `orangery scheduler`.
    pub scheduler: Part,
    /// Kubernetes, the etcd of the garden's objects, the operator.
    pub garden: Garden,
}

impl OfGarden {
    /// Starts a garden without seeds in a folder, for a measurement, and waits until its parts are ready.
    ///
    /// # Errors
    /// As [`super::Landscape::start`].
    ///
    /// # Panics
    /// Kubernetes does not start.
    pub async fn alone(folder: PathBuf) -> Outcome<Self> {
        let settings = Settings::for_person(folder, 0);
        let owned = tests_parts::Folder::lasting(settings.folder.clone())?;
        let mut ports = Ports::of_folder(owned.path())?;
        Self::start(&settings, &mut ports).await
    }

    /// Starts it and waits until its parts are ready.
    pub(super) async fn start(settings: &Settings, ports: &mut Ports) -> Outcome<Self> {
        let folder = settings.folder.join("garden");
        let webhooks = serving(
            &folder.join("admission-controller"),
            "gardener-admission-controller",
            ports.of("garden/admission-controller")?,
        )?;
        let authorization = webhooks.authorization(&folder)?;
        let place = Place {
            folder: folder.join("kubernetes"),
            port: ports.of("garden/kube-apiserver")?,
            service_range: SERVICES,
            flags: vec![authorization_flag(&authorization)],
        };
        let garden = Garden::start_in(&folder, &place, settings.of_kubernetes(false)).await;
        apply(&garden.admin, rights::of_garden()?).await?;
        for seed in settings.seeds() {
            apply(&garden.admin, landscape_local::secrets_of_seed(&seed.name).into()).await?;
        }
        let port = ports.of("garden/garden-apiserver")?;
        let arguments = garden.arguments(port, &[IDENTITY]);
        let mut apiserver = Part::start("garden-apiserver", &folder, arguments, Health::Listens(port))?;
        apiserver.until_ready().await?;
        garden.publish(port).await;
        // Before a gardenlet registers its Seed: a Seed's own bucket and extensions wait for the provider that reconciles them.
        let backups = settings.folder.join(landscape_local::BACKUPS);
        let types: BTreeSet<String> = settings.seeds().map(|seed| seed.provider_type).collect();
        for type_ in types {
            let provider = landscape_local::provider_objects(&type_, &backups, None, 1);
            apply(&garden.admin, provider.map_err(|fault| fault.chain())?).await?;
        }
        let started = Started {
            folder: &folder,
            election: settings.election,
            garden: &garden,
        };
        // Gardenlets are refused until it is ready.
        let mut admission_controller = started.admission_controller(&webhooks, ports)?;
        admission_controller.until_ready().await?;
        apply(&garden.admin, vec![webhooks.admission()?]).await?;
        let controller_manager = started.controller_manager(ports)?;
        let scheduler = started.scheduler(ports)?;
        let mut all = Self {
            apiserver,
            admission_controller,
            controller_manager,
            scheduler,
            garden,
        };
        for part in all.parts() {
            part.until_ready().await?;
        }
        Ok(all)
    }

    /// The parts that can be killed and started again.
    pub fn parts(&mut self) -> [&mut Part; 4] {
        [
            &mut self.apiserver,
            &mut self.admission_controller,
            &mut self.controller_manager,
            &mut self.scheduler,
        ]
    }
}

/// What the parts are started in.
struct Started<'a> {
    folder: &'a Path,
    election: Election,
    garden: &'a Garden,
}

impl Started<'_> {
    fn admission_controller(&self, webhooks: &Webhooks, ports: &mut Ports) -> Outcome<Part> {
        let name = "admission-controller";
        let health = ports.of(&format!("{name}/health"))?;
        let configuration = webhooks.configuration(health, ports.of(&format!("{name}/metrics"))?);
        self.process(name, &configuration, rights::ADMISSION_CONTROLLER, health)
    }

    fn controller_manager(&self, ports: &mut Ports) -> Outcome<Part> {
        let api = "controllermanager.config.gardener.cloud/v1alpha1";
        let kind = "ControllerManagerConfiguration";
        self.elected("controller-manager", (api, kind), rights::CONTROLLER_MANAGER, ports)
    }

    fn scheduler(&self, ports: &mut Ports) -> Outcome<Part> {
        let api = "scheduler.config.gardener.cloud/v1alpha1";
        self.elected("scheduler", (api, "SchedulerConfiguration"), rights::SCHEDULER, ports)
    }

    fn elected(&self, name: &'static str, kind: (&str, &str), user: &str, ports: &mut Ports) -> Outcome<Part> {
        let health = [
            ports.of(&format!("{name}/health"))?,
            ports.of(&format!("{name}/metrics"))?,
        ];
        let configuration = process(kind.0, kind.1, health, self.election);
        self.process(name, &configuration, user, health[0])
    }

    fn process(&self, name: &'static str, configuration: &Value, user: &str, health: u16) -> Outcome<Part> {
        let configuration = write(self.folder, name, configuration)?;
        let kubeconfig = rights::kubeconfig(self.folder, name, &self.garden.real, user, &[])?;
        let arguments = vec![
            name.to_owned(),
            format!("--config={}", configuration.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
        ];
        Part::start(name, self.folder, arguments, Health::Ready(health))
    }
}

/// Applies manifests as the operator.
pub(super) async fn apply(client: &kube::Client, objects: Vec<serde_json::Value>) -> Outcome {
    let applied = landscape_local::apply_all(client, objects).await;
    applied.map_err(|fault| fault.chain())
}
