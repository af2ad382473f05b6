//! gardener-admission-controller: confines gardenlets and the extensions of seeds, and guards the namespaces of projects, where the
//! garden's API server is a real kube-apiserver. Every replica answers its webhooks; none writes.

use api_config::AdmissionControllerConfiguration;
use api_meta::Fault;
use base_client::review_server;
use base_process::Elected;
use control_plane_confinement::{Keeper, webhooks};
use control_plane_garden_api::guards;

use crate::access::{Kubeconfigs, Wanted, access};
use crate::webhooks::serve;

pub(crate) async fn run(
    elected: Elected,
    configuration: AdmissionControllerConfiguration,
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
    let keeper = Keeper::default();
    // Before the graph is complete, what hangs on it is refused.
    let mut reviewers = webhooks(keeper.clone());
    reviewers.extend(guards(&garden, &elected.clock));
    serve(&configuration.webhooks, review_server(reviewers)).await?;
    let watched = elected.watched(garden.clone());
    let work = |stop| {
        let (keeper, watched) = (keeper.clone(), watched.clone());
        async move {
            keeper.run(watched, stop).await;
            Ok(())
        }
    };
    elected.run(garden, stop, work).await
}
