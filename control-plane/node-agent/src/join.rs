//! Joining a cluster: a bootstrap token in, a node's own certificate out. It never approves or signs anything.

use std::error::Error;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{Connector, WaitState, fault_of, wait_until};
use base_clock::Entropy;
use base_secrets::{Credential, Issued, KubeconfigSpec, PrivateKey, SecretText, SigningRequest, kubeconfig};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;

use crate::allowed::once_allowed;
use crate::user_data::AgentConfig;

/// The group of all nodes (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/authentication/user/user.go).
pub const NODE_GROUP: &str = "system:nodes";
/// Who signs client certificates of nodes.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// How long a request may wait for its signer; the kubelet's own limit.
const ISSUED_WITHIN: Duration = Duration::from_secs(15 * 60);

/// Why a machine cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The API server does not know the token, or grants it nothing.
    #[error("bootstrap token was refused by {server}: {message}")]
    TokenRefused {
        /// The API server.
        server: String,
        /// Its message.
        message: String,
    },
    /// The request was denied, or its signer failed.
    #[error("certificate of node {node} was not issued: {why}")]
    NotIssued {
        /// The node's name.
        node: String,
        /// Condition and message.
        why: String,
    },
}

impl JoinError {
    /// Whether a fault is that the bootstrap token was refused, whatever it was wrapped in.
    pub fn is_token_refused(fault: &Fault) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = Some(fault.source.as_ref());
        while let Some(error) = next {
            if matches!(error.downcast_ref(), Some(Self::TokenRefused { .. })) {
                return true;
            }
            next = error.source();
        }
        false
    }

    /// A failure of the bootstrap identity: distinguished from others when it is about access.
    pub(crate) fn with_token(config: &AgentConfig, fault: Fault) -> Fault {
        if fault.class != FaultClass::Access {
            return fault;
        }
        let refused = JoinError::TokenRefused {
            server: config.server.clone(),
            message: fault.to_string(),
        };
        Fault::new(FaultClass::Access, refused)
            .hint("the machine's bootstrap token has expired or was removed: replace the machine")
    }
}

/// The kubeconfig of the bootstrap identity.
pub(crate) fn bootstrap_kubeconfig(config: &AgentConfig, token: &str) -> Kubeconfig {
    kubeconfig(&spec(config, Credential::Token(SecretText::new(token.trim()))))
}

fn spec(config: &AgentConfig, credential: Credential) -> KubeconfigSpec {
    KubeconfigSpec {
        name: "node".to_owned(),
        server: config.server.clone(),
        tls_server_name: config.server_name.clone(),
        authorities: config.authorities.clone(),
        credential,
        namespace: None,
    }
}

/// Requests a certificate for the user `system:node:<node>` with the bootstrap token and waits until it is issued.
/// Returns the node's kubeconfig, private key included.
///
/// Errors: the token is refused, the request is denied or not signed in time, the API does not answer.
pub async fn join(
    config: &AgentConfig,
    token: &str,
    node: &str,
    connector: &dyn Connector,
    entropy: &Entropy,
) -> Result<Kubeconfig, Fault> {
    let client = connector.client(&bootstrap_kubeconfig(config, token))?;
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let key = PrivateKey::generate(entropy);
    let user = format!("system:node:{node}");
    let request = SigningRequest::create(&key, &user, &[NODE_GROUP.to_owned()], &[], &[])
        .map_err(|error| Fault::new(FaultClass::Bug, error))?;
    let object = CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some(format!("node-csr-{}", entropy.suffix(16))),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.to_pem().into_bytes()),
            signer_name: SIGNER.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let name = object.metadata.name.clone().unwrap_or_default();
    let create = || async {
        match requests.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(error) => Err(fault_of(error, &format!("request the certificate of node {node}"))),
        }
    };
    once_allowed(create)
        .await
        .map_err(|fault| JoinError::with_token(config, fault))?;
    let read = || async { Ok(wait_until(&requests, &name, ISSUED_WITHIN, |request| judge(request, node)).await?) };
    let certificate = once_allowed(read)
        .await
        .map_err(|fault| JoinError::with_token(config, fault))?;
    let certificate = String::from_utf8(certificate.0).map_err(|error| Fault::new(FaultClass::Dependency, error))?;
    let issued = Issued::from_pem(&certificate, key.to_pem().expose())
        .map_err(|error| Fault::new(FaultClass::Dependency, error))?;
    Ok(kubeconfig(&spec(config, Credential::Certificate(Box::new(issued)))))
}

fn judge(request: Option<&CertificateSigningRequest>, node: &str) -> WaitState<ByteString> {
    let Some(request) = request else {
        return WaitState::Failed(not_issued(node, "its request is gone".to_owned()));
    };
    let status = request.status.clone().unwrap_or_default();
    let bad = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed"));
    if let Some(condition) = bad {
        let message = condition
            .message
            .as_deref()
            .or(condition.reason.as_deref())
            .unwrap_or("no reason given");
        return WaitState::Failed(not_issued(node, format!("{}: {message}", condition.type_)));
    }
    match status.certificate.filter(|certificate| !certificate.0.is_empty()) {
        Some(certificate) => WaitState::Done(certificate),
        None => WaitState::NotYet(format!("the certificate of node {node} is not signed yet")),
    }
}

fn not_issued(node: &str, why: String) -> Fault {
    Fault::new(
        FaultClass::Dependency,
        JoinError::NotIssued {
            node: node.to_owned(),
            why,
        },
    )
    .hint("look at the node's CertificateSigningRequest: its approver or signer reports why")
}
