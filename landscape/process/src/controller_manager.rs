//! gardener-controller-manager: the garden's controllers.

use api_config::ControllerManagerConfiguration;
use api_meta::Fault;
use base_process::Elected;
use control_plane_controller_manager::{Name, run as run_controllers};

use crate::access::{Kubeconfigs, Wanted, access};

pub(crate) async fn run(
    elected: Elected,
    configuration: ControllerManagerConfiguration,
    kubeconfigs: &Kubeconfigs,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let wanted = Wanted {
        of: "the garden",
        flag: "--kubeconfig",
        given: kubeconfigs.kubeconfig.as_deref(),
        field: "gardenClientConnection.kubeconfig",
        configured: configuration.kubeconfig.as_deref(),
    };
    let garden = access(elected.name(), &wanted).await?.client;
    let (client, clock) = (elected.watched(garden.clone()), elected.clock.clone());
    let work = |stop| {
        let (client, clock) = (client.clone(), clock.clone());
        async move {
            run_controllers(client, Name::ALL.into(), clock, stop).await;
            Ok(())
        }
    };
    elected.run(garden, stop, work).await
}
