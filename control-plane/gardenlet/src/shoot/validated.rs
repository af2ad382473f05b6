//! A shoot with everything about it that its objects refer to, read once. An operation works on this from its start to
//! its end: no task reads the spec again, nor the raw one for names, networks or domains.

use api_core::v1beta1 as core;
use api_meta::{ErrorCode, Fault, names};
use components_hosted::HostedCluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::required::ShootExtension;
use crate::config::Config;

/// Pods' network where the spec has none (gardener/gardener v1.150 `plugin/pkg/shoot/mutator`).
const PODS_DEFAULT: &str = "100.96.0.0/11";
/// Services' network where the spec has none.
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
    /// The Secret with credentials in the garden: namespace and name. Without one, the shoot's cloud credentials serve
    /// for a domain of its own.
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
    /// Whether it is to be hibernated.
    pub hibernated: bool,
    /// Below the landscape's internal domain.
    pub internal_domain: Option<Domain>,
    /// Below a domain of its own.
    pub external_domain: Option<Domain>,
    /// Extensions it has, with when they are handled.
    pub extensions: Vec<ShootExtension>,
    /// Its spec as it was read, for what only one task needs of it.
    pub spec: core::ShootSpec,
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
            hibernated: shoot
                .spec
                .hibernation
                .as_ref()
                .is_some_and(|hibernation| hibernation.enabled == Some(true)),
            internal_domain: internal_domain(shoot, project, seed),
            external_domain: external_domain(shoot, seed)?,
            extensions,
            spec: shoot.spec.clone(),
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

    /// Whether its nodes are open to SSH: where they are not closed to it, and there are any.
    #[must_use]
    pub(crate) fn ssh_access(&self) -> bool {
        let settings = self.spec.provider.workers_settings.as_ref();
        let access = settings.and_then(|settings| settings.ssh_access.as_ref());
        !self.workerless && access.is_none_or(|access| access.enabled)
    }

    /// The same for hosted components, which know nothing else of it, as `config` has them.
    #[must_use]
    pub(crate) fn hosted(&self, config: &Config) -> HostedCluster {
        let controller_manager = self.spec.kubernetes.kube_controller_manager.as_ref();
        let node_mask_size = controller_manager.and_then(|own| own.node_cidr_mask_size);
        let domains = [&self.internal_domain, &self.external_domain];
        HostedCluster {
            namespace: self.namespace.clone(),
            version: self.version.clone(),
            workerless: self.workerless,
            ssh_access: self.ssh_access(),
            pods: self.pods.clone(),
            services: self.services.clone(),
            node_mask_size: node_mask_size.and_then(|size| u8::try_from(size).ok()),
            api_host: self.api_host(),
            server_names: domains
                .into_iter()
                .flatten()
                .map(|domain| domain.host.clone())
                .collect(),
            etcd_storage: config.etcd_storage.clone(),
            node_access: config.node_access,
        }
    }

    /// Name of the garden's BackupEntry.
    #[must_use]
    pub(crate) fn backup_entry(&self) -> String {
        names::backup_entry(&self.namespace, &self.uid)
    }

    /// Makes an object of the garden go with the Shoot.
    #[must_use]
    pub(crate) fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "core.gardener.cloud/v1beta1".to_owned(),
            kind: "Shoot".to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            // The Shoot waits for its finalizer anyway.
            block_owner_deletion: Some(false),
        }
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

/// A host once advertised to clients stays, whatever became of the project and the seed's domain since: DNS records and
/// certificates are made for it.
fn internal_domain(shoot: &core::Shoot, project: &str, seed: &core::Seed) -> Option<Domain> {
    let internal = seed.spec.dns.internal.as_ref()?;
    let advertised = shoot.status.iter().flat_map(|status| &status.advertised_addresses);
    let mut advertised = advertised.filter(|address| address.name == core::ShootAdvertisedAddress::INTERNAL);
    let advertised = advertised.find_map(|address| core::ShootAdvertisedAddress::host_of(&address.url));
    let name = shoot.metadata.name.as_deref().unwrap_or_default();
    Some(Domain {
        host: advertised.map_or_else(|| format!("api.{name}.{project}.{}", internal.domain), str::to_owned),
        type_: internal.type_.clone(),
        zone: internal.zone.clone(),
        credentials: credentials(&internal.credentials_ref),
    })
}

