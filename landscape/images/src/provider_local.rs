//! The image `provider-local`: the local provider with its pod's service account, as an extension that an operator
//! installed in the seed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use api_extensions::ExtensionKind;
use cluster_node::{ContainerContext, Exit};
use extensions_provider_local::{KINDS, Options, run};

use super::Host;
use super::flags::Flags;

/// The flags it understands.
const FLAGS: [&str; 4] = ["data-dir", "dns-address", "kinds", "provider-type"];
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
    let mut options = match flags.get("provider-type") {
        Some(name) => options.named(name),
        None => options,
    };
    if let Some(names) = flags.get("kinds") {
        options.kinds = kinds(names)?;
    }
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

/// Kinds that the provider acts on, separated by commas.
fn kinds(names: &str) -> Result<Vec<ExtensionKind>, Exit> {
    let kind = |name: &str| KINDS.into_iter().find(|kind| kind.kind() == name);
    names
        .split(',')
        .map(|name| {
            kind(name).ok_or_else(|| {
                let allowed: Vec<&str> = KINDS.iter().map(|kind| kind.kind()).collect();
                let allowed = allowed.join(", ");
                Exit::failed(format!(
                    "provider-local: --kinds has {name:?}; allowed are {allowed}, separated by commas"
                ))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_that_the_provider_acts_on() {
        let read = kinds("ControlPlane,Worker").unwrap();
        assert_eq!(read, [ExtensionKind::ControlPlane, ExtensionKind::Worker]);
        for wrong in ["", "Worker,", "worker", "Bastion"] {
            assert!(
                kinds(wrong).unwrap_err().message.contains("allowed are BackupBucket"),
                "{wrong}"
            );
        }
    }
}
