//! The provider's part of the control plane (kind ControlPlane).

use api_extensions::{ControlPlane, ControlPlaneSpec};
use api_meta::{Fault, RawJson};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::given::Requests;
use super::super::operation::Operation;
use super::infrastructure::cloud_credentials;
use super::single;

/// Requests the provider's part, with what the infrastructure's extension has reported byte for byte.
pub(crate) async fn deploy(op: &Operation, infrastructure: Option<RawJson>) -> Result<Requests, Fault> {
    let desired = ControlPlane {
        metadata: ObjectMeta {
            name: Some(op.shoot.name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: ControlPlaneSpec {
            type_: op.shoot.provider.clone(),
            provider_config: op.shoot.spec.provider.control_plane_config.clone(),
            infrastructure_provider_status: infrastructure,
            region: op.shoot.region.clone(),
            secret_ref: cloud_credentials(op),
            ..ControlPlaneSpec::default()
        },
        status: None,
    };
    single::request(op, desired).await
}
