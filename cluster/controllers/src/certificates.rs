//! Certificate requests: approves those by which nodes join and renew, and signs what is approved. Never approves a
//! request for rights that a node does not have, and signs for clients only.
//! After kubernetes v1.35 `pkg/controller/certificates`.

use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{Decision, is_decided, patch_status_if_changed, record_decision, signing_condition};
use base_clock::Entropy;
use base_controller::{Controller, EventType, Next};
use base_secrets::{Authority, SigningRequest, Usage};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestStatus};
use kube::Api;
use tokio_util::sync::CancellationToken;

use crate::Context;

/// The signer of the certificates by which nodes authenticate to the API server.
const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of any other client certificate.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// What every node's user name begins with.
const NODE_USER: &str = "system:node:";
/// The group of joined nodes.
const NODES: &str = "system:nodes";
/// The group that no rule binds.
const MASTERS: &str = "system:masters";
/// The group of bearers of bootstrap tokens.
const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// How long certificates are valid unless the request says otherwise: upstream's `--cluster-signing-duration`.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest validity that the API lets a client request.
const VALIDITY_MIN: Duration = Duration::from_secs(600);

pub(crate) async fn run_approver(context: Context, stop: CancellationToken) {
    let controller = Controller::new("csrapproving", context.caches.requests());
    controller
        .run(stop, move |request| reconcile_approval(request, context.clone()))
        .await;
}

pub(crate) async fn run_signer(context: Context, signer: Arc<Authority>, entropy: Entropy, stop: CancellationToken) {
    let controller = Controller::new("csrsigning", context.caches.requests())
        // Approval is a change of the status.
        .when(|old, new| old.is_none_or(|old| old.status != new.status));
    controller
        .run(stop, move |request| {
            reconcile_signature(request, signer.clone(), entropy.clone(), context.clone())
        })
        .await;
}

