//! Network: checks the shoot's networks and reports them to the shoot. Pods of local nodes reach each other
//! without a network plugin.

use std::collections::BTreeMap;

use api_core::v1beta1::IPFamily;
use api_extensions::Network;
use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use extensions_sdk::{Actuator, Context, Outcome, Saved};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::objects::{apply_in_shoot, leave_in_shoot, meta, remove_from_shoot};

const MADE_FOR: &str = "network";
/// The ManagedResource and the ConfigMap it puts into the shoot's kube-system.
const MANAGED: &str = "extension-network-config";

/// The actuator of Networks.
pub(crate) struct Networks;

/// The networks of pods and services, or what is wrong with them.
fn check(pods: &str, services: &str, families: &[IPFamily]) -> Result<(IpNet, IpNet), String> {
    let parse = |field: &str, cidr: &str| -> Result<IpNet, String> {
        let network: IpNet = cidr.parse().map_err(|_| format!("{field} {cidr:?} is not a network"))?;
        if network != network.trunc() {
            return Err(format!(
                "{field} {cidr} has bits beyond its prefix; {} is meant",
                network.trunc()
            ));
        }
        Ok(network)
    };
    let (pods, services) = (parse("spec.podCIDR", pods)?, parse("spec.serviceCIDR", services)?);
    if pods.contains(&services) || services.contains(&pods) {
        return Err(format!("spec.podCIDR {pods} and spec.serviceCIDR {services} overlap"));
    }
    let first = if pods.addr().is_ipv4() {
        IPFamily::IPv4
    } else {
        IPFamily::IPv6
    };
    if pods.addr().is_ipv4() != services.addr().is_ipv4() {
        return Err(format!(
            "spec.podCIDR {pods} and spec.serviceCIDR {services} are of different IP families"
        ));
    }
    match families.first() {
        Some(family) if *family != first => Err(format!("spec.podCIDR {pods} is not of the first IP family, {family}")),
        _ => Ok((pods, services)),
    }
}

#[async_trait]
impl Actuator<Network> for Networks {
    async fn reconcile(&self, context: &Context, object: &Network) -> Result<Outcome<Network>, Fault> {
        let spec = &object.spec;
        let (pods, services) = check(&spec.pod_cidr, &spec.service_cidr, &spec.ip_families).map_err(|text| {
            Fault::user(text)
                .code(ErrorCode::ConfigurationProblem)
                .hint("correct spec.networking of the Shoot")
        })?;
        let config = ConfigMap {
            metadata: ObjectMeta {
                name: Some(MANAGED.to_owned()),
                namespace: Some("kube-system".to_owned()),
                ..Default::default()
            },
            data: Some(BTreeMap::from([
                ("podCIDR".to_owned(), pods.to_string()),
                ("serviceCIDR".to_owned(), services.to_string()),
            ])),
            ..Default::default()
        };
        let namespace = object.namespace().unwrap_or_default();
        apply_in_shoot(&context.client, meta(&namespace, MANAGED, MADE_FOR), &config).await?;
        let families = if spec.ip_families.is_empty() {
            vec![IPFamily::IPv4]
        } else {
            spec.ip_families.clone()
        };
        Ok(Outcome::own(families))
    }

    async fn delete(&self, context: &Context, object: &Network) -> Result<(), Fault> {
        let namespace = object.namespace().unwrap_or_default();
        context
            .unless_obsolete(remove_from_shoot(&context.client, &namespace, MANAGED))
            .await
    }

    async fn force_delete(&self, context: &Context, object: &Network) -> Result<(), Fault> {
        leave_in_shoot(context, object, MANAGED).await
    }

    async fn migrate(&self, context: &Context, object: &Network) -> Result<Saved, Fault> {
        leave_in_shoot(context, object, MANAGED)
            .await
            .map(|()| Saved::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(pods: &str, services: &str, families: &[IPFamily], expected: &str) {
        let text = check(pods, services, families).unwrap_err();
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn networks_that_cannot_work_are_refused_with_the_field_named() {
        assert!(check("100.96.0.0/11", "100.64.0.0/13", &[IPFamily::IPv4]).is_ok());
        assert!(check("fd00:1::/64", "fd00:2::/108", &[]).is_ok());
        refused(
            "100.96.0.0/33",
            "100.64.0.0/13",
            &[],
            "spec.podCIDR \"100.96.0.0/33\" is not a network",
        );
        refused("100.96.0.0/11", "pod", &[], "spec.serviceCIDR");
        refused("100.96.0.1/11", "100.64.0.0/13", &[], "100.96.0.0/11 is meant");
        refused("100.64.0.0/10", "100.64.0.0/13", &[], "overlap");
        refused("100.96.0.0/11", "fd00::/64", &[], "different IP families");
        refused("100.96.0.0/11", "100.64.0.0/13", &[IPFamily::IPv6], "first IP family");
    }
}
