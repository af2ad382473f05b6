//! The actions `shoots/adminkubeconfig` and `shoots/viewerkubeconfig`: a kubeconfig with a short-lived client
//! certificate (gardener/gardener v1.150 pkg/apiserver/registry/core/shoot/storage/kubeconfig.go).
//! It signs with the authority that gardenlet leaves in the project's namespace and never stores what it made.

use std::time::Duration;

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec, KubeconfigRequestStatus};
use api_core::v1beta1::{InternalSecret, Shoot};
use base_clock::Entropy;
use base_secrets::{Authority, CertificateSpec, Credential, KubeconfigSpec, kubeconfig, to_yaml};
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Action, ActionCall};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::convert::{CORE, decode_stored, internal};
use crate::{GardenSettings, Gateway};

/// Validity when the request sets none.
const VALIDITY_S_DEFAULT: u64 = 60 * 60;
/// Shortest validity that may be requested, as Gardener's.
const VALIDITY_S_MIN: u64 = 10 * 60;
/// Longest validity that is granted; longer wishes are cut, as Gardener's default setting does.
const VALIDITY_S_MAX: u64 = 24 * 60 * 60;
/// Who the kubeconfig's holder is to the shoot.
const USER: &str = "garden-user";

/// What the kubeconfig allows in the shoot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Admin,
    /// Reading, but for Secrets.
    Viewer,
}

impl Access {
    fn group(self) -> &'static str {
        match self {
            Self::Admin => "gardener.cloud:system:admins",
            Self::Viewer => "gardener.cloud:system:viewers",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Admin => "AdminKubeconfigRequest",
            Self::Viewer => "ViewerKubeconfigRequest",
        }
    }
}

/// One of the two actions.
pub(crate) struct KubeconfigRequests {
    access: Access,
    entropy: Entropy,
    gateway: Option<Gateway>,
}

impl KubeconfigRequests {
    pub(crate) fn new(access: Access, settings: &GardenSettings) -> Self {
        let GardenSettings { entropy, gateway, .. } = settings.clone();
        Self {
            access,
            entropy,
            gateway,
        }
    }

    async fn answer(&self, call: ActionCall<'_>) -> Result<Value, Status> {
        // Both requests have the same fields.
        let mut request: AdminKubeconfigRequest = serde_json::from_value(call.body.clone())
            .map_err(|error| Status::bad_request(format!("{} cannot be read: {error}", self.access.kind())))?;
        let validity_s = validity(&request.spec).map_err(|error| self.invalid(call.name, error))?;
        let shoot: Shoot = decode_stored("Shoot", call.object)?;
        let address = self.address(&shoot, call.name)?;
        let (authority, bundle) = material(&call).await?;
        let spec = CertificateSpec::client(USER, &[self.access.group()], Duration::from_secs(validity_s));
        let issued = authority
            .issue_at(&spec, call.now, &self.entropy)
            .map_err(|error| internal("could not sign a client certificate", error))?;
        let namespace = call.namespace.unwrap_or_default();
        let spec = KubeconfigSpec {
            name: format!("{namespace}--{}", call.name),
            server: address.server,
            tls_server_name: address.name,
            authorities: bundle,
            credential: Credential::Certificate(Box::new(issued)),
            namespace: None,
        };
        let yaml = to_yaml(&kubeconfig(&spec)).map_err(|error| internal("could not write the kubeconfig", error))?;
        let end = call
            .now
            .saturating_add(SignedDuration::from_secs(i64::try_from(validity_s).unwrap_or(i64::MAX)));
        let end = end.map_err(Status::internal)?;
        request.status = Some(KubeconfigRequestStatus {
            kubeconfig: ByteString(yaml.expose().as_bytes().to_vec()),
            expiration_timestamp: Some(Time(end)),
        });
        request.spec.expiration_seconds = i64::try_from(validity_s).ok();
        request.metadata.name = Some(call.name.to_owned());
        request.metadata.namespace = call.namespace.map(str::to_owned);
        let mut answer = serde_json::to_value(&request).map_err(Status::internal)?;
        answer["kind"] = self.access.kind().into();
        Ok(answer)
    }

    fn invalid(&self, name: &str, error: FieldError) -> Status {
        Status::invalid("authentication.gardener.cloud", self.access.kind(), name, &[error])
    }

    /// The address outside the seed before any other.
    fn address(&self, shoot: &Shoot, name: &str) -> Result<Address, Status> {
        let addresses = shoot.status.iter().flat_map(|status| &status.advertised_addresses);
        let usable: Vec<_> = addresses
            .filter(|address| address.application.is_none() && !address.url.is_empty())
            .collect();
        let best = usable
            .iter()
            .find(|address| address.name == "external")
            .or(usable.first());
        let Some(best) = best.filter(|best| best.name != "service-account-issuer") else {
            let words = "the shoot advertises no address of its API server yet; wait until its creation has succeeded";
            let error = FieldError::invalid("status.status", Value::Null, words);
            return Err(Status::invalid(CORE, "Shoot", name, &[error]));
        };
        Ok(Address::of(&best.url, self.gateway.as_ref()))
    }
}

