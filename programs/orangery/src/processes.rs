//! `orangery admission-controller`, `controller-manager`, `scheduler`, `gardenlet`, `resource-manager`: the processes of the
//! production form, whose work and configuration stand in `landscape-process`.

use std::path::PathBuf;
use std::process::ExitCode;

use api_meta::Fault;
use landscape_process::{Kubeconfigs, Program};

use crate::cli::Command;

/// A process and what it is started with.
pub(crate) struct Process {
    program: Program,
    configuration: PathBuf,
    kubeconfigs: Kubeconfigs,
}

/// The process that a command asks for.
pub(crate) fn of(command: &Command) -> Option<Process> {
    let (program, configuration, kubeconfigs) = match command {
        Command::AdmissionController(of) => (Program::AdmissionController, &of.config, of.into()),
        Command::ControllerManager(of) => (Program::ControllerManager, &of.config, of.into()),
        Command::Scheduler(of) => (Program::Scheduler, &of.config, of.into()),
        Command::Gardenlet(of) => (Program::Gardenlet, &of.config, of.into()),
        Command::ResourceManager(of) => (Program::ResourceManager, &of.config, of.into()),
        _ => return None,
    };
    Some(Process {
        program,
        configuration: configuration.clone(),
        kubeconfigs,
    })
}

impl Process {
    /// Runs until `stop` is done.
    ///
    /// # Errors
    /// A configuration that cannot be used.
    pub(crate) async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<ExitCode, Fault> {
        landscape_process::run(self.program, &self.configuration, &self.kubeconfigs, stop).await
    }
}
