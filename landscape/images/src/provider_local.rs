//! The image `provider-local`: the local provider with its pod's service account, as an extension that an operator
//! installed in the seed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cluster_node::{ContainerContext, Exit};
use extensions_provider_local::{Options, run};

use super::Host;
use super::flags::Flags;

/// The flags it understands.
const FLAGS: [&str; 3] = ["data-dir", "dns-address", "provider-type"];
/// The variable in which its operator tells it its own namespace.
const NAMESPACE: &str = "NAMESPACE";

/// Runs until stopped.
pub async fn provider_local(host: Arc<Host>, context: ContainerContext) -> Exit {
    match serve(&host, &context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(host: &Host, context: &ContainerContext) -> Result<(), Exit> {
    let flags = Flags::parse("provider-local", &context.args, &FLAGS)?;
    let client = context.client().map_err(|fault| Exit::failed(fault.chain()))?;
    let data_dir = PathBuf::from(flags.required("data-dir")?);
    let dns_address: Option<SocketAddr> = flags.parsed("dns-address")?;
    let options = Options::new(data_dir);
    let options = match flags.get("provider-type") {
        Some(name) => options.named(name),
        None => options,
    };
    context.ready.set(true);
    run(
        client,
        Arc::clone(&host.connector),
        context.env.get(NAMESPACE).cloned(),
        Options { dns_address, ..options },
        (context.clock.clone(), context.entropy.clone()),
        context.stop.clone(),
    )
    .await
    .map_err(|fault| Exit::failed(fault.chain()))
}
