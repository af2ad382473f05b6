//! gardener-resource-manager: applies ManagedResources; and its webhooks, which every replica answers.

use std::path::Path;

use api_config::{NetworkPolicy, ResourceManagerConfiguration, Webhooks};
use api_meta::Fault;
use base_clock::Clock;
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use control_plane_resource_manager::{IngressController, NetworkPolicies, Options, run as run_manager, webhooks};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::access::{Kubeconfigs, Wanted, access};
use crate::elected::Elected;
use crate::ports;

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
    let _serving = match &configuration.webhooks {
        Some(settings) => Some(serve_webhooks(settings, target.clone(), elected.clock.clone()).await?),
        None => None,
    };
    let options = options(configuration);
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

fn options(configuration: ResourceManagerConfiguration) -> Options {
    let policies = |settings: NetworkPolicy| NetworkPolicies {
        namespace_selectors: settings.namespace_selectors,
        ingress_controller: settings.ingress_controller.map(|ingress| IngressController {
            namespace: ingress.namespace,
            pod_labels: ingress.pod_labels,
        }),
    };
    Options {
        namespace: configuration.namespace,
        class: configuration.class,
        cluster_id: configuration.cluster_id,
        garbage_collection: configuration.garbage_collection,
        token_requestor: configuration.token_requestor,
        network_policies: configuration.network_policies.map(policies),
    }
}

/// Serves the webhooks until the answer is dropped.
async fn serve_webhooks(settings: &Webhooks, target: Client, clock: Clock) -> Result<Registration, Fault> {
    let folder = Path::new(&settings.certificate_folder);
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| {
            Fault::user(format!("cannot read {}: {error}", path.display()))
                .hint("name the folder of tls.crt and tls.key in server.webhooks.tls.serverCertDir")
        })
    };
    let server = RegisteredServer::new(webhooks(target), &read("tls.crt")?, &read("tls.key")?).map_err(|error| {
        Fault::user(format!(
            "the certificate in {} cannot be used: {error}",
            folder.display()
        ))
        .hint("put a certificate and its key, both PEM, into tls.crt and tls.key")
    })?;
    let listener = ports::open(&settings.server, "server.webhooks.port").await?;
    let front = Front::new(clock);
    let registration = front.register([ANY_NAME], server);
    let registration = registration.map_err(|error| Fault::bug(error.to_string()))?;
    // Until the process ends.
    tokio::spawn(async move { front.serve(listener, CancellationToken::new()).await });
    Ok(registration)
}
