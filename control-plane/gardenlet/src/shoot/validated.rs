//! A shoot with everything about it that its objects refer to, read once. After this nobody reads the raw spec for
//! names, networks or domains.

use api_core::v1beta1 as core;
use api_meta::{Fault, names};

use super::required::ShootExtension;

/// Pods' network where nobody says (gardener/gardener v1.150 `plugin/pkg/shoot/mutator`).
const PODS_DEFAULT: &str = "100.96.0.0/11";
/// Services' network where nobody says.
const SERVICES_DEFAULT: &str = "100.64.0.0/13";

/// A DNS record of the shoot's API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The full name: `api.<...>`.
    pub host: String,
    /// Type of DNS service.
    pub type_: String,
    /// Zone, where it is known.
    pub zone: Option<String>,
    /// The Secret with credentials in the garden: namespace and name.
    pub credentials: Option<(String, String)>,
}

/// A shoot that can be worked on.
#[derive(Clone, Debug)]
pub(crate) struct ValidatedShoot {
    /// Its name.
    pub name: String,
    /// Its namespace in the garden.
    pub garden_namespace: String,
    /// Its uid.
    pub uid: String,
    /// Name of its project.
    pub project: String,
    /// Its namespace in the seed: `status.technicalID` once set.
    pub namespace: String,
    /// Kubernetes version without `v`.
    pub version: String,
    /// Region.
    pub region: String,
    /// Provider type.
    pub provider: String,
    /// Network type; none for workerless shoots.
    pub network: Option<String>,
    /// Networks of pods.
    pub pods: Vec<String>,
    /// Networks of services.
    pub services: Vec<String>,
    /// Whether it has no worker pools.
    pub workerless: bool,
    /// Below the landscape's internal domain.
    pub internal_domain: Option<Domain>,
    /// Below a domain of its own.
    pub external_domain: Option<Domain>,
    /// Extensions it has, with when they are handled.
    pub extensions: Vec<ShootExtension>,
}

impl ValidatedShoot {
    /// Reads a shoot of the project `project`, whose control plane is to live on `seed`.
    ///
    /// # Errors
    /// User faults naming the field that keeps us from working.
    pub(crate) fn new(
        shoot: &core::Shoot,
        project: &str,
        seed: &core::Seed,
        extensions: Vec<ShootExtension>,
    ) -> Result<Self, Fault> {
        let name = shoot.metadata.name.clone().unwrap_or_default();
        let status = shoot.status.as_ref();
        let technical_id = status
            .map(|status| status.technical_id.clone())
            .filter(|id| !id.is_empty());
        let version = shoot
            .spec
            .kubernetes
            .version
            .clone()
            .filter(|version| !version.is_empty());
        let version = version.ok_or_else(|| Fault::user("spec.kubernetes.version: required").hint("set a version"))?;
        let networking = shoot.spec.networking.clone().unwrap_or_default();
        let workerless = shoot.spec.provider.workers.is_empty();
        if !workerless && networking.type_.is_none() {
            return Err(
                Fault::user("spec.networking.type: required for shoots with workers").hint("set a network type")
            );
        }
        let or = |value: Option<String>, fallback: &str| vec![value.unwrap_or_else(|| fallback.to_owned())];
        Ok(Self {
            garden_namespace: shoot.metadata.namespace.clone().unwrap_or_default(),
            uid: shoot.metadata.uid.clone().unwrap_or_default(),
            project: project.to_owned(),
            namespace: technical_id.unwrap_or_else(|| names::technical_id(project, &name)),
            version: version.trim_start_matches('v').to_owned(),
            region: shoot.spec.region.clone(),
            provider: shoot.spec.provider.type_.clone(),
            network: networking.type_,
            pods: if workerless {
                Vec::new()
            } else {
                or(networking.pods, PODS_DEFAULT)
            },
            services: or(networking.services, SERVICES_DEFAULT),
            workerless,
            internal_domain: internal_domain(&name, project, seed),
            external_domain: external_domain(shoot, seed),
            extensions,
            name,
        })
    }

    /// The host under which clients outside the seed reach the API server.
    #[must_use]
    pub(crate) fn api_host(&self) -> String {
        let domain = self.internal_domain.as_ref().or(self.external_domain.as_ref());
        domain.map_or_else(|| self.service_host(), |domain| domain.host.clone())
    }

    /// The host of the API server's Service in the seed.
    #[must_use]
    pub(crate) fn service_host(&self) -> String {
        format!("{}.{}.svc", components_hosted::API_SERVER, self.namespace)
    }

    /// Name of the garden's BackupEntry.
    #[must_use]
    pub(crate) fn backup_entry(&self) -> String {
        names::backup_entry(&self.namespace, &self.uid)
    }

    /// The cluster's identity, unique over all gardens.
    #[must_use]
    pub(crate) fn cluster_identity(&self, garden: &str) -> String {
        format!("{}-{}-{garden}", self.namespace, self.uid)
    }
}

fn credentials(reference: &api_meta::ObjectReference) -> Option<(String, String)> {
    let name = reference.name.clone().filter(|name| !name.is_empty())?;
    Some((
        reference
            .namespace
            .clone()
            .unwrap_or_else(|| names::GARDEN_NAMESPACE.to_owned()),
        name,
    ))
}

fn internal_domain(shoot: &str, project: &str, seed: &core::Seed) -> Option<Domain> {
    let internal = seed.spec.dns.internal.as_ref()?;
    Some(Domain {
        host: format!("api.{shoot}.{project}.{}", internal.domain),
        type_: internal.type_.clone(),
        zone: internal.zone.clone(),
        credentials: credentials(&internal.credentials_ref),
    })
}

fn external_domain(shoot: &core::Shoot, seed: &core::Seed) -> Option<Domain> {
    let dns = shoot.spec.dns.as_ref()?;
    let domain = dns.domain.clone().filter(|domain| !domain.is_empty())?;
    let host = format!("api.{domain}");
    let own = dns
        .providers
        .iter()
        .find(|provider| provider.primary == Some(true))
        .or(dns.providers.first());
    if let Some((own, type_)) = own.and_then(|own| Some((own, own.type_.clone()?))) {
        if type_ == names::DNS_UNMANAGED {
            return None;
        }
        let secret = own
            .secret_name
            .clone()
            .or(own.credentials_ref.as_ref().map(|reference| reference.name.clone()));
        let namespace = shoot.metadata.namespace.clone().unwrap_or_default();
        return Some(Domain {
            host,
            type_,
            zone: None,
            credentials: secret.map(|name| (namespace, name)),
        });
    }
    let default = seed
        .spec
        .dns
        .defaults
        .iter()
        .find(|default| domain.ends_with(&format!(".{}", default.domain)))?;
    Some(Domain {
        host,
        type_: default.type_.clone(),
        zone: default.zone.clone(),
        credentials: credentials(&default.credentials_ref),
    })
}