fn has_condition(request: &CertificateSigningRequest, type_: &str) -> bool {
    let conditions = request
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn text(request: &CertificateSigningRequest) -> String {
    String::from_utf8_lossy(&request.spec.request.0).into_owned()
}

/// Why the signer signs no such certificate, whoever has approved it; none when it does.
fn refusal(request: &CertificateSigningRequest, signing_request: &SigningRequest) -> Option<String> {
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let allowed = |usage: &String| matches!(usage.as_str(), "digital signature" | "key encipherment" | "client auth");
    if let Some(usage) = usages.iter().find(|usage| !allowed(usage)) {
        return Some(format!("usage {usage:?} is not one of a client's certificate"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Some("usage \"client auth\" is missing".to_owned());
    }
    if signing_request.organizations().iter().any(|name| name == MASTERS) {
        return Some(format!("organization {MASTERS} is never granted"));
    }
    if request.spec.signer_name != NODE_CLIENT {
        return None;
    }
    let is_node = signing_request
        .common_name()
        .strip_prefix(NODE_USER)
        .is_some_and(|name| !name.is_empty());
    if !is_node {
        return Some(format!(
            "common name {:?} does not begin with {NODE_USER}",
            signing_request.common_name()
        ));
    }
    if signing_request.organizations() != [NODES] {
        return Some(format!(
            "organizations {:?} are not {NODES} alone",
            signing_request.organizations()
        ));
    }
    let names = !signing_request.dns_names().is_empty() || !signing_request.ip_addresses().is_empty();
    names.then(|| "a node's client certificate has no DNS names and no IP addresses".to_owned())
}

/// Why a request is approved; none when it is not ours to approve.
fn approval(request: &CertificateSigningRequest) -> Option<&'static str> {
    let spec = &request.spec;
    if spec.signer_name != NODE_CLIENT || is_decided(request) {
        return None;
    }
    let signing_request = SigningRequest::from_pem(&text(request)).ok()?;
    if refusal(request, &signing_request).is_some() {
        return None;
    }
    let user = signing_request.common_name();
    let groups = spec.groups.as_deref().unwrap_or_default();
    let is_in = |group: &str| groups.iter().any(|it| it == group);
    if is_in(NODES) && spec.username.as_deref() == Some(&user) {
        Some("Auto approving self kubelet client certificate after SubjectAccessReview.")
    } else if is_in(BOOTSTRAPPERS) {
        Some("Auto approving kubelet client certificate after SubjectAccessReview.")
    } else {
        None
    }
}

async fn reconcile_approval(request: Arc<CertificateSigningRequest>, context: Context) -> Result<Next, Fault> {
    let Some(message) = approval(&request) else {
        return Ok(Next::Change);
    };
    let requests: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    let (decision, now) = (Decision::Approved, context.clock.now());
    record_decision(&requests, &request, decision, ("AutoApproved", message), now).await?;
    Ok(Next::Change)
}

/// Whether the request is approved, unsigned and for us.
fn is_to_sign(request: &CertificateSigningRequest) -> bool {
    let is_signed = request
        .status
        .as_ref()
        .is_some_and(|status| status.certificate.is_some());
    matches!(request.spec.signer_name.as_str(), NODE_CLIENT | CLIENT)
        && has_condition(request, "Approved")
        && !has_condition(request, "Denied")
        && !has_condition(request, "Failed")
        && !is_signed
}

async fn reconcile_signature(
    request: Arc<CertificateSigningRequest>,
    signer: Arc<Authority>,
    entropy: Entropy,
    context: Context,
) -> Result<Next, Fault> {
    if !is_to_sign(&request) {
        return Ok(Next::Change);
    }
    let validity = request.spec.expiration_seconds.map_or(VALIDITY, |seconds| {
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).clamp(VALIDITY_MIN, VALIDITY)
    });
    let signed = match SigningRequest::from_pem(&text(&request)) {
        Err(error) => Err(error.to_string()),
        Ok(signing_request) => match refusal(&request, &signing_request) {
            Some(why) => Err(why),
            None => signer
                .sign_request(&signing_request, Usage::Client, validity, &context.clock, &entropy)
                .map_err(|error| error.to_string()),
        },
    };
    let mut after = (*request).clone();
    let status: &mut CertificateSigningRequestStatus = after.status.get_or_insert_default();
    match signed {
        Ok(certificate) => status.certificate = Some(ByteString(certificate.to_pem().into_bytes())),
        Err(error) => {
            let message = format!("the request cannot be signed: {error}");
            context
                .events
                .record(&*request, EventType::Warning, "SigningFailed", &message)
                .await;
            let failed = signing_condition("Failed", ("SignerValidationFailure", &message), context.clock.now());
            status.conditions.get_or_insert_default().push(failed);
        }
    }
    let api: Api<CertificateSigningRequest> = Api::all(context.client.clone());
    patch_status_if_changed(&api, &*request, &after).await?;
    Ok(Next::Change)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_secrets::PrivateKey;
    use k8s_openapi::api::certificates::v1::{CertificateSigningRequestCondition, CertificateSigningRequestSpec};

    fn request(user: &str, organizations: &[&str], dns: &[&str]) -> CertificateSigningRequest {
        let key = PrivateKey::generate(&Entropy::seeded(1));
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let signing_request = SigningRequest::create(&key, user, &owned(organizations), &owned(dns), &[]).unwrap();
        CertificateSigningRequest {
            spec: CertificateSigningRequestSpec {
                request: ByteString(signing_request.to_pem().into_bytes()),
                signer_name: NODE_CLIENT.to_owned(),
                usages: Some(owned(&["digital signature", "client auth"])),
                username: Some("system:bootstrap:abcdef".to_owned()),
                groups: Some(owned(&[BOOTSTRAPPERS, "system:authenticated"])),
                ..CertificateSigningRequestSpec::default()
            },
            ..CertificateSigningRequest::default()
        }
    }

    #[test]
    fn nodes_join_by_bootstrap_token_and_renew_for_themselves_only() {
        assert!(approval(&request("system:node:a", &[NODES], &[])).is_some());
        let mut own = request("system:node:a", &[NODES], &[]);
        own.spec.username = Some("system:node:a".to_owned());
        own.spec.groups = Some(vec![NODES.to_owned()]);
        assert!(approval(&own).is_some());
        own.spec.username = Some("system:node:b".to_owned());
        assert_eq!(approval(&own), None, "a node cannot become another");
    }

    #[test]
    fn requests_for_more_than_a_node_may_have_are_left_to_people() {
        for (user, organizations, dns) in [
            ("admin", &[NODES][..], &[][..]),
            ("system:node:", &[NODES], &[]),
            ("system:node:a", &["system:masters"], &[]),
            ("system:node:a", &[NODES, "system:masters"], &[]),
            ("system:node:a", &[], &[]),
            ("system:node:a", &[NODES], &["kubernetes"]),
        ] {
            assert_eq!(
                approval(&request(user, organizations, dns)),
                None,
                "{user} {organizations:?} {dns:?}"
            );
        }
        let fine = || request("system:node:a", &[NODES], &[]);
        let mut other = fine();
        other.spec.groups = Some(vec!["system:authenticated".to_owned()]);
        assert_eq!(approval(&other), None);
        let mut other = fine();
        other.spec.signer_name = CLIENT.to_owned();
        assert_eq!(approval(&other), None);
        let mut other = fine();
        other.spec.usages = Some(vec!["client auth".to_owned(), "server auth".to_owned()]);
        assert_eq!(approval(&other), None);
        let mut other = fine();
        other.spec.request = ByteString(b"nonsense".to_vec());
        assert_eq!(approval(&other), None);
    }

    #[test]
    fn only_approved_requests_for_our_signers_are_signed_once() {
        let condition = |type_: &str| CertificateSigningRequestCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            ..CertificateSigningRequestCondition::default()
        };
        let mut request = request("system:node:a", &[NODES], &[]);
        assert!(!is_to_sign(&request));
        request.status.get_or_insert_default().conditions = Some(vec![condition("Approved")]);
        assert!(is_to_sign(&request));
        assert_eq!(approval(&request), None);
        request.status.get_or_insert_default().certificate = Some(ByteString(vec![1]));
        assert!(!is_to_sign(&request));
        let mut revoked = condition("Approved");
        revoked.status = "False".to_owned();
        request.status = Some(CertificateSigningRequestStatus {
            conditions: Some(vec![revoked]),
            certificate: None,
        });
        assert!(!is_to_sign(&request), "a condition that is not true has no effect");
        request.status = Some(CertificateSigningRequestStatus {
            conditions: Some(vec![condition("Approved"), condition("Denied")]),
            certificate: None,
        });
        assert!(!is_to_sign(&request));
    }
}
