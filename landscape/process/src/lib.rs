//! The processes of the production form: each takes its configuration file, makes its clients, and runs the crate whose
//! work it is while it holds its Lease (`base/process`). What they share stands here too: which kubeconfig counts, and how a
//! configuration is read. Beside them the node that joins a cluster elsewhere. It decides nothing about objects.

mod access;
mod admission_controller;
mod configuration;
mod controller_manager;
mod credential;
mod elected;
mod gardenlet;
mod logs;
mod node;
mod ports;
mod resource_manager;
mod scheduler;
mod signing;
mod webhooks;

pub use access::Kubeconfigs;
pub use configuration::reference;
pub use node::{NodeSettings, run_node};

use std::path::Path;
use std::process::ExitCode;

use api_config::Configuration;
use api_meta::Fault;
use base_process::Elected;

/// A process of the production form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// gardener-admission-controller.
    AdmissionController,
    /// The garden's controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// A gardenlet.
    Gardenlet,
    /// gardener-resource-manager.
    ResourceManager,
}

impl Program {
    /// Its name, as Gardener calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AdmissionController => "gardener-admission-controller",
            Self::ControllerManager => "gardener-controller-manager",
            Self::Scheduler => "gardener-scheduler",
            Self::Gardenlet => "gardenlet",
            Self::ResourceManager => "gardener-resource-manager",
        }
    }
}

/// Runs a process until `stop` is done, with the configuration file at `path`. From the moment its configuration is read, what ends it is logged and not returned.
///
/// # Errors
/// A configuration that cannot be read or used; every wrong value is named.
pub async fn run(
    program: Program,
    path: &Path,
    kubeconfigs: &Kubeconfigs,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<ExitCode, Fault> {
    let ended = match program {
        Program::AdmissionController => {
            let (elected, configuration) = begin(program, path)?;
            Box::pin(admission_controller::run(elected, configuration, kubeconfigs, stop)).await
        }
        Program::ControllerManager => {
            let (elected, configuration) = begin(program, path)?;
            Box::pin(controller_manager::run(elected, configuration, kubeconfigs, stop)).await
        }
        Program::Scheduler => {
            let (elected, configuration) = begin(program, path)?;
            Box::pin(scheduler::run(elected, configuration, kubeconfigs, stop)).await
        }
        Program::Gardenlet => {
            let (elected, configuration) = begin(program, path)?;
            gardenlet::warn(&configuration, path);
            Box::pin(gardenlet::run(elected, configuration, kubeconfigs, stop)).await
        }
        Program::ResourceManager => {
            let (elected, configuration) = begin(program, path)?;
            Box::pin(resource_manager::run(elected, configuration, kubeconfigs, stop)).await
        }
    };
    Ok(match ended {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            tracing::error!(class = %fault.class, hint = %fault.hint, "{} ends: {}", program.name(), fault.chain());
            ExitCode::FAILURE
        }
    })
}

/// Reads the configuration, sets up logs and warns of fields without effect.
fn begin<T: Configuration>(program: Program, path: &Path) -> Result<(Elected, T), Fault> {
    let read = configuration::read::<T>(path)?;
    let process = read.configuration.process().clone();
    logs::init(&process)?;
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, configuration = %path.display(), "{} begins", program.name());
    configuration::warn(&read, path);
    Ok((elected::elected(program.name(), &process)?, read.configuration))
}
