//! The pods' network inside the shoot (kind Network).

use api_extensions::{Network, NetworkSpec};
use api_meta::Fault;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::given::Requests;
use super::super::operation::Operation;
use super::single;

/// Requests it.
pub(crate) async fn deploy(op: &Operation) -> Result<Requests, Fault> {
    let networking = op.shoot.spec.networking.clone().unwrap_or_default();
    let desired = Network {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: NetworkSpec {
            type_: op.shoot.network.clone().unwrap_or_default(),
            provider_config: networking.provider_config,
            pod_cidr: op.shoot.pods.first().cloned().unwrap_or_default(),
            service_cidr: op.shoot.services.first().cloned().unwrap_or_default(),
            ip_families: networking.ip_families,
            ..NetworkSpec::default()
        },
        status: None,
    };
    single::request(op, desired).await
}
