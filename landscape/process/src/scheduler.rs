//! gardener-scheduler: picks seeds.

use api_config::{SchedulerConfiguration, Strategy};
use api_meta::Fault;
use base_process::Elected;
use control_plane_scheduler::{Strategy as Compared, run_with};

use crate::access::{Kubeconfigs, Wanted, access};

pub(crate) async fn run(
    elected: Elected,
    configuration: SchedulerConfiguration,
    kubeconfigs: &Kubeconfigs,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let wanted = Wanted {
        of: "the garden",
        flag: "--kubeconfig",
        given: kubeconfigs.kubeconfig.as_deref(),
        field: "clientConnection.kubeconfig",
        configured: configuration.kubeconfig.as_deref(),
    };
    let strategy = match configuration.strategy {
        Strategy::SameRegion => Compared::SameRegion,
        Strategy::MinimalDistance => Compared::MinimalDistance,
    };
    let garden = access(elected.name(), &wanted).await?.client;
    let (client, clock) = (elected.watched(garden.clone()), elected.clock.clone());
    let work = |stop| {
        let (client, clock) = (client.clone(), clock.clone());
        async move {
            run_with(client, clock, strategy, stop).await;
            Ok(())
        }
    };
    elected.run(garden, stop, work).await
}
