//! Addresses of machines: each machine has one of its own in its zone's part of the nodes' network, as its cloud's
//! would. Which ones are taken is read from the machines' pods; nothing else remembers it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api_machine::MachineClass;
use api_meta::{ErrorCode, Fault};
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Deserialize;
use tokio::sync::OwnedMutexGuard;

/// The environment variable with the machine's address in the network of its nodes.
pub const MACHINE_ADDRESS_ENV: &str = "MACHINE_ADDRESS";

/// The part of a class's `providerSpec` that places its machines.
#[derive(Deserialize)]
struct Place {
    subnet: Ipv4Net,
}

/// The zone's part of the nodes' network.
pub(crate) fn subnet_of(class: &MachineClass) -> Result<Ipv4Net, Fault> {
    let place: Place = class.provider_spec.decode().map_err(|error| {
        let name = class.name_any();
        Fault::dependency(format!(
            "MachineClass {name}: providerSpec.subnet must be an IPv4 network: {error}"
        ))
        .code(ErrorCode::RetryableConfigurationProblem)
        .hint("reconcile the Worker: it rewrites the class")
    })?;
    Ok(place.subnet)
}

/// The address that a machine's pod was made with.
pub(crate) fn address_of(pod: &Pod) -> Option<Ipv4Addr> {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variable = containers.find_map(|container| {
        let mut variables = container.env.iter().flatten();
        variables.find(|variable| variable.name == MACHINE_ADDRESS_ENV)
    });
    variable?.value.as_deref()?.parse().ok()
}

/// The first address that is not taken. The first one of a subnet is its gateway's.
pub(crate) fn free(subnet: Ipv4Net, taken: &BTreeSet<Ipv4Addr>) -> Result<Ipv4Addr, Fault> {
    let mut addresses = subnet.hosts().skip(1);
    addresses.find(|address| !taken.contains(address)).ok_or_else(|| {
        Fault::quota(format!("no address in the subnet {subnet} is left for a machine"))
            .code(ErrorCode::InfraResourcesDepleted)
            .hint("remove machines, or recreate the Shoot with a larger spec.networking.nodes")
    })
}

/// One turn at a time for each namespace: between looking for a free address and making the pod that takes it,
/// no other machine of the shoot is made.
#[derive(Default)]
pub(crate) struct Turns {
    by_namespace: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

impl Turns {
    /// Waits for the namespace's turn; it ends with the guard.
    pub(crate) async fn take(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(namespace).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use api_meta::RawJson;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_free_address_is_given_until_the_subnet_is_full() {
        let subnet = "10.3.16.0/29".parse().unwrap();
        let mut taken = BTreeSet::from(["10.3.16.3".parse().unwrap(), "10.9.0.1".parse().unwrap()]);
        let mut given = Vec::new();
        while let Ok(address) = free(subnet, &taken) {
            taken.insert(address);
            given.push(address.to_string());
        }
        assert_eq!(given, ["10.3.16.2", "10.3.16.4", "10.3.16.5", "10.3.16.6"]);
        assert!(free(subnet, &taken).unwrap_err().to_string().contains("10.3.16.0/29"));
    }

    #[test]
    fn a_class_without_a_subnet_is_named() {
        let class = |spec: serde_json::Value| {
            let mut class = MachineClass::default();
            class.metadata.name = Some("c".into());
            class.provider_spec = RawJson::from(spec);
            class
        };
        let subnet = subnet_of(&class(json!({"subnet": "10.3.0.0/20", "networkID": 1}))).unwrap();
        assert_eq!(subnet.to_string(), "10.3.0.0/20");
        for spec in [json!({}), json!({"subnet": "10.3.0.0"})] {
            let fault = subnet_of(&class(spec)).unwrap_err().to_string();
            assert!(fault.starts_with("MachineClass c: providerSpec.subnet"), "{fault}");
        }
    }
}
