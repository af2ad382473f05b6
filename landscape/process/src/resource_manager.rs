//! gardener-resource-manager: applies ManagedResources; and its webhooks, which every replica answers.

use api_config::ResourceManagerConfiguration;
use api_meta::Fault;
use base_process::Elected;
use control_plane_resource_manager::{Options, run as run_manager, webhooks};

use crate::access::{Kubeconfigs, Wanted, access};
use crate::webhooks::serve;

pub(crate) async fn run(
    elected: Elected,
    configuration: ResourceManagerConfiguration,
    kubeconfigs: &Kubeconfigs,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Fault> {
    let wanted = Wanted {
        of: "the source",
        flag: "--kubeconfig",
        given: kubeconfigs.kubeconfig.as_deref(),
        field: "sourceClientConnection.kubeconfig",
        configured: configuration.source_kubeconfig.as_deref(),
    };
    let source = access(elected.name(), &wanted).await?.client;
    let wanted = Wanted {
        of: "the target",
        flag: "--target-kubeconfig",
        given: kubeconfigs.target.as_deref(),
        field: "targetClientConnection.kubeconfig",
        configured: configuration.target_kubeconfig.as_deref(),
    };
    let target = match wanted.given.is_some() || wanted.configured.is_some() {
        true => access(elected.name(), &wanted).await?.client,
        false => source.clone(),
    };
    if let Some(settings) = &configuration.webhooks {
        serve(settings, webhooks(target.clone())).await?;
    }
    let options = Options::from(configuration);
    let (of_source, of_target) = (elected.watched(source.clone()), elected.watched(target));
    let clock = elected.clock.clone();
    let work = |stop| {
        let (source, target) = (of_source.clone(), of_target.clone());
        let (options, clock) = (options.clone(), clock.clone());
        async move {
            run_manager(source, target, options, clock, stop).await;
            Ok(())
        }
    };
    elected.run(source, stop, work).await
}