/// The shoot's own domain, served by the provider that it names, or by the seed where it lies below one of the seed's
/// default domains (gardener/gardener v1.150 `pkg/utils/gardener/shoot.go` `ConstructExternalDomain`).
///
/// # Errors
/// A user fault where neither serves it: a domain without a provider would silently have no name. A shoot that is being
/// deleted goes all the same.
fn external_domain(shoot: &core::Shoot, seed: &core::Seed) -> Result<Option<Domain>, Fault> {
    let Some(dns) = &shoot.spec.dns else { return Ok(None) };
    let Some(domain) = dns.domain.clone().filter(|domain| !domain.is_empty()) else {
        return Ok(None);
    };
    let host = format!("api.{domain}");
    let own = dns
        .providers
        .iter()
        .find(|provider| provider.primary == Some(true))
        .or(dns.providers.first());
    if let Some((own, type_)) = own.and_then(|own| Some((own, own.type_.clone()?))) {
        if type_ == names::DNS_UNMANAGED {
            return Ok(None);
        }
        let secret = own
            .secret_name
            .clone()
            .or(own.credentials_ref.as_ref().map(|reference| reference.name.clone()));
        let namespace = shoot.metadata.namespace.clone().unwrap_or_default();
        return Ok(Some(Domain {
            host,
            type_,
            zone: None,
            credentials: secret.map(|name| (namespace, name)),
        }));
    }
    let defaults = &seed.spec.dns.defaults;
    let default = defaults
        .iter()
        .find(|default| domain.ends_with(&format!(".{}", default.domain)));
    if let Some(default) = default {
        return Ok(Some(Domain {
            host,
            type_: default.type_.clone(),
            zone: default.zone.clone(),
            credentials: credentials(&default.credentials_ref),
        }));
    }
    if shoot.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let known: Vec<&str> = defaults.iter().map(|default| default.domain.as_str()).collect();
    let known = if known.is_empty() {
        "the seed has none".to_owned()
    } else {
        known.join(", ")
    };
    Err(Fault::user(format!(
        "spec.dns.domain: {domain:?}: no provider serves it: spec.dns.providers names no provider with a type, and it \
         lies below no default domain of the seed ({known})"
    ))
    .code(ErrorCode::ConfigurationProblem)
    .hint("name the provider that serves the domain in spec.dns.providers"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seed() -> core::Seed {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"dns": {"defaults": [
            {"type": "moon", "domain": "shoots.example", "zone": "z", "credentialsRef": {"name": "dns", "namespace": "garden"}}]}}}))
        .unwrap()
    }

    fn domain(dns: &Value, metadata: &Value) -> Result<Option<Domain>, Fault> {
        let shoot = json!({"metadata": metadata, "spec": {"dns": dns}});
        external_domain(&serde_json::from_value(shoot).unwrap(), &seed())
    }

    fn served(dns: &Value) -> Option<(String, Option<(String, String)>)> {
        let found = domain(dns, &json!({"namespace": "ns"})).unwrap()?;
        Some((format!("{} {}", found.type_, found.host), found.credentials))
    }

    #[test]
    fn a_domain_is_served_by_its_own_provider_or_by_the_seed() {
        let pair = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
        assert_eq!(served(&json!({})), None);
        assert_eq!(
            served(&json!({"domain": "a.b.shoots.example"})),
            Some(("moon api.a.b.shoots.example".to_owned(), pair("garden", "dns")))
        );
        let providers =
            json!([{"type": "second", "secretName": "x"}, {"type": "sun", "primary": true, "secretName": "y"}]);
        assert_eq!(
            served(&json!({"domain": "own.example", "providers": providers})),
            Some(("sun api.own.example".to_owned(), pair("ns", "y")))
        );
        let unmanaged = json!({"domain": "own.example", "providers": [{"type": "unmanaged"}]});
        assert_eq!(served(&unmanaged), None);
    }

    #[test]
    fn the_internal_host_stays_as_advertised() {
        let mut seed = seed();
        seed.spec.dns.internal = Some(
            serde_json::from_value(json!({"type": "moon", "domain": "in.example",
                "credentialsRef": {"name": "dns", "namespace": "garden"}}))
            .unwrap(),
        );
        let host = |status: Value| {
            let shoot = json!({"metadata": {"name": "s"}, "status": status});
            let shoot = serde_json::from_value(shoot).unwrap();
            internal_domain(&shoot, "new", &seed).unwrap().host
        };
        assert_eq!(host(json!({})), "api.s.new.in.example");
        for url in ["https://api.s.old.in.example", "https://api.s.old.in.example:6443"] {
            let advertised = json!([{"name": "external", "url": "https://api.x"}, {"name": "internal", "url": url}]);
            assert_eq!(host(json!({"advertisedAddresses": advertised})), "api.s.old.in.example");
        }
    }

    #[test]
    fn an_unserved_domain_is_refused_unless_the_shoot_is_being_deleted() {
        for dns in [
            json!({"domain": "own.example"}),
            json!({"domain": "shoots.example"}),
            json!({"domain": "evilshoots.example"}),
            json!({"domain": "own.example", "providers": [{"primary": true}]}),
        ] {
            let fault = domain(&dns, &json!({})).unwrap_err();
            assert_eq!(fault.codes, [ErrorCode::ConfigurationProblem]);
            assert!(fault.to_string().contains("(shoots.example)"), "{fault}");
            let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
            assert_eq!(domain(&dns, &going).unwrap(), None);
        }
    }
}