impl Action for KubeconfigRequests {
    fn run<'a>(&'a self, call: ActionCall<'a>) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(self.answer(call))
    }
}

fn validity(spec: &KubeconfigRequestSpec) -> Result<u64, FieldError> {
    let Some(requested) = spec.expiration_seconds else {
        return Ok(VALIDITY_S_DEFAULT);
    };
    match u64::try_from(requested) {
        Ok(seconds) if seconds >= VALIDITY_S_MIN => Ok(seconds.min(VALIDITY_S_MAX)),
        _ => {
            let words = format!("may not specify a duration less than 10 minutes; ask for {VALIDITY_S_MIN} or more");
            Err(FieldError::invalid("spec.expirationSeconds", requested, words))
        }
    }
}

/// Where a client connects, and the server name it requests there.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    server: String,
    name: Option<String>,
}

impl Address {
    fn of(url: &str, gateway: Option<&Gateway>) -> Self {
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let authority = rest.split('/').next().unwrap_or(rest);
        let host = match authority.strip_prefix('[') {
            Some(v6) => v6.split(']').next().unwrap_or(v6),
            None => authority.split(':').next().unwrap_or(authority),
        };
        let is_name = host.parse::<std::net::IpAddr>().is_err();
        match gateway.filter(|_| is_name) {
            Some(gateway) => Self {
                server: match gateway.removes_paths {
                    true => format!("{}/clusters/{host}", gateway.url),
                    false => gateway.url.clone(),
                },
                name: Some(host.to_owned()),
            },
            None => Self {
                server: url.to_owned(),
                name: None,
            },
        }
    }
}

/// The authority that signs clients, and the bundle of those that sign the server.
async fn material(call: &ActionCall<'_>) -> Result<(Authority, String), Status> {
    let secret = format!("{}.ca-client", call.name);
    let config = format!("{}.ca-cluster", call.name);
    let found = call
        .objects
        .get(CORE, "internalsecrets", call.namespace, &secret)
        .await?;
    let found = found.ok_or_else(|| missing(call.name, "InternalSecret", &secret))?;
    let InternalSecret { data, .. } = decode_stored("InternalSecret", &found)?;
    let part = |key: &str| {
        let bytes = data.get(key).map(|bytes| bytes.0.as_slice()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    };
    let authority = Authority::from_pem(part("ca.crt"), part("ca.key"))
        .map_err(|error| internal("could not read the shoot's client authority", error))?;
    let found = call.objects.get("", "configmaps", call.namespace, &config).await?;
    let found = found.ok_or_else(|| missing(call.name, "ConfigMap", &config))?;
    let bundle = found["data"].get("ca.crt").and_then(Value::as_str).unwrap_or_default();
    if bundle.is_empty() {
        return Err(missing(call.name, "key ca.crt in ConfigMap", &config));
    }
    Ok((authority, bundle.to_owned()))
}

fn missing(shoot: &str, kind: &str, name: &str) -> Status {
    let why = format!("{kind} {name} is not there yet; wait until the shoot's creation has succeeded");
    Status::conflict(CORE, "shoots", shoot, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_bounded_on_both_sides() {
        let bounded = |seconds| {
            validity(&KubeconfigRequestSpec {
                expiration_seconds: seconds,
            })
        };
        assert_eq!(bounded(None), Ok(3600));
        assert_eq!(bounded(Some(600)), Ok(600));
        assert_eq!(bounded(Some(1_000_000)), Ok(86_400));
        assert!(bounded(Some(599)).is_err());
        assert!(bounded(Some(-1)).is_err());
    }

    #[test]
    fn a_gateway_is_named_with_the_shoots_host() {
        let table = [
            (
                "https://api.s.p.x.internal",
                Some("https://127.0.0.1:1"),
                "https://127.0.0.1:1/clusters/api.s.p.x.internal",
                Some("api.s.p.x.internal"),
            ),
            (
                "https://api.s:443/",
                Some("https://127.0.0.1:1"),
                "https://127.0.0.1:1/clusters/api.s",
                Some("api.s"),
            ),
            ("https://api.s", None, "https://api.s", None),
            (
                "https://10.0.0.1:443",
                Some("https://127.0.0.1:1"),
                "https://10.0.0.1:443",
                None,
            ),
        ];
        let gateway = |url: &str, removes_paths| Gateway {
            url: url.to_owned(),
            removes_paths,
        };
        for (url, at, server, name) in table {
            let expected = Address {
                server: server.to_owned(),
                name: name.map(str::to_owned),
            };
            let found = Address::of(url, at.map(|at| gateway(at, true)).as_ref());
            assert_eq!(found, expected, "{url}");
        }
        let found = Address::of("https://api.s", Some(&gateway("https://127.0.0.1:1", false)));
        let expected = Address {
            server: "https://127.0.0.1:1".to_owned(),
            name: Some("api.s".to_owned()),
        };
        assert_eq!(found, expected, "no program knows the path");
    }
}
