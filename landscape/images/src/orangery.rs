//! The image with the product's own program: of its subcommands, pods run `resource-manager`. It reads the configuration file of
//! its pod as the program does; ports of health and metrics are not opened, as the node sees from the container itself whether
//! it is well, and webhooks are answered without TLS, as connections do not leave this process.

use api_config::{Read, ResourceManagerConfiguration};
use api_meta::Fault;
use cluster_node::{ContainerContext, Endpoint, Exit};
use control_plane_resource_manager::{Options, run, webhooks};
use kube::Api;

use super::controllers::run_as_leader;

/// The subcommand that pods run, and its flag.
const RESOURCE_MANAGER: &str = "resource-manager";
const CONFIG: &str = "--config=";

/// Runs until stopped.
pub async fn orangery(context: ContainerContext) -> Exit {
    match serve(&context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(context: &ContainerContext) -> Result<(), Exit> {
    let path = match context.args.as_slice() {
        [subcommand, flag] if subcommand == RESOURCE_MANAGER => flag.strip_prefix(CONFIG),
        _ => None,
    };
    let Some(path) = path else {
        return Err(Exit::failed(format!(
            "orangery: the arguments are {:?}; in a pod of this node they can only be {RESOURCE_MANAGER} {CONFIG}FILE",
            context.args
        )));
    };
    let configuration = read(context, path)?;
    let failed = |fault: Fault| Exit::failed(fault.chain());
    let source = match &configuration.source_kubeconfig {
        Some(path) => context.client_from(path),
        None => context.client(),
    };
    let source = source.map_err(failed)?;
    let target = match &configuration.target_kubeconfig {
        Some(path) => context.client_from(path).map_err(failed)?,
        None => source.clone(),
    };
    // Every pod answers, not the leader alone.
    let _serving = match &configuration.webhooks {
        Some(served) => {
            let endpoint = Endpoint::Http(webhooks(target.clone()));
            let bound = context.network.bind(served.server.port, endpoint);
            Some(bound.map_err(|error| Exit::failed_by(&error))?)
        }
        None => None,
    };
    let election = configuration.process.leader_election.clone();
    let own = context.pod.metadata.namespace.as_deref().unwrap_or_default();
    let leases = Api::namespaced(source.clone(), election.resource_namespace.as_deref().unwrap_or(own));
    let clock = context.clock.clone();
    let work = |stop| run(source, target, Options::from(configuration), clock, stop);
    run_as_leader(context, election.leader_elect, leases, &election.resource_name, work).await
}

/// Reads the file, and logs which of its fields have no effect.
fn read(context: &ContainerContext, path: &str) -> Result<ResourceManagerConfiguration, Exit> {
    let text = context.files.read_text(path).map_err(|error| Exit::failed_by(&error))?;
    let document = base_yaml::read_strict(&text)
        .map_err(|error| Exit::failed(format!("orangery: the configuration {path} is not YAML: {error}")))?;
    let Read {
        configuration,
        unknown,
        without_effect,
    } = api_config::read(document).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Exit::failed(format!(
            "orangery: the configuration {path} cannot be used: {}",
            all.join("; ")
        ))
    })?;
    for field in unknown.iter().chain(&without_effect) {
        context.log.line(format!("{path}: {field} has no effect here"));
    }
    Ok(configuration)
}
