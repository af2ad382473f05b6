//! A gardenlet's certificate by a CertificateSigningRequest: made, waited for, read. Who approves it decides whether it is granted.

use std::time::Duration;

use api_meta::Fault;
use api_meta::names::SEEDS_GROUP;
use base_client::{WaitState, fault_of, wait_until};
use base_clock::Entropy;
use base_secrets::{Issued, PrivateKey, SigningRequest};
use control_plane_controller_manager::{GARDENLET_SIGNER, GARDENLET_USAGES};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// How long a request is waited for; the next attempt makes another.
const PATIENCE: Duration = Duration::from_secs(300);

/// Gets a certificate of this user, of the group of all gardenlets.
///
/// # Errors
/// The request is refused, denied, or not answered in time.
pub(crate) async fn sign(
    garden: Client,
    user: &str,
    validity: Option<Duration>,
    entropy: &Entropy,
) -> Result<Issued, Fault> {
    let key = PrivateKey::generate(entropy);
    let requested = SigningRequest::create(&key, user, &[SEEDS_GROUP.to_owned()], &[], &[])
        .map_err(|error| Fault::bug(format!("no signing request can be made for {user}: {error}")))?;
    let mut request = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(requested.to_pem().into_bytes()),
            signer_name: GARDENLET_SIGNER.to_owned(),
            usages: Some(GARDENLET_USAGES.map(str::to_owned).to_vec()),
            expiration_seconds: validity.map(|span| i32::try_from(span.as_secs()).unwrap_or(i32::MAX)),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    request.metadata.generate_name = Some("seed-csr-".to_owned());
    let requests: Api<CertificateSigningRequest> = Api::all(garden);
    let made = requests.create(&PostParams::default(), &request).await;
    let made = made.map_err(|error| fault_of(error, &format!("request a certificate for {user}")))?;
    let name = made.name_any();
    tracing::info!("waiting for CertificateSigningRequest {name}, for {user}");
    let pem = wait_until(&requests, &name, PATIENCE, |request| evaluate(&name, request)).await?;
    Issued::from_pem(&pem, key.to_pem().expose()).map_err(|error| {
        Fault::dependency(format!(
            "the certificate of CertificateSigningRequest {name} cannot be used: {error}"
        ))
        .hint("look at what signs for kubernetes.io/kube-apiserver-client in the garden")
    })
}

/// The certificate, as PEM, once it is there.
fn evaluate(name: &str, request: Option<&CertificateSigningRequest>) -> WaitState<String> {
    let Some(request) = request else {
        return WaitState::Failed(
            Fault::dependency(format!(
                "CertificateSigningRequest {name} was deleted before it was answered"
            ))
            .hint("it is requested again"),
        );
    };
    let status = request.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    if let Some(ended) = of("Denied").or_else(|| of("Failed")) {
        let why = ended.message.clone().unwrap_or_default();
        let what = ended.type_.to_lowercase();
        return WaitState::Failed(
            Fault::user(format!("CertificateSigningRequest {name} is {what}: {why}"))
                .hint("fix what the message names; the next request is made by itself"),
        );
    }
    match (status.certificate, of("Approved")) {
        (Some(certificate), _) => WaitState::Done(String::from_utf8_lossy(&certificate.0).into_owned()),
        (None, Some(_)) => WaitState::NotYet("it is approved and not signed: kube-controller-manager signs".to_owned()),
        (None, None) => {
            WaitState::NotYet("it is not approved: gardener-controller-manager does, or a person".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evaluated(status: Value) -> WaitState<String> {
        let request = json!({"metadata": {"name": "r"}, "spec": {"request": "", "signerName": GARDENLET_SIGNER}, "status": status});
        let request: CertificateSigningRequest = serde_json::from_value(request).unwrap();
        evaluate("r", Some(&request))
    }

    #[test]
    fn request_is_waited_for_until_it_is_signed_or_refused() {
        let condition = |type_: &str| json!({"conditions": [{"type": type_, "status": "True", "message": "why"}]});
        assert!(matches!(evaluated(json!({})), WaitState::NotYet(why) if why.contains("not approved")));
        assert!(matches!(evaluated(condition("Approved")), WaitState::NotYet(why) if why.contains("not signed")));
        for (type_, word) in [("Denied", "denied: why"), ("Failed", "failed: why")] {
            let WaitState::Failed(fault) = evaluated(condition(type_)) else {
                panic!("{type_}");
            };
            assert!(fault.to_string().ends_with(word), "{fault}");
        }
        let mut signed = condition("Approved");
        signed["certificate"] = json!("cGVt");
        assert!(matches!(evaluated(signed), WaitState::Done(pem) if pem == "pem"));
        assert!(matches!(evaluate("r", None), WaitState::Failed(_)));
    }
}
