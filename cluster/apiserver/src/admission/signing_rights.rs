//! Who may approve and who may sign CertificateSigningRequests, which is checked for each signer. Approving and signing themselves
//! are work of controllers.

use base_secrets::SigningRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_access::{Attributes, ResourceTarget, group};
use serde_json::Value;

use crate::kinds::registry::Role;
use crate::kinds::signing_requests::{GROUP, signer};
use crate::state::context::Context;
use crate::wire::status::Status;

/// The signer of client certificates whose subject the requester chooses freely.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Refuses approval and signature by users without that right for the signer, and requests for certificates of the group
/// whom no rule binds (kubernetes/kubernetes v1.35 plugin/pkg/admission/certificates: approval, signing, subjectrestriction).
pub(crate) fn check(context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
    if context.served.role != Role::CertificateSigningRequest {
        return Ok(());
    }
    let refuse = |why: &str| {
        let name = crate::kinds::metadata::text(object, "name");
        Err(Status::forbidden(GROUP, context.served.plural(), name, why))
    };
    let Some(old) = old else {
        return match restricted(object) {
            Some(why) => refuse(&why),
            None => Ok(()),
        };
    };
    let signer = signer(old);
    let changed = |field: &str| object.pointer(field) != old.pointer(field);
    match context.subresource() {
        Some("approval") if !may(context, "approve", signer) => refuse(&format!(
            "user not permitted to approve requests with signerName {signer:?}"
        )),
        Some("status") if changed("/status/certificate") || changed("/status/conditions") => {
            if may(context, "sign", signer) {
                return Ok(());
            }
            refuse(&format!(
                "user not permitted to sign requests with signerName {signer:?}"
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the user may do so for the signer, or for all of its domain.
fn may(context: &Context, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let allowed = |name: String| {
        let target = ResourceTarget {
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..ResourceTarget::default()
        };
        let attributes = Attributes::resource(&context.user, verb, target);
        context.server.access.authorize(&attributes).is_allowed()
    };
    allowed(signer.to_owned()) || allowed(format!("{domain}/*"))
}

fn restricted(request: &Value) -> Option<String> {
    if signer(request) != CLIENT_SIGNER {
        return None;
    }
    let encoded = request
        .pointer("/spec/request")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let pem = STANDARD.decode(encoded).unwrap_or_default();
    match SigningRequest::from_pem(&String::from_utf8_lossy(&pem)) {
        Ok(attributes) if attributes.organizations().iter().any(|name| name == group::MASTERS) => Some(format!(
            "use of {CLIENT_SIGNER} signer with {} group is not allowed",
            group::MASTERS
        )),
        Ok(_) => None,
        Err(error) => Some(format!("spec.request is no certificate request: {error}")),
    }
}
